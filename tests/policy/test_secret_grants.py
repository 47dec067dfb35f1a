from __future__ import annotations

from datetime import UTC, datetime

import pytest

from policy.test_channel_settings import OWNERS, parse, problem
from reaper import settings
from reaper.errors import CloudError, SettingsError
from reaper.notices.context import open_context
from reaper.policy import secret_grants
from reaper.policy.parse import parse_policy
from reaper.stores import secret_store

VAULT = "https://team.vault.azure.net/secrets"
ARN = "arn:aws:secretsmanager:us-east-1:123456789012:secret"
HOOK = "type: webhook, url: 'https://hooks.example.com/reaper'"


def may_name(ref: str, **environ: str) -> bool:
    return secret_grants.forbidden_because(ref, environ) is None


@pytest.mark.parametrize(
    "name",
    [
        "AWS_SESSION_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "IDENTITY_HEADER",
        "AZURE_CLIENT_SECRET",
        "REAPER_LEDGER",
        "REAPER_SECRETS",
        "REAPER_SECRET_",
        "reaper_secret_smtp",
        "XREAPER_SECRET_SMTP",
        "REAPER_SECRET_smtp",
        "REAPER_SECRET_SMTP\n",
    ],
)
def test_a_policy_cannot_read_the_runtimes_own_variables(name: str):
    assert not may_name(f"env:{name}")
    with pytest.raises(CloudError, match="a policy may only name variables that begin with REAPER_SECRET_"):
        secret_store.read_for_policy(f"env:{name}", {name: "hunter2"})


def test_an_error_about_a_variable_suggests_its_new_name():
    error = problem(f"{{{HOOK}, secret: env:SMTP_PASSWORD}}")
    assert error == (
        "policy.yaml:4: channels[0]: secret: env:SMTP_PASSWORD: a policy may only name variables that begin with REAPER_SECRET_; "
        "rename it and write `secret: env:REAPER_SECRET_SMTP_PASSWORD`"
    )


def test_a_policy_may_name_a_reaper_secret_variable():
    assert parse(f"  - {{{HOOK}, secret: env:REAPER_SECRET_HOOK_2}}\n")
    assert secret_store.read_for_policy("env:REAPER_SECRET_HOOK_2", {"REAPER_SECRET_HOOK_2": "s3cret"}) == "s3cret"


