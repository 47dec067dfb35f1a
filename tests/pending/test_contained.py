"""What lives in a resource and is stopped with it: its own owner is notified, with the command that restores both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fakes.builders import DAY, NOW, TARGET, resource
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, policy
from fakes.sample_findings import finding, occasion
from reaper.case import Blocked, Finding, Outcome, Owner
from reaper.handover import Acted, Decided, Decision, Observed
from reaper.model import ACTIONS, Mode, Result, Run, StepName
from reaper.notices import owner_notice
from reaper.report.run_report import join_findings
from reaper.run import HandOver, unchanged

HOST = finding("host", move=StepName.DELETE)
INNER = resource(
    kind="sagemaker-inference-component", id="arn:aws:sagemaker:us-east-1:123456789012:inference-component/inner", name="inner"
)


def inner(move: StepName = StepName.NONE) -> Finding:
    """A component of the host that has a different owner."""
    base = finding("inner", move=move)
    within = replace(INNER, host_id=HOST.case.resource.id)
    fay = Owner(address="fay@example.com", source="tag owner")
    return replace(base, case=replace(base.case, resource=within, owner=fay), owner=fay)


def carried(host: Finding, guest: Finding, ended: Outcome | None) -> list[Finding]:
    """Both after a run whose action on the host ended the guest, with `ended`, or didn't."""
    cases = tuple(replace(f.case, owner=f.owner, price=f.price) for f in (host, guest))
    decisions = tuple(Decision(case=c, verdict=c.verdict, step=f.step) for c, f in zip(cases, (host, guest), strict=True))
    refused = Outcome(result=Result.REFUSED, because="no")
    outcomes = {host.case.resource.id: refused} | (
        {guest.case.resource.id: ended or refused} if guest.step.name in ACTIONS else {}
    )
    outcomes |= {guest.case.resource.id: ended} if ended else {}
    run = Run(id="r", started_at=NOW, mode=Mode.ENFORCE, version="1", policy_sha256="")
    part = Observed(run=run, targets=(TARGET,), coverage=(), cases=cases)
    decided = Decided(run=run, decided_at=NOW, leased=(TARGET,), decisions=decisions)
    return join_findings([part], decided, [Acted(run=run, target=TARGET, outcomes=outcomes)])


WENT = Outcome(
    result=Result.DONE,
    because="it was deleted with its host host; restoring the host restores it",
    already_done=True,
    host_id=HOST.case.resource.id,
)


def to_fay(findings: list[Finding]) -> list[str]:
    return [m.text for m in owner_notice.owner_notices(findings, occasion()) if m.to == "fay@example.com"]


def test_owner_of_a_resource_that_went_with_its_host_is_notified():
    for guest in (inner(), inner(StepName.DELETE), inner(StepName.WARN)):
        [text] = to_fay(carried(HOST, guest, WENT))
        assert "It was deleted with its host host; restoring the host restores it." in text
        assert f"reaper restore {HOST.case.resource.id}" in text


def test_owner_is_not_notified_of_an_inner_resource_if_its_host_stayed():
    assert to_fay(carried(HOST, inner(), None)) == []


def house(**inner: Any) -> FakeDeployment:
    """Something idle of Lee's, and in it something of Fay's."""
    deployment = FakeDeployment(policy=policy(POLICY.replace("action: stop", "action: delete")))
    deployment.cloud.add("host", tags={"owner": "lee@example.com"})
    deployment.cloud.add("inner", host="host", tags={"owner": "fay@example.com"}, **inner)
    return deployment


def test_no_deletion_is_announced_if_an_inner_owner_gets_no_notice():
    deployment = house(without_heartbeat=True)
    for _ in range(3):
        report = deployment.sweep()
        assert finding_of(report, "host").step.name in {StepName.WARN, StepName.NONE, StepName.REMIND}
        deployment.now += 4 * DAY
    reason = "inner inside it belongs to another owner, who can't be notified of an action"
    assert finding_of(report, "host").case.blocked[StepName.DELETE] == Blocked(because=reason)
    mails = [m.text for m in deployment.channel.messages if m.to == "lee@example.com"]
    assert mails
    assert not [text for text in mails if "will be" in text]
    assert deployment.cloud.log == []


def test_host_and_inner_resource_go_after_notices_to_both_owners():
    deployment = house()
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.sweep()
    assert deployment.cloud.things == {}
    recipients = {m.to for m in deployment.channel.messages if "will be" in m.text}
    assert {"lee@example.com", "fay@example.com"} <= recipients


def test_later_run_notifies_the_inner_owner_if_the_mail_failed():
    deployment = house()
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.channel.messages.clear()
    deployment.channel.is_closed = True
    deployment.sweep()
    assert (deployment.cloud.things, deployment.channel.messages) == ({}, [])
    deployment.channel.is_closed = False
    for _ in range(2):
        deployment.now += DAY
        deployment.sweep()
    texts = [m.text for m in deployment.channel.messages if m.to == "fay@example.com"]
    assert ["deleted" in text for text in texts] == [True]
    assert deployment.ledger.unfinished(TARGET, deployment.now) == []


def without_part(value: Any) -> Any:
    """The task that acted died before it stored what it did."""
    return replace(value, outcomes={}) if isinstance(value, Acted) else value


def host_part_only(value: Any) -> Any:
    """The task that acted died, and was repeated: it made no call, and knows of its own intent only."""
    return replace(value, outcomes=dict(list(value.outcomes.items())[:1])) if isinstance(value, Acted) else value


@pytest.mark.parametrize("hand_over", [unchanged, without_part, host_part_only])
def test_what_went_with_its_host_is_told_at_once_although_the_part_is_lost(hand_over: HandOver):
    deployment = house(without_heartbeat=True)
    deployment.cloud.things["inner"].tags["owner"] = "lee@example.com"
    deployment.sweep()
    deployment.now += 7 * DAY
    deployment.channel.messages.clear()
    deployment.hand_over = hand_over
    report = deployment.sweep()
    assert deployment.cloud.things == {}
    went = finding_of(report, "inner")
    assert (went.step.name, went.outcome.result, went.outcome.host_id) == (
        StepName.DELETE,
        Result.DONE,
        deployment.cloud.id("host"),
    )
    [mail] = [m for m in deployment.channel.messages if m.to == "lee@example.com"]
    assert mail.subject == "2 idle ML resources were deleted, saving $67.58 a day"
    assert deployment.ledger.unfinished(TARGET, deployment.now) == []
