"""Ctrl-C ends a command with status 130 and says what was done: real processes, a real SIGINT in the middle of a call."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.test_action_commands import Desk
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault
from reaper_sandbox.aws.server import Server

REAPER = Path(sys.executable).with_name("reaper")
SCALE_IN = "UpdateEndpointWeightsAndCapacities"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Server() as server:
        yield Desk(tmp_path, server)


@pytest.fixture(autouse=True)
def ctrl_c_is_not_ignored() -> Iterator[None]:
    """A shell starts what runs in the background with interrupts ignored, and so would the processes of these tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(desk: Desk, command: str, operation: str, number: int = 1) -> subprocess.CompletedProcess[str]:
    """The command, interrupted while the service is slow to answer the call of that number."""
    reached, seen = threading.Event(), []

    def slow(call: Call) -> Fault | None:
        if call.operation != operation:
            return None
        seen.append(call)
        if len(seen) != number:
            return None
        reached.set()
        return Fault(delay=1.5)

    desk.server.rules.append(slow)
    process = subprocess.Popen(
        [REAPER, *command.split()], cwd=desk.home, env=desk.environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert reached.wait(60)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    desk.server.rules.remove(slow)
    assert (process.returncode, "Traceback" in err) == (130, False), err
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("plan --cloud aws", "Interrupted. Nothing was changed."),
        ("sweep --cloud aws --mode enforce", "Interrupted. Nothing was stopped, deleted or started, and no notice was sent."),
    ],
)
def test_while_it_reads_nothing_was_changed(desk: Desk, command: str, says: str):
    assert says in interrupted(desk, command, "ListEndpoints").stderr
    assert desk.counts() == [3, 3, 3]


@pytest.mark.parametrize("is_applied", [False, True], ids=["sweep", "apply"])
def test_while_it_acts_it_names_what_was_done_and_what_not(desk: Desk, is_applied: bool):
    assert desk("plan", "--cloud", "aws", "-o", "plan.json").returncode == 0
    command = "apply plan.json" if is_applied else "sweep --cloud aws --mode enforce"
    ended = interrupted(desk, command, SCALE_IN, number=2)
    lines = [line for line in ended.stderr.splitlines() if line.startswith(("Done", "May have", "Not begun"))]
    assert lines == ["Done: scale-in a", "May have been done: scale-in b", "Not begun: scale-in c"]
    assert (desk.counts()[0], desk.counts()[2]) == (1, 3)
    run_id = ended.stderr.split()[-1]
    assert f"\n  reaper undo --run {run_id}\n" in ended.stderr
    after = desk("sweep", "--cloud", "aws", "--mode", "enforce")
    assert "another sweep" not in after.stdout + after.stderr, "the lease was given back"
    assert desk.counts()[2] == 1


def test_an_interrupted_undo_goes_on_when_it_is_run_again(desk: Desk):
    desk("sweep", "--cloud", "aws", "--mode", "enforce", "--output", "report.json")
    assert desk.counts() == [1, 1, 1]
    run_id = json.loads((desk.home / "report.json").read_text())["run"]["id"]
    ended = interrupted(desk, f"undo --run {run_id}", SCALE_IN, number=2)
    assert ended.stdout.count("endpoint/") == 1
    assert f"To go on, run:\n  reaper undo --run {run_id}\n" in ended.stderr
    desk("undo", "--run", run_id)
    assert desk.counts() == [3, 3, 3]


def test_ctrl_c_at_the_question_of_apply_says_that_nothing_was_done(desk: Desk):
    desk("plan", "--cloud", "aws", "-o", "plan.json")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [REAPER, "apply", "plan.json"], cwd=desk.home, env=desk.environ(), stdin=theirs, stdout=theirs, stderr=theirs
    )  # fmt: skip
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(ours, 65536)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert b"Interrupted. Nothing was done." in os.read(ours, 65536)
    assert desk.counts() == [3, 3, 3]


def test_an_interrupted_restore_names_the_command_that_finishes_it(desk: Desk):
    desk("sweep", "--cloud", "aws", "--mode", "enforce")
    ended = interrupted(desk, "restore a", SCALE_IN)
    assert f"To finish it, run:\n  reaper restore {desk.ids[0]}\n" in ended.stderr
    assert desk("restore", desk.ids[0]).returncode == 0
    assert desk.counts()[0] == 3


INTERRUPTED_OUTPUT = """
import io, sys

class Output(io.StringIO):
    def write(self, text):
        raise KeyboardInterrupt

sys.stdout = Output()
from reaper.cli.main import main
main()
"""
"""The command, interrupted as soon as it prints its result."""


@pytest.mark.parametrize(
    ("command", "says", "counts"),
    [
        ("sweep --cloud aws --mode enforce", r"Run \w+ was complete; only its report may be cut off\.", [1, 1, 1]),
        ("apply plan.json", r"Run \w+ was complete; only its results may be cut off\.", [1, 1, 1]),
        ("release --all", r"It isn't known whether it was done; run the command again\.", [3, 3, 3]),
    ],
)
def test_while_it_prints_it_says_what_is_known(desk: Desk, command: str, says: str, counts: list[int]):
    if "plan.json" in command:
        assert desk("plan", "--cloud", "aws", "-o", "plan.json").returncode == 0
    script = [sys.executable, "-c", INTERRUPTED_OUTPUT, *command.split()]
    ended = subprocess.run(script, cwd=desk.home, env=desk.environ(), stderr=subprocess.PIPE, text=True, timeout=60)
    assert (ended.returncode, desk.counts()) == (130, counts)
    assert re.search(rf"^Interrupted\. {says}$", ended.stderr, re.MULTILINE), ended.stderr
