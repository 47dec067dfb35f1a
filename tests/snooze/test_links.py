from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from fakes.builders import DAY, NOW, TARGET, resource, rule
from reaper.case import Case, Finding, Outcome, Owner, Price, Step
from reaper.errors import ReaperError
from reaper.model import Result, State, StepName, Target, Verdict
from reaper.snooze import links as snooze_links
from reaper.snooze import pages
from reaper.snooze.links import LinkSigner, links_by_resource
from reaper.snooze.token import InvalidLink, Keys, verify_link

KEYS = Keys(current="k1", ring={"k1": b"1" * 32})
OFFER = LinkSigner(base="https://keep.example.com", keys=KEYS)
SECRET = "a" * 40
GOOD = {"REAPER_SNOOZE_URL": "https://keep.example.com/api/", "REAPER_SNOOZE_KEYS": "env:KEYS", "KEYS": SECRET}


def finding(state: State = State.IDLE, **fields: object) -> Finding:
    verdict = Verdict(state=state, because="silent", idle_for=9 * DAY if state is State.IDLE else None)
    return Finding(
        case=Case(resource=resource(**fields), rule=rule(), verdict=verdict),
        step=Step(name=StepName.WARN, because="idle"),
        outcome=Outcome(result=Result.PLANNED),
        owner=Owner(address="jo@example.com", source="tag owner"),
        price=Price(usd_per_hour=1.408, source="snapshot", as_of="2026-09-24"),
        wasted_usd=None,
        evidence=(),
    )


def test_each_idle_resource_gets_a_link_with_its_facts():
    links = links_by_resource([finding(), finding(State.ACTIVE, id="busy"), finding(State.UNKNOWN, id="dark")], OFFER, NOW)
    [(id, address)] = links.items()
    parts = urlsplit(address)
    link = verify_link(parse_qs(parts.query)["t"][0], KEYS, NOW)
    assert (parts.scheme, parts.netloc, parts.path) == ("https", "keep.example.com", "/keep")
    assert (link.resource, link.name, link.owner, link.usd_per_hour) == (id, "churn", "jo@example.com", 1.408)
    assert (link.where, link.idle_since) == (f"AWS account {TARGET.account}, us-east-1", NOW - 9 * DAY)
    assert (link.expires - NOW, link.max_days) == (30 * DAY, 30)


@pytest.mark.parametrize(("longest", "days"), [(DAY, 1), (5.5 * DAY, 5), (90 * DAY, 90)])
def test_a_link_allows_as_many_days_as_the_rule(longest: timedelta, days: int):
    mine = finding()
    mine = replace(mine, case=replace(mine.case, rule=rule(snooze_max=longest)))
    [address] = links_by_resource([mine], OFFER, NOW).values()
    link = verify_link(address.rpartition("t=")[2], KEYS, NOW)
    assert link.max_days == days
    assert pages.snooze_choices(link, NOW)[-1].days == days


def test_a_resource_without_owner_and_price_gets_a_link_too():
    poor = replace(finding(), owner=Owner(address=None, source="nobody"), price=None)
    [address] = links_by_resource([poor], OFFER, NOW).values()
    link = verify_link(address.rpartition("t=")[2], KEYS, NOW)
    assert (link.owner, link.usd_per_hour) == ("", None)


def test_a_resource_with_an_overlong_id_gets_no_link():
    assert list(links_by_resource([finding(id="x" * 3000), finding(id="short")], OFFER, NOW)) == ["short"]


def test_an_azure_link_names_the_subscription():
    links = links_by_resource([finding(target=Target(cloud="azure", account="0000-11"), region="westeurope")], OFFER, NOW)
    [address] = links.values()
    assert verify_link(address.rpartition("t=")[2], KEYS, NOW).where == "Azure subscription 0000-11, westeurope"


def test_without_snooze_url_there_are_no_links():
    assert snooze_links.open_signer({"REAPER_SNOOZE_URL": " "}, NOW) is None


def test_snooze_settings_create_a_link_signer():
    made = snooze_links.open_signer(GOOD, NOW)
    assert made
    assert (made.base, made.keys.ring) == ("https://keep.example.com/api/", {"k1": SECRET.encode()})
    assert timedelta(days=14) < snooze_links.LINK_VALID_FOR


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param({"REAPER_SNOOZE_URL": "http://keep.example.com"}, "expected https", id="not encrypted"),
        pytest.param({"REAPER_SNOOZE_URL": "javascript:alert(1)"}, "expected https", id="no address"),
        pytest.param({"REAPER_SNOOZE_URL": "https:///keep"}, "expected https", id="no host"),
        pytest.param({"REAPER_SNOOZE_URL": "https://h/?t=1"}, "expected https", id="with a query"),
        pytest.param({"REAPER_SNOOZE_KEYS": ""}, "REAPER_SNOOZE_KEYS is not", id="no keys"),
        pytest.param({"REAPER_SNOOZE_KEYS": "vault:x"}, "expected secretsmanager:<name>, keyvault:", id="another place"),
        pytest.param({"REAPER_SNOOZE_KEYS": "env:"}, "expected secretsmanager", id="no name"),
        pytest.param({"REAPER_SNOOZE_KEYS": "env:OTHER"}, "the environment variable OTHER is not set", id="no such variable"),
        pytest.param({"KEYS": "short"}, "5 bytes", id="a weak key"),
    ],
)
def test_invalid_snooze_settings_are_named(changed: dict[str, str], message: str):
    with pytest.raises(ReaperError, match=message):
        snooze_links.open_signer({**GOOD, **changed}, NOW)


def test_links_are_bound_to_the_set_deployment():
    made = snooze_links.open_signer({**GOOD, "REAPER_DEPLOYMENT": "arn:aws:cloudformation:us-east-1:1:stack/a/b"}, NOW)
    assert made
    [address] = links_by_resource([finding()], made, NOW).values()
    token = address.rpartition("t=")[2]
    assert verify_link(token, made.keys, NOW).name == "churn"
    with pytest.raises(InvalidLink):
        verify_link(token, replace(made.keys, deployment="arn:aws:cloudformation:us-east-1:1:stack/a/c"), NOW)


def test_without_a_deployment_links_are_valid_anywhere():
    made = snooze_links.open_signer(GOOD, NOW)
    assert made
    [address] = links_by_resource([finding()], made, NOW).values()
    assert verify_link(address.rpartition("t=")[2], replace(made.keys, deployment="any"), NOW).name == "churn"


def test_snooze_url_allows_http_on_this_machine_only():
    assert snooze_links.open_signer({**GOOD, "REAPER_SNOOZE_URL": "http://127.0.0.1:8080"}, NOW)
