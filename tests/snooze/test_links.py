from __future__ import annotations

from base64 import urlsafe_b64decode
from dataclasses import replace
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from fakes.builders import DAY, NOW, TARGET, resource, rule
from reaper.case import Case, Owner, Price
from reaper.errors import ReaperError
from reaper.finding import Finding, Outcome, Step
from reaper.ledger.rows import Recalled, Visit, document_of, parse_document
from reaper.model import Result, State, StepName, Target, Verdict
from reaper.snooze import links as snooze_links
from reaper.snooze import pages
from reaper.snooze.links import InvalidLink, Keys, LinkSigner, MailLinks, open_visit, verify_link
from reaper.snooze.pages import SnoozeForm, rows_of
from reaper.text import Currency

KEYS = Keys(current="k1", ring={"k1": b"1" * 32})
OFFER = LinkSigner(base="https://keep.example.com", keys=KEYS)
SECRET = "a" * 40
GOOD = {"REAPER_SNOOZE_URL": "https://keep.example.com/api/", "REAPER_SNOOZE_KEYS": "env:KEYS", "KEYS": SECRET}


def finding(state: State = State.IDLE, **fields: object) -> Finding:
    verdict = Verdict(state=state, because="silent", idle_for=9 * DAY if state is State.IDLE else None)
    return Finding(
        case=Case(
            resource=resource(**fields),
            rule=rule(),
            verdict=verdict,
            owner=Owner(address="jo@example.com", source="tag owner"),
            price=Price(usd_per_hour=1.408, source="snapshot", as_of="2026-09-24"),
        ),
        step=Step(name=StepName.WARN, because="idle"),
        outcome=Outcome(result=Result.PLANNED),
        idle_since=NOW - 9 * DAY if state is State.IDLE else None,
        idle_for=9 * DAY if state is State.IDLE else None,
    )


def opened(*findings: Finding, signer: LinkSigner = OFFER, is_owner: bool = True) -> MailLinks:
    """The links of a mail about these."""
    links = open_visit(signer, NOW, "jo@example.com", is_owner, "Europe/Berlin", findings)
    assert links
    return links


def token_in(address: str) -> str:
    return parse_qs(urlsplit(address).query)["t"][0]


def test_the_page_shows_money_as_the_mail_did():
    euro = Currency(code="EUR", rate=0.5, as_of="2026-11-01", source="ECB")
    visit = opened(finding(), signer=replace(OFFER, currency=euro)).visit
    stored = parse_document(Visit, document_of(visit), "it")
    assert stored == visit
    body = pages.form_page(SnoozeForm(token="t"), stored, rows_of(stored, Recalled(), NOW), NOW).body
    assert "EUR 16.90 a day" in body
    assert "One US dollar is EUR 0.5 (ECB, 2026-11-01)." in body
    assert "$" not in body


def test_one_link_lists_each_idle_resource_with_its_facts():
    links = opened(finding(), finding(State.ACTIVE, id="busy"), finding(State.UNKNOWN, id="dark"), finding(id="two", name="two"))
    [first, _], visit, parts = links.visit.resources, links.visit, urlsplit(links.address)
    assert (parts.scheme, parts.netloc, parts.path) == ("https", "keep.example.com", "/keep")
    assert verify_link(token_in(links.address), KEYS, NOW) == visit.id
    assert (visit.address, visit.is_owner, visit.tz) == ("jo@example.com", True, "Europe/Berlin")
    assert (visit.sent_at, visit.expires) == (NOW, NOW + 30 * DAY)
    assert (first.name, first.usd_per_hour, first.max_days) == ("churn", 1.408, 30)
    assert (first.where, first.idle_since) == (f"AWS account {TARGET.account}, us-east-1", NOW - 9 * DAY)
    assert [links.to_keep(id) for id in (first.id, "two", "busy")] == [f"{links.address}&r=1", f"{links.address}&r=2", None]


def test_nothing_that_can_be_kept_has_no_link():
    acted = replace(finding(), step=Step(name=StepName.STOP, because="due"))
    assert open_visit(OFFER, NOW, "jo@example.com", True, "UTC", [finding(State.ACTIVE), acted]) is None


def test_each_mail_has_an_id_that_nobody_can_guess():
    ids = {opened(finding()).visit.id for _ in range(100)}
    assert len(ids) == 100
    assert {len(urlsafe_b64decode(id + "==")) for id in ids} == {16}


@pytest.mark.parametrize(("longest", "days"), [(DAY, 1), (5.5 * DAY, 5), (90 * DAY, 90)])
def test_a_link_allows_as_many_days_as_the_rule(longest: timedelta, days: int):
    mine = finding()
    mine = replace(mine, case=replace(mine.case, rule=rule(snooze_max=longest)))
    visit = opened(mine).visit
    assert visit.resources[0].max_days == days
    assert pages.snooze_choices(visit.resources, visit, NOW)[-1].days == days


def test_a_resource_without_a_price_is_listed_too():
    assert opened(replace(finding(), case=replace(finding().case, price=None))).visit.resources[0].usd_per_hour is None


def test_an_azure_link_names_the_subscription():
    [listed] = opened(finding(target=Target(cloud="azure", account="0000-11"), region="westeurope")).visit.resources
    assert listed.where == "Azure subscription 0000-11, westeurope"


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
    token = token_in(opened(finding(), signer=made).address)
    assert verify_link(token, made.keys, NOW)
    for other in ("arn:aws:cloudformation:us-east-1:1:stack/a/c", ""):
        with pytest.raises(InvalidLink):
            verify_link(token, replace(made.keys, deployment=other), NOW)


def test_snooze_url_allows_http_on_this_machine_only():
    assert snooze_links.open_signer({**GOOD, "REAPER_SNOOZE_URL": "http://127.0.0.1:8080"}, NOW)
