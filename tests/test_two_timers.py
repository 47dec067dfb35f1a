"""A delete by `then` in the plan: when it is what the policy leads to, what it waits for, and that it hurries nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.builders import DAY, HOUR, NOW
from fakes.fake_deployment import POLICY, FakeDeployment, policy
from fakes.judged_cases import case, step_of
from fakes.mails import next_sentence
from fakes.planned import next_action, strongest_action
from fakes.records import a_record, an_act, changed, known
from reaper.calendars.office_hours import Hours
from reaper.case import Blocked, Case
from reaper.finding import Finding, Outcome, Step, follow_up
from reaper.model import AnnouncedAction, Confidence, Mode, Result, State, StepName
from reaper.notices.forecast import NoticeContext
from reaper.notices.message import Audience
from reaper.plan import with_follow_ups
from reaper.policy.schema import Owners
from reaper.record import Record, Snoozes

AFTER = 14 * DAY
DONE = Blocked(because="it already runs no more than one instance per variant", already_done=True)
LEFT = {StepName.STOP: DONE, StepName.DELETE: None}
HOURS = Hours(days=frozenset(range(5)), start=420, end=1260, tz="UTC", by_rule=False)


def left_over(**fields: Any) -> Case:
    """Idle, with nothing left for a stop, and still paid for."""
    leaves_cost, verdict = fields.pop("leaves_cost", True), fields.pop("confidence", Confidence.PROVEN)
    judged = case(**{"idle_for": 10 * DAY, "acts": LEFT, "delete_after": AFTER, **fields})
    return replace(judged, stop_leaves_cost=leaves_cost, verdict=replace(judged.verdict, confidence=verdict))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, StepName.DELETE, id="a stop can do nothing"),
        pytest.param({"acts": {StepName.STOP: None, StepName.DELETE: None}}, StepName.STOP, id="a stop is possible"),
        pytest.param({"leaves_cost": False}, None, id="nothing is paid for"),
        pytest.param({"delete_after": None}, None, id="the rule has no then"),
        pytest.param({"acts": {**LEFT, StepName.STOP: Blocked(because="its status is Failed")}}, None, id="a stop is blocked"),
        pytest.param({"acts": {**LEFT, StepName.DELETE: Blocked(because="a stack made it")}}, None, id="a delete is blocked"),
        pytest.param({"acts": {StepName.STOP: DONE}}, None, id="its kind can't be deleted"),
        pytest.param({"confidence": Confidence.LIKELY}, None, id="the evidence is indirect"),
        pytest.param({"confidence": Confidence.LIKELY, "act_on": Confidence.LIKELY}, StepName.DELETE, id="that is enough"),
        pytest.param({"state": State.UNKNOWN}, None, id="unknown"),
        pytest.param({"protected_because": "kept"}, None, id="protected"),
    ],
)
def test_then_leads_to_a_delete_only_where_a_stop_has_nothing_to_do(fields: dict[str, Any], expected: StepName | None):
    assert strongest_action(left_over(**fields), NOW) is expected


def test_what_comes_next_is_a_delete_with_its_own_date():
    following = next_action(left_over(), Record(), NOW)
    assert following
    assert (following.step, following.at, following.blocked_because) == (
        StepName.DELETE,
        NOW + AFTER,
        "notice first, grace 14 days",
    )


def test_what_blocks_the_delete_is_what_blocks_the_next_action():
    following = next_action(left_over(acts={**LEFT, StepName.DELETE: Blocked(because="a stack made it")}), Record(), NOW)
    assert following
    assert (following.step, following.at, following.blocked_because) == (StepName.DELETE, None, "a stack made it")


def told(action: StepName, ago: timedelta, **fields: Any) -> Record:
    """An owner with a notice of that action."""
    record = a_record(warned_at=NOW - ago, announced=AnnouncedAction(action), idle_since=NOW - 60 * DAY)
    return changed(record, seen_idle_at=NOW - HOUR, not_before=NOW, **fields)


@pytest.mark.parametrize(
    ("record", "step"),
    [
        pytest.param(told(StepName.DELETE, AFTER), StepName.DELETE, id="its own notice, two weeks ago"),
        pytest.param(told(StepName.DELETE, AFTER - HOUR), StepName.REMIND, id="an hour less"),
        pytest.param(told(StepName.STOP, AFTER), StepName.WARN, id="a notice of a stop"),
        pytest.param(told(StepName.DELETE, AFTER, called_at=NOW - AFTER + HOUR), StepName.WARN, id="a later call of ours"),
    ],
)
def test_a_delete_needs_its_own_notice_and_its_time_after_our_last_call(record: Record, step: StepName):
    assert step_of(left_over(), record, NOW).name is step


def test_a_notice_of_the_delete_is_no_notice_of_a_stop():
    grown = left_over(acts={StepName.STOP: None, StepName.DELETE: None})
    assert step_of(grown, told(StepName.DELETE, AFTER), NOW).name is StepName.WARN


def test_a_change_before_a_reminder_voids_the_mail_about_the_stop():
    stop = {"acted": StepName.STOP, "acted_at": NOW - 20 * DAY, "result": Result.DONE}
    record = told(StepName.DELETE, 20 * DAY, **stop, notified_at=NOW - 20 * DAY, reminded_at=NOW - 6 * DAY)
    ours = left_over(changed=NOW - 20 * DAY + timedelta(minutes=10))
    assert step_of(ours, record, NOW).name is StepName.DELETE
    assert step_of(left_over(changed=NOW - 8 * DAY, idle_for=8 * DAY), record, NOW).name is StepName.WARN


def noticed(of: Case, step: StepName, **fields: Any) -> Finding:
    """A finding about it, as the mails get it."""
    outcome = Outcome(result=Result.DONE, because="it is scaling in", begun=True, **fields)
    return Finding(case=of, step=Step(name=step, because=""), outcome=outcome)


@pytest.mark.parametrize(
    ("fields", "announced"),
    [
        pytest.param({}, StepName.DELETE, id="a delete follows"),
        pytest.param({"acts": {StepName.STOP: None, StepName.DELETE: Blocked(because="a stack made it")}}, None, id="blocked"),
        pytest.param({"leaves_cost": False}, None, id="nothing is left"),
        pytest.param({"protected_because": "kept"}, None, id="protected"),
        pytest.param({"delete_after": None}, None, id="no then"),
    ],
)
def test_mails_name_the_delete_only_if_it_can_follow_the_stop(fields: dict[str, Any], announced: StepName | None):
    of = left_over(**{"acts": {StepName.STOP: None, StepName.DELETE: None}, **fields})
    context = NoticeContext(now=NOW, mode=Mode.ENFORCE, owners=Owners())
    followed = follow_up(with_follow_ups(noticed(of, StepName.STOP), NOW))
    assert (followed[0] if followed else None) is announced
    assert ("It will be deleted on or after" in next_sentence(noticed(of, StepName.STOP), context)) is bool(announced)
    if of.rule.protected_because is None:
        assert ("deleted, not before Tue 8 Dec" in next_sentence(noticed(of, StepName.WARN), context)) is bool(announced)


moments = st.none() | st.integers(-40 * 24, 24).map(lambda hours: NOW + hours * HOUR)
recalled = st.builds(
    known,
    idle_since=moments,
    seen_idle_at=moments,
    warned_at=moments,
    reminded_at=moments,
    announced=st.sampled_from([None, AnnouncedAction.STOP, AnnouncedAction.DELETE]),
    not_before=moments,
    snoozed_until=moments,
    act=st.none()
    | st.builds(
        an_act,
        st.sampled_from([StepName.STOP, StepName.DELETE]),
        moments.filter(bool),
        result=st.sampled_from([None, Result.DONE, Result.FAILED]),
        part=st.sampled_from([None, "1 of 2 variants"]),
    ),
    called_at=moments,
)


@st.composite
def remembered(draw: st.DrawFn) -> tuple[Record, Snoozes]:
    """Any row, and often one whose last notice is the mail about our action."""
    both = draw(recalled)
    is_notified = both[0].act and both[0].notice and draw(st.booleans())
    return changed(both, notified_at=both[0].notice.warned_at) if is_notified else both


@st.composite
def judged(draw: st.DrawFn) -> Case:
    past = st.none() | st.integers(1, 40 * 24).map(lambda hours: NOW - hours * HOUR)
    busy, changed = draw(past), draw(past)
    least = min([NOW - t for t in (busy, changed) if t] + [40 * DAY])
    acts = {action: draw(st.sampled_from([None, DONE, Blocked(because="no")])) for action in (StepName.STOP, StepName.DELETE)}
    return left_over(
        idle_for=draw(st.integers(1, max(1, least // HOUR))) * HOUR,
        last_busy=busy,
        changed=changed,
        acts=acts,
        leaves_cost=draw(st.booleans()),
        hours=draw(st.sampled_from([None, None, HOURS])),
    )


@settings(max_examples=600, deadline=None)
@given(judged(), remembered())
def test_no_delete_without_its_own_notice_and_its_time(of: Case, both: tuple[Record, Snoozes]):
    record = both[0]
    if step_of(of, both, NOW).name is not StepName.DELETE:
        return
    assert record.notice.action is AnnouncedAction.DELETE
    assert record.notice.warned_at
    assert record.notice.warned_at <= NOW - AFTER
    assert not record.called_at or record.called_at <= NOW - AFTER
    assert not record.notice.not_before or record.notice.not_before <= NOW
    assert not of.verdict.last_busy or of.verdict.last_busy <= record.notice.warned_at
    assert of.blocked[StepName.STOP] == DONE
    assert of.stop_leaves_cost


@settings(max_examples=600, deadline=None)
@given(judged(), remembered())
def test_then_makes_no_stop_come_sooner(of: Case, both: tuple[Record, Snoozes]):
    without = replace(of, rule=replace(of.rule, delete_after=None))
    if step_of(of, both, NOW).name is StepName.STOP:
        assert step_of(without, changed(both, announced=AnnouncedAction.STOP), NOW).name is StepName.STOP


EVENTS = ("nothing", "nothing", "used", "changed", "scaled out", "tagged", "untagged", "deaf", "row lost", "no metrics")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(1, 15)), min_size=3, max_size=7))
def test_every_delete_was_announced_by_a_mail_that_nothing_voided(history: list[tuple[str, int]]):
    text = POLICY.replace("remind_every: 7d", "remind_every: 7d, then: {action: delete, after: 14d}")
    deployment = FakeDeployment(policy=policy(text))
    thing = deployment.cloud.add("churn", variants=2, least=1)
    accepted = ended = None
    for event, days in history:
        if event in {"used", "changed", "scaled out"}:
            ended = deployment.now
        if event == "used":
            thing.uses.append(deployment.now)
        if event in {"changed", "scaled out"}:
            thing.changed, thing.variants = deployment.now, 2 if event == "scaled out" else thing.variants
        if event in {"tagged", "untagged"}:
            thing.tags = {"reaper:action": "stop"} if event == "tagged" else {}
        if event == "row lost":
            lost = deployment.record("churn").version
            assert deployment.ledger.write_record(deployment.cloud.id("churn"), Record(), lost, deployment.now)
            accepted = None
        if event == "no metrics":
            thing.metric_gaps.append((deployment.now, deployment.now + 5 * HOUR))
        deployment.channel.is_closed = event == "deaf"
        for _ in range(days):
            deployment.now += DAY
            before = len(deployment.channel.messages)
            report = deployment.sweep()
            if any(action is StepName.DELETE for action, _, _ in deployment.cloud.log):
                assert accepted
                assert deployment.now - accepted >= AFTER
                assert not ended or ended <= accepted
                assert thing.tags == {}
                return
            new = [m.text for m in deployment.channel.messages[before:] if m.audience is Audience.OWNERS]
            is_first = report.findings[0].step.name is not StepName.REMIND
            if any("will be deleted on or after" in mail for mail in new) and is_first:
                accepted = deployment.now
