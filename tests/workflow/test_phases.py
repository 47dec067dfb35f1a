"""The steps of a workflow over a simulated account: equal to a run in one process, and safe if any of them is lost or repeated."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from fakes.records import an_act
from fakes.workflow_runs import folder_store
from reaper.errors import CloudError
from reaper.finding import Report
from reaper.limits import holds
from reaper.limits.holds import Exceeded, Hold, LimitName
from reaper.model import Mode, Result, Status, StepName, Target
from reaper.notices.sending import NOTIFIED
from reaper.policy.file import load_policy
from reaper.record import before_action
from reaper.run import run
from reaper.workflow.store import ACT_ITEMS, DECIDED
from reaper_sandbox.aws.account import Account
from workflow.conftest import NOW, REGIONS, Scene


def steps(report: Report) -> dict[str, tuple[str, str]]:
    return {f.case.resource.name: (f.step.name.value, f.outcome.result.value) for f in report.findings}


def comparable(report: Report) -> Report:
    """The report without what differs between two runs."""
    return replace(report, run=replace(report.run, id="", finished_at=NOW))


def test_a_workflow_reports_what_one_process_reports(scene: Scene):
    scene.use(lambda settings: replace(settings, mode=Mode.AUDIT))
    by_steps = scene.workflow.run()
    in_one = run(scene.workflow.settings, load_policy(scene.policy), lambda: scene.server.now)
    assert comparable(by_steps) == comparable(in_one)
    assert len(by_steps.findings) == 2


def test_owners_get_one_notice_for_the_whole_run_and_then_the_stop(scene: Scene):
    assert set(steps(scene.workflow.run()).values()) == {("warn", "done")}
    [notice] = [mail for mail in scene.mails() if "To: ana@example.com" in mail]
    assert all(f"quiet-{region}" in notice for region in REGIONS)
    scene.later(days=3)
    assert set(steps(scene.workflow.run()).values()) == {("stop", "done")}
    assert [scene.instances(region) for region in REGIONS] == [1, 1]


def test_an_item_without_a_part_is_a_failure_in_the_report(due: Scene):
    run_id = str(due.workflow.list()["run"])
    due.workflow.settings = replace(due.workflow.settings)
    items = due.workflow.items(run_id)
    assert due.workflow.decide(run_id, {items[0]["item"]: "Sandbox.Timedout"})["actions"] == 0
    due.workflow.observe(run_id, items[0])  # too late
    report = due.workflow.conclude(run_id)
    rows = [row for row in report.coverage if row.cloud == "aws"]
    assert {row.status for row in rows} == {Status.FAILED}
    assert {row.region for row in rows} == set(REGIONS)
    assert all("not read: Sandbox.Timedout" in (row.error or "") for row in rows)
    assert report.findings == ()
    assert [due.instances(region) for region in REGIONS] == [3, 3]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": "why"}', '{"0": 1}', "null"])
def test_a_list_of_missing_parts_that_cannot_be_read_ends_the_step(due: Scene, content: str):
    run_id = due.workflow.observed()
    folder_store(due.home / "runs" / run_id).write("missing.json", content)
    with pytest.raises(CloudError, match=r"^workflow: missing\.json can't be read"):
        due.workflow.decide(run_id)


@pytest.mark.parametrize("content", [b'{"cases": ', b"\xff\xfe"], ids=["cut off", "not text"])
def test_a_part_that_cannot_be_read_is_a_failure_in_the_report(due: Scene, content: bytes):
    run_id = due.workflow.observed()
    (due.home / "runs" / run_id / "observed/0.json").write_bytes(content)
    due.workflow.decide(run_id)
    report = due.workflow.conclude(run_id)
    assert all("can't be read" in (row.error or "") for row in report.coverage if row.cloud == "aws")
    assert report.findings == ()


def test_a_part_with_an_unknown_kind_is_a_failure_in_the_report(due: Scene):
    run_id = due.workflow.observed()
    part = due.home / "runs" / run_id / "observed/0.json"
    part.write_text(part.read_text().replace('"sagemaker-endpoint"', '"sagemaker-teapot"'))
    due.workflow.decide(run_id)
    report = due.workflow.conclude(run_id)
    assert all("no kind 'sagemaker-teapot'" in (row.error or "") for row in report.coverage if row.cloud == "aws")
    assert report.findings == ()


def test_a_result_that_names_an_unknown_host_hides_nothing(due: Scene):
    run_id, before = due.workflow.acted(), len(due.mails())
    part = due.home / "runs" / run_id / "acted/0.json"
    part.write_text(part.read_text().replace('"host_id":null', '"host_id":"nowhere"'))
    report = due.workflow.conclude(run_id)
    assert set(steps(report).values()) == {("stop", "done")}
    assert [mail for mail in due.mails()[before:] if "To: ana@example.com" in mail]


def test_a_result_of_act_that_is_not_text_does_not_hide_what_was_done(due: Scene):
    run_id = due.workflow.acted()
    (due.home / "runs" / run_id / "acted/0.json").write_bytes(b"\xff\xfe")
    report = due.workflow.conclude(run_id)
    assert set(steps(report).values()) == {("stop", "done")}
    assert [row for row in report.coverage if row.kind == "acts" and "what it did can't be read" in (row.error or "")]


def test_a_late_twin_of_observe_changes_nothing(due: Scene):
    """It has no time left and reads nothing. What was decided and done by the first one's part is still told."""
    run_id = due.workflow.acted()
    due.later(minutes=31)
    for item in due.workflow.items(run_id):
        due.workflow.observe(run_id, item)
    report = due.workflow.conclude(run_id)
    assert set(steps(report).values()) == {("stop", "done")}
    assert {row.status for row in report.coverage} == {Status.OK}


