from __future__ import annotations

from dataclasses import replace

import pytest

from reaper.errors import SettingsError
from reaper.model import Mode
from reaper.settings import SETTING_DOCS, Settings, from_env, narrow_settings, require_durable_stores, require_kept_memory

KINDS = ("sagemaker-endpoint", "sagemaker-notebook")
A_SUBSCRIPTION = "aaaaaaaa-1111-1111-1111-111111111111"


def test_the_default_mode_is_audit():
    assert from_env({}).mode is Mode.AUDIT


def test_list_settings_are_comma_separated():
    assert from_env({"REAPER_REGIONS": "us-east-1, eu-west-1,,us-east-1"}).regions == ("us-east-1", "eu-west-1")


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"REAPER_MODE": "adit"}, "REAPER_MODE='adit': unknown mode; use audit, notify, announce or enforce"),
        (
            {"REAPER_SUBSCRIPTIONS": "ml"},
            "REAPER_SUBSCRIPTIONS: 'ml' isn't a subscription ID such as 00000000-0000-0000-0000-000000000000",
        ),
        ({"REAPER_QUIET": "maybe"}, "REAPER_QUIET='maybe': use true or false"),
        ({"REAPER_MOED": "audit"}, "unknown setting REAPER_MOED; did you mean REAPER_MODE?"),
    ],
)
def test_an_error_names_the_key_the_value_and_the_fix(environ: dict[str, str], message: str):
    with pytest.raises(SettingsError) as error:
        from_env(environ)
    assert str(error.value) == message


def test_a_manual_call_can_narrow_kinds_and_regions():
    narrowed = narrow_settings(Settings(), {"mode": "audit", "kinds": ["sagemaker-note*"], "region": "eu-west-1"}, KINDS)
    assert (narrowed.kinds, narrowed.regions) == (("sagemaker-notebook",), ("eu-west-1",))


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"kindz": []}, "unknown option 'kindz'; did you mean 'kinds'?"),
        ({"policy": "version: 1"}, "unknown option 'policy'; valid: mode, "),
        ({"kinds": ["sagemaker-endpont"]}, "unknown kind 'sagemaker-endpont'; did you mean sagemaker-endpoint?"),
        ({"kinds": [1]}, "kinds: [1] is not a list of strings"),
        ({"regions": {"a": 1}}, "regions: {'a': 1} is not a list of strings"),
        ({"mode": 3}, "mode: 3 is not a string"),
        ({"cloud": "gcp"}, "unknown cloud 'gcp'; use aws, azure or all"),
        ({"subscription": "abc"}, "subscriptions: 'abc' isn't a subscription ID such as 0000"),
    ],
)
def test_an_invalid_call_is_an_error(event: dict, message: str):
    with pytest.raises(SettingsError) as error:
        narrow_settings(Settings(), event, KINDS)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("mode", ["notify", "announce", "enforce"])
def test_a_call_never_raises_the_mode(mode: str):
    with pytest.raises(SettingsError):
        narrow_settings(Settings(mode=Mode.AUDIT), {"mode": mode}, KINDS)


@pytest.mark.parametrize(
    ("ours", "event"),
    [
        ({"regions": ("us-east-1",)}, {"region": "eu-west-1"}),
        ({"regions": ("us-east-1",)}, {"regions": ["us-east-1", "eu-west-1"]}),
        ({"regions": ("us-east-1",)}, {"regions": "all"}),
        ({"accounts": ("111111111111",)}, {"account": "222222222222"}),
        ({"accounts": ("111111111111",)}, {"accounts": "organization"}),
        ({"subscriptions": (A_SUBSCRIPTION,)}, {"subscription": A_SUBSCRIPTION.replace("a", "b")}),
        ({"subscriptions": (A_SUBSCRIPTION,)}, {"subscriptions": "all"}),
    ],
)
def test_a_call_never_adds_a_place(ours: dict, event: dict):
    with pytest.raises(SettingsError, match=r"this deployment doesn't sweep .*, only .*; a call can only narrow them"):
        narrow_settings(Settings(**ours), event, KINDS)


def test_a_call_may_choose_among_the_configured_places():
    ours = Settings(regions=("us-east-1", "eu-west-1"), subscriptions=(A_SUBSCRIPTION,))
    assert narrow_settings(ours, {"region": "eu-west-1"}, KINDS).regions == ("eu-west-1",)
    assert narrow_settings(ours, {"subscription": A_SUBSCRIPTION.upper()}, KINDS).subscriptions == (A_SUBSCRIPTION,)
    assert narrow_settings(ours, {"regions": []}, KINDS).regions == ours.regions
    assert narrow_settings(replace(ours, regions=("all",)), {"region": "ap-south-1"}, KINDS).regions == ("ap-south-1",)


@pytest.mark.parametrize(
    "event", [{"subscriptions": ","}, {"kinds": ""}, {"regions": [""]}, {"regions": [" ", ","]}, {"kind": " "}]
)
def test_an_empty_list_in_a_call_does_not_mean_all(event: dict):
    with pytest.raises(SettingsError, match=r"is empty; leave it out to include all"):
        narrow_settings(Settings(regions=("us-east-1",), subscriptions=(A_SUBSCRIPTION,)), event, KINDS)


LASTING = Settings(ledger="dynamodb://table")


@pytest.mark.parametrize("mode", [Mode.NOTIFY, Mode.ANNOUNCE, Mode.ENFORCE])
def test_a_function_that_writes_needs_a_durable_ledger(mode: Mode):
    with pytest.raises(SettingsError, match=f"mode {mode} needs a durable ledger"):
        require_durable_stores(replace(LASTING, mode=mode, ledger="memory:", manifests="s3://bucket/manifests"))


def test_a_function_that_acts_needs_a_manifest_store():
    assert [require_durable_stores(replace(LASTING, mode=mode)).mode for mode in (Mode.AUDIT, Mode.NOTIFY, Mode.ANNOUNCE)]
    with pytest.raises(SettingsError, match="mode enforce needs a durable store"):
        require_durable_stores(replace(LASTING, mode=Mode.ENFORCE))


@pytest.mark.parametrize("mode", [Mode.NOTIFY, Mode.ANNOUNCE, Mode.ENFORCE])
def test_a_command_that_writes_refuses_a_memory_ledger(mode: Mode):
    with pytest.raises(SettingsError, match="lasts for one run only"):
        require_kept_memory(Settings(mode=mode, ledger="memory:"))


def test_every_setting_is_documented():
    assert all(text for text in SETTING_DOCS.values())
