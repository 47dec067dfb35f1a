"""An owner says "not mine" through the page: from then on notices go to the fallback, with a full grace, until another owner is found."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR
from fakes.failing_ledger import FailingLedger
from fakes.fake_cloud import STARTABLE
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, policy
from fakes.snooze_requests import KEYS, desk
from reaper.errors import CloudError, Reason
from reaper.finding import Report
from reaper.ledger.forget import forget_address
from reaper.ledger.rows import Category
from reaper.model import AnnouncedAction, Mode, Result, State, StepName
from reaper.notices.message import Audience, Message
from reaper.report import explain
from reaper.report import json as report_json
from reaper.report.explain import ExplainContext
from reaper.run import run_phases
from reaper.snooze.handler import handle_request
from reaper.snooze.links import LinkSigner
from reaper.snooze.pages import Reply, Request

SIGNER = LinkSigner(base="https://keep.example.com", keys=KEYS)
HOURS = """
rules: [{name: nights, match: {tags: {owner: "*"}}, hours: {on: mon-fri 08:00-18:00, tz: UTC}}]
"""
DANA, LEE, ADMINS = "dana@example.com", "lee@example.com", "ml-admins@example.com"


def sweep(deployment: FakeDeployment, mode: Mode = Mode.ENFORCE, **after: Any) -> Report:
    """A sweep after so much time, whose mails have links."""
    deployment.now += timedelta(**after)
    deployment.channel.messages.clear()
    opened = deployment.open_run(mode)
    return run_phases(replace(opened, conclude=replace(opened.conclude, links=SIGNER)), deployment.hand_over)


def to_owners(deployment: FakeDeployment) -> list[Message]:
    return [m for m in deployment.channel.messages if m.audience is Audience.OWNERS]


def to_admins(deployment: FakeDeployment) -> str:
    return "".join(m.text for m in deployment.channel.messages if m.audience is Audience.ADMINS)


def click(deployment: FakeDeployment, message: Message, do: str = "disown", rows: str = "r=1") -> Reply:
    """Open the link of a mail and send its form."""
    [token] = set(re.findall(r"/keep\?t=([\w.-]+)", message.text))
    form = f"t={token}&{rows}&days=3&do={do}".encode()
    return handle_request(Request(method="POST", path="/keep", body=form), desk(deployment.ledger, now=deployment.now))


@pytest.fixture
def deployment() -> FakeDeployment:
    """A resource whose owner by its tag has a notice."""
    deployment = FakeDeployment(ledger=FailingLedger())
    deployment.cloud.add("nb-7", tags={"owner": DANA})
    sweep(deployment)
    return deployment


@pytest.fixture
def disowned(deployment: FakeDeployment) -> FakeDeployment:
    """The same, once that owner has said that it isn't theirs."""
    [mail] = to_owners(deployment)
    assert click(deployment, mail).status == 200
    return deployment


def test_the_fallback_gets_a_notice_and_a_full_grace(disowned: FakeDeployment):
    report = sweep(disowned, days=2, hours=23)
    [mail] = to_owners(disowned)
    finding = finding_of(report, "nb-7")
    assert (mail.to, finding.step.name, finding.outcome.result) == (ADMINS, StepName.WARN, Result.DONE)
    assert finding.case.owner.source == f"fallback; {DANA} said it isn't theirs"
    assert report_json.finding_json(finding, disowned.now)["owner"]["source"] == f"fallback; {DANA} said it isn't theirs"
    assert f"Owner: fallback; {DANA} said it isn't theirs" in mail.text
    assert (
        "Not mine"
        not in handle_request(
            Request(method="GET", path="/keep", query=re.findall(r"keep\?(t=[\w.-]+)", mail.text)[0]),
            desk(disowned.ledger, now=disowned.now),
        ).body
    )
    known = ExplainContext(
        policy=disowned.policy,
        now=disowned.now,
        records={finding.case.resource.id: disowned.record("nb-7")},
        snoozes={finding.case.resource.id: disowned.snooze("nb-7")},
    )
    explained = explain.render(report, "nb-7", known) or ""
    assert f"{ADMINS} (fallback; {DANA} said it isn't theirs)" in explained
    assert f"not theirs, says {DANA}, 2026-11-21T10:17:00Z" in explained
    assert [finding_of(sweep(disowned, days=1), "nb-7").step.name for _ in range(2)] == [StepName.NONE] * 2
    assert disowned.cloud.log == []
    sweep(disowned, days=1, hours=1)
    assert [(action, name) for action, name, _ in disowned.cloud.log] == [(StepName.STOP, "nb-7")]


