"""The permit of an action: asked right before every changing call, and where it is withdrawn no further call is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import timedelta

import pytest

from on_azure.changes import deleted, deleted_with_traffic, minimum_lowered, scaled_in, started, stopped, stopped_natively
from on_azure.prepared_actions import PreparedAction, later
from reaper.acting.contract import HalfDone, OwnChanges, Permit, UndoResult, unchanged
from reaper.acting.look import CallPermit
from reaper.azure.session import CloudSession
from reaper.errors import ActionWithdrawn, CloudError
from reaper_sandbox.azure.fault import denied, on
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace

EVERY = pytest.mark.parametrize(
    ("act", "calls"),
    [
        (scaled_in, 1),
        (deleted, 1),
        (deleted_with_traffic, 2),
        (minimum_lowered, 1),
        (stopped, 1),
        (stopped_natively, 1),
        (started, 1),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)


@pytest.fixture(autouse=True)
def _waits(server: Server, cloud: CloudSession) -> None:
    def pause(seconds: float) -> None:
        server.now = server.world.now + timedelta(seconds=seconds + 60)

    cloud.clients.pause = pause


def withdrawn_at(one: PreparedAction, call: int) -> Permit:
    """The action's permit, which is withdrawn before the changing call of that number, counted from 1."""
    entered: list[int] = []

    class WithdrawnPermit(CallPermit):
        @contextmanager
        def __call__(self, own_changes: OwnChanges = unchanged) -> Iterator[None]:
            entered.append(1)
            if len(entered) == call:
                raise ActionWithdrawn("it was snoozed a moment ago")
            with CallPermit.__call__(self, own_changes):
                yield

    real = one.permit()
    return WithdrawnPermit(**{f.name: getattr(real, f.name) for f in fields(real)})


@EVERY
def test_the_resource_is_the_last_that_a_permit_reads(
    server: Server, vision: Workspace, cloud: CloudSession, act: Callable[[Workspace, CloudSession], PreparedAction], calls: int
):
    """Azure may throttle each read for minutes. What is read before the resource may be older, the resource itself never."""
    one = act(vision, cloud)
    one.perform()
    last_reads = [server.requests[at - 1].path for at, r in enumerate(server.requests) if r.mutation and r.method != "PUT"]
    assert last_reads == [one.resource.id]


def test_a_delete_withdrawn_after_the_traffic_moved_puts_it_back(server: Server, vision: Workspace, cloud: CloudSession):
    one = deleted_with_traffic(vision, cloud)
    _, settled = one.interrupted(withdrawn_at(one, 2))
    assert settled.state is HalfDone.PUT_BACK
    later(server)
    chat, blue = (server.world.estate.find(id_) for id_ in (one.resource.id.rpartition("/deployments/")[0], one.resource.id))
    assert [m.method for m in server.mutations] == ["PUT", "PUT"]
    assert chat["properties"]["traffic"] == {"blue": 100}
    assert blue["properties"]["provisioningState"] == "Succeeded"


def test_a_delete_cut_off_after_the_traffic_moved_can_be_undone(server: Server, vision: Workspace, cloud: CloudSession):
    one = deleted_with_traffic(vision, cloud)
    one.withdrawn(withdrawn_at(one, 2))
    server.rules.append(on("PUT", ".*", denied()))
    with pytest.raises(CloudError, match="missing permission"):
        one.put_back()
    server.rules.clear()
    later(server)
    undone = one.undo()
    assert undone == UndoResult(because="it exists, and gets 100% of the traffic again")
