"""What a deployment is made from is read before it is deleted: a model, an environment or code that is gone could not be brought back."""

from __future__ import annotations

import pytest

from on_azure.conftest import DEPLOYMENT, SUB
from on_azure.prepared_actions import find_blocked, find_resource, prepare_action
from reaper import registry
from reaper.azure import workspaces
from reaper.azure.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import Resource, StepName
from reaper_sandbox.azure.fault import error, garbage, on
from reaper_sandbox.azure.rights import deny
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Thing, Workspace

FIELDS = {"model": "properties.model", "environment": "properties.environmentId", "code": "properties.codeConfiguration.codeId"}
EVERY = pytest.mark.parametrize("what", FIELDS)


@pytest.fixture
def blue(vision: Workspace) -> Thing:
    """A deployment without traffic, made from a model, an environment and code of its workspace."""
    return vision.endpoint("chat").deployment("blue")


def refused(cloud: CloudSession) -> CloudError:
    with pytest.raises(CloudError) as caught:
        prepare_action(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE)
    return caught.value


def made_from(cloud: CloudSession) -> list[dict[str, str]]:
    """What the manifest of its delete says that it is made from."""
    one: list[dict[str, str]] = prepare_action(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE).manifest.undo_state["assets"]
    return one


def asset_calls(server: Server) -> list[str]:
    return [r.path for r in server.requests if "/versions/" in r.path]


def test_each_asset_is_read_and_noted_in_the_manifest(server: Server, cloud: CloudSession, vision: Workspace, blue: Thing):
    written = {what: f"{vision.id}/{workspaces.COLLECTIONS[what]}/chat/versions/1" for what in FIELDS}
    assert made_from(cloud) == [{"what": what, "id": id_, "because": "it exists"} for what, id_ in written.items()]
    assert asset_calls(server) == list(written.values())


@EVERY
def test_a_missing_asset_refuses_the_delete(server: Server, cloud: CloudSession, vision: Workspace, blue: Thing, what: str):
    vision.asset(workspaces.COLLECTIONS[what], "chat").remove()
    failed = refused(cloud)
    assert failed.reason is Reason.REFUSED
    assert f"its {what} {vision.id}/{workspaces.COLLECTIONS[what]}/chat/versions/1 no longer exists" in str(failed)
    assert not server.mutations


@EVERY
def test_another_version_of_a_missing_asset_does_not_count(cloud: CloudSession, vision: Workspace, blue: Thing, what: str):
    vision.asset(workspaces.COLLECTIONS[what], "chat").remove()
    vision.asset(workspaces.COLLECTIONS[what], "chat", "2")
    assert "no longer exists" in str(refused(cloud))


@EVERY
def test_a_missing_permission_for_an_asset_is_named(server: Server, cloud: CloudSession, blue: Thing, what: str):
    permission = f"Microsoft.MachineLearningServices/workspaces/{workspaces.COLLECTIONS[what]}/versions/read"
    server.rules.append(deny(permission))
    failed = refused(cloud)
    assert (failed.reason, failed.missing) == (Reason.DENIED, permission)


@pytest.mark.parametrize("fault", [error(500), error(400), garbage()], ids=["server error", "refused", "garbage"])
@EVERY
def test_an_unreadable_asset_refuses_the_delete(server: Server, cloud: CloudSession, blue: Thing, what: str, fault: object):
    server.rules.append(on("GET", f".*/{workspaces.COLLECTIONS[what]}/.*", fault))
    assert refused(cloud).operation.endswith(f"/{workspaces.COLLECTIONS[what]}/versions/read")


@EVERY
def test_assets_that_a_deployment_lacks_are_not_read(server: Server, cloud: CloudSession, blue: Thing, what: str):
    blue.set("properties.codeConfiguration", None) if what == "code" else blue.set(FIELDS[what], None)
    assert [one["what"] for one in made_from(cloud)] == [other for other in FIELDS if other != what]


@EVERY
def test_registry_assets_are_assumed_to_exist_and_noted_so(server: Server, cloud: CloudSession, blue: Thing, what: str):
    id_ = f"azureml://registries/azureml/{workspaces.COLLECTIONS[what]}/llama/versions/7"
    blue.set(FIELDS[what], id_)
    because = "it is in a registry, which these permissions can't read: it is assumed to exist"
    assert {"what": what, "id": id_, "because": because} in made_from(cloud)
    assert len(asset_calls(server)) == 2


GUID = "{guid}"
HOME = f"subscriptions/{SUB}/resourceGroups/ml"
PROVIDER = "providers/Microsoft.MachineLearningServices"


