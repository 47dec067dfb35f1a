"""Replies with one thing in them that should not be there: a sweep never falls over, and calls nothing idle that is not."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

import seeds
from fakes.sweeps import SweepOrder, sweep
from on_azure.conftest import NOW
from reaper import registry
from reaper.azure import targets
from reaper.policy.parse import parse_policy
from reaper_sandbox.azure import fleet
from reaper_sandbox.azure.request import Reply, Request
from reaper_sandbox.azure.route import Route
from reaper_sandbox.azure.server import Server

GARBAGE: list[Any] = [None, True, -1, 1e400, 10**400, "", "x", [], {}, [[]], {"a": 1}, "2026-13-45", "0001-01-01T00:00:00+14:00"]
ODD_TAGS = [one for one in GARBAGE if one not in (None, {}, {"a": 1}, "0001-01-01T00:00:00+14:00")]
"""Other tags or none at all, and a day to keep something until that is over, are true replies: who meets them depends on the threads."""
MEANT = {"id", "name", "computeId", "default_compute", "status", "jobs", "settings"}
"""Another text here is another meaning, not garbage."""


class Garbling(Server):
    """Puts something odd into a few of the replies whose path contains `where`."""

    where, chance = "", random.Random(0)

    def _checked(self, request: Request, route: Route | None) -> Reply:
        reply = super()._checked(request, route)
        if not self.where or self.where not in request.path or self.chance.random() < 0.5:
            return reply
        body = json.loads(reply.body)
        *above, last = self.chance.choice([path for path in _paths(body) if path and not MEANT & set(path)])
        place = body
        for step in above:
            place = place[step]
        place[last] = self.chance.choice(ODD_TAGS if "tags" in (*above, last) else GARBAGE)
        return Reply(status=reply.status, body=json.dumps(body).encode(), headers=reply.headers)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value[:20] if isinstance(value, list) else ()):
        yield from _paths(inner, (*path, key))


@pytest.fixture(scope="module")
def server() -> Iterator[Garbling]:
    with Garbling(NOW) as running, pytest.MonkeyPatch.context() as patch:
        fleet.settle(running, NOW)
        for name, value in running.env.items():
            patch.setenv(name, value)
        yield running


@pytest.mark.parametrize(
    "where", ["computes", "/workspaces", "getBatch", "Insights/metrics", "jobs", "ResourceGraph", "deployments"]
)
@pytest.mark.fresh
@pytest.mark.parametrize("seed", range(seeds.first(4), seeds.first(4) + 4))
def test_odd_replies_make_nothing_idle_and_hide_nothing_silently(server: Garbling, where: str, seed: int):
    server.where, server.chance = where, random.Random(f"{where} {seed}")
    order = SweepOrder(policy=parse_policy("version: 1", "policy", registry.kind_names()), now=NOW)
    report = sweep(targets.target_sessions((fleet.FIRST, fleet.SECOND)), registry.kinds("azure"), order)
    idle = {f.case.resource.id.rpartition("/")[2] for f in report.findings if f.case.verdict.state == "idle"}
    assert idle <= {name for name, expected in fleet.EXPECTED.items() if expected.state == "idle"}
    assert len(report.findings) == len(fleet.EXPECTED) or any(c.status != "ok" for c in report.coverage)
