"""The policy and the last report: what is valid, what matched nothing, who can't be notified, and when the last sweep was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest

from fakes import sample_reports
from fakes.builders import NOW, TARGET
from reaper import registry
from reaper.doctor import deployment
from reaper.doctor.check import Check, CheckStatus, DoctorContext, Opened
from reaper.ledger import opening
from reaper.ledger.rows import RunStatistics
from reaper.model import Mode
from reaper.policy.file import policy_digest
from reaper.report.json import ReportDocument, parse_report, report_json
from reaper.settings import Settings

POLICY = """version: 1
rules:
- {name: used, match: {name: "a-*"}, action: notify}
- {name: unused, match: {name: "z-*"}, action: notify}
"""
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def test_the_metrics_of_the_last_sweep_are_priced_by_the_schedule():
    stored = saved()
    stored = replace(stored, run=replace(stored.run, cost=replace(stored.run.cost, metrics_requested=12_500)))
    check = only(deployment.examine_cost(replace(context(every=HOUR), opened=Opened(stored=stored))))
    assert check.status is CheckStatus.OK
    assert "12,500 metrics; about 720 sweeps a month like it cost $90.00" in check.because
    assert list(deployment.examine_cost(replace(context(every=HOUR), opened=Opened()))) == []


class TargetOnly:
    """A session of which only the target is asked for."""

    target = TARGET


def context(**fields: Any) -> DoctorContext:
    chosen = {"mode": Mode.NOTIFY, **fields.pop("settings", {})}
    environ = {"REAPER_POLICY": chosen["policy"]} if "policy" in chosen else {}
    return DoctorContext(settings=Settings(**chosen), environ=environ, clock=lambda: NOW, kinds=registry.kinds(), **fields)


def saved(
    age: timedelta = HOUR, rules: tuple[str, ...] = ("rule 'used'",), policy: str = POLICY, **finding: Any
) -> ReportDocument:
    """A report that began `age` ago, with a finding for each rule."""
    content = json.loads(json.dumps(report_json(sample_reports.report((sample_reports.finding(**finding),)))))
    content["run"] |= {"started_at": (NOW - age).isoformat(), "policy_sha256": policy_digest(policy)}
    content["coverage"] = []
    content["findings"] = [{**content["findings"][0], "rule": rule} for rule in rules]
    return parse_report(json.dumps(content), "report")


def opened(policy: str = POLICY, report: ReportDocument | None = None) -> Opened:
    known = Opened(report=report)
    list(deployment.open_policy(replace(context(settings={"policy": policy}), opened=known)))
    return known


def only(checks: Iterator[Check]) -> Check:
    [check] = checks
    return check


def test_a_valid_policy_is_fine_and_kept_for_others():
    known = Opened()
    check = only(deployment.open_policy(replace(context(settings={"policy": POLICY}), opened=known)))
    assert (check.status, known.policy is not None) == (CheckStatus.OK, True)
    assert "2 rules" in check.because


@pytest.mark.parametrize("policy", ["version: 2\n", "/nowhere/policy.yaml", "version: 1\nrules: [{}]\n", "s3://"])
def test_a_policy_that_cannot_be_used_needs_mending(policy: str):
    known = Opened()
    check = only(deployment.open_policy(replace(context(settings={"policy": policy}), opened=known)))
    assert (check.status, known.policy) == (CheckStatus.FIX, None)


def test_a_rule_that_matched_nothing_is_named():
    check = only(deployment.examine_rules(replace(context(), opened=opened(report=saved()))))
    assert check.status is CheckStatus.UNKNOWN
    assert "'unused'" in check.because
    assert "'used'" not in check.because.replace("'unused'", "")


def test_rules_that_all_matched_are_fine_also_as_one_of_several():
    report = saved(rules=("rule 'unused' or rule 'used'",))
    assert only(deployment.examine_rules(replace(context(), opened=opened(report=report)))).status is CheckStatus.OK


def test_a_report_under_another_policy_says_nothing_about_the_rules():
    check = only(deployment.examine_rules(replace(context(), opened=opened(report=saved(policy="version: 1\n")))))
    assert (check.status, "another policy" in check.because) == (CheckStatus.UNKNOWN, True)


def test_idle_resources_without_an_address_need_one_above_audit():
    report = saved(owner=None)
    check = only(deployment.examine_owners(replace(context(), opened=opened(report=report))))
    assert (check.status, "owners.fallback" in str(check.fix)) == (CheckStatus.FIX, True)
    assert (
        only(deployment.examine_owners(replace(context(settings={"mode": Mode.AUDIT}), opened=opened(report=report)))).status
        is CheckStatus.OK
    )
    assert only(deployment.examine_owners(replace(context(), opened=opened(report=saved())))).status is CheckStatus.OK


@pytest.mark.parametrize(
    ("age", "every", "status"),
    [
        pytest.param(25 * HOUR, DAY, CheckStatus.OK, id="a little late"),
        pytest.param(27 * HOUR, DAY, CheckStatus.FIX, id="a day missing"),
        pytest.param(4 * DAY, 7 * DAY, CheckStatus.OK, id="a weekly sweep"),
    ],
)
def test_a_sweep_older_than_the_period_needs_mending(age: timedelta, every: timedelta, status: CheckStatus):
    assert only(deployment.examine_schedule(replace(context(every=every), opened=Opened(stored=saved(age))))).status is status


@pytest.mark.parametrize(
    ("mode", "has_ledger", "advice"),
    [
        pytest.param(Mode.AUDIT, True, "invoke the function. In mode audit reaper sweep records nothing", id="audit"),
        pytest.param(Mode.NOTIFY, False, "invoke the function, or set REAPER_LEDGER", id="only reports are known"),
        pytest.param(Mode.NOTIFY, True, "run reaper sweep --mode notify", id="the ledger's statistics"),
    ],
)
def test_a_sweep_that_nothing_would_record_is_not_advised(mode: Mode, has_ledger: bool, advice: str, tmp_path: Path):
    chosen = {"mode": mode, "ledger": f"sqlite://{tmp_path}/ledger.db" if has_ledger else None}
    check = only(deployment.examine_schedule(replace(context(settings=chosen), opened=Opened(stored=saved(3 * DAY)))))
    assert advice in str(check.fix)


def test_a_report_from_a_file_says_nothing_about_the_schedule(tmp_path: Path):
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report_json(sample_reports.report())))
    known = Opened(stored=saved(3 * DAY))
    list(deployment.open_report(replace(context(report_file=str(file)), opened=known)))
    check = only(deployment.examine_schedule(replace(context(), opened=known)))
    assert (check.status, "3 days" in check.because) == (CheckStatus.FIX, True)


def test_the_ledger_may_know_a_newer_sweep_than_the_reports(tmp_path: Path):
    address = f"sqlite://{tmp_path}/ledger.db"
    row = RunStatistics(run="r", target=TARGET, kind="sagemaker-endpoint", started=NOW - HOUR, seen=1, idle=0)
    opening.open_ledger(address, {}).record_statistics(row)
    known = Opened(sessions={"aws": [TargetOnly()]}, stored=saved(3 * DAY))
    check = only(deployment.examine_schedule(replace(context(settings={"ledger": address}), opened=known)))
    assert (check.status, "(ledger)" in check.because) == (CheckStatus.OK, True)


def test_a_day_with_more_reports_than_are_read_proves_no_missing_sweep(moto_url: str, monkeypatch: pytest.MonkeyPatch):
    for name, value in {"AWS_ENDPOINT_URL": moto_url, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    boto3.client("s3").create_bucket(Bucket="bucket")
    for number in range(24):
        content = report_json(sample_reports.report())
        content["run"]["started_at"] = f"{NOW - (24 - number) * HOUR:%Y-%m-%dT%H:%M:%SZ}"
        key = f"reports/{NOW:%Y/%m/%d}/{(number * 7) % 24:03}.json"
        boto3.client("s3").put_object(Bucket="bucket", Key=key, Body=json.dumps(content))
    asked, known = context(settings={"reports": "s3://bucket/reports"}, every=HOUR), Opened()
    assert list(deployment.open_report(replace(asked, opened=known))) == []
    check = only(deployment.examine_schedule(replace(asked, opened=known)))
    assert (check.status, "or later" in check.because) == (CheckStatus.UNKNOWN, True)


def test_without_a_report_the_ledger_says_when_the_last_sweep_was(tmp_path: Path):
    address = f"sqlite://{tmp_path}/ledger.db"
    ledger = opening.open_ledger(address, {})
    row = RunStatistics(run="r", target=TARGET, kind="sagemaker-endpoint", started=NOW - 3 * DAY, seen=1, idle=0)
    ledger.record_statistics(row)
    known = Opened(sessions={"aws": [TargetOnly()]})
    check = only(deployment.examine_schedule(replace(context(settings={"ledger": address}), opened=known)))
    assert (check.status, "3 days" in check.because) == (CheckStatus.FIX, True)


@pytest.mark.parametrize(
    ("began", "status"),
    [
        pytest.param([1, 25, 49], CheckStatus.FIX, id="always before the hours"),
        pytest.param([1, 25, 48], CheckStatus.OK, id="one of them within the hours"),
        pytest.param([1, 25, 8 * 24], CheckStatus.FIX, id="the one within them is too old"),
        pytest.param([1], CheckStatus.UNKNOWN, id="no hours have passed since the first sweep"),
        pytest.param([], CheckStatus.UNKNOWN, id="no sweep is known"),
    ],
)
def test_a_sweep_must_begin_while_notices_are_sent(began: list[int], status: CheckStatus, tmp_path: Path):
    address = f"sqlite://{tmp_path}/ledger.db"
    for hours in began:
        row = RunStatistics(run="r", target=TARGET, kind="sagemaker-endpoint", started=NOW - hours * HOUR, seen=1, idle=0)
        opening.open_ledger(address, {}).record_statistics(row)
    sends = "version: 1\nnotices: {send: 'mon-sun 10:00-11:00'}\n"
    known = opened(policy=sends)
    known.sessions = {"aws": [TargetOnly()]}
    check = only(deployment.examine_sending(replace(context(settings={"ledger": address}), opened=known)))
    assert (check.check, check.status) == ("notices", status)
    assert "notices are sent mon-sun 10:00-11:00 UTC" in check.because
    assert list(deployment.examine_sending(replace(context(settings={"ledger": address}), opened=opened()))) == []


def test_with_neither_it_is_unknown():
    assert only(deployment.examine_schedule(replace(context(), opened=Opened()))).status is CheckStatus.UNKNOWN


def test_a_report_is_read_from_a_file(tmp_path: Path):
    file, known = tmp_path / "report.json", Opened()
    file.write_text(json.dumps(report_json(sample_reports.report())))
    assert list(deployment.open_report(replace(context(report_file=str(file)), opened=known))) == []
    assert known.report is not None
    assert (
        only(deployment.open_report(replace(context(report_file=str(tmp_path / "none")), opened=known))).status
        is CheckStatus.UNKNOWN
    )


def test_a_pause_needs_mending_where_it_stops_something(tmp_path: Path):
    from reaper.model import Pause
    from reaper.pending.stop_switch import end_pause, set_pause

    address = f"sqlite://{tmp_path}/ledger.db"
    ledger = opening.open_ledger(address, {})
    asked = context(settings={"ledger": address, "mode": Mode.ENFORCE})
    assert only(deployment.examine_pause(asked)).status is CheckStatus.OK
    set_pause(ledger, Pause(by="ana"), NOW)
    check = only(deployment.examine_pause(asked))
    assert (check.status, check.fix, "ana" in check.because) == (CheckStatus.FIX, "reaper resume", True)
    assert only(deployment.examine_pause(context(settings={"ledger": address}))).status is CheckStatus.OK
    end_pause(ledger, "ana", NOW)
    assert only(deployment.examine_pause(asked)).status is CheckStatus.OK


def test_each_calendar_is_a_check_with_its_next_entries_or_what_to_fix(tmp_path: Path):
    (tmp_path / "policy.yaml").write_text(
        "version: 1\ncalendars:\n  year-end: {dates: [2099-12-24/2099-12-26]}\n  soon: {dates: ["
        f"{NOW + 30 * DAY:%Y-%m-%d}]}}\n  company: {{ics: company.ics}}\n"
    )
    opened = Opened()
    asked = context(settings={"policy": str(tmp_path / "policy.yaml")})
    assert [check.check for check in deployment.open_policy(replace(asked, opened=opened))] == ["policy"]
    far, soon, company = deployment.examine_calendars(replace(asked, opened=opened))
    assert (far.check, far.status) == ("calendar.year-end", CheckStatus.FIX)
    assert "has no entry from 400 days ago to two years ahead" in far.because
    assert (soon.status, soon.because) == (CheckStatus.OK, f"its next entries: {NOW + 30 * DAY:%Y-%m-%d} (UTC)")
    assert (company.check, company.status) == ("calendar.company", CheckStatus.FIX)
    assert company.fix.startswith("Correct it: `reaper policy check` reads it again.")


def test_an_acceptance_that_is_over_or_without_end_is_to_fix():
    entry = "{{match: {{name: demo}}, until: {}, reason: a demo, by: Lee}}"
    policy = f"version: 1\naccept: [{entry.format('2020-01-31')}, {entry.format('2020-02-01')}]\n"
    valid, over = deployment.open_policy(replace(context(settings={"policy": policy}), opened=Opened()))
    assert (valid.status, "0 rules, 2 warnings: `reaper policy check` shows them" in valid.because) == (CheckStatus.OK, True)
    expired = "The acceptance of name demo by Lee expired on 2020-01-31. Remove it or renew it. 1 more is over."
    assert (over.check, over.status, over.because) == ("policy.accept", CheckStatus.FIX, expired)
    endless = f"version: 1\naccept: [{entry.format('9999-12-31')}]\n"
    refused = only(deployment.open_policy(replace(context(settings={"policy": endless}), opened=Opened())))
    assert (refused.status, "is more than two years ahead" in refused.because) == (CheckStatus.FIX, True)