def test_a_part_lost_after_act_does_not_hide_what_was_done(due: Scene):
    run_id, before = due.workflow.acted(), len(due.mails())
    folder_store(due.home / "runs" / run_id).write("observed/0.json", '{"cases": ')
    report = due.workflow.conclude(run_id)
    assert set(steps(report).values()) == {("stop", "done")}
    assert [mail for mail in due.mails()[before:] if "To: ana@example.com" in mail]
    assert all("can't be read" in (row.error or "") for row in report.coverage if row.cloud == "aws")


def test_a_run_of_all_kinds_reports_its_missing_items(scene: Scene):
    scene.use(lambda settings: replace(settings, kinds=()))
    run_id = str(scene.workflow.list()["run"])
    scene.workflow.decide(run_id)
    rows = [row for row in scene.workflow.conclude(run_id).coverage if row.cloud == "aws"]
    assert {(row.region, row.status) for row in rows} == {(region, Status.FAILED) for region in REGIONS}


def test_a_repeated_decide_changes_no_decision(due: Scene):
    run_id = due.workflow.acted()
    before = (due.home / "runs" / run_id / DECIDED).read_text()
    due.later(minutes=5)
    assert due.workflow.decide(run_id)["actions"] == 2
    assert (due.home / "runs" / run_id / DECIDED).read_text() == before
    assert set(steps(due.workflow.conclude(run_id)).values()) == {("stop", "done")}


def test_a_repeated_decide_leaves_open_actions_of_its_run_open(due: Scene):
    """A twin of decide that reads the ledger while act is at work would close the intents of the run, as if it had crashed."""
    run_id, now = due.workflow.decided(), due.server.now
    resource_id = Account(due.server, region=REGIONS[0]).arn(f"endpoint/quiet-{REGIONS[0]}")
    record = due.ledger.record(resource_id, now)
    begun = before_action(record, an_act(StepName.STOP, now, run_id, id=resource_id))
    assert due.ledger.write_record(resource_id, begun, record.version, now)
    (due.home / "runs" / run_id / DECIDED).unlink()
    due.workflow.decide(run_id)
    assert due.ledger.record(resource_id, now).act.result is None
    due.later(hours=1)
    due.workflow.decided()
    assert due.ledger.record(resource_id, now).act.result is not None


