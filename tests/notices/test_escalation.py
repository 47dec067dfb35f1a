"""Escalations: once for each series of reminders and addressee, to allowed addresses only, and nothing else changes."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.builders import DAY, HOUR, NOW
from fakes.failing_ledger import FailingLedger
from fakes.fake_cloud import STARTABLE
from fakes.fake_deployment import FakeChannel, FakeDeployment, only, policy
from fakes.histories import history_of
from fakes.records import changed
from fakes.snooze_requests import KEYS
from reaper.conclude import conclude
from reaper.decide import decide
from reaper.errors import CloudError, Reason
from reaper.finding import Report
from reaper.ledger.forget import forget_address
from reaper.limits import holds
from reaper.model import Mode, StepName
from reaper.notices.channels.delivery import OpenChannel
from reaper.notices.message import Audience, Message
from reaper.observe import observe
from reaper.record import Record, Snoozes
from reaper.report import json as report_json
from reaper.run import run_phases
from reaper.snooze.links import LinkSigner

NOTIFY = """
version: 1
defaults: {action: notify, idle_after: 24h, grace: 3d, remind_every: 7d}
owners: {domains: [example.com], fallback: ml-admins@example.com}
"""
ESCALATE = "escalate: {after: 2 reminders, to: [tag:manager, admins]}\n"
JO, LEE, ADMINS = "jo@example.com", "lee@example.com", "ml-admins@example.com"
TAGS = {"owner": JO, "Manager": LEE}


def deployed(text: str = NOTIFY + ESCALATE, count: int = 1, **fields: Any) -> FakeDeployment:
    """Idle things of Jo's, whose manager is Lee, in a ledger that may fail."""
    deployment = FakeDeployment(policy=policy(text), ledger=FailingLedger())
    for number in range(count):
        deployment.cloud.add(f"churn-{number}" if number else "churn", **{"tags": dict(TAGS), **fields})
    return deployment


def sweep_weeks(deployment: FakeDeployment, weeks: int, mode: Mode = Mode.NOTIFY) -> list[Report]:
    """A sweep a week, each at the moment when a reminder is due; the clock ends a week after the last."""
    reports = []
    for _ in range(weeks):
        reports.append(deployment.sweep(mode))
        deployment.now += 7 * DAY
    return reports


def escalations(deployment: FakeDeployment) -> list[Message]:
    return [m for m in deployment.channel.messages if m.subject.startswith("Escalation")]


def addressees(deployment: FakeDeployment) -> list[str]:
    return [m.to for m in escalations(deployment)]


def own_errors(report: Report, kind: str = "escalations") -> list[str | None]:
    return [row.error for row in report.coverage if row.kind == kind]


def test_each_addressee_gets_one_mail_after_the_second_reminder():
    deployment = deployed()
    sweep_weeks(deployment, 2)
    assert addressees(deployment) == []
    sweep_weeks(deployment, 1)
    assert addressees(deployment) == [LEE, ADMINS]
    sweep_weeks(deployment, 4)
    assert addressees(deployment) == [LEE, ADMINS]
    record = deployment.record("churn")
    assert (record.notice.reminders, record.notice.escalated_at, record.notice.escalated_to) == (
        6,
        NOW + 14 * DAY,
        ("admins", LEE),
    )


