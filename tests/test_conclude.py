"""Phase 4: each mail once, what changed since the decision is dropped, and outcomes are told in any case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from fakes.builders import DAY, HOUR
from fakes.failing_ledger import Frail
from fakes.fake_cloud import DENIED
from fakes.fake_deployment import POLICY, Enforcer, of, policy
from reaper.act import act
from reaper.conclude import conclude
from reaper.decide import decide
from reaper.handover import Acted, Decided, Observed
from reaper.ledger.lease import RunLeases
from reaper.model import Memory, Mode, Outcome, Report, Result, StepName
from reaper.notices.message import Audience
from reaper.observe import observe
from reaper.run import OpenRun


@dataclass(frozen=True, kw_only=True)
class Phases:
    """One run up to conclude, which can be run as often as a test likes."""

    opened: OpenRun
    observed: Observed
    decided: Decided
    acted: Sequence[Acted] = ()

    def conclude(self, **given: Any) -> Report:
        """The report of concluding the run."""
        acted = given.get("acted", self.acted)
        return conclude([self.observed], given.get("decided", self.decided), acted, self.opened.conclude)


def phases(there: Enforcer, mode: Mode = Mode.ENFORCE) -> Phases:
    """The next run, observed, decided and acted on."""
    opened = there.open_run(mode)
    observed = observe(opened.run, opened.observe, opened.run.started_at)
    decided = decide([observed], opened.decide)
    acted = []
    for target in decided.leased if mode.acts else ():
        leases = RunLeases(
            ledger=there.ledger, run_id=opened.run.id, clock=opened.conclude.clock, renewed_at=there.now, targets={target}
        )
        acted.append(act(decided.for_target(target), there.open_act(target, leases)))
    return Phases(opened=opened, observed=observed, decided=decided, acted=acted)


@pytest.fixture
def there() -> Enforcer:
    """One idle resource that its owner was not told of yet, in a ledger whose calls can be watched."""
    deployment = Enforcer(ledger=Frail())
    deployment.depot.add("churn", tags={"owner": "jo@example.com"})
    return deployment


def due(there: Enforcer) -> Enforcer:
    there.sweep()
    there.now += 3 * DAY
    there.post.messages.clear()
    return there


def to_owner(there: Enforcer) -> list[str]:
    return [m.subject for m in there.post.messages if m.audience is Audience.OWNERS]


def write(there: Enforcer, **fields: Any) -> None:
    """Somebody else's write to the row."""
    memory = there.memory("churn")
    assert there.ledger.remember(there.depot.id("churn"), replace(memory, **fields), memory.version, there.now)


def writes_during(there: Enforcer, step: Callable[[], object]) -> list[str]:
    """The ids of the rows that it writes."""
    written: list[str] = []
    assert isinstance(there.ledger, Frail)
    there.ledger.blunder = lambda call, id_: written.append(id_) if call == "remembered" else None
    step()
    there.ledger.blunder = lambda call, id_: None
    return written


def test_a_notice_is_sent_and_written_once_by_two_concludes(there: Enforcer):
    run = phases(there)
    first = run.conclude()
    memory, mails = there.memory("churn"), len(there.post.messages)
    assert (of(first, "churn").outcome.result, memory.warned_at, mails) == (Result.DONE, there.now, 2)
    there.now += HOUR
    assert writes_during(there, run.conclude) == []
    assert (there.memory("churn"), len(there.post.messages)) == (memory, mails)


def test_the_mail_about_an_action_is_sent_and_written_once_by_two_concludes(there: Enforcer):
    run = phases(due(there))
    report = run.conclude()
    memory, mails = there.memory("churn"), len(there.post.messages)
    assert (of(report, "churn").outcome.result, memory.last_action_told_at, mails) == (Result.DONE, there.now, 2)
    there.now += HOUR
    assert writes_during(there, run.conclude) == []
    assert (there.memory("churn"), len(there.post.messages)) == (memory, mails)


def test_a_mail_whose_write_failed_is_not_sent_again_by_a_second_conclude(there: Enforcer):
    run = phases(due(there))
    assert isinstance(there.ledger, Frail)

    def fail(call: str, id_: str) -> None:
        if call == "remember":
            raise MemoryError("the process ended")

    there.ledger.blunder = fail
    with pytest.raises(MemoryError):
        run.conclude()
    there.ledger.blunder = lambda call, id_: None
    assert len(to_owner(there)) == 1
    run.conclude()
    assert len(to_owner(there)) == 1


def test_a_summary_of_office_hours_is_sent_once_by_two_concludes(there: Enforcer):
    hours = '\nrules: [{name: office, hours: {on: "mon-fri 07:00-21:00", tz: UTC}}]'
    there.policy = policy(POLICY.replace("grace: 3d", "grace: 1h") + hours)
    there.sweep()
    there.now += 7 * DAY
    there.depot.things["churn"].up = there.now - 5 * DAY
    there.post.messages.clear()
    run = phases(there)
    assert run.decided.decisions[0].needs_summary
    run.conclude()
    assert len(to_owner(there)) == 1
    run.conclude()
    assert len(to_owner(there)) == 1


def test_an_untold_action_of_an_earlier_run_is_told_once_by_two_concludes(there: Enforcer):
    due(there).post.shut = True
    there.sweep()
    there.post.shut = False
    del there.depot.things["churn"]
    run = phases(there)
    assert [action.hint.id for action in run.decided.untold] == [there.depot.id("churn")]
    run.conclude()
    assert len(to_owner(there)) == 1
    run.conclude()
    assert len(to_owner(there)) == 1


