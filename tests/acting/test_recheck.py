"""Everything that must prevent an action when its resource is read once more. Each of these fails if its rule is removed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fakes.builders import DAY
from fakes.fake_deployment import FakeDeployment, due, finding_of, only
from fakes.records import an_act
from reaper.errors import CloudError, Reason
from reaper.finding import Outcome
from reaper.kind import Kind
from reaper.model import Resource, Result, StepName
from reaper.observation import Observation, Window
from reaper.record import SideChange, Snooze, before_action


@pytest.fixture
def deployment() -> FakeDeployment:
    """One thing that has been idle for two months."""
    new_deployment = FakeDeployment()
    new_deployment.cloud.add("churn")
    return new_deployment


def used(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].uses.append(deployment.now)


def tagged(deployment: FakeDeployment, **tags: str) -> None:
    deployment.cloud.things["churn"].tags = {key.replace("_", ":", 1).replace("_", "-"): value for key, value in tags.items()}


def snooze_by_owner(deployment: FakeDeployment) -> None:
    snooze = Snooze(until=deployment.now + DAY, by="lee@example.com")
    assert deployment.ledger.write_snooze(deployment.cloud.id("churn"), snooze, 0, deployment.now)


def changed(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].changed = deployment.now


def updating(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].status = "Updating"


def blocked_because(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].blocked_because = "its last alarm is being looked into"


def unreadable(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].tags = None


@pytest.mark.parametrize(
    ("call", "what", "message"),
    [
        pytest.param("look", used, "it is active now", id="used between judging and acting"),
        pytest.param("look", lambda t: tagged(t, reaper_keep="true"), "kept by tag reaper:keep", id="a keep tag was put on"),
        pytest.param(
            "look", lambda t: tagged(t, reaper_kep="true"), "did you mean reaper:keep", id="a misspelt keep tag was put on"
        ),
        pytest.param(
            "look", lambda t: tagged(t, reaper_action="notify"), "no longer allow it to be stopped", id="a tag lowered the action"
        ),
        pytest.param("look", unreadable, "its tags can't be read", id="its tags cannot be read any more"),
        pytest.param("look", changed, "it is young now", id="it was changed a moment ago"),
        pytest.param("look", lambda t: tagged(t, reaper_owner="new@example.com"), "idle for more than", id="it was handed over"),
        pytest.param("look", blocked_because, "its last alarm is being looked into", id="nothing can be done to it now"),
        pytest.param("look", updating, "its status is Updating", id="it is being updated"),
        pytest.param("look", snooze_by_owner, "by lee@example.com", id="kept by its owner before the ledger was read"),
        pytest.param("observe", snooze_by_owner, "by lee@example.com", id="kept by its owner while its metrics were read"),
        pytest.param("record", snooze_by_owner, "it may be snoozed", id="kept by its owner after the ledger was read"),
    ],
)
def test_a_change_since_the_notice_prevents_the_stop(deployment: FakeDeployment, call: str, what: Any, message: str):
    due(deployment)
    happened: list[str] = []

    def before_call(now: str, name: str) -> None:
        # The first look at its metrics is the sweep's own.
        happened.append(now)
        if now == call and (call != "observe" or happened.count("observe") == 2) and not happened.count("done"):
            happened.append("done")
            what(deployment)

    deployment.cloud.before_call = before_call
    finding = only(deployment.sweep())
    assert (finding.step.name, finding.outcome.result) == (StepName.STOP, Result.REFUSED)
    assert message in (finding.outcome.because or "")
    assert deployment.cloud.log == []


@pytest.mark.parametrize(
    "other", [{"name": "churn-2"}, {"id": "arn:aws:sagemaker:us-east-1:123456789012:endpoint/other"}], ids=["name", "id"]
)
def test_another_resource_under_its_name_is_left_alone(deployment: FakeDeployment, other: dict[str, str]):
    due(deployment)
    acts = deployment.acts
    deployment.acts = replace(acts, read_now=lambda session, one: replace(acts.read_now(session, one), **other))
    finding = only(deployment.sweep())
    assert (finding.outcome.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert "was found under its name" in (finding.outcome.because or "")


class DoubtfulDeployment(FakeDeployment):
    """Whatever is observed right before an action is whole, but another reply about it was denied."""

    @property
    def kind(self) -> Kind[Any]:
        """The kind of everything in its cloud."""
        usual = super().kind

        def observe(session: Any, resources: Sequence[Resource], window: Window) -> Iterable[Observation]:
            if window.reads_in_full:
                session.errors.append(CloudError(Reason.DENIED, "sagemaker:ListAlarms", "denied"))
            return usual.observe(session, resources, window)

        return replace(usual, observe=observe)


def test_one_denied_reply_of_the_look_refuses_the_action():
    deployment = DoubtfulDeployment()
    deployment.cloud.add("churn")
    finding = only(due(deployment).sweep())
    assert (finding.outcome.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert "the re-check failed: sagemaker:ListAlarms" in (finding.outcome.because or "")


def test_a_resource_gone_meanwhile_is_a_success(deployment):
    due(deployment).cloud.before_call = lambda call, name: deployment.cloud.things.pop(name, None) if call == "look" else None
    finding = only(deployment.sweep())
    assert finding.outcome == Outcome(result=Result.DONE, because="it no longer exists", already_done=True)


def test_a_resource_stopped_meanwhile_is_a_success(deployment):
    def before_call(call: str, name: str) -> None:
        if call == "look":
            deployment.cloud.things[name].running_since = None

    due(deployment).cloud.before_call = before_call
    finding = only(deployment.sweep())
    assert finding.outcome == Outcome(result=Result.DONE, because="nothing to do: it is stopped already", already_done=True)
    assert deployment.cloud.log == []


@pytest.mark.parametrize("call", ["look", "observe", "record"])
def test_what_cannot_be_read_again_is_refused(deployment: FakeDeployment, call: str):
    due(deployment)
    calls: list[str] = []

    def fail_on(now: str, name: str) -> None:
        calls.append(now)
        if now == call and (call != "observe" or calls.count("observe") == 2):
            raise CloudError(Reason.THROTTLED, "sagemaker:Describe", "still throttled")

    deployment.cloud.fail_on = fail_on
    finding = only(deployment.sweep())
    assert (finding.outcome.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert "still throttled" in (finding.outcome.because or "")


def test_a_kind_that_fails_on_an_unobserved_resource_blocks_every_action(deployment):
    def fail_on(call: str, name: str) -> None:
        if call == "observe":
            raise CloudError(Reason.UNREACHABLE, "cloudwatch:GetMetricData", "no answer")

    due(deployment).cloud.fail_on = fail_on
    finding = only(deployment.sweep())
    assert "couldn't be understood" in finding.case.blocked[StepName.STOP].because
    assert (finding.case.verdict.state, deployment.cloud.log) == ("unknown", [])


@pytest.mark.parametrize("row", ["churn", "host"])
def test_an_interrupted_action_in_its_rows_refuses_another(row):
    """Another process began an action after this run decided, and died."""
    deployment = FakeDeployment()
    deployment.cloud.add("host", tags={"reaper:keep": "true"})
    deployment.cloud.add("churn", host="host")
    deployment.sweep()
    deployment.now += 3 * DAY

    def interrupted(call: str, name: str) -> None:
        if (call, name) == ("look", "churn") and deployment.record(row).act is None:
            record, change = deployment.record(row), SideChange(what="minimum", before=2, ours=0)
            begun = an_act(StepName.STOP, deployment.now, "another", changes=(change,))
            assert deployment.ledger.write_record(
                deployment.cloud.id(row), before_action(record, begun), record.version, deployment.now
            )

    deployment.cloud.before_call = interrupted
    outcome = finding_of(deployment.sweep(), "churn").outcome
    assert (outcome.result, outcome.because) == (Result.REFUSED, "an action on it was interrupted and isn't settled yet")