def test_the_mail_says_what_its_reader_needs_and_has_no_owners_link():
    deployment = deployed(NOTIFY.replace("action: notify", "action: stop").replace("grace: 3d", "grace: 60d") + ESCALATE)
    for _ in range(3):
        opened = deployment.open_run(Mode.ENFORCE)
        signer = LinkSigner(base="https://keep.example.com", keys=KEYS)
        run_phases(replace(opened, conclude=replace(opened.conclude, links=signer)), deployment.hand_over)
        deployment.now += 7 * DAY
    assert any("https://keep.example.com" in m.text for m in deployment.channel.messages if m.to == JO)
    mail, to_admins = escalations(deployment)
    shown = unescape(re.sub(r"<[^>]+>", "", mail.html))
    for part in (
        "1 idle ML resource costs $33.79 a day",
        "$947 wasted since Sat 7 Nov.",
        "Its owner was notified and reminded, and it's still idle.",
        "it moves no date, and nothing is stopped because of it",
        "Ask the owner whether it's still needed.",
        "add the tag reaper:keep-until=2026-12-12",
        f"Questions? Ask {ADMINS}.",
        f"Owner: {JO} (tag owner)",
        "Notified on Sat 21 Nov 2026, 10:17 UTC, then reminded 2 times, last on Sat 5 Dec 2026, 10:17 UTC.",
        "It will be scaled in on or after Wed 20 Jan 2027, 10:17 UTC unless it is used or kept before then.",
        "You're getting this because the tag manager names you for escalations.",
    ):
        assert part in mail.text, part
        assert part in shown, part
    assert "You're getting this because the policy sends escalations to admins." in to_admins.text
    assert "costs $1,028 a month" in to_admins.text
    for one in (mail, to_admins):
        assert one.visit is None
        assert not re.search(r"keep\.example\.com|Not mine|Keep it", one.text + one.html)
    assert mail.attributes == {"audience": "owners", "owner": LEE, "action": ("escalate",), "resources": 1}
    assert to_admins.attributes == {"audience": "admins", "owner": "", "action": ("escalate",), "resources": 1}
    assert to_admins.audience is Audience.ADMINS
    assert (
        mail.card.entries[0].lines[-1].text.startswith(f"2 reminders to {JO}. It will be scaled in on or after Wed 20 Jan 2027")
    )
    assert (mail.card.keep, mail.card.visit) == (None, None)


def _used(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].uses.append(deployment.now - HOUR)


def _used_between_sweeps(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].uses.append(deployment.now - 3 * DAY)


def _protected(deployment: FakeDeployment) -> None:
    tags = deployment.cloud.things["churn"].tags
    deployment.cloud.things["churn"].tags = {**(tags or {}), "reaper:keep": "true"}
    deployment.sweep(Mode.NOTIFY)
    deployment.cloud.things["churn"].tags = tags


def _write(deployment: FakeDeployment, **fields: Any) -> None:
    id_, record, snooze = deployment.cloud.id("churn"), deployment.record("churn"), deployment.snooze("churn")
    new, snoozes = changed((record, Snoozes(own=snooze)), **fields)
    assert new == record or deployment.ledger.write_record(id_, new, record.version, deployment.now)
    assert snoozes.own == snooze or deployment.ledger.write_snooze(id_, snoozes.own, snooze.version, deployment.now)


def _snoozed(deployment: FakeDeployment) -> None:
    _write(deployment, snoozed_at=deployment.now - DAY, snoozed_until=deployment.now - HOUR, snoozed_by=JO)


def _disowned(deployment: FakeDeployment) -> None:
    _write(deployment, disowned_by=JO, disowned_at=deployment.now - HOUR)


def _has_another_owner(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].tags = {**TAGS, "owner": "dana@example.com"}


def _recreated(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].created = deployment.now - 2 * DAY


@pytest.mark.parametrize(
    "end_series",
    [_used, _used_between_sweeps, _protected, _snoozed, _disowned, _has_another_owner, _recreated],
    ids=lambda end: end.__name__,
)
@pytest.mark.parametrize("hours", [False, True], ids=["idleness", "under office hours"])
def test_what_ends_a_series_begins_the_count_at_zero(end_series, hours):
    office = "rules: [{name: office, hours: {on: 'mon-sun 00:00-23:59', tz: UTC}}]\n" if hours else ""
    deployment = deployed(NOTIFY + ESCALATE + office)
    deployment.cloud.kind_name = STARTABLE
    sweep_weeks(deployment, 2)
    assert deployment.record("churn").notice.reminders == 1
    end_series(deployment)
    deployment.channel.messages.clear()
    while not addressees(deployment):
        sweep_weeks(deployment, 1)
    owners = [
        m.subject for m in deployment.channel.messages if m.audience is Audience.OWNERS and m not in escalations(deployment)
    ]
    assert [subject.startswith("Reminder") for subject in owners].count(True) == 2


def test_another_series_is_escalated_too():
    deployment = deployed()
    sweep_weeks(deployment, 3)
    _used(deployment)
    sweep_weeks(deployment, 1)
    assert deployment.record("churn").notice is None
    sweep_weeks(deployment, 3)
    assert addressees(deployment) == [LEE, ADMINS] * 2