@pytest.mark.parametrize(
    ("fields", "because"),
    [
        pytest.param({"snoozed_by": "jo@example.com"}, "it was snoozed since this was decided", id="snoozed"),
        pytest.param({"idle_since": None}, "its ledger record changed since this was decided", id="changed"),
    ],
)
def test_what_changed_between_decide_and_conclude_gets_no_mail(there: Enforcer, fields: dict[str, Any], because: str):
    run = phases(there)
    until = {"snoozed_until": there.now + DAY, "snoozed_at": there.now} if "snoozed_by" in fields else {}
    write(there, **fields, **until)
    before = there.memory("churn")
    finding = of(run.conclude(), "churn")
    assert (finding.step.name, to_owner(there), there.memory("churn")) == (StepName.NONE, [], before)
    assert because in finding.step.because


def test_a_snooze_between_two_mails_drops_the_second(there: Enforcer):
    there.depot.add("other", tags={"owner": "zoe@example.com"})
    run = phases(there)

    def snooze_the_other(message: object) -> None:
        memory = there.memory("other")
        snoozed = replace(memory, snoozed_until=there.now + DAY, snoozed_at=there.now, snoozed_by="zoe")
        if not memory.snoozed_until:
            assert there.ledger.remember(there.depot.id("other"), snoozed, memory.version, there.now)

    there.post.heard = snooze_the_other
    report = run.conclude()
    assert [m.to for m in there.post.messages if m.audience is Audience.OWNERS] == ["jo@example.com"]
    assert of(report, "other").step.name is StepName.NONE


def test_of_a_message_about_two_only_what_is_still_so_is_sent(there: Enforcer):
    there.depot.add("other", tags={"owner": "jo@example.com"})
    run = phases(there)
    assert isinstance(there.ledger, Frail)
    recalls: list[str] = []

    def snooze_before_the_mail(call: str, id_: str) -> None:
        recalls.extend([call] * (call == "recall"))
        if call == "recall" and len(recalls) == 2:
            there.ledger.remember(
                there.depot.id("other"), Memory(snoozed_until=there.now + DAY, snoozed_at=there.now), 0, there.now
            )

    there.ledger.blunder = snooze_before_the_mail
    run.conclude()
    [message] = [m for m in there.post.messages if m.audience is Audience.OWNERS]
    assert message.resource_ids == (there.depot.id("churn"),)
    assert there.memory("other").warned_at is None


def test_an_outcome_is_told_but_no_notice_sent_once_the_lease_is_lost(there: Enforcer):
    due(there).depot.add("new", tags={"owner": "jo@example.com"})
    run = phases(there)
    there.now += HOUR
    assert there.ledger.take_lease(run.decided.leased[0], "another run", there.now, DAY)
    report = run.conclude()
    [message] = [m for m in there.post.messages if m.audience is Audience.OWNERS]
    assert message.resource_ids == (there.depot.id("churn"),)
    assert "another sweep has taken over" in (of(report, "new").outcome.error or "")


@pytest.mark.parametrize(
    ("intent", "result", "begun"),
    [
        pytest.param({"last_action_result": Result.DONE, "last_action_because": "it was stopped"}, Result.DONE, True, id="done"),
        pytest.param({}, Result.FAILED, True, id="not known"),
        pytest.param({"last_action_run": "another"}, Result.REFUSED, False, id="not begun"),
    ],
)
def test_without_an_outcome_the_intent_says_what_became_of_it(there: Enforcer, intent: dict, result: Result, begun: bool):
    run = phases(due(there), Mode.ENFORCE)
    stored = there.memory("churn")
    fields = {"last_action_result": None, "last_action_because": None, "last_action_told_at": None, **intent}
    assert there.ledger.remember(there.depot.id("churn"), replace(stored, **fields), stored.version, there.now)
    outcome: Outcome = of(run.conclude(acted=()), "churn").outcome
    assert (outcome.result, outcome.begun) == (result, begun)


def test_the_leases_are_given_back(there: Enforcer):
    run = phases(there)
    assert not there.ledger.take_lease(run.decided.leased[0], "another run", there.now, DAY)
    run.conclude()
    assert there.ledger.take_lease(run.decided.leased[0], "another run", there.now, DAY)


def test_the_leases_are_given_back_if_concluding_breaks_off(there: Enforcer):
    run = phases(there)

    def end(message: object) -> None:
        raise MemoryError

    there.post.heard = end
    with pytest.raises(MemoryError):
        run.conclude()
    assert there.ledger.take_lease(run.decided.leased[0], "another run", there.now, DAY)


def test_a_summary_older_than_the_last_one_is_not_sent(there: Enforcer):
    def deny(call: str, name: str) -> None:
        if call == "list":
            raise DENIED

    older = phases(there)
    there.depot.blunder = deny
    gap = phases(there).observed.coverage
    there.depot.blunder = lambda call, name: None
    older = replace(older, observed=replace(older.observed, coverage=gap))
    there.now += HOUR
    there.ledger.give_back_lease(older.decided.leased[0], older.opened.run.id)
    phases(there).conclude()
    there.post.messages.clear()
    older.conclude()
    assert [m.subject for m in there.post.messages if m.audience is Audience.ADMINS] == []
