"""`reaper demo --serve` as a newcomer uses it: exports from one terminal, commands in another, Ctrl-C at the end."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email import message_from_bytes
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

import forks
import strict

REAPER = Path(sys.executable).with_name("reaper")
README = (Path(__file__).parents[2] / "README.md").read_text()
ELSEWHERE = {
    "AWS_PROFILE": "nowhere",
    "AWS_SESSION_TOKEN": "nowhere",
    "AWS_ENDPOINT_URL_SAGEMAKER": "http://127.0.0.1:9",
    "AZURE_CLIENT_ID": "nowhere",
    "REAPER_MODE": "enforce",
    "REAPER_ROLE": "arn:aws:iam::999999999999:role/nowhere",
    "REAPER_SUBSCRIPTIONS": "99999999-9999-9999-9999-999999999999",
}
"""A caller's own settings, all of which lead nowhere."""
ENDINGS = {"doctor": 1, "undo": 3}
"""How commands end that don't end with 0: the last sweep was two days ago, and what was in a notebook's memory is lost."""


@dataclass(frozen=True)
class Practice:
    """A serving process, what it printed on standard output, and the environment of a shell that ran that."""

    process: subprocess.Popen[str]
    out: str
    environ: dict[str, str]

    @property
    def home(self) -> Path:
        return Path(self.environ["REAPER_POLICY"]).parent

    def run(self, command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        path = f"{forks.stand_in()}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            command, shell=True, cwd=cwd, env={**self.environ, "PATH": path},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def sweep(self, options: str, cwd: Path) -> dict:
        done = self.run(f"reaper sweep {options} --format json", cwd)
        assert done.returncode == 0, done.stderr
        return strict.loads(done.stdout)

    def statuses(self, cwd: Path) -> dict[str, str]:
        """Two resources that the plan stops and deletes, as a new sweep sees them."""
        findings = self.sweep("--cloud aws --region us-east-1", cwd)["findings"]
        return {f["name"]: f["status"] for f in findings if f["name"] in {"nb-busy-series-silent", "draft-translator"}}


@contextmanager
def serving() -> Iterator[Practice]:
    """Started in a shell that leads elsewhere, in a process of its own."""
    elsewhere = {**{k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_"))}, **ELSEWHERE}
    process = subprocess.Popen(
        [REAPER, "demo", "--serve"], env=elsewhere, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        assert process.stderr
        for line in process.stderr:
            if "Ctrl-C" in line:
                break
        os.set_blocking(process.stdout.fileno(), False)
        out = process.stdout.read()
        yield Practice(process, out, _shell_environ(out, elsewhere))
    finally:
        process.terminate()  # so that it deletes its folder
        process.communicate()


def _shell_environ(script: str, before: dict[str, str]) -> dict[str, str]:
    """The variables of a shell after it ran the lines."""
    shown = subprocess.run(["sh", "-c", f"{script}\nenv -0"], env=before, capture_output=True, text=True, check=True)
    return dict(entry.split("=", 1) for entry in shown.stdout.split("\0") if entry)


@pytest.fixture(scope="module")
def practice() -> Iterator[Practice]:
    with serving() as running:
        yield running


def ports(practice: Practice) -> set[int]:
    addresses = (practice.environ[name] for name in ("AWS_ENDPOINT_URL", "REAPER_ARM_ENDPOINT", "REAPER_SNOOZE_URL"))
    return {urlsplit(address).port or 0 for address in addresses}


def test_one_line_is_printed_and_its_file_leads_nowhere_else(practice: Practice):
    assert practice.out == f". {practice.home}/exports.sh\n"
    exports = (practice.home / "exports.sh").read_text()
    assert {line.split()[0] for line in exports.splitlines()} == {"unset", "export"}
    assert ELSEWHERE.keys() & practice.environ.keys() == set()
    assert {urlsplit(v).hostname for v in practice.environ.values() if v.startswith(("http:", "https:"))} == {"127.0.0.1"}


def test_the_readmes_practice_commands_run_in_order(practice: Practice, tmp_path: Path):
    section = README.split("\n## Practice\n")[1].split("\n## ")[0]
    first, *commands = re.findall(r"^\$ (.*)$", section, re.MULTILINE)
    assert first == "reaper demo --serve"
    run_id = ""
    for command in commands:
        done = practice.run(command.replace("RUN", run_id), tmp_path)
        assert done.returncode == ENDINGS.get(command.split()[1], 0), (command, done.stdout, done.stderr)
        assert re.findall("Traceback|FAILED", done.stdout + done.stderr) == []
        if "reaper apply" in command:
            [run_id] = re.findall(r"6 of 6 actions carried out in run (\w+)", done.stdout)
            assert practice.statuses(tmp_path) == {"nb-busy-series-silent": "Stopped"}
        if "reaper undo" in command:
            assert practice.statuses(tmp_path) == {"nb-busy-series-silent": "InService"}


def test_the_organization_has_three_accounts_with_idle_resources(practice: Practice, tmp_path: Path):
    report = practice.sweep("--cloud aws --organization", tmp_path)
    named = {f["account"]: f["account_name"] for f in report["findings"]}
    assert named == {"123456789012": "platform", "210987654321": "vision research", "345678901234": "recommendations"}
    assert {c["status"] for c in report["coverage"]} == {"ok"}


def test_a_mails_snooze_link_keeps_the_resource(practice: Practice, tmp_path: Path):
    link = next(link for link in _links(practice.home / "mail") if _preselects(link, "nb-no-series"))
    [token], [row] = re.findall(r'name="t" value="([^"]+)"', _read(link)), parse_qs(link.partition("?")[2])["r"]
    page = urllib.request.urlopen(
        link.partition("?")[0], urlencode({"t": unescape(token), "r": row, "days": 7}).encode(), timeout=30
    )
    assert page.status == 200
    findings = practice.sweep("--cloud aws --kind sagemaker-notebook", tmp_path)["findings"]
    [finding] = [f for f in findings if f["name"] == "nb-no-series-quiet-5-days"]
    assert (finding["state"], finding["because"].split()[0]) == ("exempt", "snoozed")


def _links(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.eml")):
        parts = [p for p in message_from_bytes(path.read_bytes()).walk() if p.get_content_type() == "text/plain"]
        yield from re.findall(r"http://127\.0\.0\.1:\d+/keep\S+", parts[0].get_payload(decode=True).decode())


def _preselects(link: str, name: str) -> bool:
    """Whether it is the link to keep this resource, and not that of the whole mail."""
    rows = re.findall(r'name="r" value="\d+"( checked)?>\s*(?:<div[^>]*>)?<b>([^<]*)</b>', _read(link))
    return "&r=" in link and any(name in text for checked, text in rows if checked or len(rows) == 1)


def _read(link: str) -> str:
    return urllib.request.urlopen(link, timeout=30).read().decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_ctrl_c_ends_it_cleanly_beside_another_one(practice: Practice, number: signal.Signals):
    with serving() as second:
        assert ports(second) & ports(practice) == set()
        second.process.send_signal(number)
        assert second.process.wait(20) == 0
        assert [port for port in ports(second) if _is_open(port)] == []
        assert not second.home.exists()
    assert [port for port in ports(practice) if not _is_open(port)] == []


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("option", ["--story", "--output x", "--format json", "--policy x"])
def test_serving_has_a_folder_and_policy_of_its_own(option: str, tmp_path: Path):
    completed = forks.reaper("demo", "--serve", *shlex.split(option), env=os.environ, cwd=tmp_path)
    assert (completed.returncode, completed.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert "--serve has its own folder and policy" in completed.stderr