def test_an_address_outside_owners_domains_gets_nothing_and_is_said():
    deployment = deployed(tags={**TAGS, "Manager": "boss@elsewhere.test"})
    reports = sweep_weeks(deployment, 4)
    assert addressees(deployment) == [ADMINS]
    assert "boss@elsewhere.test" not in {m.to for m in deployment.channel.messages}
    said = "1 escalation not sent to tag:manager, because its address is not in owners.domains (first: churn)"
    assert [own_errors(report) for report in reports] == [[], [], [said], []]


def test_the_first_usable_manager_decides_in_any_order():
    for keys in (("Manager", "MANAGER"), ("MANAGER", "Manager")):
        tags = {"owner": JO, **{key: {"Manager": LEE, "MANAGER": "boss@elsewhere.test"}[key] for key in keys}}
        deployment = deployed(tags=tags)
        sweep_weeks(deployment, 3)
        assert addressees(deployment) == [LEE, ADMINS]


def test_several_addresses_in_a_manager_tag_are_called_so():
    deployment = deployed(tags={**TAGS, "Manager": f"{LEE}, {JO}"})
    said = "1 escalation not sent to tag:manager, because its value is several addresses; name one in it (first: churn)"
    assert [own_errors(report) for report in sweep_weeks(deployment, 3)][-1] == [said]


def test_without_any_address_each_report_says_so():
    deployment = deployed(NOTIFY + "escalate: {after: 1 reminder, to: tag:manager}", tags={"owner": JO})
    reports = sweep_weeks(deployment, 3)
    said = "1 escalation not sent to tag:manager, because there is no such tag (first: churn)"
    assert [own_errors(report) for report in reports] == [[], [said], [said]]
    assert deployment.record("churn").notice.escalated_at is None


def test_a_missing_tag_is_no_failure_if_the_admins_get_it():
    deployment = deployed(tags={"owner": JO})
    reports = sweep_weeks(deployment, 4)
    assert (addressees(deployment), [own_errors(report) for report in reports]) == ([ADMINS], [[]] * 4)


def test_admins_without_a_channel_are_said():
    deployment = deployed()
    opened = [deployment.open_run(Mode.NOTIFY)]
    for _ in range(3):
        owners = OpenChannel(name="post", readers=frozenset({Audience.OWNERS}), sender=deployment.channel)
        run = replace(opened[-1], conclude=replace(opened[-1].conclude, channels=[owners]))
        report = run_phases(run, deployment.hand_over)
        deployment.now += 7 * DAY
        opened.append(deployment.open_run(Mode.NOTIFY))
    assert own_errors(report) == ["1 escalation not sent to admins, because no channel is for them (first: churn)"]
    assert addressees(deployment) == [LEE]


@pytest.mark.parametrize("refused", [LEE, ADMINS])
def test_a_room_beside_a_refused_escalation_counts_for_no_one(refused: str):
    deployment, room = deployed(), FakeChannel()
    sweep_weeks(deployment, 2)
    deployment.more = [OpenChannel(name="room", readers=frozenset(Audience), sender=room)]
    send = deployment.channel.send

    def refuse(message: Message) -> str:
        if message.to == refused:
            raise CloudError(Reason.REFUSED, "post:Send", "no such user")
        return send(message)

    deployment.channel.send = refuse  # type: ignore[method-assign]
    sweep_weeks(deployment, 1)
    in_room = [m.to for m in room.messages if "Escalation" in m.subject]
    assert in_room == [to for to in (LEE, ADMINS) if to == ADMINS or to != refused]
    deployment.channel.send = send  # type: ignore[method-assign]
    deployment.now -= 7 * DAY - HOUR
    sweep_weeks(deployment, 1)
    assert sorted(addressees(deployment)) == sorted([LEE, ADMINS])


