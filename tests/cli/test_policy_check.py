"""`reaper policy check` says what the canary of a valid policy covers, and which acceptances are over."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from reaper.cli.policy import app


def test_a_canary_is_named(tmp_path: Path):
    file = tmp_path / "policy.yaml"
    file.write_text(
        'version: 1\ndefaults: {action: stop, act_on: proven}\nenforce_only: {accounts: ["123456789012"], tags: {a: b, c: d}}\n'
    )
    result = CliRunner().invoke(app, ["check", str(file)])
    assert result.exit_code == 0
    assert "Only accounts 123456789012 with tags 'a', 'c' can be stopped, deleted or started." in result.output


def test_an_acceptance_that_is_over_is_a_warning(tmp_path: Path):
    file = tmp_path / "policy.yaml"
    file.write_text("version: 1\naccept:\n  - {match: {name: demo}, until: 2020-01-31, reason: a demo, by: Lee}\n")
    result = CliRunner().invoke(app, ["check", str(file)])
    assert result.exit_code == 0
    assert "policy.yaml:3: The acceptance of name demo by Lee expired on 2020-01-31. Remove it or renew it." in " ".join(
        result.output.split()
    )
    assert "valid: 0 rules, 1 warning" in result.output
