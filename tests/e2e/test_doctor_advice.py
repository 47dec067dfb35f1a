"""Every line that `reaper doctor` advises runs as it is pasted: what the commands of ours do, and that those of the clouds exist."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
import typer.main
from botocore import xform_name

import forks
import reaper
from fakes.builders import TARGET
from reaper.aws.doctor.checks import grant_line, parse_principal
from reaper.cli.main import app
from reaper.ledger import opening
from reaper.ledger.rows import RunStatistics
from reaper.model import Pause
from reaper.pending.stop_switch import set_pause
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.server import Server

PACKAGE = Path(reaper.__file__).parent
SOURCES = [path for folder in ("doctor", "aws/doctor", "azure/doctor") for path in (PACKAGE / folder).glob("*.py")]
PROSE = re.compile(
    r"reaper (?:doctor again|sweep records|sweep stores|without)\b|reaper doctor --mode enforce with|or reaper resume"
)
POLICY = """version: 1
owners: {domains: [example.com], fallback: ml@example.com}
channels: [{type: folder, path: mails}]
rules: [{name: unused, match: {name: "z-*"}, action: notify}]
"""


class Shell:
    """A person's shell in a folder with a policy and a ledger. What is pasted runs by bash."""

    def __init__(self, server: Server, home: Path) -> None:
        self.home = home
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))}
        ours = {"REAPER_LEDGER": f"sqlite://{home}/ledger.db", "REAPER_POLICY": f"{home}/policy.yaml", "REAPER_MODE": "announce"}
        path = f"{forks.stand_in()}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.env = {**clean, **server.env, **ours, "PATH": path, "AZURE_CONFIG_DIR": "/dev/null", "COLUMNS": "500"}
        (home / "policy.yaml").write_text(POLICY)
        self.paste(f"touch {home}/ledger.db")

    def paste(self, line: str, **environ: str) -> subprocess.CompletedProcess[str]:
        env = {**self.env, **environ}
        return subprocess.run(line, shell=True, cwd=self.home, env=env, capture_output=True, text=True, timeout=120, check=False)

    def advice(self, check: str, options: str = "", **environ: str) -> str:
        """What that check of the doctor says is wrong, and how to fix it."""
        shown = self.paste(f"reaper doctor --cloud aws --format json {options}", **environ)
        [found] = [one for one in json.loads(shown.stdout)["checks"] if one["check"] == check and one["status"] != "ok"]
        return f"{found['because']}\n{found['fix']}"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Server(datetime.now(UTC)) as server:
        Account(server).endpoint("young", created=datetime.now(UTC))
        yield Shell(server, tmp_path)


def line_of(text: str, start: str) -> str:
    """The line in the advice, up to where a sentence goes on."""
    [line] = re.findall(rf"({start}[^`\n]*?)(?=`|\.?$)", text)[-1:]
    return str(line)


@pytest.mark.parametrize("options", ["", "--policy other.yaml"], ids=["REAPER_POLICY", "--policy"])
def test_the_check_of_a_policy_shows_its_problems(shell: Shell, options: str):
    file = shell.home / ("other.yaml" if options else "policy.yaml")
    file.write_text("version: 1\nrules: [{}]\nlimit: 3\n")
    checked = shell.paste(line_of(shell.advice("policy", options), "reaper policy check"))
    assert (checked.returncode, f"{file.name}:3: " in checked.stderr) == (2, True)


def test_the_check_of_a_calendar_reads_it_again(shell: Shell):
    (shell.home / "policy.yaml").write_text(f"{POLICY}calendars: {{gone: {{ics: gone.ics}}}}\n")
    checked = shell.paste(line_of(shell.advice("calendar.gone"), "reaper policy check"))
    assert (checked.returncode, "Calendar gone: can't be relied on" in checked.stdout) == (0, True)


