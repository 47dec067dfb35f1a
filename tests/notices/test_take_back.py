"""A notice that was wrong: a look proves use in an hour that it called idle. It counts no more, and its addressee gets one message."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.builders import DAY, HOUR, NOW
from fakes.failing_ledger import FailingLedger
from fakes.fake_deployment import FakeDeployment, finding_of
from fakes.judged_cases import case
from fakes.planned import after_judging, without_wrong_notice
from fakes.records import a_record
from reaper.errors import CloudError, Reason
from reaper.handover import Decided, Observed, dump, load_decided, load_observed
from reaper.model import Mode, State, StepName
from reaper.planning import dates
from reaper.record import NO_SNOOZES, Claim, Correction


def wrongly_warned(owner: str = "jo@example.com") -> FakeDeployment:
    """Its owner was told that it is idle; the use of three hours before arrives a little later."""
    deployment = FakeDeployment(ledger=FailingLedger())
    deployment.cloud.add("churn", tags={"owner": owner})
    deployment.sweep()
    deployment.cloud.things["churn"].uses.append(deployment.now - 3 * HOUR)
    deployment.now += HOUR
    return deployment


def corrections(deployment: FakeDeployment) -> list[tuple[str, str]]:
    return [(m.to, m.subject) for m in deployment.channel.messages if m.subject.startswith("Correction")]


SUBJECT = "Correction: churn was used on Sat 21 Nov 2026, 07:00 UTC; that notice no longer counts"


def test_a_wrong_notice_is_void_and_its_addressee_is_told_once():
    deployment = wrongly_warned()
    assert deployment.record("churn").notice.warned_at == NOW
    for _ in range(3):
        deployment.sweep()
        deployment.now += HOUR
    record = deployment.record("churn")
    assert corrections(deployment) == [("jo@example.com", SUBJECT)]
    assert (record.notice, record.correction) == (None, None)
    [text] = [m.text for m in deployment.channel.messages if m.subject == SUBJECT]
    assert "used on Sat 21 Nov 2026, 07:00 UTC. The notice of Sat 21 Nov 2026, 10:17 UTC no longer counts." in text


def test_a_wrong_notice_is_taken_back_although_it_is_idle_by_now():
    deployment = wrongly_warned()
    deployment.now += 2 * DAY
    finding = finding_of(deployment.sweep(), "churn")
    assert (finding.case.verdict.state, finding.step.name) == (State.IDLE, StepName.WARN)
    assert corrections(deployment) == [("jo@example.com", SUBJECT)]
    assert deployment.record("churn").notice.warned_at == deployment.now, "the date counts from the new notice"
    deployment.now += DAY
    assert finding_of(deployment.sweep(), "churn").step.name is StepName.NONE
    assert (corrections(deployment), deployment.cloud.log) == ([("jo@example.com", SUBJECT)], [])


@pytest.mark.parametrize(
    "used_at",
    [
        pytest.param(NOW + 20 * timedelta(minutes=1), id="in the hour of the notice"),
        pytest.param(NOW + HOUR, id="after the notice"),
        pytest.param(NOW - 61 * DAY, id="before the window"),
    ],
)
def test_other_use_does_not_make_a_notice_wrong(used_at):
    deployment = FakeDeployment()
    deployment.cloud.add("churn", uses=[NOW - 2 * DAY])
    deployment.sweep()
    deployment.cloud.things["churn"].uses.append(used_at)
    for _ in range(4):
        deployment.now += 2 * HOUR
        deployment.sweep()
    assert corrections(deployment) == []


def test_use_that_the_notice_did_not_deny_is_no_error():
    deployment = FakeDeployment()
    deployment.cloud.add("churn", uses=[NOW - 2 * DAY])
    deployment.sweep()
    deployment.cloud.things["churn"].uses.append(NOW - 2 * DAY - HOUR)
    deployment.now += HOUR
    deployment.sweep()
    assert (corrections(deployment), deployment.record("churn").notice.warned_at) == ([], NOW)


def test_an_incomplete_look_proves_no_notice_wrong():
    deployment = wrongly_warned()
    deployment.cloud.things["churn"].incomplete_replies = True
    deployment.sweep()
    assert corrections(deployment) == []
    deployment.cloud.things["churn"].incomplete_replies = False
    deployment.sweep()
    assert len(corrections(deployment)) == 1


def test_use_that_arrives_after_the_notice_has_lapsed_is_told_too():
    deployment = FakeDeployment()
    deployment.cloud.add("churn", tags={"owner": "jo@example.com"})
    deployment.sweep()
    deployment.cloud.things["churn"].uses.append(NOW + HOUR)
    deployment.now += 2 * HOUR
    deployment.sweep()
    assert (deployment.record("churn").notice, corrections(deployment)) == (None, [])
    deployment.cloud.things["churn"].uses.append(NOW - 3 * HOUR)
    deployment.now += HOUR
    deployment.sweep()
    assert corrections(deployment) == [("jo@example.com", SUBJECT)]


def test_a_correction_waits_while_the_row_is_dated_ahead():
    deployment = wrongly_warned()
    deployment.channel.is_closed = True
    deployment.sweep()
    deployment.channel.is_closed = False
    deployment.now -= HOUR / 2
    deployment.sweep()
    assert corrections(deployment) == []
    deployment.now += HOUR / 2
    deployment.sweep()
    assert corrections(deployment) == [("jo@example.com", SUBJECT)]


def test_use_after_a_notice_by_a_clock_far_ahead_makes_nothing_wrong():
    deployment = FakeDeployment()
    deployment.cloud.add("churn", tags={"owner": "jo@example.com"})
    deployment.now = NOW + 8 * DAY
    deployment.sweep()
    deployment.cloud.things["churn"].uses.append(NOW + HOUR)
    deployment.now = NOW + 3 * HOUR
    deployment.sweep()
    deployment.now = NOW + 9 * DAY
    deployment.sweep()
    assert corrections(deployment) == []


def test_what_was_stopped_meanwhile_gets_no_correction():
    """Its owner knows of the stop; "that notice no longer counts" would not be true."""
    deployment = FakeDeployment()
    deployment.cloud.add("churn", tags={"owner": "jo@example.com"})
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.sweep()
    assert len(deployment.cloud.log) == 1
    deployment.cloud.things["churn"].uses.append(NOW - 3 * HOUR)
    deployment.now += HOUR
    deployment.sweep()
    assert corrections(deployment) == []


def test_a_dead_channel_loses_no_correction():
    deployment = wrongly_warned()
    deployment.channel.is_closed = True
    deployment.sweep()
    assert deployment.record("churn").notice is None, "void at once"
    deployment.now += HOUR
    deployment.sweep()
    deployment.channel.is_closed = False
    deployment.sweep()
    deployment.sweep()
    assert corrections(deployment) == [("jo@example.com", SUBJECT)]


def test_a_crash_before_the_message_loses_no_correction():
    deployment = wrongly_warned()

    def crash(call: str, name: str) -> None:
        raise KeyboardInterrupt

    deployment.channel.fail_on = crash
    with pytest.raises(KeyboardInterrupt):
        deployment.sweep()
    deployment.channel.fail_on = lambda call, name: None
    deployment.now += 2 * HOUR
    deployment.sweep()
    assert corrections(deployment) == [("jo@example.com", SUBJECT)]


def test_a_correction_that_cannot_be_recorded_voids_nothing():
    deployment = wrongly_warned()

    def denied(call: str, name: str) -> None:
        if call == "remember":
            raise CloudError(Reason.DENIED, "dynamodb:UpdateItem", "not allowed")

    deployment.ledger.fail_on = denied  # type: ignore[attr-defined]
    deployment.sweep()
    assert corrections(deployment) == []
    deployment.ledger.fail_on = lambda call, name: None  # type: ignore[attr-defined]
    deployment.sweep()
    assert len(corrections(deployment)) == 1


def test_a_correction_goes_to_the_notices_addressee_not_to_a_new_owner():
    deployment = wrongly_warned()
    deployment.cloud.things["churn"].tags = {"owner": "ann@example.com"}
    deployment.sweep()
    assert corrections(deployment) == [("jo@example.com", SUBJECT)]


def test_without_an_owner_the_fallback_gets_the_correction():
    deployment = wrongly_warned(owner="jo@elsewhere.org")
    deployment.sweep()
    assert [to for to, _ in corrections(deployment)] == ["ml-admins@example.com"]


def test_an_audit_takes_nothing_back():
    deployment = wrongly_warned()
    deployment.sweep(Mode.AUDIT)
    assert (corrections(deployment), deployment.record("churn").notice.warned_at) == ([], NOW)


def test_a_due_action_is_refused_if_the_re_check_proves_the_notice_wrong():
    deployment = FakeDeployment()
    deployment.cloud.add("churn")
    deployment.sweep()
    deployment.now += 3 * DAY

    def late_metrics(call: str, name: str) -> None:
        if call == "look":
            deployment.cloud.things["churn"].uses = [NOW - 3 * HOUR]

    deployment.cloud.before_call = late_metrics
    finding = finding_of(deployment.sweep(), "churn")
    assert (finding.outcome.result, deployment.cloud.log) == ("refused", [])


def test_busy_hours_survive_the_handover():
    seen: list[tuple[int, int]] = []

    def hand_over(value):
        if isinstance(value, Observed):
            again = load_observed(dump(value))
            assert again == value
            seen.extend((c.busy_hours.bit_length(), c.busy_hours.bit_count()) for c in again.cases)
            return again
        return load_decided(dump(value)) if isinstance(value, Decided) else value

    deployment = wrongly_warned()
    deployment.cloud.things["churn"].uses.append(NOW - 13 * DAY)
    deployment.hand_over = hand_over
    deployment.now += 2 * DAY
    deployment.sweep()
    assert seen[0][0] > 64
    assert len(corrections(deployment)) == 1


hours = st.integers(min_value=0, max_value=200)


@given(bits=st.integers(min_value=0, max_value=2**200 - 1), since=hours, length=hours, minutes=st.integers(0, 59))
def test_exactly_use_within_the_claimed_time_proves_it_wrong(bits: int, since: int, length: int, minutes: int):
    start = NOW - 200 * HOUR
    claimed = min(start + since * HOUR + timedelta(minutes=minutes), NOW)
    until = min(claimed + length * HOUR, NOW)
    record = a_record(warned_at=until, claim=Claim(since=claimed, until=until, to="jo@example.com"))
    busy = replace(case(State.ACTIVE), busy_from=start, busy_hours=bits)
    busy = replace(busy, resource=replace(busy.resource, created=start))
    wrong = [start + i * HOUR for i in range(200) if bits >> i & 1]
    wrong = [hour for hour in wrong if claimed <= hour and hour + HOUR <= until]
    assert dates.wrong_hour(busy, record.claim) == (wrong[-1] if wrong else None)
    judged = after_judging(busy, record, NO_SNOOZES, NOW + HOUR)
    assert judged.correction == (Correction(hour=wrong[-1], at=until, to="jo@example.com") if wrong else None)
    assert without_wrong_notice(busy, judged, NOW + HOUR) == judged, "once"
