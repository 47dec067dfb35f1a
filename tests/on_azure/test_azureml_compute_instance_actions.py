"""Stopping, starting and shutting down compute instances, over TLS against the sandbox."""

from __future__ import annotations

import pytest

from on_azure.conftest import INSTANCE, NOW
from on_azure.prepared_actions import find_blocked, find_resource, later, prepare_action
from reaper import registry
from reaper.azure.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import StepName
from reaper_sandbox.azure.fault import error, on
from reaper_sandbox.azure.request import Request
from reaper_sandbox.azure.rights import deny, only
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Thing, Workspace

STATE, IDLE = "properties.properties.state", "properties.properties.idleTimeBeforeShutdown"


def inner(thing: Thing) -> dict[str, object]:
    return thing.body["properties"]["properties"]


def test_a_stop_is_one_call_without_waiting(server: Server, cloud: CloudSession, vision: Workspace):
    ada = vision.instance("ada")
    message = prepare_action(cloud, INSTANCE, "ada").perform()
    assert inner(ada)["state"] == "Stopping"
    assert message == "stop requested; the next sweep checks the result"
    assert [m.path.rpartition("/")[2] for m in server.mutations] == ["stop"]
    assert not any("OperationsStatus" in r.path for r in server.requests)
    later(server)
    assert find_resource(cloud, INSTANCE, "ada").status == "Stopped"


def test_undo_of_a_stop_starts_the_instance(server: Server, cloud: CloudSession, vision: Workspace):
    ada = vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada")
    act.perform()
    later(server)
    undone = act.undo()
    assert inner(ada)["state"] == "Starting"
    assert "kernels, terminals and what was in memory when it was stopped are lost" in undone.because
    assert undone.not_restored == ()
    assert act.undo().because == "it is already Starting"


def test_undo_of_a_stop_is_refused_while_stopping(server: Server, cloud: CloudSession, vision: Workspace):
    vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada")
    act.perform()
    with pytest.raises(CloudError, match="it is still Stopping: run it again in a few minutes") as caught:
        act.undo()
    assert caught.value.reason is Reason.REFUSED


@pytest.mark.parametrize("state", ["Unknown", "Unusable", "SomethingNew", None])
def test_undo_of_a_stop_asks_azure_in_any_settled_state(
    server: Server, cloud: CloudSession, vision: Workspace, state: str | None
):
    ada = vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada")
    act.perform()
    later(server)
    ada.set(STATE, state)
    server.rules.append(on("POST", ".*/start", error(409, "Conflict", "Azure decides")))
    with pytest.raises(CloudError, match="Azure decides"):
        act.undo()
    asked = [r.path.rpartition("/")[2] for r in server.requests if r.method == "POST"]
    assert asked[-1] == "start"


def test_a_start_is_carried_out_and_cannot_be_undone(server: Server, cloud: CloudSession, vision: Workspace):
    ada = vision.instance("ada").set(STATE, "Stopped")
    act = prepare_action(cloud, INSTANCE, "ada", StepName.START)
    act.perform()
    later(server)
    assert find_resource(cloud, INSTANCE, "ada").status == "Running"
    with pytest.raises(CloudError, match="a start of kind azureml-compute-instance isn't undone"):
        act.undo()
    assert inner(ada)["state"] == "Running"


def test_idle_shutdown_is_turned_on_and_off_again(server: Server, cloud: CloudSession, vision: Workspace):
    ada = vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada", stop_by="native")
    assert act.perform() == "its idle shutdown was switched on: it runs on until PT60M without use have passed"
    assert (inner(ada)["state"], inner(ada)["idleTimeBeforeShutdown"]) == ("Running", "PT60M")
    undone = act.undo()
    assert (undone.because, undone.not_restored) == ("its idle shutdown is off again", ())
    assert inner(ada)["idleTimeBeforeShutdown"] is None


def test_idle_shutdown_that_stays_on_is_reported(server: Server, cloud: CloudSession, vision: Workspace):
    ada = vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada", stop_by="native")
    act.perform()
    server.rules.append(on("POST", ".*/updateIdleShutdownSetting", error(400, "BadRequest", "a duration is needed")))
    [lost] = act.undo().not_restored
    assert "couldn't be turned off; it is on (PT60M)" in lost
    assert inner(ada)["idleTimeBeforeShutdown"] == "PT60M"


@pytest.mark.parametrize(
    ("since", "message"),
    [
        ("PT3H", "its idle shutdown has been set to PT3H since, so the reaper left it alone"),
        (None, "its idle shutdown is already off"),
        ("PT1H", "its idle shutdown is off again"),
    ],
)
def test_undo_leaves_an_idle_shutdown_that_was_set_since(cloud: CloudSession, vision: Workspace, since: str | None, message: str):
    ada = vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada", stop_by="native")
    act.perform()
    ada.set(IDLE, since)
    assert act.undo().because == message
    assert inner(ada)["idleTimeBeforeShutdown"] == (None if "off" in message else since)