def test_the_admins_hear_of_it_once(disowned: FakeDeployment):
    sweep(disowned, hours=1)
    lines = to_admins(disowned).splitlines()
    [line] = [line for line in lines if "isn't theirs" in line]
    assert line.startswith(f"- {DANA} says nb-7 (")
    assert f"NOT THEIRS (1): notices now go to {ADMINS}; correct the owner's tag" in lines
    sweep(disowned, days=1)
    disowned.cloud.add("another", tags={"owner": LEE})
    sweep(disowned, days=1)
    assert "isn't theirs" not in to_admins(disowned)


def test_without_a_fallback_nothing_is_done_and_the_admins_are_told(deployment: FakeDeployment):
    [mail] = to_owners(deployment)
    deployment.policy = policy(POLICY.replace(f", fallback: {ADMINS}", ""))
    click(deployment, mail)
    for _ in range(5):
        report = sweep(deployment, days=2)
        finding = finding_of(report, "nb-7")
        assert (finding.step.name, finding.outcome.result) == (StepName.WARN, Result.FAILED)
        assert (finding.case.owner.address, finding.case.owner.source) == (None, f"no owner; {DANA} said it isn't theirs")
        assert to_owners(deployment) == []


@pytest.mark.parametrize("swept_before", [False, True], ids=["before any sweep", "after one"])
def test_the_notice_stays_void_when_the_owners_tag_goes(deployment: FakeDeployment, swept_before: bool):
    [mail] = to_owners(deployment)
    deployment.policy = policy(POLICY.replace(f", fallback: {ADMINS}", ""))
    click(deployment, mail)
    if swept_before:
        sweep(deployment, hours=1)
    deployment.cloud.things["nb-7"].tags = {}
    steps = [finding_of(sweep(deployment, days=1), "nb-7").step.name for _ in range(5)]
    assert (set(steps), deployment.cloud.log) == ({StepName.WARN}, [])


def test_another_owner_found_ends_it_for_good(disowned: FakeDeployment):
    sweep(disowned, days=1)
    disowned.cloud.things["nb-7"].tags = {"owner": LEE}
    sweep(disowned, days=1)
    assert [mail.to for mail in to_owners(disowned)] == [LEE]
    assert (disowned.snooze("nb-7").disowned_by, disowned.snooze("nb-7").disowned_at) == (None, None)
    disowned.cloud.things["nb-7"].tags = {"owner": DANA}
    sweep(disowned, days=1)
    assert [mail.to for mail in to_owners(disowned)] == [DANA]


def test_tags_that_cannot_be_read_do_not_end_it(disowned: FakeDeployment):
    disowned.cloud.things["nb-7"].tags = None
    sweep(disowned, days=1)
    assert disowned.snooze("nb-7").disowned_by == DANA


def test_another_owner_in_a_partial_look_does_not_end_it(disowned: FakeDeployment):
    thing = disowned.cloud.things["nb-7"]
    thing.tags, thing.incomplete_replies = {}, True
    sweep(disowned, days=1)
    thing.tags, thing.incomplete_replies = {"owner": DANA}, False
    sweep(disowned, days=3)
    assert (disowned.snooze("nb-7").disowned_by, disowned.cloud.log) == (DANA, [])
    assert [mail.to for mail in to_owners(disowned)] == [ADMINS]


def test_a_recreated_resource_is_the_owners_again(disowned: FakeDeployment):
    disowned.cloud.things["nb-7"].created = disowned.now + HOUR
    sweep(disowned, days=3)
    assert [mail.to for mail in to_owners(disowned)] == [DANA]
    assert disowned.snooze("nb-7").disowned_by is None


def test_an_enrolment_in_office_hours_is_void_too():
    deployment = FakeDeployment(policy=policy(POLICY + HOURS))
    deployment.cloud.kind_name = STARTABLE
    deployment.cloud.add("nb-7", tags={"owner": DANA})
    sweep(deployment)
    [mail] = to_owners(deployment)
    assert deployment.record("nb-7").notice.action is AnnouncedAction.HOURS
    click(deployment, mail)
    steps = [finding_of(sweep(deployment, days=1), "nb-7").step.name for _ in range(8)]
    assert steps[:6] == [StepName.NONE] * 6, "the next enrolment notice waits for its usual time"
    assert StepName.WARN in steps[6:]
    assert deployment.record("nb-7").notice.to == ADMINS
    assert deployment.cloud.log == []