@pytest.mark.parametrize(
    ("granted", "ref", "may"),
    [
        pytest.param("", "secretsmanager:reaper/hook", False, id="nothing is granted"),
        pytest.param("reaper/hook", "secretsmanager:reaper/hook#key", True, id="a name, whatever is taken out of it"),
        pytest.param("secretsmanager:reaper/hook", "secretsmanager:reaper/hook", True, id="with its scheme"),
        pytest.param("a, reaper/hook", "secretsmanager:reaper/hook", True, id="one of several"),
        pytest.param("reaper/hook", "secretsmanager:reaper/hook2", False, id="a longer name"),
        pytest.param("reaper/hook", "secretsmanager:prod/database", False, id="another name"),
        pytest.param("reaper/*", "secretsmanager:reaper/hook", True, id="a pattern"),
        pytest.param("reaper/*", "secretsmanager:prod/reaper/hook", False, id="a pattern that fits only the end"),
        pytest.param("reaper.hook", "secretsmanager:reaper/hook", False, id="a dot is a dot"),
        pytest.param("reaper/hook", f"secretsmanager:{ARN}:reaper/hook-a1B2c3", False, id="another account's of that name"),
        pytest.param(f"{ARN}:reaper/*", "secretsmanager:reaper/hook", True, id="the template's pattern"),
        pytest.param(f"{ARN}:reaper/hook-??????", "secretsmanager:reaper/hook", True, id="a pattern with a suffix"),
        pytest.param(f"{ARN}:reaper/hook-a1B2c3", "secretsmanager:reaper/hook", True, id="an ARN, by its name"),
        pytest.param(f"{ARN}:reaper/hook-a1B2c3", f"secretsmanager:{ARN}:reaper/hook", True, id="without its suffix"),
        pytest.param(f"{ARN}:reaper/*", f"secretsmanager:{ARN}:reaper/hook-a1B2c3", True, id="an ARN within the pattern"),
        pytest.param(f"{ARN}:reaper/*", f"secretsmanager:{ARN.replace('us-', 'eu-')}:reaper/hook", False, id="another region's"),
        pytest.param(f"{ARN}:reaper/hook", f"secretsmanager:{ARN}:reaper/hook-a1B2c3", True, id="an ARN in part, whole"),
        pytest.param(f"{ARN}:reaper/hook", "secretsmanager:reaper/hook", True, id="an ARN in part, by its name"),
        pytest.param(f"{ARN}:prod-db-mirror", "secretsmanager:prod-db-mirror", True, id="an ARN in part that ends in a word"),
        pytest.param(f"{ARN}:prod-db-mirror", "secretsmanager:prod-db", False, id="a word at the end is of the name"),
        pytest.param(f"{ARN}:prod-db-eu2024", "secretsmanager:prod-db", False, id="a word and a year are of the name"),
        pytest.param(f"{ARN}:prod-db-mirror", f"secretsmanager:{ARN}:prod-db", False, id="a shorter ARN than that"),
        pytest.param(f"{ARN}:prod-db", f"secretsmanager:{ARN}:prod-db-mirror", False, id="a longer ARN than that"),
        pytest.param(f"{ARN}:prod-??????", "secretsmanager:prod-mirror", False, id="marks stand for what is behind a name"),
        pytest.param("prod-db-mirror", "secretsmanager:prod-db", False, id="a name is a name"),
        pytest.param("prod-db-*", "secretsmanager:prod-db", False, id="a pattern of names is one of names"),
        pytest.param("prod-db-a1B2c3", "secretsmanager:prod-db", False, id="nothing stands behind a name alone"),
        pytest.param(f"{VAULT}/hook", f"keyvault:{VAULT}/hook", True, id="an address"),
        pytest.param(f"{VAULT}/hook", f"keyvault:{VAULT.replace('.net', '.net.')}/hook", True, id="a host with its last dot"),
        pytest.param(f"{VAULT}/hook", "keyvault:https://[x/secrets/hook", False, id="no address"),
        pytest.param(f"{VAULT}/hook", f"keyvault:{VAULT.upper().replace('HTTPS', 'https')}/Hook/0123", True, id="in any case"),
        pytest.param(f"keyvault:{VAULT}/*", f"keyvault:{VAULT}/hook", True, id="a whole vault"),
        pytest.param(f"{VAULT}/*", "keyvault:https://other.vault.azure.net/secrets/hook", False, id="another vault"),
        pytest.param("*", f"keyvault:{VAULT}/hook", False, id="a pattern of the other cloud"),
        pytest.param(f"{VAULT}/hook", f"secretsmanager:{VAULT}/hook", False, id="an address under the other scheme"),
    ],
)
def test_a_policy_may_name_only_granted_secrets(granted: str, ref: str, may: bool):
    assert may_name(ref, REAPER_SECRETS=granted) is may


@pytest.mark.parametrize(
    ("keys", "ref"),
    [
        ("env:REAPER_SECRET_KEYS", "env:REAPER_SECRET_KEYS"),
        ("secretsmanager:snooze", "secretsmanager:snooze"),
        ("secretsmanager:snooze#ring", "secretsmanager:snooze#k1"),
        (f"secretsmanager:{ARN}:snooze-a1B2c3", "secretsmanager:snooze"),
        (f"secretsmanager:{ARN}:snooze-a1B2c3", f"secretsmanager:{ARN}:snooze"),
        ("secretsmanager:snooze", f"secretsmanager:{ARN}:snooze-a1B2c3"),
        (f"secretsmanager:{ARN}:snooze-mirror", "secretsmanager:snooze"),
        ("secretsmanager:snooze", f"secretsmanager:{ARN}:snooze-mirror"),
        (f"secretsmanager:{ARN}:snooze", f"secretsmanager:{ARN}:snooze-a1B2c3"),
        (f"keyvault:{VAULT}/snooze", f"keyvault:{VAULT}/Snooze/0123"),
        (f"keyvault:{VAULT}/snooze", "keyvault:https://team.vault.azure.net./secrets/snooze"),
        (f"keyvault:{VAULT}/snooze", "keyvault:https://team.privatelink.vault.azure.net:443/secrets/snooze"),
    ],
)
def test_a_policy_never_names_the_keys_however_spelled(keys: str, ref: str):
    everything = {"REAPER_SECRETS": "*,arn:*,https://*", "REAPER_SNOOZE_KEYS": keys}
    assert "the keys of snooze links are never sent anywhere" in (secret_grants.forbidden_because(ref, everything) or "")
    assert may_name(ref.replace("snooze", "hook").replace("Snooze", "hook").replace("KEYS", "HOOK"), **everything)


