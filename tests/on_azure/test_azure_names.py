"""A subscription's name for people: it comes with a reply that is asked for anyway, and no harm is done where it does not."""

from __future__ import annotations

from typing import Any

import pytest

from on_azure.conftest import OTHER, SUB, Sweep, changed
from reaper.model import Status, Target
from reaper.report import json
from reaper_sandbox.azure.server import Server

READ = "Microsoft.Resources/subscriptions/read"


def settled(server: Server) -> None:
    for place, name in ((SUB, "Machine learning"), (OTHER, "Planning")):
        space = server.subscription(place, name).workspace("vision")
        space.cluster(f"cluster-{name[0]}")
        space.endpoint("search").deployment(f"blue-{name[0]}")


@pytest.mark.parametrize("asked", [(), (SUB, OTHER)], ids=["all that can be read", "named ones"])
def test_a_subscription_is_named_wherever_it_is_reported(server: Server, run_sweep: Sweep, asked: tuple[str, ...]):
    settled(server)
    done = run_sweep(subscriptions=asked).swept
    rows = [json.finding_json(found) for found in done.findings]
    both = {(SUB, "Machine learning"), (OTHER, "Planning")}
    assert {(row["account"], row["account_name"]) for row in rows} == both
    assert len({row["kind"] for row in rows}) == 2
    assert {(c.account, c.account_name) for c in done.coverage} == both


def test_a_name_costs_no_call_of_its_own(server: Server, run_sweep: Sweep):
    settled(server)
    done = run_sweep(subscriptions=(SUB, OTHER)).swept
    assert sum(c.calls.get(READ, 0) for c in done.coverage) == 2
    assert not [r for r in server.requests if r.path == "/subscriptions"]


@pytest.mark.parametrize("name", [None, 7, " ", {"en": "Planning"}], ids=["null", "a number", "blank", "an object"])
def test_a_name_that_cannot_be_read_is_no_failure(server: Server, run_sweep: Sweep, name: Any):
    settled(server)
    server.rules.append(changed(server, f"/subscriptions/{SUB}", lambda body: body.update(displayName=name)))
    done = run_sweep(subscriptions=(SUB,)).swept
    assert {(c.status, c.account_name) for c in done.coverage} == {(Status.OK, None)}
    assert {json.finding_json(f)["account_name"] for f in done.findings} == {None}


def test_a_renamed_subscription_is_the_same_place():
    old, new = (Target(cloud="azure", account=SUB, account_name=name) for name in ("Planning", "Forecasting"))
    assert {old: 1} == {new: 1}
