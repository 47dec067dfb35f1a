"""A sweep that ends in the middle of an action, before and after each of its steps, and a ledger that fails at each of them.

Whatever the step: the action is reported once with what is known, nothing is done twice, no target stays open, no notice is lost or wrongly
kept, and `restore` works.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR
from fakes.fake_cloud import FakeResource
from fakes.fake_deployment import POLICY, FakeDeployment, policy
from fakes.records import open_targets
from reaper.acting import restore
from reaper.errors import CloudError, Reason, SettingsError
from reaper.model import AnnouncedAction, Mode, Result, StepName
from reaper.notices.message import Audience
from reaper.record import Record, Snooze

STEPS = ("target", "manifest", "intent", "permit", "call", "outcome", "mail", "told")
"""The steps of an action, from its target among the open ones to the record that its owner knows."""
BEFORE_INTENT = {("before", "target"), ("after", "target"), ("before", "manifest"), ("after", "manifest"), ("before", "intent")}
NOT_MADE = BEFORE_INTENT | {("after", "intent"), ("before", "permit"), ("after", "permit"), ("before", "call")}
NOT_KNOWN = {
    ("after", "intent"),
    ("before", "permit"),
    ("after", "permit"),
    ("before", "call"),
    ("after", "call"),
    ("before", "outcome"),
}
TWICE = {("after", "mail"), ("before", "told")}
"""A crash between acceptance and its write repeats that one message."""
EVERY = [(when, step) for step in STEPS for when in ("before", "after")]
WAITS = [timedelta(minutes=16), HOUR, 4 * HOUR, DAY]


class Killed(BaseException):
    """The process ends here."""


class Tripwire:
    """Calls `snap` when the action comes to a step, before it or after it took effect."""

    def __init__(self, deployment: FakeDeployment, snap: Callable[[str, str], None]) -> None:
        self.deployment, self.snap = deployment, snap
        self.meant = False
        self._wire("write_record", deployment.ledger, self._written)
        self._wire("write_row", deployment.ledger, lambda name, *args: "target" if name == "open targets" else "")
        self._wire("recall", deployment.ledger, lambda *args: "permit" if self.meant and not deployment.cloud.log else "")
        self._wire("write", deployment.store, lambda *args: "manifest")
        self._wire("send", deployment.channel, lambda message: "mail" if message.audience is Audience.OWNERS else "")
        deployment.cloud.fail_on = self._called

    def _wire(self, name: str, of: Any, step: Callable[..., str]) -> None:
        real = getattr(of, name)

        def wired(*args: Any, **named: Any) -> Any:
            which = step(*args)
            self._at("before", which)
            answer = real(*args, **named)
            self.meant |= which == "intent"
            self._at("after", which)
            return answer

        setattr(of, name, wired)

    def _written(self, id_: str, record: Record, *args: Any) -> str:
        if record.act is None:
            return ""
        return "told" if record.act.notified_at else "outcome" if record.act.result else "intent"

    def _called(self, call: str, name: str) -> None:
        self._at({"carry": "before", "carried": "after"}.get(call, ""), "call")

    def _at(self, when: str, step: str) -> None:
        if when and step:
            self.snap(when, step)


def due(action: str = "stop", **fields: Any) -> FakeDeployment:
    """One resource whose owner was notified three days ago, so that the next sweep acts on it."""
    deployment = FakeDeployment()
    deployment.policy = policy(POLICY.replace("action: stop", f"action: {action}").replace("idle_after: 24h", "idle_after: 4h"))
    deployment.cloud.add("churn", tags={"team": "risk"}, **fields)
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.channel.messages.clear()
    return deployment


def broken(deployment: FakeDeployment, when: str, step: str, failure: BaseException) -> None:
    """The next sweep, in which that happens once at that step."""
    armed = [failure]

    def snap(now: str, at: str) -> None:
        if armed and (now, at) == (when, step):
            raise armed.pop()

    Tripwire(deployment, snap)
    with suppress(Killed):
        deployment.sweep()
    assert not armed, f"it never came to {when} {step}"


def _about(text: str) -> bool:
    return any(sentence in text for sentence in ("was stopped.", "was deleted.", "Already done:", "isn't known"))


def about(deployment: FakeDeployment) -> list[str]:
    """The mails to owners that say what became of an action."""
    return [m.text for m in deployment.channel.messages if m.audience is Audience.OWNERS and _about(m.text)]


def later(deployment: FakeDeployment) -> None:
    """The next sweeps, as long as no new notice could be due."""
    for wait in WAITS:
        deployment.now += wait
        deployment.sweep()


@pytest.mark.parametrize("action", ["stop", "delete"])
@pytest.mark.parametrize(("when", "step"), EVERY)
def test_a_killed_action_is_reported_once_and_never_repeated(when: str, step: str, action: str):
    deployment = due(action)
    broken(deployment, when, step, Killed())
    later(deployment)
    at, sentence = (when, step), "was stopped" if action == "stop" else "was deleted"
    texts = about(deployment)
    assert len(texts) == (2 if at in TWICE else 1), texts
    assert all(("isn't known" if at in NOT_KNOWN else sentence) in text for text in texts)
    assert len(deployment.cloud.log) == (0 if at in NOT_MADE - BEFORE_INTENT else 1)
    assert open_targets(deployment.ledger) == []
    record = deployment.record("churn")
    assert (record.act.result, bool(record.act.notified_at)) == (
        Result.FAILED if at in NOT_KNOWN else Result.DONE,
        True,
    )
    notified_anew = record.notice is not None and record.notice.warned_at > record.act.at
    assert notified_anew is (at in NOT_MADE - BEFORE_INTENT), "its notice is used up, and what still runs is told of anew"


@pytest.mark.parametrize("action", ["stop", "delete"])
@pytest.mark.parametrize("wait", [timedelta(), timedelta(minutes=16)])
@pytest.mark.parametrize(("when", "step"), EVERY)
def test_restore_works_wherever_the_action_broke_off(when: str, step: str, wait: timedelta, action: str):
    deployment = due(action)
    broken(deployment, when, step, Killed())
    if wait:
        deployment.now += wait
        deployment.sweep()
    if (when, step) in BEFORE_INTENT and not wait:
        with pytest.raises(SettingsError, match="has no action on this resource"):
            restore.restore_resource(deployment.cloud.id("churn"), deployment.restore_context())
        return
    assert restore.restore_resource(deployment.cloud.id("churn"), deployment.restore_context()).error is None
    thing = deployment.cloud.things["churn"]
    assert (thing.running_since is not None, thing.tags, thing.variants) == (True, {"team": "risk"}, 1)
    deployment.channel.messages.clear()
    later(deployment)
    assert about(deployment) == []
    assert len(deployment.cloud.log) <= 1, "what was brought back needs a new notice"


@pytest.mark.parametrize(("when", "step"), EVERY)
def test_the_notice_for_the_rest_counts_only_with_its_mail(when: str, step: str):
    deployment = due(variants=2)
    broken(deployment, when, step, Killed())
    deployment.now += timedelta(minutes=16)
    deployment.sweep()
    at, record = (when, step), deployment.record("churn")
    if at in NOT_KNOWN:
        assert record.notice is None, "what may have been made is no part, and promises no rest"
        return
    assert record.notice.action is AnnouncedAction.STOP
    assert record.notice.warned_at is not None
    assert record.notice.not_before == record.notice.warned_at + 3 * DAY
    deployment.now = record.notice.not_before - timedelta(minutes=1)
    deployment.sweep()
    assert len(deployment.cloud.log) == 1
    deployment.now += timedelta(minutes=1)
    deployment.sweep()
    assert [move for move, *_ in deployment.cloud.log] == [StepName.STOP, StepName.STOP]
    assert deployment.cloud.things["churn"].running_since is None


TROUBLES = [
    pytest.param(Reason.DENIED, "before", id="denied"),
    pytest.param(Reason.UNREACHABLE, "before", id="unreachable"),
    pytest.param(Reason.UNREACHABLE, "after", id="lost reply"),
]
LEDGER = ("target", "manifest", "intent", "permit", "outcome", "told")


@pytest.mark.parametrize("action", ["stop", "delete"])
@pytest.mark.parametrize("step", LEDGER)
@pytest.mark.parametrize(("trouble", "when"), TROUBLES)
def test_a_ledger_failure_leaves_nothing_unreported_or_done_twice(trouble: Reason, when: str, step: str, action: str):
    deployment = due(action)
    broken(
        deployment,
        when,
        step,
        CloudError(trouble, "dynamodb:UpdateItem", "no", missing="x" if trouble is Reason.DENIED else None),
    )
    later(deployment)
    assert len(deployment.cloud.log) == 1, "what was not made comes with the next sweep, under the same notice"
    [text] = about(deployment)
    assert ("was stopped" if action == "stop" else "was deleted") in text
    record = deployment.record("churn")
    assert (record.act.result, record.notice, bool(record.act.notified_at)) == (Result.DONE, None, True)
    assert open_targets(deployment.ledger) == []
    assert restore.restore_resource(deployment.cloud.id("churn"), deployment.restore_context()).error is None


def test_a_run_killed_after_the_hours_mail_does_not_repeat_it():
    deployment = FakeDeployment()
    hours = '\nrules: [{name: office, hours: {on: "mon-fri 07:00-21:00", tz: UTC}}]'
    deployment.policy = policy(POLICY.replace("grace: 3d", "grace: 1h") + hours)
    deployment.cloud.add("churn")
    deployment.sweep()
    deployment.now += 2 * HOUR
    broken(deployment, "after", "outcome", Killed())
    deployment.channel.messages.clear()
    later(deployment)
    later(deployment)
    assert len(about(deployment)) == 1
    assert open_targets(deployment.ledger) == []


def test_an_old_owners_mail_is_no_notice_for_the_new_owner():
    deployment = due()
    broken(deployment, "after", "call", Killed())
    thing: FakeResource = deployment.cloud.things["churn"]
    thing.running_since, thing.changed, thing.tags = deployment.now, deployment.now, {"owner": "sam@example.com"}
    deployment.now += 5 * HOUR

    real = deployment.channel.send

    def send(message: Any) -> str:
        if message.to == "sam@example.com":
            raise CloudError(Reason.REFUSED, "post:Send", "no such mailbox")
        return real(message)

    deployment.channel.send = send  # type: ignore[method-assign]
    [finding] = deployment.sweep().findings
    assert finding.step.name is StepName.NONE, "the mail about what was done comes first"
    assert deployment.record("churn").act.notified_at is not None
    [finding] = deployment.sweep_after(hours=1).findings
    assert (finding.step.name, finding.outcome.result) == (StepName.WARN, Result.FAILED)
    assert deployment.record("churn").notice is None


def test_an_action_is_reported_if_a_snooze_beats_its_close():
    deployment = due("delete")
    broken(deployment, "after", "call", Killed())
    id_, real, raced = deployment.cloud.id("churn"), deployment.ledger.write_record, []

    def write_record(*args: Any, **named: Any) -> bool:
        if not raced:
            raced.append(True)
            record = deployment.record("churn")
            deployment.ledger.write_snooze(id_, Snooze(until=deployment.now + DAY, at=deployment.now), 0, deployment.now)
            real(id_, replace(record, seen_idle_at=deployment.now), record.version, deployment.now)
        return bool(real(*args, **named))

    deployment.ledger.write_record = write_record  # type: ignore[method-assign]
    later(deployment)
    assert len(about(deployment)) == 1
    assert deployment.record("churn").act.result is Result.FAILED


def test_a_run_in_a_lower_mode_reports_a_part_without_announcing_the_rest():
    deployment = due(variants=2)
    broken(deployment, "before", "mail", Killed())
    deployment.now += HOUR
    deployment.sweep(Mode.NOTIFY)
    [text] = about(deployment)
    assert ("1 of 2 variants" in text, "The rest" in text) == (True, False)
    assert deployment.record("churn").notice is None
