"""Actions that end between two calls, or whose replies are lost: what is half done is put back, and what was done is known.

Whole runs in mode enforce over TLS.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from on_azure.enforcing import Killed, Scene, idle_cluster, idle_deployment, idle_instance, once, to_stop_natively
from reaper.acting import restore
from reaper.model import Pause, Result
from reaper.pending import stop_switch
from reaper.record import Snooze
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.fault import Fault, carried_out, cut, error, lost, on, throttled
from reaper_sandbox.azure.request import Request
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace


@pytest.fixture
def doomed(server: Server, vision: Workspace) -> Scene:
    """An idle deployment with all of its endpoint's traffic, which is due to be deleted."""
    scene = idle_deployment(server, vision, "delete")
    scene.one.due()
    return scene


def methods(scene: Scene) -> list[str]:
    return [request.method for request in scene.one.server.mutations]


def share(scene: Scene) -> int | None:
    return dict(scene.above.body["properties"]["traffic"]).get("blue")


def is_there(scene: Scene) -> bool:
    return scene.one.server.world.estate.find(scene.thing.id) is not None


def crash_in_the_wait(scene: Scene) -> None:
    """The traffic is at 0%, and the process ends before the delete."""

    def killed() -> None:
        raise Killed

    scene.one.pause = killed
    with pytest.raises(Killed):
        scene.one.sweep()
    scene.one.pause = lambda: None
    assert (methods(scene), share(scene), is_there(scene)) == (["PUT"], 0, True)
    scene.one.later(hours=1)


def test_traffic_taken_by_a_run_that_crashed_is_put_back(doomed: Scene):
    crash_in_the_wait(doomed)
    [finding] = doomed.one.sweep().findings
    assert (finding.step.name, "an action on it was interrupted" in finding.step.because) == ("none", True)
    assert (methods(doomed), share(doomed), is_there(doomed)) == (["PUT", "PUT"], 100, True)
    record = doomed.one.record(doomed.thing)
    assert (record.act.result, record.act.changes) == (Result.REFUSED, ())
    [mail] = doomed.one.mails()
    assert "its traffic was at 0%, and setting it back to 100% has begun" in mail


@pytest.mark.parametrize("backup", [False, True], ids=["emptied", "from a backup"])
def test_traffic_at_zero_is_told_after_the_ledger_was_lost(doomed: Scene, backup: bool):
    rows = dict(doomed.one.ledger.memory_store.rows)
    crash_in_the_wait(doomed)
    doomed.one.ledger.memory_store.rows = rows if backup else {}
    for _ in range(5):
        report = doomed.one.sweep()
        [row] = [row for row in report.coverage if row.is_own]
        assert f"`reaper restore {doomed.thing.id} --trust-manifest` settles it" in (row.error or "")
        assert report.findings[0].step.name == "none"
        doomed.one.later(days=1)
    assert (methods(doomed), share(doomed), is_there(doomed), doomed.one.mails()) == (["PUT"], 0, True, [])
    context = restore.RestoreContext(
        ledger=doomed.one.ledger,
        archive=doomed.one.archive,
        open_session=lambda target: doomed.one.session(),
        clock=lambda: doomed.one.server.world.now,
        by="jo",
    )
    restored = restore.restore_resource(doomed.thing.id, context, is_trusted=True)
    assert (restored.error, share(doomed)) == (None, 100)
    doomed.one.later(minutes=5)
    assert not [row for row in doomed.one.sweep().coverage if row.is_own]


def test_silence_after_an_interrupted_delete_proves_nothing(doomed: Scene):
    crash_in_the_wait(doomed)
    doomed.one.sweep()
    doomed.one.later(hours=20)
    [finding] = doomed.one.sweep().findings
    assert (finding.step.name, "the reaper changed it" in finding.case.verdict.because) == ("none", True)
    assert methods(doomed) == ["PUT", "PUT"]


@pytest.mark.parametrize(
    ("becomes", "because"),
    [
        ({"blue": 40, "green": 60}, "its 100% of the traffic goes to green by now"),
        ({"blue": 0, "green": 100}, "its 100% of the traffic goes to green by now"),
        ({"blue": 100}, "nothing had changed"),
    ],
)
def test_traffic_that_a_person_set_after_a_crash_is_left(doomed: Scene, becomes: dict[str, int], because: str):
    crash_in_the_wait(doomed)
    doomed.above.set("properties.traffic", becomes)
    doomed.one.sweep()
    assert (methods(doomed), doomed.above.body["properties"]["traffic"]) == (["PUT"], becomes)
    [mail] = doomed.one.mails()
    assert because in mail


