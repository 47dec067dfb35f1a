"""`reaper policy check` says what the canary of a valid policy covers, and which acceptances are over."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from reaper.cli.policy import app

NEVER = "no sweep begins within notices.send, mon-fri 10:00-17:00 Europe/Berlin; change one of them"


def test_a_canary_is_named(tmp_path: Path):
    file = tmp_path / "policy.yaml"
    file.write_text(
        'version: 1\ndefaults: {action: stop, act_on: proven}\nenforce_only: {accounts: ["123456789012"], tags: {a: b, c: d}}\n'
    )
    result = CliRunner().invoke(app, ["check", str(file)])
    assert result.exit_code == 0
    assert "Only accounts 123456789012 with tags 'a', 'c' can be stopped, deleted or started." in result.output


@pytest.mark.parametrize(
    ("schedule", "zone", "problem"),
    [
        pytest.param("cron(0 7 * * ? *)", "UTC", NEVER, id="EventBridge, an hour or two early"),
        pytest.param("cron(0 7 * * ? *)", "America/Sao_Paulo", "", id="the same in another zone"),
        pytest.param("cron(0 11 ? * 2-6 *)", "Europe/Berlin", "", id="EventBridge, Monday is 2"),
        pytest.param("cron(0 11 ? * 1,7 *)", "Europe/Berlin", NEVER, id="EventBridge, at weekends"),
        pytest.param("0 0 6 * * *", "UTC", NEVER, id="a function app"),
        pytest.param("0 30 9-11 * * 1-5", "UTC", "", id="a function app in the morning"),
        pytest.param("0 3 * * *", "UTC", NEVER, id="a cron line at night"),
        pytest.param("cron(0 9 ? * TUE-SAT/4 *)", "UTC", "", id="EventBridge, a step of weekdays stays"),
        pytest.param("cron(0 7 * * ? 2024)", "UTC", "expected times of day", id="EventBridge, one year only"),
        pytest.param("rate(1 hour)", "UTC", "", id="EventBridge, every hour"),
        pytest.param("rate(12 hours)", "UTC", "expected times of day", id="EventBridge, too seldom to be sure"),
        pytest.param("rate(1 day)", "UTC", "expected times of day, such as cron(0 7 * * ? *)", id="no time of day"),
        pytest.param("0 11 * * *", "Berlin", "did you mean Europe/Berlin?", id="no such zone"),
    ],
)
def test_a_sweep_must_begin_while_notices_are_sent(schedule: str, zone: str, problem: str, tmp_path: Path):
    file = tmp_path / "policy.yaml"
    file.write_text('version: 1\nnotices: {send: "mon-fri 10:00-17:00", tz: Europe/Berlin}\n')
    result = CliRunner().invoke(app, ["check", str(file), "--schedule", schedule, "--schedule-timezone", zone])
    assert (result.exit_code == 0) is not bool(problem)
    assert problem in str(result.exception or "")


def test_an_acceptance_that_is_over_is_a_warning(tmp_path: Path):
    file = tmp_path / "policy.yaml"
    file.write_text("version: 1\naccept:\n  - {match: {name: demo}, until: 2020-01-31, reason: a demo, by: Lee}\n")
    result = CliRunner().invoke(app, ["check", str(file)])
    assert result.exit_code == 0
    assert "policy.yaml:3: The acceptance of name demo by Lee expired on 2020-01-31. Remove it or renew it." in " ".join(
        result.output.split()
    )
    assert "valid: 0 rules, 1 warning" in result.output
