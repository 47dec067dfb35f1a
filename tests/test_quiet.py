"""`notify_above` and `notices.send`: which notices aren't sent, what that does to dates, and that it only ever takes actions away."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.builders import DAY, HOUR, NOW, TARGET
from fakes.fake_cloud import STARTABLE
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, only, policy, stopped
from reaper.decide import decide
from reaper.finding import Report, is_done
from reaper.model import ACTIONS, Mode, StepName
from reaper.notices.message import Audience
from reaper.observe import observe
from reaper.policy.schema import Policy
from reaper.record import Snooze
from reaper.report.summary import head_notes

FLOOR = "notify_above: {usd_per_day: 5}\n"
SMALL, UNPRICED = "ml.t2.medium", "ml.unknown"
"""$1.34 a day each, and no price at all."""
WINDOW = 'notices: {send: "mon-fri 09:00-17:00", tz: Europe/Berlin}\n'
MONDAY = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)
"""When the window opens after NOW, a Saturday."""
ANA, LEE = {"owner": "ana@example.com"}, {"owner": "lee@example.com"}


def under(*lines: str, now: datetime = NOW) -> FakeDeployment:
    return FakeDeployment(policy=policy(POLICY + "".join(lines)), now=now)


def mails(deployment: FakeDeployment) -> list[str]:
    """The owners' mails so far: address and subject."""
    return [f"{m.to}: {m.subject}" for m in deployment.channel.messages if m.audience is Audience.OWNERS]


def summary(deployment: FakeDeployment) -> str:
    return [m.text for m in deployment.channel.messages if m.audience is Audience.ADMINS][-1]


def steps(report: Report) -> dict[str, str]:
    return {f.case.resource.name: f.step.name.value for f in report.findings}


@pytest.mark.parametrize(
    ("things", "told"),
    [
        pytest.param([(SMALL, ANA)], set(), id="too little"),
        pytest.param([(SMALL, ANA)] * 3, set(), id="three are still too little"),
        pytest.param([(SMALL, ANA)] * 4, {"0", "1", "2", "3"}, id="four are enough together"),
        pytest.param([(SMALL, ANA)] * 3 + [(SMALL, LEE)], set(), id="another owner's mail doesn't count"),
        pytest.param(
            [(SMALL, ANA), (SMALL, {"owner": "Ana@example.com"})] * 2, {"0", "1", "2", "3"}, id="one address in two cases"
        ),
        pytest.param([(SMALL, ANA), (UNPRICED, ANA)], {"0", "1"}, id="no price counts as above"),
        pytest.param(
            [(SMALL, {}), (SMALL, {"owner": "x@other.org"})] * 2, {"0", "1", "2", "3"}, id="all unknown owners together"
        ),
        pytest.param([(SMALL, ANA), ("ml.g5.xlarge", {**ANA, "reaper:keep": "true"})], set(), id="what is kept is in no mail"),
    ],
)
def test_first_notices_of_a_mail_about_too_little_are_held_back(things: list[tuple[str, dict[str, str]]], told: set[str]):
    deployment = under(FLOOR)
    for number, (instance, tags) in enumerate(things):
        deployment.cloud.add(str(number), instance=instance, tags=tags)
    assert {name for name, step in steps(deployment.sweep()).items() if step == "warn"} == told
    assert bool(mails(deployment)) is bool(told)


def test_several_accounts_of_one_owner_are_one_mail():
    deployment = under(FLOOR)
    deployment.accounts = (TARGET.account, "222222222222")
    for number in range(4):
        deployment.cloud.add(str(number), instance=SMALL, tags=ANA, account=deployment.accounts[number % 2])
    assert set(steps(deployment.sweep(accounts=deployment.accounts[:1])).values()) == {"none"}
    assert set(steps(deployment.sweep()).values()) == {"warn"}