def test_traffic_is_left_once_the_crash_is_a_day_old(doomed: Scene):
    crash_in_the_wait(doomed)
    doomed.one.later(hours=24)
    doomed.one.sweep()
    assert (methods(doomed), share(doomed)) == (["PUT"], 0)
    assert "more than a day ago" in doomed.one.mails()[0]


def test_putting_back_is_tried_by_the_next_run_too(doomed: Scene, server: Server):
    crash_in_the_wait(doomed)
    server.rules.append(on("PUT", ".*", error(403, "AuthorizationFailed", "no")))
    report = doomed.one.sweep()
    assert any("missing permission" in (row.error or "") for row in report.coverage)
    assert share(doomed) == 0
    server.rules.clear()
    doomed.one.later(hours=1)
    doomed.one.sweep()
    assert share(doomed) == 100


def test_a_crash_after_the_delete_is_closed_as_done(doomed: Scene, server: Server):
    def killed(call: str, name: str) -> None:
        if "DELETE" in methods(doomed):
            raise Killed

    doomed.one.ledger.fail_on = killed
    with pytest.raises(Killed):
        doomed.one.sweep()
    doomed.one.ledger.fail_on = lambda call, name: None
    doomed.one.later(hours=1)
    doomed.one.sweep()
    record = doomed.one.record(doomed.thing)
    assert (methods(doomed), is_there(doomed), record.act.result) == (["PUT", "DELETE"], False, Result.DONE)
    assert len(doomed.one.mails()) == 1


def paused(scene: Scene) -> None:
    stop_switch.set_pause(scene.one.ledger, Pause(by="lee"), scene.one.server.world.now)


def snoozed(scene: Scene) -> None:
    ledger, now = scene.one.ledger, scene.one.server.world.now
    ledger.write_snooze(scene.thing.id, Snooze(until=now + timedelta(days=3)), 0, now)


def used(scene: Scene) -> None:
    signals.requests(scene.thing, 5, since=scene.one.server.world.now - timedelta(minutes=30))


def kept(scene: Scene) -> None:
    scene.thing.tagged({**scene.thing.body["tags"], "reaper:keep": "true"})


@pytest.mark.parametrize(
    ("happens", "because"),
    [
        (paused, "the stop switch is on"),
        (snoozed, "its ledger record changed a moment ago"),
        (used, "it is active now"),
        (kept, "its tags, settings changed a moment ago"),
    ],
    ids=["paused", "snoozed", "used", "kept"],
)
def test_what_happens_in_the_wait_puts_the_traffic_back(doomed: Scene, happens: Callable[[Scene], None], because: str):
    done: list[bool] = []
    doomed.one.pause = lambda: None if done else done.append(True) or happens(doomed)
    [finding] = doomed.one.sweep().findings
    assert finding.outcome.result is Result.REFUSED
    assert f"it was begun, then interrupted: {because}" in (finding.outcome.because or "")
    assert "setting it back to 100% has begun" in (finding.outcome.because or "")
    assert (methods(doomed), share(doomed), is_there(doomed)) == (["PUT", "PUT"], 100, True)
    assert doomed.one.record(doomed.thing).act.changes == ()


def test_a_change_between_two_requests_after_the_wait_ends_the_delete(doomed: Scene, server: Server):
    restore = doomed.saved()
    first = len(server.requests)
    server.rules.append(on("DELETE", ".*", error(400, "BadRequest", "no")))
    doomed.one.sweep()
    made = [request.method if request.mutation else request.path for request in server.requests[first:]]
    put, delete = made.index("PUT"), made.index("DELETE")
    assert delete - put > 10
    for at in range(put + 1, delete):
        restore()
        server.rules[:] = []
        begun, changes = len(server.requests), len(server.mutations)
        once(server, lambda request, at=at, begun=begun: len(server.requests) == begun + at + 1, lambda: kept(doomed))
        doomed.one.sweep()
        assert methods(doomed)[changes:] == ["PUT", "PUT"], f"request {at}"
        assert (is_there(doomed), share(doomed)) == (True, 100)


LOST = [carried_out(error(500)), carried_out(error(503)), lost()]


@pytest.mark.parametrize("fault", LOST, ids=["500", "503", "cut off"])
@pytest.mark.parametrize("scene_of", [idle_instance, to_stop_natively, idle_cluster, idle_deployment])
def test_an_action_whose_reply_is_lost_is_known_to_be_done(
    server: Server, vision: Workspace, scene_of: Callable[[Server, Workspace], Scene], fault: Fault
):
    scene = scene_of(server, vision)
    scene.one.due()
    server.rules.append(lambda request: fault if request.mutation else None)
    [finding] = scene.one.sweep().findings
    done = "switched to its own idle shutdown" if scene_of is to_stop_natively else "stopped"
    assert (finding.outcome.result, finding.outcome.because) == (Result.DONE, f"it was {done}, although the reply was lost")
    assert len(server.mutations) == 1


