"""A run over the endpoints that alarms are about: it observes and notifies, and leaves everything else to the scheduled run."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import timedelta

import pytest

from fakes.records import an_act, open_targets
from reaper.aws.functions.alarms import AlarmedEndpoint, is_left_to_another, run_on_alarms
from reaper.coverage import OWN
from reaper.finding import Report
from reaper.ledger.ledger import UNREACHED_ROW
from reaper.limits import holds
from reaper.limits.holds import Breaker, HoldRow, row_columns
from reaper.model import Mode, StepName, Target
from reaper.notices.summary_mail import SUMMARY_ROW
from reaper.pending.unfinished import change_open_targets
from reaper.policy.file import load_policy
from reaper.record import Record, before_action
from reaper_sandbox.aws.account import Account
from workflow.conftest import DAY, NOW, Scene

ACCOUNT = "123456789012"


def alarmed(*names: str, account: str = ACCOUNT) -> set[AlarmedEndpoint]:
    """Alarms on endpoints named for their regions."""
    return {
        AlarmedEndpoint(account=account, region=name.removeprefix("quiet-"), name=name) for name in names or ("quiet-us-east-1",)
    }


def alarm_run(scene: Scene, what: set[AlarmedEndpoint]) -> tuple[Report | None, int]:
    settings = scene.workflow.settings
    assert settings.policy
    return run_on_alarms(what, settings, load_policy(settings.policy), lambda: scene.server.now, print, None)


def steps(ran: tuple[Report | None, int]) -> dict[str, tuple[str, str]]:
    report, _ = ran
    assert report
    return {f.case.resource.name: (f.step.name.value, f.outcome.result.value) for f in report.findings}


def test_the_owner_of_an_alarmed_endpoint_is_notified(scene: Scene):
    other = Account(scene.server, region="us-east-1")
    other.endpoint("other", tags={"owner": "ana@example.com"})
    other.alive("other", "AllTraffic", NOW - 20 * DAY, NOW + DAY)
    assert steps(alarm_run(scene, alarmed())) == {"quiet-us-east-1": ("warn", "done")}
    [mail] = scene.mails()
    assert "To: ana@example.com" in mail
    assert "other" not in mail


def test_the_notice_about_an_alarm_names_the_date_after_a_freeze(scene: Scene):
    frozen = scene.policy.replace("defaults: {", "defaults: {freeze: [year-end], ")
    calendars = "calendars: {year-end: {dates: [2026-11-20/2026-12-31]}}\n"
    scene.use(lambda settings: replace(settings, policy=f"{frozen}{calendars}"))
    report, _ = alarm_run(scene, alarmed())
    assert report
    assert [row for row in report.coverage if row.cloud == OWN] == []
    [mail] = scene.mails()
    assert "on or after Mon 4 Jan 2027" in mail.replace("=\n", "").replace("\n", " ")


def test_several_alarms_make_one_mail_per_owner(scene: Scene):
    assert len(steps(alarm_run(scene, alarmed("quiet-us-east-1", "quiet-eu-west-1")))) == 2
    assert len(scene.mails()) == 1


def test_an_alarm_run_never_acts_and_the_next_scheduled_run_does(due: Scene):
    assert due.workflow.settings.mode is Mode.ENFORCE
    assert steps(alarm_run(due, alarmed()))["quiet-us-east-1"] == ("stop", "planned")
    assert due.instances("us-east-1") == 3
    due.workflow.run()
    assert due.instances("us-east-1") == 1


def test_an_alarm_run_writes_no_statistics_no_hold_and_no_summary(scene: Scene):
    place = {"document": f'[["aws", "{ACCOUNT}", "us-east-1", "sagemaker-endpoint"]]'}
    assert scene.ledger.write_row(UNREACHED_ROW, place, 0)
    alarm_run(scene, alarmed())
    assert scene.ledger.read_row(UNREACHED_ROW).values == place
    target = Target(cloud="aws", account=ACCOUNT, region="us-east-1")
    assert scene.ledger.statistics(target, "sagemaker-endpoint", 10) == []
    assert scene.ledger.read_row(SUMMARY_ROW).version == scene.ledger.read_row(holds.HOLD_ROW).version == 0
    assert not [mail for mail in scene.mails() if "To: admins@example.com" in mail]


def test_an_alarm_run_sends_no_notice_where_the_idle_share_jumped(scene: Scene):
    account = holds.row_name(f"aws/{ACCOUNT}")
    target = f"aws/{ACCOUNT}/us-east-1"
    jump = Breaker(target=target, kind="sagemaker-endpoint", since=scene.server.now, run="r", because="9 of 10 are idle")
    assert scene.ledger.write_row(account, row_columns(HoldRow(breakers=(jump,))), 0)
    ran = alarm_run(scene, alarmed("quiet-us-east-1", "quiet-eu-west-1"))
    assert steps(ran) == {"quiet-us-east-1": ("none", "planned"), "quiet-eu-west-1": ("warn", "done")}
    assert scene.ledger.read_row(account).version == 1


def test_an_alarm_run_that_cannot_read_holds_sends_no_notice(scene: Scene):
    assert scene.ledger.write_row(holds.row_name(f"aws/{ACCOUNT}"), {"row": "?"}, 0)
    assert steps(alarm_run(scene, alarmed())) == {"quiet-us-east-1": ("none", "planned")}
    assert scene.mails() == []


def test_an_alarm_run_leaves_no_lease_behind(scene: Scene):
    alarm_run(scene, alarmed())
    arn = Account(scene.server).arn("endpoint/quiet-us-east-1")
    for target in (Target(cloud="aws", account=ACCOUNT, region="us-east-1"), Target(cloud="resource", account=arn)):
        assert scene.ledger.lease_holder(target, scene.server.now) is None


def test_nothing_is_mailed_while_another_run_has_the_target(scene: Scene):
    target = Target(cloud="aws", account=ACCOUNT, region="us-east-1")
    assert scene.ledger.take_lease(target, "the scheduled run", scene.server.now, timedelta(minutes=15))
    report, _ = alarm_run(scene, alarmed())
    assert is_left_to_another(report)
    assert scene.mails() == []
    assert scene.ledger.lease_holder(target, scene.server.now) == "the scheduled run"


def test_a_ledger_that_fails_is_not_taken_for_another_run(scene: Scene):
    ledger = sqlite3.connect(scene.home / "ledger.db")
    alarm_run(scene, alarmed("quiet-eu-west-1"))
    odd = ("lease", "", "aws/123456789012/us-east-1", None, "9999", "{}")
    ledger.execute("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?)", odd)
    ledger.commit()
    report, _ = alarm_run(scene, alarmed())
    assert report
    assert (is_left_to_another(report), len(scene.mails())) == (False, 1)
    assert any(row.kind == "ledger" for row in report.coverage)


def test_an_endpoint_in_use_is_left_alone(scene: Scene):
    Account(scene.server).invoked("quiet-us-east-1", "AllTraffic", scene.server.now - timedelta(minutes=30))
    assert steps(alarm_run(scene, alarmed())) == {"quiet-us-east-1": ("none", "planned")}
    assert scene.mails() == []


@pytest.mark.parametrize(
    "outside",
    [
        pytest.param(alarmed(account="999999999999"), id="another account"),
        pytest.param(alarmed("quiet-ap-south-1"), id="another region"),
    ],
)
def test_what_is_outside_the_deployment_is_dropped_and_counted(scene: Scene, outside: set[AlarmedEndpoint]):
    assert alarm_run(scene, outside) == (None, 1)


def test_an_alarm_run_leaves_open_actions_elsewhere_to_the_scheduled_run(scene: Scene):
    place, now = Target(cloud="aws", account="210987654321", region="us-east-1"), scene.server.now
    id_ = "arn:aws:sagemaker:us-east-1:210987654321:endpoint/x"
    opened = Record(act=an_act(StepName.STOP, now, "r", id=id_, owner="ana@example.com"))
    assert scene.ledger.write_record(id_, opened, 0, now)
    change_open_targets(scene.ledger, [], [place])
    alarm_run(scene, alarmed())
    assert (open_targets(scene.ledger), scene.ledger.record(id_, now)) == ([place], replace(opened, version=1))


def test_a_region_that_the_sdk_does_not_know_hides_no_other_alarm(scene: Scene):
    scene.use(lambda settings: replace(settings, regions=("all",)))
    odd = AlarmedEndpoint(account=ACCOUNT, region="xx-nowhere-1", name="churn")
    ran = alarm_run(scene, alarmed() | {odd})
    assert (ran[1], steps(ran)) == (1, {"quiet-us-east-1": ("warn", "done")})


def test_an_audit_deployment_only_looks(scene: Scene):
    scene.use(lambda settings: replace(settings, mode=Mode.AUDIT))
    assert steps(alarm_run(scene, alarmed())) == {"quiet-us-east-1": ("warn", "planned")}
    assert scene.mails() == []


@pytest.mark.parametrize("days", [0, 2])
def test_an_open_action_is_left_to_the_scheduled_run(due: Scene, days: int):

    arn, now = Account(due.server).arn("endpoint/quiet-us-east-1"), due.server.now
    record = due.ledger.record(arn, now)
    begun = before_action(record, an_act(StepName.STOP, now, "a run that died", id=arn))
    assert due.ledger.write_record(arn, begun, record.version, now)
    due.later(days=days)
    ran = alarm_run(due, alarmed())
    assert steps(ran)["quiet-us-east-1"] == ("none", "planned")
    assert due.ledger.record(arn, now).act.result is None
    assert "hasn't been settled" in "".join(f.step.because for f in (ran[0].findings if ran[0] else ()))
