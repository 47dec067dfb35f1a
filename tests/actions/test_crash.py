"""A sweep that ends in the middle of an action, before and after each of its eight steps, and a ledger that fails at each of them.

Whatever the step: the action is told of once with what is known, nothing is done twice, the hint disappears, no notice is lost or wrongly
kept, and `restore` works.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, TARGET
from fakes.fake_cloud import Thing
from fakes.fake_deployment import POLICY, Enforcer, policy
from reaper.actions import restore
from reaper.errors import CloudError, Reason, SettingsError
from reaper.model import AnnouncedAction, Memory, Mode, Result, StepName
from reaper.notices.message import Audience

STEPS = ("manifest", "hint", "intent", "permit", "call", "outcome", "mail", "history", "told", "unhint")
"""The eight steps of an action, with the two that have two halves (a mail and its entry in the history; `told` and the hint) in both."""
BEFORE_INTENT = {("before", "manifest"), ("after", "manifest"), ("before", "hint"), ("after", "hint"), ("before", "intent")}
NOT_MADE = BEFORE_INTENT | {("after", "intent"), ("before", "permit"), ("after", "permit"), ("before", "call")}
NOT_KNOWN = {
    ("after", "intent"),
    ("before", "permit"),
    ("after", "permit"),
    ("before", "call"),
    ("after", "call"),
    ("before", "outcome"),
}
TWICE = {("after", "mail"), ("before", "history")}
"""A crash between acceptance and its write repeats that one message."""
EVERY = [(when, step) for step in STEPS for when in ("before", "after")]
WAITS = [timedelta(minutes=16), HOUR, 4 * HOUR, DAY]


class Killed(BaseException):
    """The process ends here."""


class Tripwire:
    """Calls `snap` when the action comes to a step, before it or after it took effect."""

    def __init__(self, there: Enforcer, snap: Callable[[str, str], None]) -> None:
        self.there, self.snap = there, snap
        self.meant = False
        self._wire("remember", there.ledger, self._written)
        self._wire("add_unfinished", there.ledger, lambda *given: "hint")
        self._wire("remove_unfinished", there.ledger, lambda *given: "unhint")
        self._wire("add_history", there.ledger, lambda entry: "history" if entry.what == "told" else "")
        self._wire("recall", there.ledger, lambda *given: "permit" if self.meant and not there.depot.log else "")
        self._wire("write", there.store, lambda *given: "manifest")
        self._wire("send", there.post, lambda message: "mail" if message.audience is Audience.OWNERS else "")
        there.depot.blunder = self._called

    def _wire(self, name: str, of: Any, step: Callable[..., str]) -> None:
        real = getattr(of, name)

        def wired(*given: Any, **named: Any) -> Any:
            which = step(*given)
            self._at("before", which)
            answer = real(*given, **named)
            self.meant |= which == "intent"
            self._at("after", which)
            return answer

        setattr(of, name, wired)

    def _written(self, id_: str, memory: Memory, *given: Any) -> str:
        if memory.last_action_told_at:
            return "told"
        if memory.last_action_result:
            return "outcome"
        return "intent" if memory.last_action_run else ""

    def _called(self, call: str, name: str) -> None:
        self._at({"carry": "before", "carried": "after"}.get(call, ""), "call")

    def _at(self, when: str, step: str) -> None:
        if when and step:
            self.snap(when, step)


def due(action: str = "stop", **given: Any) -> Enforcer:
    """One thing whose owner was told three days ago, so that the next sweep acts on it."""
    there = Enforcer()
    there.policy = policy(POLICY.replace("action: stop", f"action: {action}").replace("idle_after: 24h", "idle_after: 4h"))
    there.depot.add("churn", tags={"team": "risk"}, **given)
    there.sweep()
    there.now += 3 * DAY
    there.post.messages.clear()
    return there


def broken(there: Enforcer, when: str, step: str, failure: BaseException) -> None:
    """The next sweep, in which that happens once at that step."""
    armed = [failure]

    def snap(now: str, at: str) -> None:
        if armed and (now, at) == (when, step):
            raise armed.pop()

    Tripwire(there, snap)
    with suppress(Killed):
        there.sweep()
    assert not armed, f"it never came to {when} {step}"


def _about(text: str) -> bool:
    return any(said in text for said in ("was stopped.", "was deleted.", "Already done:", "isn't known"))


def about(there: Enforcer) -> list[str]:
    """The mails to owners that say what became of an action."""
    return [m.text for m in there.post.messages if m.audience is Audience.OWNERS and _about(m.text)]


def later(there: Enforcer) -> None:
    """The next sweeps, as long as no new notice could be due."""
    for wait in WAITS:
        there.now += wait
        there.sweep()


@pytest.mark.parametrize("action", ["stop", "delete"])
@pytest.mark.parametrize(("when", "step"), EVERY)
def test_a_killed_action_is_told_once_and_never_made_twice(when: str, step: str, action: str):
    there = due(action)
    broken(there, when, step, Killed())
    later(there)
    at, done = (when, step), "was stopped" if action == "stop" else "was deleted"
    told = about(there)
    assert len(told) == (2 if at in TWICE else 1), told
    assert all(("isn't known" if at in NOT_KNOWN else done) in text for text in told)
    assert len(there.depot.log) == (0 if at in NOT_MADE - BEFORE_INTENT else 1)
    assert there.ledger.unfinished(TARGET, there.now) == []
    memory = there.memory("churn")
    assert (memory.last_action_result, bool(memory.last_action_told_at)) == (
        Result.FAILED if at in NOT_KNOWN else Result.DONE,
        True,
    )
    told_anew = memory.warned_at is not None and memory.last_action_at is not None and memory.warned_at > memory.last_action_at
    assert told_anew is (at in NOT_MADE - BEFORE_INTENT), "its notice is used up, and what still runs is told of anew"


@pytest.mark.parametrize("action", ["stop", "delete"])
@pytest.mark.parametrize("wait", [timedelta(), timedelta(minutes=16)])
@pytest.mark.parametrize(("when", "step"), EVERY)
def test_restore_works_wherever_the_action_broke_off(when: str, step: str, wait: timedelta, action: str):
    there = due(action)
    broken(there, when, step, Killed())
    if wait:
        there.now += wait
        there.sweep()
    if (when, step) in BEFORE_INTENT and not wait:
        with pytest.raises(SettingsError, match="knows of no act on it"):
            restore.restore_resource(there.depot.id("churn"), there.bench())
        return
    assert restore.restore_resource(there.depot.id("churn"), there.bench()).error is None
    thing = there.depot.things["churn"]
    assert (thing.up is not None, thing.tags, thing.variants) == (True, {"team": "risk"}, 1)
    there.post.messages.clear()
    later(there)
    assert about(there) == []
    assert len(there.depot.log) <= 1, "what was brought back needs a new notice"


@pytest.mark.parametrize(("when", "step"), EVERY)
def test_the_notice_of_the_rest_is_neither_lost_nor_given_before_its_mail(when: str, step: str):
    there = due(variants=2)
    broken(there, when, step, Killed())
    there.now += timedelta(minutes=16)
    there.sweep()
    at, memory = (when, step), there.memory("churn")
    if at in NOT_KNOWN:
        assert memory.warned_at is None, "what may have been made is no part, and promises no rest"
        return
    assert memory.announced_action is AnnouncedAction.STOP
    assert memory.warned_at is not None
    assert memory.act_not_before == memory.warned_at + 3 * DAY
    there.now = memory.act_not_before - timedelta(minutes=1)
    there.sweep()
    assert len(there.depot.log) == 1
    there.now += timedelta(minutes=1)
    there.sweep()
    assert [move for move, *_ in there.depot.log] == [StepName.STOP, StepName.STOP]
    assert there.depot.things["churn"].up is None


TROUBLES = [
    pytest.param(Reason.DENIED, "before", id="denied"),
    pytest.param(Reason.UNREACHABLE, "before", id="unreachable"),
    pytest.param(Reason.UNREACHABLE, "after", id="lost reply"),
]
LEDGER = ("manifest", "hint", "intent", "permit", "outcome", "history", "told", "unhint")


@pytest.mark.parametrize("action", ["stop", "delete"])
@pytest.mark.parametrize("step", LEDGER)
@pytest.mark.parametrize(("trouble", "when"), TROUBLES)
def test_a_ledger_that_fails_at_a_step_makes_nothing_untold_or_done_twice(trouble: Reason, when: str, step: str, action: str):
    there = due(action)
    broken(there, when, step, CloudError(trouble, "dynamodb:UpdateItem", "no", missing="x" if trouble is Reason.DENIED else None))
    later(there)
    assert len(there.depot.log) == 1, "what was not made comes with the next sweep, under the same notice"
    [told] = about(there)
    assert ("was stopped" if action == "stop" else "was deleted") in told
    memory = there.memory("churn")
    assert (memory.last_action_result, memory.warned_at, bool(memory.last_action_told_at)) == (Result.DONE, None, True)
    assert there.ledger.unfinished(TARGET, there.now) == []
    assert restore.restore_resource(there.depot.id("churn"), there.bench()).error is None


def test_what_office_hours_did_is_told_by_mail_once_when_killed_before_it_was_known_as_told():
    there = Enforcer()
    hours = '\nrules: [{name: office, hours: {on: "mon-fri 07:00-21:00", tz: UTC}}]'
    there.policy = policy(POLICY.replace("grace: 3d", "grace: 1h") + hours)
    there.depot.add("churn")
    there.sweep()
    there.now += 2 * HOUR
    broken(there, "after", "outcome", Killed())
    there.post.messages.clear()
    later(there)
    later(there)
    assert len(about(there)) == 1
    assert there.ledger.unfinished(TARGET, there.now) == []


def test_an_old_owners_mail_about_an_action_is_no_notice_for_the_new_owner():
    there = due()
    broken(there, "after", "call", Killed())
    thing: Thing = there.depot.things["churn"]
    thing.up, thing.changed, thing.tags = there.now, there.now, {"owner": "sam@example.com"}
    there.now += 5 * HOUR

    real = there.post.send

    def send(message: Any) -> str:
        if message.to == "sam@example.com":
            raise CloudError(Reason.REFUSED, "post:Send", "no such mailbox")
        return real(message)

    there.post.send = send  # type: ignore[method-assign]
    report = there.sweep()
    [found] = report.findings
    assert (found.step.name, found.outcome.result) == (StepName.WARN, Result.FAILED)
    assert there.memory("churn").warned_at is None
    assert there.memory("churn").last_action_told_at is not None


def test_an_action_whose_close_lost_the_race_against_a_snooze_is_told_all_the_same():
    there = due("delete")
    broken(there, "after", "call", Killed())
    id_, real, raced = there.depot.id("churn"), there.ledger.remember, []

    def remember(*given: Any, **named: Any) -> bool:
        if not raced:
            raced.append(True)
            memory = there.memory("churn")
            real(id_, replace(memory, snoozed_until=there.now + DAY, snoozed_at=there.now), memory.version, there.now)
        return bool(real(*given, **named))

    there.ledger.remember = remember  # type: ignore[method-assign]
    later(there)
    assert len(about(there)) == 1
    assert there.memory("churn").last_action_result is Result.FAILED


def test_a_lowered_run_tells_of_a_part_and_announces_nothing_of_the_rest():
    there = due(variants=2)
    broken(there, "before", "mail", Killed())
    there.now += HOUR
    there.sweep(Mode.NOTIFY)
    [told] = about(there)
    assert ("1 of 2 variants" in told, "The rest" in told) == (True, False)
    assert there.memory("churn").warned_at is None