@pytest.mark.parametrize("fault", [error(500), cut()], ids=["500", "cut off"])
@pytest.mark.parametrize("scene_of", [idle_instance, to_stop_natively, idle_cluster, idle_deployment])
def test_an_action_that_may_have_been_made_is_not_known(
    server: Server, vision: Workspace, scene_of: Callable[[Server, Workspace], Scene], fault: Fault
):
    scene = scene_of(server, vision)
    scene.one.due()
    server.rules.append(lambda request: fault if request.mutation else None)
    [finding] = scene.one.sweep().findings
    assert (finding.outcome.result, len(server.mutations)) == (Result.FAILED, 1)
    assert "it isn't known whether the action was carried out" in (finding.outcome.error or "")


@pytest.mark.parametrize("traffic", [100, 0])
@pytest.mark.parametrize("fault", LOST, ids=["500", "503", "cut off"])
def test_a_delete_whose_reply_is_lost_is_known_to_be_done(doomed: Scene, server: Server, fault: Fault, traffic: int):
    doomed.above.set("properties.traffic", {"blue": traffic})
    server.rules.append(lambda request: fault if request.method == "DELETE" else None)
    [finding] = doomed.one.sweep().findings
    assert (finding.outcome.result, methods(doomed)) == (Result.DONE, ["PUT", "DELETE"] if traffic else ["DELETE"])


@pytest.mark.parametrize("fault", LOST, ids=["500", "503", "cut off"])
def test_traffic_taken_by_a_call_whose_reply_is_lost_is_put_back(doomed: Scene, server: Server, fault: Fault):
    server.rules.append(on("PUT", ".*", fault, times=1))
    [finding] = doomed.one.sweep().findings
    assert (finding.outcome.result, methods(doomed)) == (Result.FAILED, ["PUT", "PUT"])
    assert (share(doomed), is_there(doomed)) == (100, True)


@pytest.mark.parametrize("shows_after", [2, 20], ids=["while it waits", "later"])
def test_traffic_that_goes_long_after_a_lost_reply_is_put_back(doomed: Scene, server: Server, shows_after: int):
    waits: list[bool] = []

    def show() -> None:
        doomed.above.set("properties.provisioningState", "Succeeded")
        doomed.above.set("properties.traffic", {"blue": 0})

    def wait() -> None:
        waits.append(True)
        if len(waits) == shows_after:
            show()

    once(server, lambda request: request.method == "PUT", lambda: doomed.above.set("properties.provisioningState", "Updating"))
    server.rules.append(on("PUT", ".*", error(503), times=1))
    doomed.one.pause = wait
    [finding] = doomed.one.sweep().findings
    assert finding.outcome.result is Result.FAILED
    if len(waits) < shows_after:
        assert share(doomed) == 100
        show()
        doomed.one.later(minutes=20)
        doomed.one.sweep()
    assert (methods(doomed), share(doomed), is_there(doomed)) == (["PUT", "PUT"], 100, True)


@pytest.mark.parametrize("scene_of", [idle_instance, to_stop_natively, idle_cluster, idle_deployment])
def test_a_throttled_action_is_tried_once_more_after_a_new_look(
    server: Server, vision: Workspace, scene_of: Callable[[Server, Workspace], Scene]
):
    scene = scene_of(server, vision)
    scene.one.due()
    server.rules.append(lambda request: throttled(60) if len(server.mutations) == 1 and request.mutation else None)
    [finding] = scene.one.sweep().findings
    assert (finding.outcome.result, len(server.mutations)) == (Result.DONE, 2)
    first, second = (at for at, request in enumerate(server.requests) if request.mutation)
    assert len([r for r in server.requests[first:second] if r.path == scene.thing.id]) >= 3, "a whole new look"


def test_a_keep_tag_while_throttled_wins(server: Server, vision: Workspace):
    scene = idle_instance(server, vision)
    scene.one.due()

    def guard(request: Request) -> Fault | None:
        if not request.mutation:
            return None
        kept(scene)
        return throttled(60)

    server.rules.append(guard)
    [finding] = scene.one.sweep().findings
    assert (finding.outcome.result, len(server.mutations)) == (Result.REFUSED, 1)
    assert scene.one.record(scene.thing).act is None