def test_what_a_channel_refused_is_sent_by_the_next_run_alone():
    deployment = deployed()
    sweep_weeks(deployment, 2)
    send = deployment.channel.send

    def refuse_lee(message: Message) -> str:
        if message.to == LEE:
            raise CloudError(Reason.REFUSED, "post:Send", "no such user")
        return send(message)

    deployment.channel.send = refuse_lee  # type: ignore[method-assign]
    [report] = sweep_weeks(deployment, 1)
    assert addressees(deployment) == [ADMINS]
    assert own_errors(report, "channel post") == ["post:Send: no such user"]
    deployment.channel.send = send  # type: ignore[method-assign]
    deployment.now -= 6 * DAY
    deployment.sweep(Mode.NOTIFY)
    deployment.now += HOUR
    deployment.sweep(Mode.NOTIFY)
    assert addressees(deployment) == [ADMINS, LEE]


def test_nothing_is_escalated_while_the_reminder_is_refused():
    deployment = deployed()
    sweep_weeks(deployment, 2)
    deployment.channel.is_closed = True
    sweep_weeks(deployment, 1)
    assert deployment.record("churn").notice.reminders == 1
    deployment.channel.is_closed = False
    sweep_weeks(deployment, 1)
    assert (deployment.record("churn").notice.reminders, addressees(deployment)) == (2, [LEE, ADMINS])


def test_a_conclude_that_runs_twice_escalates_once():
    deployment = deployed()
    sweep_weeks(deployment, 2)
    opened = deployment.open_run(Mode.NOTIFY)
    observed = observe(opened.run, next(iter(opened.observe)), opened.run.started_at)
    decided = decide([observed], opened.decide)
    for _ in range(3):
        conclude([observed], decided, [], opened.conclude)
        deployment.now += timedelta(minutes=1)
    assert addressees(deployment) == [LEE, ADMINS]
    assert [m.to for m in deployment.channel.messages].count(JO) == 3
    assert deployment.record("churn").notice.reminders == 2


@pytest.mark.parametrize(("call", "count"), [("remember", 1), ("remembered", 2)])
def test_a_reminder_counts_once_although_its_write_breaks_off(call, count):
    deployment = deployed(NOTIFY + ESCALATE.replace("2", "9"))
    sweep_weeks(deployment, 2)
    opened = deployment.open_run(Mode.NOTIFY)
    observed = observe(opened.run, next(iter(opened.observe)), opened.run.started_at)
    decided = decide([observed], opened.decide)
    assert isinstance(deployment.ledger, FailingLedger)

    def fail(name: str, _: str) -> None:
        if name == call:
            raise CloudError(Reason.UNREACHABLE, "ledger", "no reply")

    deployment.ledger.fail_on = fail
    conclude([observed], decided, [], opened.conclude)
    deployment.ledger.fail_on = lambda name, _: None
    assert deployment.record("churn").notice.reminders == count
    conclude([observed], decided, [], opened.conclude)
    assert deployment.record("churn").notice.reminders == 2


def test_a_write_that_is_repeated_after_a_lost_reply_counts_once():
    deployment = deployed(NOTIFY + ESCALATE.replace("2", "9"))
    ledger = deployment.ledger
    sweep_weeks(deployment, 1)
    remember = ledger.write_record
    ledger.write_record = lambda *parts, **named: remember(*parts, **named) and False  # type: ignore[method-assign]
    deployment.sweep(Mode.NOTIFY)
    assert deployment.record("churn").notice.reminders == 1


def test_summaries_of_office_hours_do_not_count():
    office = "rules: [{name: office, grace: 1h, hours: {on: 'mon-fri 07:00-19:00', tz: UTC}}]\n"
    deployment = deployed(NOTIFY.replace("action: notify", "action: stop") + ESCALATE.replace("2", "1") + office)
    deployment.cloud.kind_name = STARTABLE
    steps = []
    for _ in range(29):
        steps.append(only(deployment.sweep(Mode.ANNOUNCE)).step.name)
        assert (deployment.record("churn").notice.reminders, addressees(deployment)) == (0, [])
        deployment.now += DAY
    assert steps.count(StepName.REMIND) >= 3


def test_a_notice_that_announces_more_begins_the_count_at_zero():
    deployment = deployed(NOTIFY + ESCALATE)
    sweep_weeks(deployment, 2)
    deployment.policy = policy(NOTIFY.replace("action: notify", "action: stop").replace("3d", "60d") + ESCALATE)
    sweep_weeks(deployment, 2, Mode.ANNOUNCE)
    assert (deployment.record("churn").notice.reminders, addressees(deployment)) == (1, [])