def test_a_held_back_notice_says_so_everywhere_and_records_nothing():
    deployment = under(FLOOR, "prices: {currency: {code: EUR, rate: 0.5, as_of: 2026-11-01, source: ECB}}\n")
    deployment.cloud.add("a", instance=SMALL, tags=ANA)
    for mode, verb in ((Mode.AUDIT, "wouldn't be"), (Mode.ENFORCE, "wasn't")):
        report = deployment.sweep(mode)
        found = only(report)
        assert f"1 first notice {verb} sent: 1 below notify_above: EUR 2.50 a day." in head_notes(report)
        because = "its owner's notice is worth EUR 0.67 a day, below notify_above: EUR 2.50 a day"
        assert (found.step.name, found.step.because) == (StepName.NONE, because)
        assert found.next
        assert (found.next.step, found.next.at, found.next.blocked_because) == (StepName.STOP, None, because)
    record = deployment.record("a")
    assert record.notice is None
    assert record.idle_since, "the idle period is remembered all the same"
    assert "1 first notice wasn't sent: 1 below notify_above: EUR 2.50 a day." in summary(deployment)


def test_what_was_never_told_is_never_stopped():
    deployment = under(FLOOR)
    for name in ("a", "b"):
        deployment.cloud.add(name, instance=SMALL, tags=ANA)
    for _ in range(30):
        deployment.sweep_after(days=1)
    assert (mails(deployment), stopped(deployment)) == ([], False)


def test_reminders_and_outcomes_go_on_below_the_floor():
    deployment = under()
    deployment.cloud.add("a", instance=SMALL, tags=ANA)
    deployment.sweep(Mode.ANNOUNCE)
    deployment.policy = policy(POLICY + FLOOR)
    deployment.now += 7 * DAY
    assert only(deployment.sweep(Mode.ANNOUNCE)).step.name is StepName.REMIND
    assert only(deployment.sweep()).step.name is StepName.STOP
    assert [mail.partition(" ")[2][:8] for mail in mails(deployment)] == ["1 idle M", "Reminder", "1 idle M"]
    assert "was" in mails(deployment)[-1]


def test_a_reminder_takes_first_notices_with_it_if_the_mail_is_worth_it():
    deployment = under(FLOOR.replace("5", "2"))
    for name in ("a", "b"):
        deployment.cloud.add(name, instance=SMALL, tags=ANA)
    assert set(steps(deployment.sweep(Mode.NOTIFY)).values()) == {"warn"}
    deployment.now += 7 * DAY
    deployment.cloud.things["b"].uses.append(deployment.now - 2 * DAY)
    assert steps(deployment.sweep(Mode.NOTIFY)) == {"a": "remind", "b": "warn"}


def test_a_notice_after_use_is_a_first_notice_again():
    deployment = under()
    thing = deployment.cloud.add("a", instance=SMALL, tags=ANA)
    deployment.sweep()
    deployment.policy = policy(POLICY + FLOOR)
    deployment.now += 4 * DAY
    thing.uses.append(deployment.now - 2 * DAY)
    assert only(deployment.sweep()).step.name is StepName.NONE
    deployment.now += 10 * DAY
    assert (only(deployment.sweep()).step.name, stopped(deployment)) == (StepName.NONE, False)


def test_an_enrollment_is_a_first_notice():
    hours = "rules: [{name: office, hours: {on: 'mon-fri 07:00-19:00', tz: UTC, force: true}}]\n"
    deployment = under(FLOOR, hours)
    deployment.cloud.kind_name = STARTABLE
    deployment.cloud.add("a", instance=SMALL, tags=ANA, uses=[NOW - HOUR])
    assert "below notify_above" in only(deployment.sweep()).step.because
    assert deployment.record("a").notice is None


@pytest.mark.parametrize("snoozed", [True, False], ids=["snoozed", "awake"])
def test_what_is_snoozed_doesnt_count_towards_the_floor(snoozed: bool):
    deployment = under(FLOOR.replace("5", "2"))
    for name in ("a", "b"):
        deployment.cloud.add(name, instance=SMALL, tags=ANA)
    if snoozed:
        snooze = Snooze(until=NOW + DAY, at=NOW - HOUR)
        assert deployment.ledger.write_snooze(deployment.cloud.id("b"), snooze, 0, NOW)
    assert finding_of(deployment.sweep(), "a").step.name is (StepName.NONE if snoozed else StepName.WARN)


