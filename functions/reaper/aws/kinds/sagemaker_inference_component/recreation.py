"""Recreating a deleted inference component on its endpoint, with its tags and copies, and once it is in service its autoscaling.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateInferenceComponent.html
"""

from __future__ import annotations

from reaper.acting.contract import PREVIOUS_MEMBERS, Earlier, Manifest, Members, UndoResult, UndoState, any_members
from reaper.aws import reader, recreation, sagemaker
from reaper.aws.autoscaling import component_resource_id
from reaper.aws.kinds import sagemaker_inference_component as component_kind
from reaper.aws.kinds.sagemaker_inference_component import DESCRIBE, described
from reaper.aws.reader import Row
from reaper.aws.recreation import Recreation
from reaper.aws.sagemaker import chosen_members, tags_parameter
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import Resource

CREATE, PERMISSION = ("sagemaker", "CreateInferenceComponent", "InferenceComponentArn"), "sagemaker:CreateInferenceComponent"
SPECIFICATION_MEMBERS: Members = {
    **any_members(*component_kind.SPECIFICATION_MEMBERS),
    "Container": any_members("Image", *component_kind.CONTAINER_MEMBERS),
}
SAVED_MEMBERS: Members = {
    **any_members(*component_kind.MEMBERS, "LastDeploymentConfig", "copies", "tags", "born"),
    "Specification": SPECIFICATION_MEMBERS,
    "Specifications": SPECIFICATION_MEMBERS,
}


def read(cloud: CloudSession, resource: Resource, earlier: Earlier) -> UndoState:
    """The parameters of CreateInferenceComponent, with its tags. Raises CloudError for what can't be brought back, such as an adapter."""
    row, same = described(cloud, resource.name)
    if odd := component_kind.unrestorable_because(row):
        raise CloudError(Reason.REFUSED, "sagemaker:DescribeInferenceComponent", odd)
    identity = recreation.read_identity(cloud, row, row["InferenceComponentArn"])
    component = {**chosen_members(row, *component_kind.MEMBERS, "LastDeploymentConfig"), **same["made_of"]}
    recreation.require_models(cloud, sagemaker.model_names(component))
    return {
        "component": {**component, "copies": component_kind.copy_count(row), **identity},
        "host": _endpoint_first_created(cloud, row["EndpointName"]),
        "scaling": recreation.read_autoscaling_state(cloud, {component_resource_id(resource.name)}, will_be_deleted=True),
        "previous": earlier.record,
    }


def _endpoint_first_created(cloud: CloudSession, endpoint: str) -> str:
    """Which endpoint of its name it is on."""
    row = cloud.call("sagemaker", "DescribeEndpoint", "EndpointStatus", EndpointName=endpoint)
    return recreation.first_created(row, reader.read_tags_now(cloud, row["EndpointArn"]))


def recreate(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """It, then its autoscaling. Raises CloudError if another one has its name, or its endpoint is another one."""
    saved, name = manifest.undo_state, manifest.name
    component, targets = saved["component"], saved["scaling"]["targets"]
    if component["InferenceComponentName"] != name:
        raise CloudError(
            Reason.REFUSED, PERMISSION, f"the manifest's record is about {component['InferenceComponentName']}, so it isn't used"
        )
    if _endpoint_first_created(cloud, component["EndpointName"]) != saved.get("host"):
        text = f"its endpoint {component['EndpointName']} has been recreated since"
        raise CloudError.left_alone(PERMISSION, text)
    lost = [f"The last deployment settings of {name} aren't restored."] if component.get("LastDeploymentConfig") else []
    status, was_created = _recreated(cloud, component, lost)
    if status in {"Deleting", "Failed"}:
        raise CloudError(Reason.REFUSED, PERMISSION, f"the status of {name} is {status}")
    later: list[str] = []
    if targets:
        lost.append("The tags of its autoscaling are lost.")
        later.append(f"Not restored yet: autoscaling. Its status is {status}; run this again once it is in service.")
        if status == "InService":
            later = recreation.restore_autoscaling(cloud, saved["scaling"], {component_resource_id(name)})
    because = "it was recreated" if was_created else f"its status is {status}"
    return UndoResult(because=because, not_restored=(*later, *lost), run_again=bool(later))


def _recreated(cloud: CloudSession, component: Row, lost: list[str]) -> tuple[str, bool]:
    """Its status and whether it was created now. Raises CloudError if another one has its name."""
    name = component["InferenceComponentName"]
    row = cloud.find("sagemaker", *DESCRIBE, InferenceComponentName=name)
    if row is None:
        _create(cloud, component, lost)
        return str(described(cloud, name)[0].get("InferenceComponentStatus", "")), True
    if not recreation.is_same_resource(cloud, row, row["InferenceComponentArn"], component.get("born")):
        raise CloudError.left_alone(PERMISSION, f"{name} has been recreated since")
    return str(row.get("InferenceComponentStatus", "")), False


def _create(cloud: CloudSession, component: Row, lost: list[str]) -> None:
    """Recreate it, with the tag that marks it, and as many copies as before.

    The API model allows 0 copies. If AWS refuses them all the same, it gets one, and `lost` gets a sentence.
    """
    params = {name: component[name] for name in (*component_kind.MEMBERS, "Specification", "Specifications") if name in component}
    params |= tags_parameter(recreation.with_restored_tag(component["tags"], component["born"]))
    try:
        cloud.call(*CREATE, **params, RuntimeConfig={"CopyCount": component["copies"]})
    except CloudError as error:
        if component["copies"] or error.reason is not Reason.REFUSED:
            raise
        cloud.call(*CREATE, **params, RuntimeConfig={"CopyCount": 1})
        name = component["InferenceComponentName"]
        lost.append(f"{name} has one copy instead of 0, because AWS refused to create it with none ({error}).")


RECREATION = Recreation(
    read=read,
    recreate=recreate,
    members={"component": SAVED_MEMBERS, "host": None, "previous": PREVIOUS_MEMBERS, "scaling": recreation.SAVED_MEMBERS},
    permissions=(
        "sagemaker:ListTags",
        "sagemaker:DescribeEndpoint",
        PERMISSION,
        "sagemaker:AddTags",
        "iam:PassRole",
        *recreation.RESTORE_PERMISSIONS,
    ),
)
