"""The permit of an action: asked right before every changing call, and where it is withdrawn no further call is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import timedelta

import pytest

from on_azure.changes import deleted, deleted_with_traffic, minimum_lowered, scaled_in, started, stopped, stopped_natively
from on_azure.prepared_actions import PreparedAction, later
from reaper.acting.contract import ActionResult, HalfDone, OwnChanges, Permit, UndoResult, unchanged
from reaper.acting.permit import CallPermit
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


def noting_permit(one: PreparedAction, note: Callable[[], None]) -> Permit:
    """The action's permit; `note` is called as soon as it is given."""

    class NotingPermit(CallPermit):
        @contextmanager
        def __call__(self, own_changes: OwnChanges = unchanged) -> Iterator[None]:
            with CallPermit.__call__(self, own_changes):
                note()
                yield

    real = one.permit()
    return NotingPermit(**{f.name: getattr(real, f.name) for f in fields(real)})


@EVERY
def test_each_change_comes_right_after_its_permit(
    server: Server, vision: Workspace, cloud: CloudSession, act: Callable[[Workspace, CloudSession], PreparedAction], calls: int
):
    one, given = act(vision, cloud), []
    made = one.result(noting_permit(one, lambda: given.append(len(server.requests))))
    changing = [at for at, request in enumerate(server.requests) if request.mutation]
    # Before a PUT its endpoint is read once more: everything in it is written.
    between = [[r.method for r in server.requests[permitted:at]] for permitted, at in zip(given, changing, strict=True)]
    assert between == ([["GET"], []] if calls == 2 else [[]])
    assert isinstance(made, ActionResult)
    assert (bool(made.because), made.part_done) == (True, None)


@EVERY
def test_the_resource_is_the_last_that_a_permit_reads(
    server: Server, vision: Workspace, cloud: CloudSession, act: Callable[[Workspace, CloudSession], PreparedAction], calls: int
):
    """Azure may throttle each read for minutes. What is read before the resource may be older, the resource itself never."""
    one = act(vision, cloud)
    one.perform()
    last_reads = [server.requests[at - 1].path for at, r in enumerate(server.requests) if r.mutation and r.method != "PUT"]
    assert last_reads == [one.resource.id]


@EVERY
def test_a_refused_permit_changes_nothing(
    server: Server, vision: Workspace, cloud: CloudSession, act: Callable[[Workspace, CloudSession], PreparedAction], calls: int
):
    one = act(vision, cloud)
    for call in range(1, calls + 1):
        assert one.withdrawn(withdrawn_at(one, call)) == "it was snoozed a moment ago"
        assert [m.method for m in server.mutations] == ["PUT"] * (call - 1)


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