def test_the_switch_is_off_after_the_advice_about_it(shell: Shell):
    set_pause(opening.open_ledger(shell.env["REAPER_LEDGER"], {}), Pause(by="ana"), datetime.now(UTC))
    assert shell.paste(line_of(shell.advice("pause"), "reaper resume")).returncode == 0
    assert "the stop switch is off" in shell.paste("reaper doctor --cloud aws").stdout


def test_a_late_sweep_is_made_up_for(shell: Shell):
    row = RunStatistics(
        run="r", target=TARGET, kind="sagemaker-endpoint", started=datetime.now(UTC) - timedelta(days=3), seen=1, idle=0
    )
    opening.open_ledger(shell.env["REAPER_LEDGER"], {}).record_statistics(row)
    swept = shell.paste(line_of(shell.advice("schedule"), "reaper sweep"))
    assert swept.returncode == 0, swept
    assert "ok       schedule\n" in shell.paste("reaper doctor --cloud aws").stdout


def test_a_report_says_which_rules_match(shell: Shell):
    examined = shell.paste(line_of(shell.advice("policy.rules"), "reaper sweep"))
    assert "1 rule matched nothing in the last report: 'unused'" in examined.stdout, examined.stderr
    listed = shell.paste(line_of(shell.advice("policy.rules", "--report report.json"), "reaper sweep --format csv"))
    assert listed.stdout.startswith("state,")


def test_a_sample_goes_to_somebody_who_may_get_one(shell: Shell):
    channels = '{type: folder, path: mails}, {type: apprise, url: "json://127.0.0.1:1/"}'
    (shell.home / "policy.yaml").write_text(POLICY.replace("{type: folder, path: mails}", channels))
    sent = shell.paste(line_of(shell.advice("channel.apprise"), "reaper notify test"))
    assert (sent.returncode, sent.stderr.count("error")) in {(3, 0), (3, 1)}, sent.stderr
    assert list((shell.home / "mails").iterdir()), "the folder got it, and nothing listens at the other address"


def test_a_grant_is_a_line_as_iam_takes_it():
    words = shlex.split(grant_line(parse_principal("arn:aws:iam::123456789012:role/reaper"), "sagemaker:ListApps", "*"))
    options = {words[at][2:].title().replace("-", ""): words[at + 1] for at in range(3, len(words), 2)}
    model = boto3.client("iam", region_name="us-east-1").meta.service_model
    [operation] = [model.operation_model(name) for name in model.operation_names if xform_name(name, "-") == words[2]]
    assert options.keys() == set(operation.input_shape.required_members)


def constants(path: Path) -> Iterator[str]:
    """The texts of a module but for its docstrings, what is filled in left out."""
    tree = ast.parse(path.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def advised(start: str) -> list[list[str]]:
    texts = [PROSE.sub("", text) for path in SOURCES for text in constants(path)]
    return [line.split() for text in texts for line in re.findall(rf"\b({start} [a-z][\w -]*)", text)]


def test_every_command_of_ours_that_is_named_exists():
    commands: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    named = advised("reaper")
    assert len(named) > 8
    for _, name, *more in named:
        assert name in commands, name
        options = {option for parameter in getattr(commands[name], "params", ()) for option in parameter.opts}
        inner = getattr(commands[name], "commands", None)
        assert not inner or more[0] in inner
        options |= {option for one in (inner or {}).values() for parameter in one.params for option in parameter.opts}
        assert {word for word in more if word.startswith("--")} <= options


def test_every_command_of_awss_that_is_named_exists():
    named = [words for words in advised("aws") if words[1] not in {"configure", "sso"}]
    assert len(named) > 5
    for _, service, *more in named:
        model = boto3.client(service, region_name="us-east-1").meta.service_model
        operations = {xform_name(name, "-"): model.operation_model(name).input_shape for name in model.operation_names}
        if not more or more[0].endswith("-"):  # filled in
            continue
        known = {f"--{xform_name(member, '-')}" for member in operations[more[0]].members}
        known |= {f"--{flag.removeprefix('--')}" for flag in known} | {"--region", "--query"}
        assert {word for word in more[1:] if word.startswith("--") and word != "--"} <= known | {"--notification-endpoint"}
