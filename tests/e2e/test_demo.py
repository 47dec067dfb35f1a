from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import strict
from reaper.registry import CLOUDS, kinds

REAPER = Path(sys.executable).with_name("reaper")
SWEPT = [cloud for cloud in CLOUDS if kinds(cloud)]


def plain_environment() -> dict[str, str]:
    """No account, and a shell that finds `reaper`: else its path, however long it is here, would be part of the text."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_", "COLUMNS"))}
    return plain | {"PATH": f"{REAPER.parent}{os.pathsep}{plain['PATH']}"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory):
    """The demo run as a newcomer runs it."""
    folder = tmp_path_factory.mktemp("demo")
    plain = plain_environment()
    completed = subprocess.run(
        [REAPER, "demo", "--output", str(folder)], env=plain, capture_output=True, text=True, timeout=240, check=False
    )
    assert completed.returncode == 0, completed.stderr
    return folder, completed.stdout


def test_the_demo_report_remembers_its_notices(demo):
    report = strict.loads((demo[0] / "report.json").read_text())
    assert {bool(f["memory"] and f["memory"]["warned_at"]) for f in report["findings"] if f["step"] == "warn"} == {True}
    assert {f["memory"] for f in report["findings"] if f["state"] == "active"} == {None}


@pytest.mark.parametrize("cloud", SWEPT)
def test_every_demo_verdict_is_right(demo, cloud: str):
    report = strict.loads((demo[0] / "report.json").read_text())
    expected = import_module(f"reaper_sandbox.{cloud}.fleet").EXPECTED
    name = (lambda f: f["name"]) if cloud == "aws" else (lambda f: f["id"].rpartition("/")[2])
    verdicts = {name(f): (f["state"], f["confidence"]) for f in report["findings"] if f["cloud"] == cloud}
    assert verdicts == {name: (e.state, e.confidence) for name, e in expected.items()}


def test_demo_coverage_is_complete_for_every_kind(demo):
    report = strict.loads((demo[0] / "report.json").read_text())
    assert {c["status"] for c in report["coverage"]} == {"ok"}
    assert {c["kind"] for c in report["coverage"]} == {k.name for k in kinds()}


def test_the_demo_text_leads_with_money_and_ends_with_coverage(demo):
    text = demo[1]
    order = [text.index(part) for part in ("Idle now  $", "Idle, most expensive first", "Unknown, never acted on", "Coverage: ")]
    assert order == sorted(order)
    assert max(len(line) for line in text.splitlines()) <= 120


def steady(line: str) -> str:
    """A line without what the hour of the day changes: how long, and what it has cost so far."""
    line = re.sub(r"\$[\d,]+ wasted|(?<=\d) +\$[\d,]+ +\d+d( \d+h)?", " _", line)
    return " ".join(line.split())


def test_the_readme_shows_the_demos_output(demo):
    [sample, *_] = re.findall(r"```text\n(Idle now.*?)```", (Path(__file__).parents[2] / "README.md").read_text(), re.DOTALL)
    printed = [steady(line) for line in demo[1].splitlines()]
    places = [printed.index(steady(line)) for line in sample.splitlines() if line not in ("", "…")]
    assert places == sorted(places)


def test_the_demo_writes_mails_and_does_nothing_else(demo):
    report = strict.loads((demo[0] / "report.json").read_text())
    mails = sorted((demo[0] / "mail").glob("*.eml"))
    owners = {f["owner"]["address"] for f in report["findings"] if f["step"] == "warn"}
    assert {m.name.rpartition("-")[0] for m in mails} == owners | {"ml-admins@example.com"}
    assert {f["outcome"] for f in report["findings"] if f["step"] == "warn"} == {"done"}


def test_the_demo_page_has_every_finding(demo):
    report = strict.loads((demo[0] / "report.json").read_text())
    page = (demo[0] / "report.html").read_text()
    assert [f["name"] for f in report["findings"] if f["name"] not in page] == []


def test_the_demos_explain_command_works(demo):
    [command] = re.findall(r"For every signal:\s+(.* explain NAME --report .*)", demo[1])
    plain = plain_environment()
    completed = subprocess.run(
        command.replace("NAME", "churn-idle-9-days"),
        shell=True,
        env=plain,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    assert "verdict   idle (proven)" in completed.stdout