def test_a_first_notice_waits_and_its_date_counts_from_the_opening():
    deployment = under(WINDOW)
    deployment.cloud.add("a", tags=ANA)
    for mode in (Mode.AUDIT, Mode.ENFORCE):
        found = only(deployment.sweep(mode))
        assert found.step.because == (
            "its notice waits until 2026-11-23 08:00 UTC, because notices are sent mon-fri 09:00-17:00 Europe/Berlin only"
        )
        assert (found.next and found.next.at, found.could and found.could.at) == (MONDAY + 3 * DAY, MONDAY + 3 * DAY)
    assert mails(deployment) == []
    assert "1 first notice wasn't sent: 1 waiting until " in summary(deployment)
    deployment.now = MONDAY + HOUR
    assert only(deployment.sweep()).step.name is StepName.WARN
    assert deployment.record("a").notice.not_before == MONDAY + HOUR + 3 * DAY


def test_an_escalation_waits_as_its_reminder_does():
    escalate = "escalate: {after: 1 reminder, to: [boss@example.com]}\n"
    deployment = under(now=datetime(2026, 11, 24, 10, tzinfo=UTC))
    deployment.cloud.add("a", tags=ANA, blocked_because="its autoscaling would undo it")
    deployment.sweep()
    deployment.sweep_after(days=7)  # the first reminder, not escalated under this policy
    deployment.policy = policy(POLICY + escalate + WINDOW)
    deployment.sweep_after(hours=12)
    assert [mail for mail in mails(deployment) if "boss@" in mail] == []
    deployment.sweep_after(hours=12)
    assert len([mail for mail in mails(deployment) if "boss@" in mail]) == 1


def test_actions_and_their_mails_dont_wait():
    deployment = under(WINDOW, now=datetime(2026, 11, 18, 9, 30, tzinfo=UTC))
    deployment.cloud.add("a", tags=ANA)
    deployment.sweep()
    deployment.now = NOW
    assert (steps(deployment.sweep()), stopped(deployment)) == ({"a": "stop"}, True)
    assert "was" in mails(deployment)[-1]


@pytest.mark.parametrize("mode", [Mode.NOTIFY, Mode.ANNOUNCE])
def test_a_reminder_waits_and_what_is_due_stays_due(mode: Mode):
    deployment = under(WINDOW, now=NOW - 8 * DAY)
    deployment.cloud.add("a", tags=ANA)
    deployment.sweep(mode)
    assert len(mails(deployment)) == 1
    deployment.now = NOW
    assert steps(deployment.sweep(mode)) == {"a": "stop" if mode.announces else "none"}
    assert len(mails(deployment)) == 1
    deployment.now = MONDAY
    assert steps(deployment.sweep(mode)) == {"a": "remind"}
    assert deployment.record("a").notice.warned_at == NOW - 8 * DAY


def test_a_summary_of_hours_waits_while_they_are_kept():
    hours = "rules: [{name: office, grace: 1h, idle_after: 1h, hours: {on: 'mon-fri 07:00-15:00', tz: UTC}}]\n"
    deployment = under(WINDOW, hours, now=datetime(2026, 11, 20, 15, 30, tzinfo=UTC))
    deployment.cloud.kind_name = STARTABLE
    deployment.cloud.add("a", tags=ANA)
    deployment.sweep()
    assert len(mails(deployment)) == 1
    deployment.now = datetime(2026, 11, 27, 16, 30, tzinfo=UTC)
    assert (steps(deployment.sweep()), len(mails(deployment))) == ({"a": "stop"}, 1)
    deployment.now = datetime(2026, 11, 30, 8, 30, tzinfo=UTC)
    deployment.sweep()
    assert "summary" in mails(deployment)[-1]


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 30), st.integers(0, 59), st.sampled_from(["mon 09:00-10:00", "tue,fri 12:00-13:30", "sun 00:00-24:00"]))
def test_no_notice_lapses_because_its_reminder_waited(remind_days: int, minute: int, send: str):
    text = POLICY.replace("remind_every: 7d", f"remind_every: {remind_days}d") + f'notices: {{send: "{send}"}}\n'
    deployment = FakeDeployment(policy=policy(text), now=datetime(2026, 3, 1, 12, minute, tzinfo=UTC))
    deployment.cloud.add("a", tags=ANA, created=NOW - 600 * DAY, running_since=NOW - 600 * DAY)
    told = []
    for _ in range(3 * (remind_days + 8)):
        deployment.now += 8 * HOUR if send.startswith("sun") else DAY
        if not send.startswith("sun"):
            deployment.now = deployment.now.replace(hour=9 if send.startswith("mon") else 12)
        told.append(only(deployment.sweep(Mode.ANNOUNCE)).step.name)
    assert told.count(StepName.WARN) == 1
    assert StepName.REMIND in told