@pytest.mark.parametrize(
    ("keys", "granted"),
    [
        (f"secretsmanager:{ARN}:reaper-snooze", "reaper"),
        ("secretsmanager:reaper", f"{ARN}:reaper-snooze"),
        ("secretsmanager:reaper-snooze", "reaper"),
        ("secretsmanager:reaper-a1B2c3", "reaper"),
    ],
)
def test_a_granted_secret_is_not_mistaken_for_the_keys(keys: str, granted: str):
    assert may_name(f"secretsmanager:{granted}", REAPER_SECRETS=granted, REAPER_SNOOZE_KEYS=keys)


@pytest.mark.parametrize("keys", ["secretsmanager:reaper", f"secretsmanager:{ARN}:reaper-a1B2c3", f"secretsmanager:{ARN}:reaper"])
def test_the_keys_are_refused_even_if_granted_by_name(keys: str):
    assert not may_name("secretsmanager:reaper", REAPER_SECRETS="reaper", REAPER_SNOOZE_KEYS=keys)


@pytest.mark.parametrize("setting", ["REAPER_SECRETS", "REAPER_SNOOZE_KEYS"])
def test_an_invalid_vault_address_names_its_setting(setting: str):
    environ = {"REAPER_SECRETS": f"{VAULT}/*"} | {setting: "keyvault:https://[x/secrets/hook"}
    with pytest.raises(SettingsError, match=rf"^{setting}: 'https://\[x/secrets/hook' is not a Key Vault address; use"):
        secret_grants.forbidden_because(f"keyvault:{VAULT}/hook", environ)


@pytest.mark.parametrize("ref", ["keyvault:https://[x/secrets/hook", "secretsmanager:" + "x" * 9000, "env:" + "x" * 9000])
def test_a_refused_secret_is_repeated_in_bounded_length(ref: str):
    assert 0 < len(secret_grants.forbidden_because(ref, {"REAPER_SECRETS": "y" * 9000}) or "") < 1000


@pytest.mark.parametrize("ring", ['{"current": "k1", "k1": "abc"}', '{"current": "k2", "keys": {"k1": "YQ==", "k2": "Yg=="}}'])
def test_a_secret_in_the_form_of_keys_is_refused(ring: str):
    with pytest.raises(CloudError, match="holds the keys that sign snooze links"):
        secret_store.read_for_policy("env:REAPER_SECRET_X", {"REAPER_SECRET_X": ring})


@pytest.mark.parametrize("text", ['{"user": "x", "password": "y"}', '{"current": "k1"}', "[]", "[" * 9000, "s3cret"])
def test_a_secret_in_another_form_is_read(text: str):
    assert secret_store.read_for_policy("env:REAPER_SECRET_X", {"REAPER_SECRET_X": text}) == text


def test_a_run_with_notices_needs_granted_secrets():
    policy = parse_policy(
        f"version: 1\n{OWNERS}channels:\n  - {{{HOOK}, secret: 'secretsmanager:prod/database', for: owners}}\n", "p", []
    )
    with pytest.raises(SettingsError, match=r"^channels\[0\].secret: secretsmanager:prod/database: .* add it to REAPER_SECRETS"):
        open_context("memory:", policy, {}, lambda: datetime.now(UTC))
    granted = {"REAPER_SECRETS": "prod/*"}
    assert open_context("memory:", policy, granted, lambda: datetime.now(UTC)).channels


def test_a_setting_may_name_any_environment_variable():
    assert secret_store.read_secret("env:PLAIN", {"PLAIN": "ring"}) == "ring"
    assert settings.from_env({"REAPER_SECRET_S": "x"}), "a policy's variable is no misspelt setting"