def test_a_repeated_decide_takes_no_action_of_its_run_for_an_earlier_one(due: Scene):
    """Its owner would get two mails: one about this run's action, and one about an action that no mail has reported."""
    run_id, before = due.workflow.acted(), len(due.mails())
    (due.home / "runs" / run_id / DECIDED).unlink()
    due.workflow.decide(run_id)
    assert json.loads((due.home / "runs" / run_id / DECIDED).read_text())["unreported"] == []
    due.workflow.conclude(run_id)
    assert len([mail for mail in due.mails()[before:] if "To: ana@example.com" in mail]) <= 1


def test_a_part_that_comes_between_two_decides_is_not_decided(due: Scene):
    """The first decide ended early. What it noted as missing stays missing, or conclude would not report what was decided."""
    run_id = str(due.workflow.list()["run"])
    due.workflow.decide(run_id)
    (due.home / "runs" / run_id / DECIDED).unlink()
    for item in due.workflow.items(run_id):
        due.workflow.observe(run_id, item)
    assert due.workflow.decide(run_id)["actions"] == 0
    assert due.workflow.conclude(run_id).findings == ()


def test_two_acts_on_one_target_at_once_stop_it_once(due: Scene):
    run_id = due.workflow.decided()
    for item in due.workflow.items(run_id, ACT_ITEMS):
        twins = [threading.Thread(target=due.workflow.act, args=(run_id, item)) for _ in range(2)]
        [twin.start() for twin in twins]
        [twin.join() for twin in twins]
    assert set(steps(due.workflow.conclude(run_id)).values()) == {("stop", "done")}
    assert [due.instances(region) for region in REGIONS] == [1, 1]


def test_two_concludes_send_each_mail_once(due: Scene):
    run_id = due.workflow.acted()
    before = due.mails()
    first = due.workflow.conclude(run_id)
    after = due.mails()
    second = due.workflow.conclude(run_id)
    assert due.mails() == after
    sent = [mail for mail in after if mail not in before]
    assert steps(first) == steps(second)
    assert len([mail for mail in sent if "To: ana@example.com" in mail]) == 1


def test_a_repeated_conclude_says_that_owners_were_notified(scene: Scene):
    """It finds rows that changed. The first one may have been killed before it could deliver its report."""
    run_id = scene.workflow.acted()
    scene.workflow.conclude(run_id)
    assert {f.step.because for f in scene.workflow.conclude(run_id).findings} == {NOTIFIED}


def test_no_action_is_begun_once_the_policy_has_changed(due: Scene):
    run_id = due.workflow.decided()
    changed = due.workflow.under(due.policy + "# changed\n")
    for item in due.workflow.items(run_id, ACT_ITEMS):
        changed.act(run_id, item)
    report = changed.conclude(run_id)
    assert set(steps(report).values()) == {("stop", "refused")}
    assert all("policy has changed" in (f.outcome.because or "") for f in report.findings)
    assert [due.instances(region) for region in REGIONS] == [3, 3]


def test_a_policy_that_changes_after_act_does_not_hide_what_was_done(due: Scene):
    run_id = due.workflow.acted()
    report = due.workflow.under(due.policy.replace("action: stop", "action: ignore")).conclude(run_id)
    assert set(steps(report).values()) == {("stop", "done")}
    assert report.run.policy_sha256 == load_policy(due.policy).sha256


def test_nothing_is_begun_once_the_deployment_no_longer_enforces(due: Scene):
    run_id = due.workflow.decided()
    due.use(lambda settings: replace(settings, mode=Mode.NOTIFY))
    for item in due.workflow.items(run_id, ACT_ITEMS):
        due.workflow.act(run_id, item)
    assert [due.instances(region) for region in REGIONS] == [3, 3]


def test_nothing_is_begun_in_an_account_that_is_excluded_by_now(due: Scene):
    run_id = due.workflow.decided()
    due.use(lambda settings: replace(settings, exclude_accounts=("123456789012",)))
    for item in due.workflow.items(run_id, ACT_ITEMS):
        due.workflow.act(run_id, item)
    assert [due.instances(region) for region in REGIONS] == [3, 3]
    report = due.workflow.conclude(run_id)
    assert {f.outcome.because for f in report.findings} == {"the deployment excludes this account by now"}


