"""What office hours stopped and no longer start: its owner, who otherwise gets weekly summaries only, is told at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from acting.test_interruption import mails
from fakes.builders import DAY, HOUR
from fakes.fake_cloud import STARTABLE
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, policy
from reaper.model import Mode, StepName

OFFICE = "rules: [{name: office, grace: 1h, hours: {on: 'mon-fri 07:00-19:00', tz: UTC}}]\n"
MONDAY = datetime(2026, 11, 16, 19, 30, tzinfo=UTC)
TOLD = "it is protected or its office hours no longer apply, so it isn't started for now"


def stopped(text: str = POLICY + OFFICE) -> FakeDeployment:
    """Its office hours stopped it an hour ago."""
    deployment = FakeDeployment(policy=policy(text), now=MONDAY)
    deployment.cloud.kind_name = STARTABLE
    deployment.cloud.add("churn", tags={"owner": "lee@example.com"})
    deployment.sweep()
    deployment.now += HOUR + timedelta(minutes=5)
    assert finding_of(deployment.sweep(), "churn").step.name is StepName.STOP
    deployment.now += 2 * HOUR
    deployment.channel.messages.clear()
    return deployment


def without_hours(deployment: FakeDeployment) -> None:
    deployment.policy = policy(POLICY)


def kept_by_tag(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].tags["reaper:keep"] = "true"  # type: ignore[index]


def left_out(deployment: FakeDeployment) -> None:
    deployment.policy = policy(POLICY + OFFICE + "enforce_only: {tags: {canary: here}}\n")


def only_notified(deployment: FakeDeployment) -> None:
    deployment.policy = policy(POLICY + OFFICE.replace("grace: 1h", "action: notify"))


@pytest.mark.parametrize("mode", [Mode.ENFORCE, Mode.NOTIFY])
@pytest.mark.parametrize("change", [without_hours, kept_by_tag, only_notified, left_out])
def test_what_no_hours_start_again_is_told_at_once(change, mode: Mode):
    deployment = stopped()
    change(deployment)
    deployment.sweep(mode)
    [mail] = mails(deployment)
    assert TOLD in mail
    assert "To undo this: aws sagemaker start-notebook-instance" in mail
    for _ in range(3):
        deployment.now += 7 * HOUR
        deployment.sweep(mode)
    assert len(mails(deployment)) == 1
    assert not deployment.cloud.things["churn"].running_since


def test_a_refused_mail_about_what_is_left_stopped_is_sent_again():
    deployment = stopped()
    without_hours(deployment)
    deployment.channel.is_closed = True
    deployment.sweep()
    deployment.channel.is_closed = False
    deployment.now += DAY
    deployment.sweep()
    assert [TOLD in mail for mail in mails(deployment)] == [True]


def test_what_its_hours_start_again_is_in_the_summary_only():
    deployment = stopped()
    for _ in range(14):
        deployment.sweep()
        deployment.now += HOUR
    assert deployment.cloud.things["churn"].running_since
    assert mails(deployment) == []


def test_what_a_person_started_is_not_told():
    deployment = stopped()
    deployment.cloud.things["churn"].running_since = deployment.cloud.things["churn"].changed = deployment.now
    without_hours(deployment)
    deployment.sweep_after(hours=1)
    assert mails(deployment) == []


def test_unreadable_tags_tell_nothing_of_what_is_stopped():
    deployment = stopped()
    without_hours(deployment)
    tags, deployment.cloud.things["churn"].tags = deployment.cloud.things["churn"].tags, None
    deployment.sweep()
    assert mails(deployment) == []
    deployment.cloud.things["churn"].tags = tags
    deployment.sweep_after(hours=1)
    assert len(mails(deployment)) == 1


DOUBTED = [
    POLICY.replace("action: stop", "action: notify")
    + OFFICE.replace("grace: 1h", "match: {usd_per_hour: '>= 0.5'}, action: stop, grace: 1h"),
    POLICY + OFFICE + "accept: [{match: {usd_per_hour: '< 1'}, until: 2026-12-30, reason: cheap, by: Lee}]\n",
]
"""What is stopped has no price, so that either its hours or an acceptance may or may not apply."""


@pytest.mark.parametrize("text", DOUBTED, ids=["a rule with a price", "an acceptance with a price"])
def test_what_has_no_price_while_it_is_stopped_is_started_again(text: str):
    deployment = stopped(text)
    for _ in range(5 * 24):
        deployment.sweep_after(hours=1)
    moves = [(move, when.weekday(), when.hour) for move, _, when in deployment.cloud.log]
    evenings = [(StepName.STOP, day, 19) for day in (1, 2, 3, 4)]
    assert [move for move in moves if move[0] is StepName.STOP][1:] == evenings
    assert [day for move, day, _ in moves if move is StepName.START] == [1, 2, 3, 4]
    assert mails(deployment) == []


@pytest.mark.parametrize("action", ["notify", "ignore"])
def test_its_own_tag_is_sure_even_while_its_rule_is_in_doubt(action: str):
    deployment = stopped(DOUBTED[0])
    deployment.cloud.things["churn"].tags["reaper:action"] = action  # type: ignore[index]
    for _ in range(24):
        deployment.sweep_after(hours=1)
    assert [TOLD in mail for mail in mails(deployment)] == [True]
    assert not deployment.cloud.things["churn"].running_since


CANARY = "enforce_only: {tags: {canary: here}}\n"


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(DOUBTED[0] + CANARY, id="left out of the canary"),
        pytest.param(DOUBTED[0].replace("action: stop", "action: notify"), id="no candidate allows it"),
    ],
)
def test_no_doubt_about_a_price_starts_what_no_candidate_may_act_on(changed: str):
    deployment = stopped(DOUBTED[0])
    deployment.policy = policy(changed)
    for _ in range(24):
        deployment.sweep_after(hours=1)
    assert [TOLD in mail for mail in mails(deployment)] == [True]
    assert not deployment.cloud.things["churn"].running_since


def test_time_outside_the_canary_uses_up_an_enrolment_in_doubt():
    deployment = stopped(DOUBTED[0])
    deployment.policy = policy(DOUBTED[0] + CANARY)
    for _ in range(2):
        deployment.sweep_after(hours=1)
    deployment.policy = policy(DOUBTED[0])
    deployment.cloud.log.clear()
    for _ in range(24):
        deployment.sweep_after(hours=1)
    assert [move for move, _, _ in deployment.cloud.log] == []
