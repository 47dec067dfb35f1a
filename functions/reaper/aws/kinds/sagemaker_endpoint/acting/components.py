"""One inference component as a manifest stores it, and as undo recreates it.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateInferenceComponent.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reaper.acting.contract import Members, any_members
from reaper.aws import tags
from reaper.aws.kinds import acting
from reaper.aws.kinds.acting import RestoredCount
from reaper.aws.kinds.sagemaker_inference_component import blocked, list_rows
from reaper.aws.sagemaker import chosen_members, tags_parameter, to_plain_json
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason

NAME_KEYS = blocked.COMPONENT_MEMBERS
SPECIFICATION_MEMBERS: Members = {
    **any_members(*blocked.SPECIFICATION_MEMBERS),
    "Container": any_members("Image", *blocked.CONTAINER_MEMBERS),
}
SAVED_MEMBERS: Members = {
    **any_members(*NAME_KEYS, "LastDeploymentConfig", "copies", "tags", "born"),
    "Specification": SPECIFICATION_MEMBERS,
    "Specifications": SPECIFICATION_MEMBERS,
}


def component_names(cloud: CloudSession, endpoint: str, *, also_deleting: bool = True) -> list[str]:
    """The names of all components on the endpoint, with or without those that are being deleted already."""
    rows = list_rows(cloud, NAME_KEYS[0], EndpointNameEquals=endpoint)
    return [row[NAME_KEYS[0]] for row in rows if also_deleting or component_status(row) != "Deleting"]


def fetch_component(cloud: CloudSession, name: str) -> dict[str, Any]:
    """The reply as it is."""
    return cloud.call("sagemaker", "DescribeInferenceComponent", "EndpointName", InferenceComponentName=name)


def find_component(cloud: CloudSession, name: str) -> dict[str, Any] | None:
    """The reply as it is; None when it is gone."""
    return cloud.find("sagemaker", "DescribeInferenceComponent", "EndpointName", InferenceComponentName=name)


def component_status(row: Mapping[str, Any]) -> str:
    """What a description says."""
    return str(row.get("InferenceComponentStatus", ""))


def component_first_created(cloud: CloudSession, row: Mapping[str, Any]) -> str:
    """Which incarnation of its name a description is of."""
    return acting.first_created(row, tags.read_tags_now(cloud, row["InferenceComponentArn"]))


def recreate_component(cloud: CloudSession, saved: Mapping[str, Any], lost: list[str]) -> tuple[str, bool]:
    """Its status and whether it was created now. Raises CloudError if another one has its name."""
    name = saved["InferenceComponentName"]
    if saved.get("LastDeploymentConfig"):
        lost.append(f"The last deployment settings of {name} aren't restored.")
    row = find_component(cloud, name)
    if row is None:
        create_component(cloud, saved, lost)
        return component_status(fetch_component(cloud, name)), True
    if not acting.is_same_resource(cloud, row, row["InferenceComponentArn"], saved.get("born")):
        raise acting.recreated_error("sagemaker:CreateInferenceComponent", name)
    return component_status(row), False


def read_component_state(cloud: CloudSession, name: str) -> dict[str, Any]:
    """The parameters of CreateInferenceComponent, with its tags. Raises CloudError for what is not brought back, such as an adapter."""
    row = fetch_component(cloud, name)
    if odd := blocked.component_unrestorable_because(row):
        raise CloudError(Reason.REFUSED, "sagemaker:DescribeInferenceComponent", odd)
    own_tags = tags.read_tags_now(cloud, row["InferenceComponentArn"])
    first_created_at = acting.first_created(row, own_tags)
    acting.with_restored_tag(own_tags, first_created_at)
    saved = {**chosen_members(row, *NAME_KEYS, "LastDeploymentConfig"), **specifications_of(row)}
    return {**saved, "copies": blocked.copy_count(row), "tags": own_tags, "born": first_created_at}


def specifications_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What it runs, as create calls take it."""
    if row.get("Specification"):
        return {"Specification": _specification_to_create(row["Specification"])}
    return {"Specifications": [_specification_to_create(component) for component in row.get("Specifications") or ()]}


def create_component(cloud: CloudSession, saved: Mapping[str, Any], lost: list[str]) -> None:
    """Recreate it, with the tag that marks it, and as many copies as before.

    The API model allows 0 copies. If AWS refuses them all the same, it gets one, and `lost` gets a sentence.
    """
    params = {name: saved[name] for name in (*NAME_KEYS, "Specification", "Specifications") if name in saved}
    params |= tags_parameter(acting.with_restored_tag(saved["tags"], saved["born"]))
    try:
        _call_create(cloud, params, saved["copies"])
    except CloudError as error:
        if saved["copies"] or error.reason is not Reason.REFUSED:
            raise
        _call_create(cloud, params, 1)
        lost.append(
            f"{saved['InferenceComponentName']} has one copy instead of 0, because AWS refused to create it with none ({error})."
        )


def _call_create(cloud: CloudSession, params: Mapping[str, Any], count: int) -> None:
    runtime = {"CopyCount": count}
    cloud.call("sagemaker", "CreateInferenceComponent", "InferenceComponentArn", **params, RuntimeConfig=runtime)


def set_copies(send: Callable[..., Any], name: str, count: int) -> None:
    """Ask for that many copies. `send`: the session's `call` or `change`."""
    send(
        "sagemaker",
        "UpdateInferenceComponentRuntimeConfig",
        "InferenceComponentArn",
        InferenceComponentName=name,
        DesiredRuntimeConfig={"CopyCount": count},
    )


def restored_copies(row: Mapping[str, Any], before: int, maximum: int | None) -> RestoredCount:
    """Its copies, which a stop took to zero."""
    what = f"The number of copies of {row['InferenceComponentName']}"
    return RestoredCount(label=what, before=before, stopped_at=0, now=blocked.copy_count(row), maximum=maximum)


def restore_copies(cloud: CloudSession, name: str, copies: RestoredCount) -> None:
    """Ask for as many copies as there were, if any must be asked for."""
    if copies.count_to_request is not None:
        set_copies(cloud.call, name, copies.count_to_request)


def _specification_to_create(row: Mapping[str, Any]) -> dict[str, Any]:
    """A specification as create calls take it; the reply shows an image as it was named and as it was found."""
    spec = chosen_members(row, *blocked.SPECIFICATION_MEMBERS)
    if container := row.get("Container"):
        image = {"Image": (container.get("DeployedImage") or {}).get("SpecifiedImage")}
        members = chosen_members(container, *blocked.CONTAINER_MEMBERS)
        spec["Container"] = {**({k: to_plain_json(v) for k, v in image.items() if v}), **members}
    return spec
