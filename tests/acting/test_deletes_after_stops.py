"""`then: {action: delete, after: 14d}` over the fake cloud: what its notice is, what voids that, and what else keeps a delete from coming."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR
from fakes.fake_cloud import FakeResource
from fakes.fake_deployment import POLICY, FakeDeployment, due, only, policy
from reaper.errors import CloudError, Reason
from reaper.finding import Finding
from reaper.limits import holds
from reaper.model import AnnouncedAction, Mode, Result, StepName
from reaper.notices.message import Audience
from reaper.pending import plan_file
from reaper.record import Record, Snooze
from reaper.settings import Settings

THEN = POLICY.replace("remind_every: 7d", "remind_every: 7d, then: {action: delete, after: 14d}")


class Killed(BaseException):
    """The process ends here."""


def with_then(text: str = THEN, **fields: Any) -> FakeDeployment:
    """One idle thing of two variants, of which a stop leaves one running."""
    deployment = FakeDeployment(policy=policy(text))
    deployment.cloud.add("churn", **{"variants": 2, "least": 1, **fields})
    return deployment


def stopped(text: str = THEN) -> FakeDeployment:
    """The same, once it was scaled in and its owner has the mail about that."""
    deployment = due(with_then(text))
    assert only(deployment.sweep()).step.name is StepName.STOP
    return deployment


def steps(deployment: FakeDeployment, days: int) -> list[tuple[int, str]]:
    """A sweep every day: the days since now and the steps that did something."""
    found = []
    for day in range(1, days + 1):
        step = only(deployment.sweep_after(days=1)).step.name
        found += [(day, step.value)] if step is not StepName.NONE else []
        if step is StepName.DELETE:
            break
    return found


def mails(deployment: FakeDeployment) -> list[str]:
    return [m.text for m in deployment.channel.messages if m.audience is Audience.OWNERS]


def test_the_mail_about_the_stop_is_the_notice_of_the_delete():
    deployment = stopped()
    record = deployment.record("churn")
    assert (record.notice.action, record.notice.not_before) == (AnnouncedAction.DELETE, deployment.now + 14 * DAY)
    assert only(deployment.sweep_after(hours=5)).case.verdict.state == "young"
    assert deployment.record("churn").notice.warned_at == record.notice.warned_at, (
        "what we changed ourselves makes it young and no more"
    )
    deployment.now -= 5 * HOUR
    assert steps(deployment, 14) == [(7, "remind"), (14, "delete")]
    assert deployment.record("churn").act.manifest.address
    assert len(mails(deployment)) == 4, "a notice, two mails about actions and a reminder"


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(lambda deployment, thing: thing.uses.append(deployment.now), id="used"),
        pytest.param(lambda deployment, thing: setattr(thing, "changed", deployment.now), id="changed by a person"),
        pytest.param(lambda deployment, thing: setattr(thing, "tags", {"owner": "sam@example.com"}), id="handed over"),
        pytest.param(lambda deployment, thing: snooze(deployment), id="snoozed for an hour"),
        pytest.param(
            lambda deployment, thing: thing.metric_gaps.append((deployment.now, deployment.now + 2 * HOUR)),
            id="without metrics for two hours",
        ),
        pytest.param(lambda deployment, thing: setattr(thing, "created", deployment.now), id="recreated"),
        pytest.param(lambda deployment, thing: lose_row(deployment), id="its row is lost"),
    ],
)
def test_after_the_stop_a_new_notice_and_two_weeks_are_needed_once_it_was(what: Callable[[FakeDeployment, FakeResource], Any]):
    deployment = stopped()
    deployment.now += 13 * DAY
    what(deployment, deployment.cloud.things["churn"])
    deployment.now += 2 * DAY
    warned = only(deployment.sweep())
    assert warned.step.name is StepName.WARN
    assert "It will be deleted on or after" in mails(deployment)[-1]
    assert steps(deployment, 14)[-1] == (14, "delete")


def snooze(deployment: FakeDeployment) -> None:
    snooze = Snooze(until=deployment.now + HOUR, at=deployment.now)
    assert deployment.ledger.write_snooze(deployment.cloud.id("churn"), snooze, 0, deployment.now)


def lose_row(deployment: FakeDeployment) -> None:
    id_ = deployment.cloud.id("churn")
    assert deployment.ledger.write_record(id_, Record(), deployment.record("churn").version, deployment.now)


def scale_out(deployment: FakeDeployment, thing: FakeResource) -> None:
    thing.variants, thing.changed = 2, deployment.now


def scale_in(deployment: FakeDeployment, thing: FakeResource) -> None:
    thing.variants, thing.changed = 1, deployment.now


def test_what_a_person_scales_out_again_is_stopped_again_first():
    deployment = stopped()
    deployment.now += 10 * DAY
    scale_out(deployment, deployment.cloud.things["churn"])
    assert steps(deployment, 5) == [(1, "warn"), (4, "stop")]


def test_a_scale_in_by_a_person_leads_to_a_notice_of_the_delete():
    deployment = due(with_then())
    scale_in(deployment, deployment.cloud.things["churn"])
    assert steps(deployment, 16) == [(1, "warn"), (8, "remind"), (15, "delete")]


def test_a_stop_whose_mail_no_channel_accepts_announces_nothing():
    deployment = due(with_then())
    deployment.channel.is_closed = True
    assert only(deployment.sweep()).step.name is StepName.STOP
    assert deployment.record("churn").notice is None
    deployment.now += 3 * DAY
    deployment.channel.is_closed = False
    assert steps(deployment, 20)[-1] == (15, "delete")


@pytest.mark.parametrize("owner", ["lee@example.com", "sam@example.com"])
def test_a_late_mail_about_the_stop_comes_before_any_notice(owner: str):
    deployment = due(with_then(tags={"owner": "lee@example.com"}))
    deployment.channel.is_closed = True
    deployment.sweep()
    deployment.channel.is_closed = False
    deployment.cloud.things["churn"].tags = {"owner": owner}
    deployment.channel.messages.clear()
    for _ in range(4):
        deployment.sweep_after(days=1)
    sent = [(m.to, "was scaled in" in m.text) for m in deployment.channel.messages if m.audience is Audience.OWNERS]
    assert sent == [("lee@example.com", True), *([(owner, False)] if owner != "lee@example.com" else [])]
    assert deployment.record("churn").notice.to == owner


def test_a_late_mail_that_is_always_refused_holds_up_no_notice_for_ever():
    deployment = due(with_then(tags={"owner": "lee@example.com"}))
    send = deployment.channel.send

    def refuse_lee(message: Any) -> str:
        if message.to == "lee@example.com":
            raise CloudError(Reason.REFUSED, "mail:Send", "the address is suppressed")
        return send(message)

    deployment.channel.send = refuse_lee  # type: ignore[method-assign]
    deployment.sweep()
    deployment.cloud.things["churn"].tags = {"owner": "sam@example.com"}
    for _ in range(9):
        deployment.sweep_after(days=1)
    assert "sam@example.com" in [m.to for m in deployment.channel.messages if m.audience is Audience.OWNERS]


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("name", ["churn", "house"])
def test_the_mail_about_a_stop_names_no_date_within_a_snooze(name: str, is_late: bool):
    deployment = with_then(host="house")
    deployment.cloud.accounts["house"] = deployment.cloud.accounts["churn"]
    due(deployment)

    def snooze(*_: Any) -> None:
        at, until = deployment.now, deployment.now + 20 * DAY
        snooze = Snooze(until=until, at=at, by="lee")
        deployment.ledger.write_snooze(deployment.cloud.id(name), snooze, deployment.snooze(name).version, at)

    deployment.channel.is_closed = is_late
    deployment.cloud.fail_on = lambda call, _: snooze() if call == "carried" and not is_late else None
    assert only(deployment.sweep()).outcome.result is Result.DONE
    if is_late:
        snooze()
        deployment.channel.is_closed = False
        deployment.sweep_after(hours=2)
    mail = mails(deployment)[-1]
    assert "was scaled in" in mail
    assert "on or after" not in mail
    assert deployment.record("churn").notice is None
    assert steps(deployment, 40) == [(20, "warn"), (27, "remind"), (34, "delete")]


def test_a_mail_that_is_sent_twice_counts_from_its_last_acceptance():
    deployment = due(with_then())

    def snap(message: Any) -> None:
        if "was scaled in" in message.subject:
            deployment.channel.on_message = lambda message: None
            raise Killed

    deployment.channel.on_message = snap
    with pytest.raises(Killed):
        deployment.sweep()
    assert deployment.record("churn").notice is None
    deployment.now += DAY
    deployment.sweep()
    assert deployment.record("churn").notice.not_before == deployment.now + 14 * DAY
    assert steps(deployment, 14)[-1] == (14, "delete")


def test_a_mail_of_a_run_that_announces_nothing_is_no_notice_of_the_delete():
    deployment = due(with_then())

    def snap(call: str, name: str) -> None:
        raise Killed

    deployment.channel.fail_on = snap
    with pytest.raises(Killed):
        deployment.sweep()
    deployment.channel.fail_on = lambda call, name: None
    deployment.now += HOUR
    deployment.sweep(Mode.NOTIFY)
    assert "was scaled in" in mails(deployment)[-1]
    assert "deleted" not in mails(deployment)[-1]
    assert deployment.record("churn").notice is None


def test_a_rule_that_gets_a_then_after_the_stop_announces_the_delete_first():
    deployment = stopped(POLICY)
    assert deployment.record("churn").notice is None
    assert steps(deployment, 3) == [(1, "warn")]
    deployment.policy = policy(THEN)
    assert steps(deployment, 16) == [(1, "warn"), (8, "remind"), (15, "delete")]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(POLICY, id="the rule loses its then"),
        pytest.param(THEN.replace("owners:", "enforce_only: {accounts: ['210987654321']}\nowners:"), id="left out of the canary"),
        pytest.param(THEN.replace("after: 14d", "after: 90d"), id="a longer after"),
    ],
)
def test_a_policy_that_changes_after_the_stop_keeps_it_from_the_delete(text: str):
    deployment = stopped()
    deployment.policy = policy(text)
    assert {step for _, step in steps(deployment, 30)} <= {"warn", "remind"}


@pytest.mark.parametrize(("key", "value"), [("reaper:action", "stop"), ("reaper:action", "notify"), ("reaper:keep", "true")])
def test_a_tag_caps_what_follows_the_stop(key: str, value: str):
    deployment = stopped()
    deployment.cloud.things["churn"].tags = {key: value}
    assert {step for _, step in steps(deployment, 30)} <= {"remind", "warn"}
    assert len(deployment.cloud.log) == 1


def test_a_tag_put_on_right_before_the_call_refuses_the_delete():
    deployment = stopped()
    deployment.now += 14 * DAY

    def tag(call: str, name: str) -> None:
        if call == "look":
            deployment.cloud.things["churn"].tags = {"reaper:action": "stop"}

    deployment.cloud.before_call = tag
    finding = only(deployment.sweep())
    assert (finding.step.name, finding.outcome.result) == (StepName.DELETE, Result.REFUSED)
    assert "no longer allow it to be deleted" in (finding.outcome.because or "")


def test_limits_hold_a_delete_by_then_until_it_is_released():
    deployment = stopped()
    deployment.policy = policy(THEN.replace("max_acts: 20", "max_acts: 0"))
    deployment.now += 14 * DAY
    assert only(deployment.sweep()).step.held is StepName.DELETE
    holds.release_actions(deployment.ledger, "lee", deployment.now)
    assert only(deployment.sweep_after(hours=1)).step.name is StepName.DELETE


def test_a_plan_file_lists_the_delete_and_apply_carries_it_out():
    deployment = stopped()
    deployment.now += 14 * DAY
    planned = deployment.sweep(Mode.AUDIT)
    scope = {key: getattr(Settings(), key) for key in plan_file.SCOPE_SETTINGS}
    text = plan_file.plan_json(planned, scope, deployment.now)
    deployment.agreed = plan_file.parse_plan(text, "plan.json", deployment.now)
    done = only(deployment.sweep())
    assert (done.step.name, done.outcome.result) == (StepName.DELETE, Result.DONE)


def test_what_a_stop_ends_altogether_is_never_deleted():
    deployment = due(with_then(least=0, variants=1))
    assert only(deployment.sweep()).step.name is StepName.STOP
    assert "not before" not in "".join(mails(deployment))
    assert steps(deployment, 30) == []


def test_a_variant_left_over_is_stopped_before_anything_is_deleted():
    deployment = due(with_then(variants=3))
    first: Finding = only(deployment.sweep())
    assert first.outcome.part_done == "1 of 3 variants"
    assert deployment.record("churn").notice.action is AnnouncedAction.STOP
    assert steps(deployment, 3) == [(3, "stop")]
    assert steps(deployment, 14)[-1] == (14, "delete")


def test_a_run_that_announces_nothing_leaves_the_date_of_the_delete_alone():
    deployment = stopped()
    deployment.now += 8 * DAY
    assert only(deployment.sweep(Mode.NOTIFY)).step.name is StepName.NONE
    assert steps(deployment, 6)[-1] == (6, "delete")


def test_no_delete_below_enforce():
    deployment = stopped()
    for _ in range(20):
        deployment.now += DAY
        deployment.sweep(Mode.ANNOUNCE)
    assert len(deployment.cloud.log) == 1


def test_indirect_evidence_deletes_nothing():
    deployment = with_then(without_heartbeat=True, variants=1)
    assert steps(deployment, 30) == [(1, "warn"), (8, "remind"), (15, "remind"), (22, "remind"), (29, "remind")]


def test_a_lapsed_notice_is_repeated_with_a_full_after():
    deployment = stopped()
    deployment.now += timedelta(days=29)
    assert only(deployment.sweep()).step.name is StepName.WARN
    assert steps(deployment, 14)[-1] == (14, "delete")
