"""Which AWS accounts settings name, and that a call only ever narrows them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reaper.errors import SettingsError
from reaper.settings import AccountScope, Settings, from_env, narrow_settings, parse_accounts

A, B, C = "111111111111", "222222222222", "333333333333"
LABS, SHOP = "ou-ab12-labslabs", "ou-ab12-shopshop"
KINDS = ("sagemaker-endpoint",)
WHOLE, UNITS, NAMED, OWN = (
    Settings(organization=True),
    Settings(ous=(LABS,)),
    Settings(accounts=(A, B)),
    Settings(),
)


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("", AccountScope()),
        ("self", AccountScope(only_own_account=True)),
        (f"{A}, {B},{A}", AccountScope(accounts=(A, B))),
        ("organization", AccountScope(organization=True)),
        (f"{LABS},{SHOP}", AccountScope(ous=(LABS, SHOP))),
        (f"organization,{LABS}", AccountScope(organization=True, ous=(LABS,))),
    ],
)
def test_the_setting_names_accounts_units_or_the_organization(text: str, scope: AccountScope):
    assert from_env({"REAPER_ACCOUNTS": text}).account_scope == scope


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"REAPER_ACCOUNTS": "12345"}, "REAPER_ACCOUNTS: '12345' isn't an AWS account ID; use 12 digits, with leading zeros"),
        ({"REAPER_ACCOUNTS": "organisation"}, "REAPER_ACCOUNTS: 'organisation' isn't an AWS account ID; use 12 digits"),
        ({"REAPER_ACCOUNTS": "ou-ab12"}, "REAPER_ACCOUNTS: 'ou-ab12' isn't the ID of an organizational unit"),
        ({"REAPER_ACCOUNTS": f"self,{A}"}, "REAPER_ACCOUNTS: self stands alone"),
        ({"REAPER_ACCOUNTS": f"organization,{A}"}, f"REAPER_ACCOUNTS: {A} and organization don't go together"),
        ({"REAPER_ACCOUNTS": f"{LABS},{A}"}, f"REAPER_ACCOUNTS: {A} and {LABS} don't go together"),
        ({"REAPER_EXCLUDE_ACCOUNTS": "prod"}, "REAPER_EXCLUDE_ACCOUNTS: 'prod' isn't an AWS account ID"),
        ({"REAPER_TARGET_ROLE": "arn:aws:iam::1:role/x"}, "REAPER_TARGET_ROLE='arn:aws:iam::1:role/x' isn't a role's name"),
        ({"REAPER_TARGET_ROLE": "a//b"}, "REAPER_TARGET_ROLE='a//b' isn't a role's name"),
        ({"REAPER_EXTERNAL_ID": "a b"}, "REAPER_EXTERNAL_ID isn't an external ID"),
        ({"REAPER_MANAGEMENT_GROUP": "a/b"}, "REAPER_MANAGEMENT_GROUP='a/b' isn't a management group's ID"),
    ],
)
def test_an_invalid_setting_names_key_value_and_fix(environ: dict[str, str], message: str):
    with pytest.raises(SettingsError) as error:
        from_env(environ)
    assert str(error.value).startswith(message)


def test_an_external_id_is_never_shown():
    settings = from_env({"REAPER_EXTERNAL_ID": "sweep-8f2c"})
    assert settings.external_id == "sweep-8f2c"
    assert "sweep-8f2c" not in repr(settings)


def test_a_role_may_have_a_path():
    assert from_env({}).role_name == "ml-idle-reaper-target"
    assert from_env({"REAPER_TARGET_ROLE": "/tools/ml/reaper"}).role_name == "tools/ml/reaper"


@pytest.mark.parametrize(
    ("settings", "call"),
    [
        (NAMED, {"account": C}),
        (NAMED, {"accounts": [A, C]}),
        (NAMED, {"accounts": "organization"}),
        (NAMED, {"organization": True}),
        (NAMED, {"ou": LABS}),
        (NAMED, {"accounts": [LABS]}),
        (UNITS, {"accounts": "organization"}),
        (UNITS, {"organization": True}),
        (UNITS, {"ous": [LABS, SHOP]}),
        (OWN, {"organization": True}),
        (OWN, {"ous": [LABS]}),
        (OWN, {"accounts": [LABS]}),
        (Settings(only_own_account=True), {"organization": True}),
    ],
)
def test_a_call_never_widens_the_accounts(settings: Settings, call: dict):
    with pytest.raises(SettingsError, match=r"this deployment doesn't sweep .*, only .*; a call can only narrow them"):
        narrow_settings(settings, call, KINDS)


@pytest.mark.parametrize("key", ["role_name", "role", "external_id", "management_group", "only_own_account"])
def test_a_call_sets_no_role_external_id_or_group(key: str):
    with pytest.raises(SettingsError, match=f"unknown option '{key}'"):
        narrow_settings(WHOLE, {key: "x"}, KINDS)


@pytest.mark.parametrize(
    ("settings", "call", "scope"),
    [
        (NAMED, {"account": B}, AccountScope(accounts=(B,))),
        (WHOLE, {"accounts": [A]}, AccountScope(accounts=(A,), organization=True)),
        (WHOLE, {"ou": LABS}, AccountScope(organization=True, ous=(LABS,))),
        (WHOLE, {"organization": True}, AccountScope(organization=True)),
        (WHOLE, {"organization": False}, AccountScope(organization=True)),
        (WHOLE, {"accounts": "self"}, AccountScope(organization=True, only_own_account=True)),
        (UNITS, {"accounts": [C]}, AccountScope(accounts=(C,), ous=(LABS,))),
        (OWN, {"accounts": [A]}, AccountScope(accounts=(A,), only_own_account=True)),
        (OWN, {"accounts": "self"}, AccountScope(only_own_account=True)),
        (OWN, {}, AccountScope()),
    ],
)
def test_a_call_narrows_the_accounts(settings: Settings, call: dict, scope: AccountScope):
    assert narrow_settings(settings, call, KINDS).account_scope == scope


def test_a_call_only_adds_exclusions():
    excluding = Settings(organization=True, exclude_accounts=(A,))
    assert narrow_settings(excluding, {"exclude_accounts": [B]}, KINDS).exclude_accounts == (A, B)
    assert narrow_settings(excluding, {"exclude_account": []}, KINDS).exclude_accounts == (A,)
    with pytest.raises(SettingsError, match="exclude_accounts: 'x' isn't an AWS account ID"):
        narrow_settings(excluding, {"exclude_account": "x"}, KINDS)


@pytest.mark.parametrize("value", ["yes", 1, ["organization"]])
def test_organization_in_a_call_is_true_or_false(value: object):
    with pytest.raises(SettingsError, match=r"organization: .* is not true or false"):
        narrow_settings(WHOLE, {"organization": value}, KINDS)


def covered(settings: Settings, account: str, units: frozenset[str], own: bool) -> bool:
    """Whether these settings sweep an account of the organization that is in these units."""
    scope = settings.account_scope
    if (scope.only_own_account and not own) or account in settings.exclude_accounts:
        return False
    if scope.organization or scope.ous:
        is_inside = not scope.ous or bool(units & set(scope.ous))
        return is_inside and (not scope.accounts or account in scope.accounts)
    return account in scope.accounts if scope.accounts else own


WORDS = st.lists(st.sampled_from([A, B, C, LABS, SHOP, "organization", "self"]), max_size=3)
EXCLUDED = st.lists(st.sampled_from([A, B]), max_size=2)


@given(ours=WORDS, asked=WORDS, excluded=EXCLUDED, more=EXCLUDED)
def test_no_call_reaches_an_account_outside_the_deployment(
    ours: list[str], asked: list[str], excluded: list[str], more: list[str]
):
    try:
        configured = from_env({"REAPER_ACCOUNTS": ",".join(ours), "REAPER_EXCLUDE_ACCOUNTS": ",".join(excluded)})
        narrowed = narrow_settings(configured, {"accounts": asked, "exclude_accounts": more}, KINDS)
    except SettingsError:
        return
    for account in (A, B, C):
        for units in (frozenset(), frozenset({LABS}), frozenset({SHOP})):
            for own in (False, True):
                assert not covered(narrowed, account, units, own) or covered(configured, account, units, own)


def test_the_words_stay_in_order_and_once():
    assert parse_accounts("x", [B, A, B]).accounts == (B, A)