@pytest.mark.parametrize(
    "spelling",
    [
        pytest.param(f"/{HOME}/{PROVIDER}/workspaces/vision/{{many}}/own/versions/3", id="its ARM id"),
        pytest.param(f"/{HOME.lower()}/{PROVIDER.lower()}/workspaces/vision/{{many}}/own/versions/3", id="in small letters"),
        pytest.param(f"azureml:/{HOME}/{PROVIDER}/workspaces/vision/{{many}}/own/versions/3", id="its ARM id with a scheme"),
        pytest.param(f"azureml://{HOME}/{PROVIDER}/workspaces/vision/{{many}}/own/versions/3", id="its ARM id as an address"),
        pytest.param(f"azureml://{HOME}/workspaces/vision/{{many}}/own/versions/3", id="its address"),
        pytest.param("azureml://locations/westeurope/workspaces/{guid}/{many}/own/versions/3", id="its asset id"),
        pytest.param("azureml:own:3", id="name and version"),
    ],
)
@EVERY
def test_every_spelling_of_a_workspace_asset_is_read(
    cloud: CloudSession, vision: Workspace, blue: Thing, what: str, spelling: str
):
    many, guid = workspaces.COLLECTIONS[what], vision.body["properties"]["workspaceId"]
    blue.set(FIELDS[what], spelling.format(many=many, guid=guid))
    assert "no longer exists" in str(refused(cloud))
    vision.asset(many, "own", "3")
    assert made_from(cloud)[list(FIELDS).index(what)]["because"] == "it exists"


def test_an_asset_of_another_workspace_is_read_there(cloud: CloudSession, server: Server, blue: Thing):
    other = server.subscription(SUB).workspace("models", group="shared")
    blue.set("properties.model", f"{other.id}/models/own/versions/3")
    assert "no longer exists" in str(refused(cloud))
    other.asset("models", "own", "3")
    assert made_from(cloud)[0]["because"] == "it exists"


@pytest.mark.parametrize(
    "spelling",
    [
        "m:8",
        "azureml:own",
        "azureml:own@latest",
        "azureml:own:3:4",
        "azureml://registries/azureml/{many}/own/labels/latest",
        "azureml://registries/azureml/components/own/versions/3",
        "azureml://locations/westeurope/workspaces/another-number/{many}/own/versions/3",
        "azureml://jobs/run/outputs/artifacts/model",
        "/subscriptions/1/resourceGroups/ml/providers/Microsoft.MachineLearningServices/registries/r/{many}/own/versions/3",
        "/subscriptions/1/resourceGroups/ml/providers/Microsoft.MachineLearningServices/workspaces/vision/data/own/versions/3",
        "/subscriptions/1/resourceGroups/ml/providers/Microsoft.MachineLearningServices/workspaces/vision/{many}/own/3",
        "https://example.com/{many}/own/versions/3",
        7,
        {"id": "azureml:own:3"},
        ["azureml:own:3"],
    ],
    ids=str,
)
@EVERY
def test_an_asset_in_an_unknown_spelling_blocks_a_delete(
    server: Server, cloud: CloudSession, blue: Thing, what: str, spelling: object
):
    written = spelling.format(many=workspaces.COLLECTIONS[what]) if isinstance(spelling, str) else spelling
    blue.set(FIELDS[what], written)
    because = f"its {what} isn't understood ({written})"
    assert (
        find_blocked(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE).because
        == f"{because}, so it might not be possible to recreate it"
    )
    assert because in str(refused(cloud))


def test_an_odd_code_configuration_blocks_a_delete(cloud: CloudSession, blue: Thing):
    blue.set("properties.codeConfiguration", "code")
    assert "its code isn't understood (code)" in find_blocked(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE).because


def test_a_scale_in_reads_no_assets(server: Server, cloud: CloudSession, blue: Thing):
    blue.set("sku.capacity", 3).set("properties.model", "m:8")
    assert prepare_action(cloud, DEPLOYMENT, "chat/blue").manifest.undo_state["assets"] == []
    assert asset_calls(server) == []


def test_a_recheck_reads_no_assets(server: Server, cloud: CloudSession, blue: Thing):
    one: Resource = find_resource(cloud, DEPLOYMENT, "chat/blue")
    registry.action_functions(DEPLOYMENT).read_now(cloud.without_cache(), one)
    assert asset_calls(server) == []


@pytest.mark.parametrize("made", [None, "yesterday"])
def test_an_endpoint_of_unknown_age_blocks_a_delete(cloud: CloudSession, vision: Workspace, made: str | None):
    chat = vision.endpoint("chat")
    chat.deployment("blue")
    chat.set("systemData", made and {"createdAt": made})
    blocked = find_blocked(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE)
    assert blocked.because.startswith("its endpoint's creation time is unknown")
