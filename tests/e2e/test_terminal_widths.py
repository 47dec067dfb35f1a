"""plan, apply, holds, explain and doctor on real terminals of 60, 80 and 120 columns: nothing breaks inside a word, nothing to paste is cut."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import termios
from collections.abc import Iterator

import pytest

import forks
from e2e.test_demo_serve import REAPER, Practice, serving
from reaper.report.table import CUT_HINT

COMMANDS = {
    "plan": "plan --cloud aws --region us-east-1",
    "apply": "apply plan.json --organization",
    "holds": "sweep --cloud azure --subscription 11111111-1111-1111-1111-111111111111",
    "explain": "explain summaries/silent --report report.json",
    "doctor": "doctor --cloud azure",
}
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PASTED = re.compile(r"^ +(?:Fix: )?(?:'?/.*/reaper'?|reaper|aws|az|export) |^ *\S+$|^ +(?:id|Missing:) +\S+$")
"""Lines that may be longer than the terminal: a command, wherever the reaper is installed, or one word."""


CHANGING = {*CUT_HINT.replace(",", "").split(), "proven", "likely"}
"""Words that only a narrow table has."""


@pytest.fixture(scope="module")
def practice() -> Iterator[Practice]:
    with serving() as running:
        home = running.home
        running.run("reaper plan --cloud aws --organization --output plan.json", home)
        running.run("reaper sweep --output report.json", home)
        yield running


@pytest.fixture(scope="module")
def wide(practice: Practice) -> dict[str, set[str]]:
    """The words of each command that cuts and wraps nothing."""
    return {name: set(typed(practice, f"{command} --wide", 120).split()) for name, command in COMMANDS.items()}


def typed(practice: Practice, command: str, columns: int) -> str:
    """What a terminal of that width shows of the command, of which `apply` alone asks and gets a no."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {name: value for name, value in practice.environ.items() if name not in {"COLUMNS", "LINES"}} | {"TERM": "xterm"}
    asks = command.startswith("apply")  # on standard error, which an ordinary process takes for a terminal from its start
    process = subprocess.Popen(
        [REAPER if asks else forks.stand_in() / "reaper", *shlex.split(command)], cwd=practice.home, env=env,
        stdin=theirs, stdout=theirs, stderr=theirs if asks else subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while chunk := _read(ours):
        shown += chunk
        if b"[y/N]" in chunk:
            os.write(ours, b"n\n")
    os.close(ours)
    assert process.wait(60) == (1 if asks or command.startswith("doctor") else 0), shown
    return ESCAPES.sub("", shown.decode()).replace("\r", "")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux: the other side is closed
        return b""


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_word_breaks_and_nothing_to_paste_is_cut(practice: Practice, wide: dict[str, set[str]], name: str, columns: int):
    shown = typed(practice, COMMANDS[name], columns)
    assert [line for line in shown.splitlines() if len(line) > columns and not PASTED.match(line)] == []
    new = {word.strip(",") for word in shown.split()} - {word.strip(",") for word in wide[name]} - CHANGING
    assert [word for word in new if "…" not in word and not re.fullmatch(r"[0-9a-f]{12}|[\d:.$,]+[mhd]?", word)] == []
    assert not any("…" in line for line in shown.splitlines() if re.search(r"arn:|/subscriptions/|^ +reaper ", line))


def test_apply_asks_with_the_deletes_counted_and_changes_nothing(practice: Practice):
    shown = typed(practice, COMMANDS["apply"], 80)
    assert "\n6 actions, 1 delete among them. Proceed? [y/N]" in shown
    assert shown.rstrip().endswith("Nothing was done.")
    assert practice.statuses(practice.home)["draft-translator"] == "InService"


def test_a_hold_is_shown_once_with_its_command(practice: Practice):
    shown = typed(practice, COMMANDS["holds"], 80)
    [command] = re.findall(r"^  reaper release .*$", shown, re.MULTILINE)
    assert command == "  reaper release --account 11111111-1111-1111-1111-111111111111"
    assert shown.count("exceed max_acts: 8") == 1
