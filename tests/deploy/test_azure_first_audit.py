"""The first audit of the Azure guide, as a process of its own: what it may read is what the guide asks for."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import forks
from deploy.test_bicep import GUIDE, actions
from reaper_sandbox.azure import fleet
from reaper_sandbox.azure.rights import only
from reaper_sandbox.azure.server import Server

FIRST = GUIDE.read_text().partition("\n## First audit\n")[2].partition("\n## ")[0]
[COMMAND] = re.findall(r"^\$ reaper (sweep .*)$", FIRST, re.M)
[SUBSCRIPTION] = re.findall(r"--subscription (\S+)", COMMAND)
READER = ("*/read",)
"""The actions of the built-in role: https://learn.microsoft.com/azure/role-based-access-control/built-in-roles/general#reader"""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        fleet.settle(running, datetime.now(UTC))
        yield running


def audit(server: Server) -> tuple[int, dict[str, Any]]:
    """The exit status and the report of the guide's command."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))}
    completed = forks.reaper(*shlex.split(COMMAND), "--format", "json", env={**plain, **server.env})
    return completed.returncode, json.loads(completed.stdout)


@pytest.mark.parametrize("granted", [READER, tuple(actions())], ids=["Reader", "the eight actions"])
def test_the_first_audit_reads_one_subscription_and_changes_nothing(server: Server, granted: tuple[str, ...]) -> None:
    server.rules.append(only(*granted, scope=f"/subscriptions/{SUBSCRIPTION}(/.*)?"))
    status, report = audit(server)
    assert status == 0
    assert {place["status"] for place in report["coverage"]} == {"ok"}
    assert {finding["account"] for finding in report["findings"]} == {SUBSCRIPTION}
    assert [request.action for request in server.requests if request.mutation] == []


def test_the_first_audit_names_a_right_that_is_missing(server: Server) -> None:
    rest = [action for action in actions() if not action.endswith("/computes/read")]
    server.rules.append(only(*rest, scope=f"/subscriptions/{SUBSCRIPTION}(/.*)?"))
    _, report = audit(server)
    assert "Microsoft.MachineLearningServices/workspaces/computes/read" in {place["missing"] for place in report["coverage"]}


def test_the_guide_counts_the_actions_of_the_first_audit() -> None:
    assert len(actions()) == 8
    assert "[eight actions]" in FIRST