@pytest.mark.parametrize(
    ("narrowed", "instances"),
    [
        ({"accounts": ("111111111111",)}, [3, 3]),
        ({"regions": REGIONS[:1]}, [1, 3]),
        ({"regions": ("all",), "accounts": ("123456789012",)}, [1, 1]),
    ],
    ids=["another account", "one region", "still all"],
)
def test_nothing_is_begun_where_the_deployment_no_longer_sweeps(due: Scene, narrowed: dict[str, Any], instances: list[int]):
    run_id = due.workflow.decided()
    due.use(lambda settings: replace(settings, **narrowed))
    for item in due.workflow.items(run_id, ACT_ITEMS):
        due.workflow.act(run_id, item)
    assert [due.instances(region) for region in REGIONS] == instances
    told = {f.outcome.because for f in due.workflow.conclude(run_id).findings if f.outcome.result is Result.REFUSED}
    assert told <= {"the deployment doesn't sweep this account or region by now"}
    assert bool(told) == (3 in instances)


@pytest.mark.parametrize("released", [False, True])
def test_nothing_is_begun_that_the_next_run_put_on_hold(due: Scene, released: bool):
    """The map of a run that was stopped goes on acting, by decisions from before the hold."""
    run_id = due.workflow.decided()
    due.later(minutes=30)
    account = holds.account_key(Target(cloud="aws", account="123456789012"))
    hold = Hold(exceeded=Exceeded(limit=LimitName.ACTIONS), since=due.server.now, run="next", because="too many")
    if released:
        holds.release_actions(due.ledger, "ana", due.server.now, accounts=[account])
    row = due.ledger.read_row(holds.row_name(account))
    written = holds.row_columns(replace(holds.row_from_columns(row.values), holds=(hold,)))
    assert due.ledger.write_row(holds.row_name(account), written, row.version)
    for item in due.workflow.items(run_id, ACT_ITEMS):
        due.workflow.act(run_id, item)
    assert [due.instances(region) for region in REGIONS] == ([1, 1] if released else [3, 3])


def test_an_act_without_a_result_is_told_from_the_ledger(due: Scene):
    run_id = due.workflow.acted()
    (due.home / "runs" / run_id / "acted" / "0.json").unlink()
    report = due.workflow.conclude(run_id, {0: "Runtime.ExitError: signal: killed"})
    assert set(steps(report).values()) == {("stop", "done")}
    [row] = [row for row in report.coverage if row.kind == "acts"]
    assert "signal: killed" in (row.error or "")


def test_an_act_that_never_began_is_refused_in_the_report(due: Scene):
    run_id = due.workflow.decided()
    report = due.workflow.conclude(run_id, {0: "Lambda.TooManyRequestsException", 1: "Lambda.TooManyRequestsException"})
    assert set(steps(report).values()) == {("stop", "refused")}
    assert [due.instances(region) for region in REGIONS] == [3, 3]


@pytest.mark.parametrize(("minutes", "actions"), [(60, 2), (61, 0)], ids=["an hour old", "older"])
def test_parts_older_than_an_hour_are_failures(due: Scene, minutes: int, actions: int):
    run_id = due.workflow.observed()
    due.later(minutes=minutes)
    assert due.workflow.decide(run_id)["actions"] == actions
    rows = [row for row in due.workflow.conclude(run_id).coverage if row.cloud == "aws"]
    assert (Status.FAILED in {row.status for row in rows}) == (actions == 0)


@pytest.mark.parametrize(("minutes", "result"), [(119, "done"), (121, "refused")], ids=["in time", "too late"])
def test_no_action_begins_after_two_hours(due: Scene, minutes: int, result: str):
    run_id = due.workflow.decided()
    due.later(minutes=minutes)
    for item in due.workflow.items(run_id, ACT_ITEMS):
        due.workflow.act(run_id, item)
    assert set(steps(due.workflow.conclude(run_id)).values()) == {("stop", result)}