def test_many_resources_of_one_manager_go_into_one_mail_of_thirty():
    deployment = deployed(count=31)
    sweep_weeks(deployment, 3)
    mails = [m for m in escalations(deployment) if m.to == LEE]
    assert [len(m.resource_ids) for m in mails] == [30, 1]
    assert mails[0].subject == "Escalation: 30 idle ML resources cost $1,014 a day despite reminders"
    assert max(len(m.html.encode()) for m in mails) < 102_000


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"snoozed_at": NOW + 14 * DAY, "snoozed_until": NOW + 20 * DAY, "snoozed_by": JO}, id="snoozed"),
        pytest.param({"disowned_by": JO, "disowned_at": NOW + 14 * DAY}, id="not mine"),
        pytest.param({"escalated_to": ("admins", LEE)}, id="sent by another conclude"),
        pytest.param({"called_at": NOW + 15 * DAY}, id="dated ahead"),
    ],
)
def test_the_row_is_read_again_right_before_each_mail(fields):
    deployment = deployed()
    sweep_weeks(deployment, 2)

    def write(message: Message) -> None:
        if message.to == LEE:
            _write(deployment, **fields)

    deployment.channel.on_message = write
    sweep_weeks(deployment, 1)
    assert addressees(deployment) == [LEE], "the write came before the admins' mail"


@pytest.mark.parametrize("trouble", ["another run", "time is over", "only outcomes"])
def test_a_run_that_may_not_notify_leaves_it_to_the_next(trouble):
    deployment = deployed()
    sweep_weeks(deployment, 2)
    send = deployment.channel.send
    deployment.channel.on_message = lambda m: m.to == JO and setattr(deployment.channel, "is_closed", True)  # type: ignore[func-returns-value]
    sweep_weeks(deployment, 1)
    assert (deployment.record("churn").notice.reminders, addressees(deployment)) == (2, [])
    deployment.channel.on_message, deployment.channel.is_closed = lambda m: None, False
    deployment.now -= 6 * DAY
    opened = deployment.open_run(Mode.NOTIFY)
    observed = observe(opened.run, next(iter(opened.observe)), opened.run.started_at)
    decided = decide([observed], opened.decide)
    context = opened.conclude
    if trouble == "another run":
        deployment.now += HOUR
        assert deployment.ledger.take_lease(decided.leased[0], "another run", deployment.now, DAY)
    elif trouble == "time is over":
        context = replace(context, deadline=deployment.now - HOUR)
    else:
        context = replace(context, outcomes_only="the policy can't be read")
    conclude([observed], decided, [], context)
    assert addressees(deployment) == []
    deployment.now += 2 * DAY
    deployment.sweep(Mode.NOTIFY)
    assert addressees(deployment) == [LEE, ADMINS]
    assert deployment.channel.send == send


def test_while_an_idle_share_is_unusual_only_new_reminders_escalate():
    deployment = deployed(NOTIFY + ESCALATE, count=2)
    for number in range(8):
        deployment.cloud.add(
            f"busy-{number}", tags={"owner": f"o{number}@example.com"}, uses=[NOW + n * DAY for n in range(-30, 16)]
        )
    for _ in range(2):
        deployment.sweep(Mode.NOTIFY)
        deployment.now += 7 * DAY
    deployment.channel.on_message = lambda m: m.to == JO and setattr(deployment.channel, "is_closed", True)  # type: ignore[func-returns-value]
    deployment.sweep(Mode.NOTIFY)
    deployment.channel.on_message, deployment.channel.is_closed = lambda m: None, False
    deployment.now += 3 * DAY
    report = deployment.sweep(Mode.NOTIFY)
    assert len(report.idle) == 10
    assert addressees(deployment) == []