quiet_lines = st.lists(
    st.sampled_from([FLOOR, WINDOW, "notify_above: {usd_per_day: 40}\n", 'notices: {send: "sat 00:00-24:00"}\n']),
    min_size=1,
    max_size=2,
    unique_by=lambda line: line[:8],
)
events = st.tuples(
    st.sampled_from(["nothing", "used", "changed", "snoozed", "kept", "closed"]), st.sampled_from("abc"), st.integers(5, 60)
)


def decided(deployment: FakeDeployment, under_policy: Policy) -> dict[str, StepName]:
    opened = deployment.open_run(Mode.AUDIT)
    context = replace(opened.decide, policy=under_policy)
    whole = decide([observe(opened.run, next(iter(opened.observe)), opened.run.started_at)], context)
    return {decision.case.resource.name: decision.step.name for decision in whole.findings}


@settings(max_examples=40, deadline=None)
@given(st.lists(events, min_size=2, max_size=8), quiet_lines, st.booleans())
def test_a_floor_or_hours_of_sending_only_take_notices_away(history: list[tuple[str, str, int]], lines: list[str], quiet: bool):
    hours = "rules: [{name: office, match: {name: b}, hours: {on: 'mon-fri 07:00-16:00', tz: UTC, force: true}}]\n"
    loud, silent = policy(POLICY + hours), policy(POLICY + hours + "".join(line for line in lines if "send" not in line))
    if any("sat" in line or "Berlin" in line for line in lines):
        silent = silent.model_copy(update={"notices": policy(POLICY + next(line for line in lines if "send" in line)).notices})
    deployment = FakeDeployment(policy=silent if quiet else loud)
    deployment.cloud.kind_name = STARTABLE
    told: set[str] = set()
    for name, instance, tags in (("a", SMALL, ANA), ("b", "ml.g5.xlarge", ANA), ("c", SMALL, LEE)):
        deployment.cloud.add(name, instance=instance, tags=dict(tags))
    for event, name, hours_later in history:
        deployment.now += timedelta(hours=hours_later)
        thing = deployment.cloud.things[name]
        if event == "used":
            thing.uses.append(deployment.now - HOUR)
        if event == "changed":
            thing.changed = deployment.now - HOUR
        if event == "kept":
            thing.tags = {**(thing.tags or {}), "reaper:keep": "true"}
        if event == "snoozed":
            snooze = Snooze(until=deployment.now + 2 * DAY, at=deployment.now)
            deployment.ledger.write_snooze(deployment.cloud.id(name), snooze, deployment.snooze(name).version, deployment.now)
        deployment.channel.is_closed = event == "closed"
        with_all, with_less = decided(deployment, loud), decided(deployment, silent)
        assert with_all.keys() == with_less.keys()
        for key, step in with_less.items():
            assert step is with_all[key] or (step is StepName.NONE and with_all[key] in {StepName.WARN, StepName.REMIND})
        before = len(deployment.channel.messages)
        report = deployment.sweep()
        ended = {f.case.resource.name for f in report.findings if is_done(f) and f.step.name in ACTIONS - {StepName.START}}
        assert ended <= told
        for message in deployment.channel.messages[before:]:
            if message.audience is Audience.OWNERS:
                told |= {n for n in "abc" if deployment.cloud.id(n) in message.resource_ids}
