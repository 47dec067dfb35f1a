"""Each variable of the settings page does something: with it, what reads it says something else than without it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reaper.aws.session import CloudSession, new_session
from reaper.azure.session import hosts_from_env, new_credential
from reaper.errors import ReaperError
from reaper.model import Target
from reaper.policy import secret_grants
from reaper.settings import from_env
from reaper.snooze import links
from reaper.urls import ca_bundle

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/settings.md").read_text()
NAMES = sorted(set(re.findall(r"\b(?:REAPER|AWS|AZURE|REQUESTS|CURL)_[A-Z_]*[A-Z]\b", PAGE)) - {"REAPER_SECRET"})
ROLE = "arn:aws:iam::123456789012:role/reaper"
VALUES = {
    "REAPER_MODE": "notify",
    "REAPER_ACCOUNTS": "organization",
    "REAPER_EXCLUDE_ACCOUNTS": "123456789012",
    "REAPER_SUBSCRIPTIONS": "11111111-1111-1111-1111-111111111111",
    "REAPER_ROLE": ROLE,
    "REAPER_TOPIC": "arn:aws:sns:us-east-1:123456789012:topic",
    "REAPER_QUIET": "true",
    "REAPER_ARM_ENDPOINT": "https://management.usgovcloudapi.net",
    "REAPER_METRICS_ENDPOINT": "https://{region}.metrics.example.com",
    "REAPER_SNOOZE_URL": "https://page.example.com",
    "REAPER_SNOOZE_KEYS": "nowhere",
    "REAPER_SECRETS": "secretsmanager:hook",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    "AZURE_CLIENT_ID": "11111111-1111-1111-1111-111111111111",
    **dict.fromkeys(("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"), "/nope"),
}
"""Values that mean something. Any other variable takes any text."""
BESIDE: Mapping[str, Mapping[str, str]] = {
    "REAPER_SNOOZE_KEYS": {"REAPER_SNOOZE_URL": "https://page.example.com"},
    "AZURE_CLIENT_ID": {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_SECRET": "s"},
    "AZURE_AUTHORITY_HOST": {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s"},
}
"""What else is set, with and without the variable."""


def aws_region(environ: Mapping[str, str]) -> object:
    return new_session().region_name


def aws_address(environ: Mapping[str, str]) -> object:
    session = CloudSession(new_session(), Target(cloud="aws", account="unknown", region="us-east-1"))
    return session._method("sts", "GetCallerIdentity", sends_once=False).__self__.meta.endpoint_url


def azure_sign_in(environ: Mapping[str, str]) -> object:
    """Whether DefaultAzureCredential has what it needs to sign in as a client."""
    return new_credential().credentials[0]._credential is not None


def azure_authority(environ: Mapping[str, str]) -> object:
    return new_credential().credentials[0]._credential._authority


def snooze_links(environ: Mapping[str, str]) -> object:
    return links.open_signer(environ, datetime(2026, 11, 26, tzinfo=UTC)) and 1


def functions_schedule(environ: Mapping[str, str]) -> object:
    """Only the Functions host reads it."""
    text = (ROOT / "functions/reaper/azure/functions/triggers.py").read_text()
    return [environ.get(name) for name in re.findall(r"schedule=.%(\w+)%", text)]


READERS: Mapping[str, Callable[[Mapping[str, str]], object]] = {
    **dict.fromkeys(("REAPER_ARM_ENDPOINT", "REAPER_METRICS_ENDPOINT"), hosts_from_env),
    **dict.fromkeys(("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"), ca_bundle),
    **dict.fromkeys(("REAPER_SNOOZE_URL", "REAPER_SNOOZE_KEYS"), snooze_links),
    "REAPER_DEPLOYMENT": links.deployment_id,
    "REAPER_SECRETS": lambda environ: secret_grants.forbidden_because("secretsmanager:hook", environ),
    "REAPER_SCHEDULE": functions_schedule,
    **dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"), aws_region),
    "AWS_ENDPOINT_URL": aws_address,
    "AZURE_CLIENT_ID": azure_sign_in,
    "AZURE_AUTHORITY_HOST": azure_authority,
}
"""What reads a variable, if it isn't among the settings themselves."""


def said(name: str) -> Any:
    """What is read, or why it can't be."""
    try:
        return READERS.get(name, from_env)(os.environ)
    except ReaperError as error:
        return str(error)


@pytest.mark.parametrize("name", NAMES)
def test_each_variable_of_the_page_does_something(name: str, monkeypatch: pytest.MonkeyPatch):
    for other in [
        other for other in os.environ if other.startswith(("REAPER_", "AWS_", "AZURE_")) or other.endswith("_CA_BUNDLE")
    ]:
        monkeypatch.delenv(other)
    for other, value in {"AWS_CONFIG_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true", **BESIDE.get(name, {})}.items():
        monkeypatch.setenv(other, value)
    without = said(name)
    monkeypatch.setenv(name, VALUES.get(name, "some-text"))
    assert said(name) != without


def test_the_page_names_what_these_tests_run():
    assert {"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "CURL_CA_BUNDLE", "AZURE_CLIENT_ID"} <= {*NAMES}
    assert {*VALUES, *READERS} <= {*NAMES}


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"])
def test_a_missing_file_of_certificates_is_named(name: str):
    assert ca_bundle({name: __file__}) == __file__
    with pytest.raises(ReaperError, match=f"{name}='/nope': no such file"):
        ca_bundle({name: "/nope"})
    assert ca_bundle({name: __file__, "ANOTHER": "/nope"}, [name, "ANOTHER"]) == __file__, "the SDKs read only the first"


def test_regions_come_in_the_documented_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    config = tmp_path / "config"
    config.write_text("[profile x]\nregion = eu-west-1\n")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "x")
    found = [new_session().region_name]
    for name, region in (("AWS_DEFAULT_REGION", "eu-west-2"), ("AWS_REGION", "eu-west-3")):
        monkeypatch.setenv(name, region)
        found.append(new_session().region_name)
    assert found == ["eu-west-1", "eu-west-2", "eu-west-3"]
