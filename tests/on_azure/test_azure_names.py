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


@pytest.mark.parametrize("subscriptions", [(), (SUB, OTHER)], ids=["all that can be read", "named ones"])
def test_a_subscriptions_name_is_in_every_report_row(server: Server, run_sweep: Sweep, subscriptions: tuple[str, ...]):
    settled(server)
    report = run_sweep(subscriptions=subscriptions).swept
    rows = [json.finding_json(finding, report.run.finished_at) for finding in report.findings]
    both = {(SUB, "Machine learning"), (OTHER, "Planning")}
    assert {(row["account"], row["account_name"]) for row in rows} == both
    assert len({row["kind"] for row in rows}) == 2
    assert {(c.account, c.account_name) for c in report.coverage} == both


def test_a_subscriptions_name_takes_no_extra_call(server: Server, run_sweep: Sweep):
    settled(server)
    report = run_sweep(subscriptions=(SUB, OTHER)).swept
    assert sum(c.calls.get(READ, 0) for c in report.coverage) == 2
    assert not [r for r in server.requests if r.path == "/subscriptions"]


@pytest.mark.parametrize("name", [None, 7, " ", {"en": "Planning"}], ids=["null", "a number", "blank", "an object"])
def test_an_unreadable_subscription_name_is_no_failure(server: Server, run_sweep: Sweep, name: Any):
    settled(server)
    server.rules.append(changed(server, f"/subscriptions/{SUB}", lambda body: body.update(displayName=name)))
    report = run_sweep(subscriptions=(SUB,)).swept
    assert {(c.status, c.account_name) for c in report.coverage} == {(Status.OK, None)}
    assert {json.finding_json(f, report.run.finished_at)["account_name"] for f in report.findings} == {None}


def test_a_renamed_subscription_is_the_same_target():
    old, new = (Target(cloud="azure", account=SUB, account_name=name) for name in ("Planning", "Forecasting"))
    assert {old: 1} == {new: 1}
