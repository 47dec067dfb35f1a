"""The mail about a past month: once for each month, only if there is something to say, and with the figures of the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fakes.builders import DAY, HOUR
from fakes.fake_deployment import POLICY, FakeDeployment, policy
from fakes.saved_money import save
from reaper.conclude import conclude
from reaper.decide import decide
from reaper.model import Mode
from reaper.notices.message import Audience, Message
from reaper.notices.monthly_mail import past_month
from reaper.observe import observe
from reaper.savings.credit import Cause

MONTHLY = policy(f"{POLICY}notices: {{monthly: true}}\nreport: {{tags: [team]}}")
NOVEMBER = datetime(2026, 11, 20, 8, tzinfo=UTC)
DECEMBER = datetime(2026, 12, 1, 6, tzinfo=UTC)


@pytest.fixture
def deployment() -> FakeDeployment:
    """A deployment that looked and saved in November, a few hours into December."""
    deployment = FakeDeployment(policy=MONTHLY, now=NOVEMBER)
    deployment.cloud.add("churn", tags={"owner": "jo@example.com"})
    deployment.sweep(Mode.NOTIFY)
    save(deployment.ledger, NOVEMBER, 10 * HOUR, 30.0, name="ranker", tags={"team": "vision"})
    save(deployment.ledger, NOVEMBER, 7 * HOUR, None, name="odd", tags={"team": "search"})
    save(deployment.ledger, NOVEMBER, HOUR, 5.0, name="stopped", cause=Cause.PROMPTED)
    deployment.now = DECEMBER
    return deployment


def monthly(deployment: FakeDeployment) -> list[Message]:
    return [m for m in deployment.channel.messages if "month" in m.attributes]


def test_the_first_run_of_a_month_tells_admins_what_the_last_one_saved(deployment: FakeDeployment):
    deployment.sweep(Mode.NOTIFY)
    [mail] = monthly(deployment)
    assert mail.subject.startswith("[ML Idle Reaper] November 2026: $300 saved; 1 idle ML resource costs ")
    assert "saved $300 (list price), 7 unpriced hours." in mail.text
    assert "saved $5.00 more" in mail.text
    assert "SAVED BY TEAM\n- vision: $300\n- search: $0.00, 7 unpriced hours\n" in mail.text
    assert "SAVED BY KIND\n- SageMaker endpoint: $300, 7 unpriced hours\n" in mail.text
    assert "WHAT COMES NEXT, before limits: If enforced from today: 1 action by " in mail.text
    assert "vision" in mail.html


def test_its_prices_are_those_that_the_policy_says(deployment: FakeDeployment):
    own = "{rules: [{name: deal, discount: 10%, as_of: 2026-11-01}], currency: {code: EUR, rate: 0.5, as_of: 2026-11-01, source: ECB}}"
    deployment.policy = policy(f"{POLICY}notices: {{monthly: true}}\nprices: {own}")
    deployment.sweep(Mode.NOTIFY)
    [mail] = monthly(deployment)
    assert "saved EUR 150 (list price)" in mail.text
    assert "One US dollar is EUR 0.5 (ECB, 2026-11-01)." in mail.text
    assert "$" not in mail.text


def test_it_is_sent_once_for_each_month_even_if_conclude_runs_twice(deployment: FakeDeployment):
    opened = deployment.open_run(Mode.NOTIFY)
    observed = observe(opened.run, next(iter(opened.observe)), opened.run.started_at)
    decided = decide([observed], opened.decide)
    for _ in range(2):
        conclude([observed], decided, [], opened.conclude)
    deployment.sweep_after(days=3)
    assert len(monthly(deployment)) == 1
    save(deployment.ledger, DECEMBER + DAY, DAY, 1.0)
    deployment.sweep_after(days=31)
    assert [mail.attributes["month"] for mail in monthly(deployment)] == ["2026-11", "2026-12"]


def test_a_run_whose_clock_was_wrong_costs_no_later_month_its_mail(deployment: FakeDeployment):
    deployment.now = DECEMBER + 400 * DAY
    deployment.sweep(Mode.NOTIFY)
    deployment.now = DECEMBER
    deployment.sweep(Mode.NOTIFY)
    deployment.now = datetime(2026, 11, 30, 23, 58, tzinfo=UTC)  # a clock that is a few minutes slow
    deployment.sweep(Mode.NOTIFY)
    assert [mail.attributes["month"] for mail in monthly(deployment)] == ["2026-11"]


def test_a_channel_that_refuses_it_gets_it_from_the_next_run(deployment: FakeDeployment):
    deployment.channel.is_closed = True
    assert not deployment.sweep(Mode.NOTIFY).is_complete
    deployment.channel.is_closed = False
    deployment.sweep_after(hours=1)
    assert len(monthly(deployment)) == 1


def test_no_mail_is_about_a_month_before_the_first_run():
    deployment = FakeDeployment(policy=MONTHLY, now=NOVEMBER)
    deployment.cloud.add("churn", tags={"owner": "jo@example.com"})
    deployment.sweep(Mode.NOTIFY)
    assert monthly(deployment) == []


def test_an_audit_and_a_policy_that_does_not_ask_get_none(deployment: FakeDeployment):
    deployment.sweep(Mode.AUDIT)
    deployment.policy = policy(POLICY)
    deployment.sweep_after(hours=1)
    assert monthly(deployment) == []


def test_a_month_ends_at_midnight_of_the_policys_zone():
    last_evening = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
    assert past_month(last_evening, "UTC")[1] == datetime(2026, 11, 1, tzinfo=UTC)
    begin, end = past_month(last_evening, "Europe/Berlin")
    assert (f"{begin:%B %Y}", end) == ("November 2026", last_evening - timedelta(minutes=30))
    begin, end = past_month(datetime(2026, 4, 15, tzinfo=UTC), "Europe/Berlin")
    assert end.astimezone(UTC) - begin.astimezone(UTC) == 31 * DAY - HOUR


def test_the_summary_says_in_one_line_what_was_saved_this_month(deployment: FakeDeployment):
    deployment.policy = policy(POLICY)
    save(deployment.ledger, DECEMBER, 4 * HOUR, 100.0, name="later")
    deployment.now += 5 * HOUR
    deployment.cloud.add("another")
    report = deployment.sweep(Mode.NOTIFY)
    summary = next(m for m in reversed(deployment.channel.messages) if m.audience is Audience.ADMINS)
    assert "\nSaved this month: $400 (list price).\n" in summary.text
    assert report.savings is not None
    assert report.savings.recent.ours.saved_usd == 700