def test_a_managed_identity_makes_its_idle_shutdown_doubtful(cloud: CloudSession, vision: Workspace):
    vision.instance("ada").body["identity"] = {"type": "SystemAssigned"}
    assert "Azure will silently not shut it down" in prepare_action(cloud, INSTANCE, "ada", stop_by="native").perform()
    assert "Contributor" in registry.kind(INSTANCE).actions[StepName.STOP].effect


def test_idle_shutdown_that_azure_does_not_show_is_a_failure(server: Server, cloud: CloudSession, vision: Workspace):
    ada = vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada", stop_by="native")

    def forget(request: Request) -> None:
        if request.method == "GET" and inner(ada)["idleTimeBeforeShutdown"]:
            ada.set(IDLE, None)

    server.rules.append(forget)
    assert "its idle shutdown should be PT60M, but Azure set it to off" in str(act.refused())


def test_an_existing_idle_shutdown_is_left_alone(cloud: CloudSession, vision: Workspace):
    ada = vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada", stop_by="native")
    ada.set(IDLE, "PT3H")
    assert act.withdrawn() == "its settings changed a moment ago"
    assert inner(ada)["idleTimeBeforeShutdown"] == "PT3H"


@pytest.mark.parametrize(
    ("state", "because", "already_done"),
    [
        ("Running", None, False),
        ("Stopped", "it is already stopped", True),
        ("JobRunning", "a job is running on it", False),
        ("Stopping", "its state is Stopping", True),
        *[(s, f"its state is {s}", False) for s in ("Creating", "Deleting", "Starting", "Restarting", "Resizing")],
        *[(s, f"its state is {s}", False) for s in ("SettingUp", "UserSettingUp", "Unusable", "SetupFailed", "SomethingNew")],
    ],
)
def test_each_state_allows_or_blocks_a_stop(
    cloud: CloudSession, vision: Workspace, state: str, because: str | None, already_done: bool
):
    vision.instance("ada").set(STATE, state)
    for by in ("stop", "native"):
        barred = find_blocked(cloud, INSTANCE, "ada", stop_by=by)
        assert (barred and barred.because, bool(barred and barred.already_done)) == (because, already_done)


@pytest.mark.parametrize(
    ("state", "because", "already_done"),
    [
        ("Stopped", None, False),
        ("Running", "it is already running", True),
        ("JobRunning", "it is already running", True),
        ("Stopping", "its state is Stopping", False),
        ("Starting", "its state is Starting", True),
        ("Unusable", "its state is Unusable", False),
    ],
)
def test_each_state_allows_or_blocks_a_start(
    cloud: CloudSession, vision: Workspace, state: str, because: str | None, already_done: bool
):
    vision.instance("ada").set(STATE, state)
    barred = find_blocked(cloud, INSTANCE, "ada", StepName.START)
    assert (barred and barred.because, bool(barred and barred.already_done)) == (because, already_done)


def test_a_native_stop_is_done_if_idle_shutdown_is_on(cloud: CloudSession, vision: Workspace):
    vision.instance("ada").set(IDLE, "PT30M")
    barred = find_blocked(cloud, INSTANCE, "ada", stop_by="native")
    assert barred
    assert (barred.because, barred.already_done) == (
        "its idle shutdown (PT30M) is already on; if that doesn't stop it, `stop_by: stop` does",
        True,
    )
    assert find_blocked(cloud, INSTANCE, "ada") is None


@pytest.mark.parametrize("state", ["Updating", "Creating"])
def test_a_changing_provisioning_state_blocks_both_actions(cloud: CloudSession, vision: Workspace, state: str):
    vision.instance("ada").set("properties.provisioningState", state)
    barred = find_blocked(cloud, INSTANCE, "ada")
    assert barred
    assert (barred.because, barred.already_done) == (f"its provisioning state is {state}", False)
    vision.instance("bob").set("properties.provisioningState", state).set(STATE, "Stopped")
    assert find_blocked(cloud, INSTANCE, "bob", StepName.START).because == f"its provisioning state is {state}"


def test_read_now_has_the_current_tags_of_instance_and_workspace(cloud: CloudSession, vision: Workspace):
    ada = vision.instance("ada").tagged(team="x")
    resource = find_resource(cloud, INSTANCE, "ada")
    ada.tagged({"reaper:keep": "true"})
    vision.tagged({"reaper:owner": "ada@example.com"})
    look = registry.action_functions(INSTANCE).read_now
    assert look(cloud, resource).tags == {"reaper:keep": "true", "reaper:owner": "ada@example.com"}
    ada.tagged(None)
    assert look(cloud, resource).tags == {"reaper:owner": "ada@example.com"}
    ada.without("tags")
    assert look(cloud, resource).tags == {"reaper:owner": "ada@example.com"}
    ada.body["tags"] = ["reaper:keep"]
    assert look(cloud, resource).tags is None


