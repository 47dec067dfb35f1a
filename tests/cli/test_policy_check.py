"""`reaper policy check` says what the canary of a valid policy covers."""

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
