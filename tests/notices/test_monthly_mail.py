"""The mail about a past month: once for each month, only if there is something to say, and with the figures of the ledger."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fakes.builders import DAY, HOUR, TARGET
from fakes.fake_deployment import POLICY, FakeDeployment, policy
from fakes.sample_findings import report
from fakes.saved_money import save
from reaper.conclude import conclude
from reaper.decide import decide
from reaper.errors import CloudError, Reason
from reaper.model import Mode
from reaper.notices.message import Audience, Message
from reaper.notices.monthly_mail import past_month
from reaper.observe import observe
from reaper.pending import plan_file
from reaper.pending.plan_file import PlanFile
from reaper.run import run_phases
from reaper.savings.credit import Cause
from reaper.settings import Settings

MONTHLY = policy(f"{POLICY}notices: {{monthly: true}}\nreport: {{tags: [team]}}")
NOVEMBER = datetime(2026, 11, 20, 8, tzinfo=UTC)
OTHER = "222222222222"
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


def two_accounts() -> FakeDeployment:
    """A deployment that looked in two accounts in November."""
    deployment = FakeDeployment(policy=MONTHLY, now=NOVEMBER, accounts=(TARGET.account, OTHER))
    deployment.cloud.add("churn", tags={"owner": "jo@example.com"})
    deployment.cloud.add("ranker", account=OTHER)
    deployment.sweep(Mode.NOTIFY)
    deployment.now = DECEMBER
    return deployment


def denied(call: str, name: str) -> None:
    if call == "observe":
        raise CloudError(Reason.DENIED, call, "not allowed")


def empty_plan(at: datetime) -> PlanFile:
    return plan_file.parse_plan(plan_file.plan_json(report(), plan_file.scope_of(Settings()), at), "p", at)


@pytest.mark.parametrize("why", ["a narrow run", "a denied place", "a plan file"])
def test_it_waits_three_days_for_a_run_over_the_whole(why: str):
    deployment = two_accounts()
    whole = deployment.open_run(Mode.NOTIFY).decide
    for at in (DECEMBER, DECEMBER + 2 * DAY):
        deployment.now = at
        deployment.cloud.fail_on = denied if why == "a denied place" else deployment.cloud.fail_on
        opened = deployment.open_run(Mode.NOTIFY, None, [TARGET.account] if why == "a narrow run" else None)
        agreed = empty_plan(at) if why == "a plan file" else None
        run_phases(replace(opened, decide=replace(opened.decide, agreed=agreed)), deployment.hand_over)
        assert monthly(deployment) == []
    assert whole.agreed is None
    deployment.now = DECEMBER + 3 * DAY
    opened = deployment.open_run(Mode.NOTIFY, None, [TARGET.account] if why == "a narrow run" else None)
    run_phases(replace(opened, decide=replace(opened.decide, agreed=agreed)), deployment.hand_over)
    [mail] = monthly(deployment)
    gaps = {
        "a narrow run": f"Not read: sagemaker-endpoint in {OTHER} us-east-1.",
        "a denied place": f"Not read: sagemaker-endpoint in {TARGET.account} us-east-1, sagemaker-endpoint in {OTHER} us-east-1.",
        "a plan file": "",
    }[why]
    assert gaps in mail.text
    assert gaps in mail.card.lines[1]
    assert ("Not read" in mail.text) == bool(gaps)


def test_a_whole_run_after_a_narrow_one_sends_it_at_once():
    deployment = two_accounts()
    deployment.sweep(Mode.NOTIFY, accounts=[TARGET.account])
    deployment.sweep_after(hours=1)
    [mail] = monthly(deployment)
    assert "Not read" not in mail.text


def test_what_is_gone_is_no_gap():
    deployment = two_accounts()
    deployment.now = NOVEMBER + DAY
    del deployment.cloud.things["ranker"]
    deployment.sweep(Mode.NOTIFY)
    deployment.now = DECEMBER
    deployment.sweep(Mode.NOTIFY, accounts=[TARGET.account])
    assert len(monthly(deployment)) == 1


def test_of_two_runs_at_once_one_sends_it(deployment: FakeDeployment):
    """The second begins to conclude while the mail of the first is on its way."""
    others: list[str] = []

    def meanwhile(message: Message) -> None:
        if "month" in message.attributes and not others:
            others.append("begun")
            deployment.accounts = (OTHER,)
            deployment.sweep(Mode.NOTIFY)

    deployment.channel.on_message = meanwhile
    deployment.sweep(Mode.NOTIFY)
    assert others
    assert len(monthly(deployment)) == 1


def test_a_claim_of_a_run_that_died_ends(deployment: FakeDeployment):
    def die(message: Message) -> None:
        if "month" in message.attributes:
            deployment.channel.messages.remove(message)
            raise MemoryError

    deployment.channel.on_message = die
    with pytest.raises(MemoryError):
        deployment.sweep(Mode.NOTIFY)
    deployment.channel.on_message = lambda message: None
    deployment.sweep_after(hours=2)
    assert monthly(deployment) == []
    deployment.sweep_after(hours=2)
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