def test_read_now_of_a_gone_or_unreadable_instance_fails(cloud: CloudSession, vision: Workspace):
    ada, bob = vision.instance("ada"), vision.instance("bob")
    instance, other = find_resource(cloud, INSTANCE, "ada"), find_resource(cloud, INSTANCE, "bob")
    ada.remove()
    bob.set("properties.createdOn", "yesterday")
    for resource, trouble in ((instance, Reason.GONE), (other, Reason.UNREADABLE)):
        with pytest.raises(CloudError) as caught:
            registry.action_functions(INSTANCE).read_now(cloud, resource)
        assert caught.value.reason is trouble


def test_stopping_a_deleted_instance_raises_gone(cloud: CloudSession, vision: Workspace):
    ada = vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada")
    ada.remove()
    assert act.refused().reason is Reason.GONE


@pytest.mark.parametrize("stop_by", ["stop", "native"])
def test_an_instance_gone_right_before_its_call_raises_gone(server: Server, cloud: CloudSession, vision: Workspace, stop_by: str):
    ada = vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada", stop_by=stop_by)
    server.rules.append(lambda request: ada.remove() if request.mutation else None)
    failed = act.refused()
    assert (failed.reason, failed.may_have_been_made, len(server.mutations)) == (Reason.GONE, False, 1)


def test_an_instance_gone_with_its_workspace_raises_gone(cloud: CloudSession, vision: Workspace):
    vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada")
    vision.remove()
    assert act.refused().reason is Reason.GONE


@pytest.mark.parametrize("code", ["NotFound", "InvalidOperation"])
def test_a_404_for_an_unknown_operation_does_not_mean_gone(server: Server, cloud: CloudSession, vision: Workspace, code: str):
    vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada", stop_by="native")
    server.rules.append(on("POST", ".*/updateIdleShutdownSetting", error(404, code, "no such operation")))
    assert (act.refused().reason, "although the resource exists" in str(act.refused())) == (Reason.REFUSED, True)


def test_a_refusal_quotes_azures_reason(server: Server, cloud: CloudSession, vision: Workspace):
    ada = vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada")
    server.rules.append(lambda request: ada.set(STATE, "Restarting") and None if request.mutation else None)
    failed = act.refused()
    assert (failed.reason, failed.code) == (Reason.REFUSED, "409 Conflict")
    assert "Cannot stop compute instance ada while it is in the state Restarting" in str(failed)


def test_a_server_error_leaves_the_result_unknown(server: Server, cloud: CloudSession, vision: Workspace):
    vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada")
    server.rules.append(on("POST", ".*/stop", error(501, "Oops", "sorry")))
    failed = act.refused()
    assert (failed.reason, "it may have been carried out" in str(failed)) == (Reason.UNREACHABLE, True)


def test_a_change_whose_result_is_unreadable_is_a_failure(server: Server, cloud: CloudSession, vision: Workspace):
    ada = vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada", stop_by="native")

    def denied(request: Request) -> object:
        refuse = deny("*/computes/read")
        return refuse(request) if inner(ada)["idleTimeBeforeShutdown"] else None

    server.rules.append(denied)
    failed = act.refused()
    assert (failed.reason, failed.missing) == (
        Reason.DENIED,
        "Microsoft.MachineLearningServices/workspaces/computes/read",
    )


@pytest.mark.parametrize(
    ("move", "stop_by", "action"),
    [
        (StepName.STOP, "stop", "stop/action"),
        (StepName.STOP, "native", "updateIdleShutdownSetting/action"),
        (StepName.START, "stop", "start/action"),
    ],
)
def test_a_missing_permission_of_an_instance_action_is_named(
    server: Server, cloud: CloudSession, vision: Workspace, move: StepName, stop_by: str, action: str
):
    ada = vision.instance("ada").set(STATE, "Stopped" if move is StepName.START else "Running")
    before = dict(inner(ada))
    act = prepare_action(cloud, INSTANCE, "ada", move, stop_by=stop_by)
    kind = registry.kind(INSTANCE)
    server.rules.append(only(*kind.permissions))
    failed = act.refused()
    assert (failed.reason, failed.missing) == (Reason.DENIED, f"Microsoft.MachineLearningServices/workspaces/computes/{action}")
    assert inner(ada) == before
    server.rules[:] = [only(*kind.permissions, *kind.actions[move].permissions)]
    act.perform()
    assert inner(ada) != before
    server.rules[:] = [only(*kind.permissions, *registry.action_functions(INSTANCE).undo_permissions)]
    later(server)
    if move is StepName.STOP:
        act.undo()


def test_an_unknown_stop_by_is_refused(server: Server, cloud: CloudSession, vision: Workspace):
    vision.instance("ada")
    assert prepare_action(cloud, INSTANCE, "ada", stop_by="force").refused().reason is Reason.REFUSED
    assert not server.mutations
    assert server.world.now == NOW