def test_nothing_escalates_while_holds_cannot_be_read():
    deployment = deployed()
    sweep_weeks(deployment, 2)
    deployment.channel.on_message = lambda m: m.to == JO and setattr(deployment.channel, "is_closed", True)  # type: ignore[func-returns-value]
    deployment.sweep(Mode.NOTIFY)
    deployment.channel.on_message, deployment.channel.is_closed = lambda m: None, False
    deployment.now += DAY

    def unreadable(call: str, name: str) -> None:
        if call == "row" and name == holds.HOLD_ROW:
            raise CloudError(Reason.THROTTLED, "dynamodb:BatchGetItem", "still throttled")

    deployment.ledger.fail_on = unreadable  # type: ignore[attr-defined]
    deployment.sweep(Mode.NOTIFY)
    assert addressees(deployment) == []
    deployment.ledger.fail_on = lambda call, name: None  # type: ignore[attr-defined]
    deployment.sweep(Mode.NOTIFY)
    assert addressees(deployment) == [LEE, ADMINS]


def test_the_summary_mentions_an_escalation_once():
    deployment = deployed()
    sweep_weeks(deployment, 5)
    texts = [m.text for m in deployment.channel.messages if m.audience is Audience.ADMINS and "ESCALATED" in m.text]
    line = f"- churn (SageMaker endpoint, us-east-1, account 123456789012): $1,028 a month. 2 reminders to {JO}, then a mail to admins, {LEE}."
    assert [line in text for text in texts] == [True]


def test_forget_removes_an_addressee_from_the_row_and_the_history():
    deployment = deployed()
    sweep_weeks(deployment, 3)
    resource_id = deployment.cloud.id("churn")
    escalated = [entry.because for entry in history_of(deployment.ledger, resource_id) if entry.what == "escalated"]
    assert sorted(escalated) == [f"{to}: still idle after 2 reminders to {JO}" for to in ("admins", LEE)]
    assert list(forget_address(deployment.ledger, LEE))
    assert not [row for row in deployment.ledger.store.scan() if LEE in str(row.texts)]
    assert deployment.record("churn").notice.escalated_to == ("admins", "(forgotten)")


def _without_escalation(record: Record) -> Record:
    return changed(record, escalated_at=None, escalated_to=(), receipt=None, version=0)


def _refuse_escalations(message: Message) -> None:
    if message.subject.startswith("Escalation"):
        raise CloudError(Reason.REFUSED, "post:Send", "no such user")


EVENTS = st.lists(
    st.tuples(st.integers(1, 9), st.sampled_from(["none", "none", "none", "use", "snooze", "owner", "closed", "refused"])),
    min_size=8,
    max_size=22,
)


@settings(max_examples=20, deadline=None)
@given(EVENTS, st.sampled_from([Mode.NOTIFY, Mode.ANNOUNCE, Mode.ENFORCE]), st.integers(1, 3), st.sampled_from(["3d", "30d"]))
def test_an_escalation_never_changes_what_is_planned_or_done(events, mode, after, grace):
    text = NOTIFY.replace("action: notify", "action: stop").replace("grace: 3d", f"grace: {grace}")
    escalate = f"escalate: {{after: {after} reminders, to: [tag:manager, admins, lee@example.com]}}\n"
    pair = [deployed(text + escalate), deployed(text)]
    seen: list[list[object]] = [[], []]
    for days, event in events:
        for deployment, outcomes in zip(pair, seen, strict=True):
            deployment.now += days * DAY
            if "churn" in deployment.cloud.things and event == "use":
                _used(deployment)
            elif event == "snooze":
                _write(deployment, snoozed_at=deployment.now, snoozed_until=deployment.now + 2 * DAY, snoozed_by=JO)
            elif event == "owner":
                deployment.cloud.things["churn"].tags = {**TAGS, "owner": f"o{days}@example.com"}
            deployment.channel.is_closed = event == "closed"
            deployment.channel.on_message = _refuse_escalations if event == "refused" else lambda message: None
            report = deployment.sweep(mode)
            row = report_json.report_json(report)["findings"][0]
            outcomes.append((row["step"], row["step_because"], row["outcome"], row["next"], row["memory"]))
            outcomes.append(_without_escalation(deployment.record("churn")))
    assert seen[0] == seen[1]
    assert pair[0].cloud.log == pair[1].cloud.log
    owners = [[(m.subject, m.text) for m in d.channel.messages if m.to not in {LEE, ADMINS}] for d in pair]
    assert owners[0] == owners[1]