def test_a_click_between_decision_and_stop_withdraws_the_stop(deployment: FakeDeployment):
    [mail] = to_owners(deployment)
    assert isinstance(deployment.ledger, FailingLedger)
    clicked = []

    def click_once(call: str, id_: str) -> None:
        if call == "remembered" and not clicked:
            clicked.append(click(deployment, mail).status)

    deployment.ledger.fail_on = click_once
    report = sweep(deployment, days=3, hours=1)
    assert (clicked, finding_of(report, "nb-7").outcome.result) == ([200], Result.REFUSED)
    assert deployment.snooze("nb-7").disowned_by == DANA


def test_a_click_before_the_recheck_withdraws_the_stop(deployment: FakeDeployment):
    [mail] = to_owners(deployment)
    deployment.now += 3 * DAY + HOUR
    opened = deployment.open_run()
    deployment.hand_over = lambda value: (click(deployment, mail), value)[1] if type(value).__name__ == "Decided" else value
    report = run_phases(opened, deployment.hand_over)
    finding = finding_of(report, "nb-7")
    assert (finding.step.name, finding.outcome.result) == (StepName.STOP, Result.REFUSED)


def test_an_earlier_notice_to_the_fallback_does_not_count_again(deployment: FakeDeployment):
    [mail] = to_owners(deployment)
    deployment.cloud.things["nb-7"].tags = {}
    sweep(deployment, hours=1)
    assert [m.to for m in to_owners(deployment)] == [ADMINS]
    deployment.cloud.things["nb-7"].tags = {"owner": DANA}
    deployment.now += DAY
    click(deployment, mail)
    report = sweep(deployment, days=3)
    assert (finding_of(report, "nb-7").step.name, [m.to for m in to_owners(deployment)]) == (StepName.WARN, [ADMINS])


def test_not_mine_protects_nothing_and_unprotects_nothing(disowned: FakeDeployment):
    disowned.cloud.add("kept", tags={"owner": DANA, "reaper:keep": "true"})
    sweep(disowned, days=1)
    assert finding_of(sweep(disowned, days=9), "kept").case.verdict.state is State.EXEMPT
    assert disowned.snooze("kept").disowned_by is None


def test_forgetting_the_address_ends_it(disowned: FakeDeployment):
    assert not [row for row in forget_address(disowned.ledger, DANA) if row.error]
    sweep(disowned, days=1)
    assert [mail.to for mail in to_owners(disowned)] == [DANA]


def test_a_conclude_that_runs_twice_leaves_the_sent_link_alone(deployment: FakeDeployment):
    assert isinstance(deployment.ledger, FailingLedger)
    visits = [key for key in deployment.ledger.memory_store.rows if key.category is Category.VISIT]
    [mail] = to_owners(deployment)
    assert [key.name for key in visits] == [mail.visit.id if mail.visit else ""]
    sweep(deployment, hours=1)
    assert to_owners(deployment) == []
    assert [key for key in deployment.ledger.memory_store.rows if key.category is Category.VISIT] == visits
    assert click(deployment, mail, do="keep").status == 200


def test_a_mail_whose_row_fails_goes_out_with_the_tag_and_a_failure(monkeypatch: pytest.MonkeyPatch):
    class NoVisits(FailingLedger):
        def add_visit(self, visit: object) -> None:
            raise CloudError(Reason.THROTTLED, "dynamodb:PutItem", "slow down")

    deployment = FakeDeployment(ledger=NoVisits())
    for name in ("nb-7", "nb-8"):
        deployment.cloud.add(name, tags={"owner": DANA})
    report = sweep(deployment)
    [mail] = to_owners(deployment)
    assert ("keep.example.com" in mail.text + mail.html, "reaper:keep-until=" in mail.text) == (False, True)
    assert [f.outcome.result for f in report.findings] == [Result.DONE] * 2
    assert [row.error for row in report.coverage if row.kind == "ledger"] == ["dynamodb:PutItem: slow down"]


def test_an_audit_writes_no_link(deployment: FakeDeployment):
    before = dict(deployment.ledger.memory_store.rows)  # type: ignore[attr-defined]
    deployment.cloud.add("another", tags={"owner": LEE})
    sweep(deployment, mode=Mode.AUDIT)
    assert deployment.ledger.memory_store.rows == before  # type: ignore[attr-defined]
