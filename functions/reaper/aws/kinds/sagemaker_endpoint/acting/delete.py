"""Deleting an endpoint and its autoscaling, but not its configuration or models, which a manifest stores nevertheless.

DeleteEndpoint takes the scalable targets of its variants along: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reaper.acting.contract import (
    PREVIOUS_MEMBERS,
    ActionResult,
    Earlier,
    Manifest,
    Members,
    Permit,
    UndoState,
    any_members,
)
from reaper.aws import autoscaling, tags
from reaper.aws.kinds import acting
from reaper.aws.kinds.sagemaker_endpoint.acting import autoscaling as saved_autoscaling
from reaper.aws.kinds.sagemaker_endpoint.acting.live_settings import being_deleted
from reaper.aws.kinds.sagemaker_endpoint.description import (
    CONFIG_MEMBERS,
    ENDPOINT_MEMBERS,
    VARIANT_MEMBERS,
    config_unrestorable_because,
)
from reaper.aws.sagemaker import ANY_REPLY_KEY, chosen_members, model_names, tags_parameter
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import Resource

SAVED_MEMBERS: Members = {"name": None, "params": any_members(*CONFIG_MEMBERS), "tags": None}
"""Of a configuration."""
UNDO_MEMBERS: Members = {
    **any_members("born", "tags"),
    "endpoint": any_members(*ENDPOINT_MEMBERS),
    "previous": PREVIOUS_MEMBERS,
    "variants": any_members(*VARIANT_MEMBERS),
    "shadows": any_members(*VARIANT_MEMBERS),
    "config": SAVED_MEMBERS,
    "scaling": saved_autoscaling.SAVED_MEMBERS,
}


def read_undo_state(cloud: CloudSession, resource: Resource, earlier: Earlier) -> UndoState:
    """Everything needed to recreate it. Raises CloudError if it can't be recreated."""
    row = fetch_endpoint(cloud, resource.name)
    config = read_config_state(cloud, row["EndpointConfigName"])
    require_models(cloud, model_names(config["params"]))
    variants = [chosen_members(v, *VARIANT_MEMBERS) for v in row.get("ProductionVariants") or ()]
    ids = {autoscaling.variant_resource_id(resource.name, v["VariantName"]) for v in variants}
    own_tags = tags.read_tags_now(cloud, row["EndpointArn"])
    first_created = acting.first_created(row, own_tags)
    acting.with_restored_tag(own_tags, first_created)
    return {
        "endpoint": chosen_members(row, *ENDPOINT_MEMBERS),
        "born": first_created,
        "previous": earlier.record,
        "tags": own_tags,
        "variants": variants,
        "shadows": [chosen_members(v, *VARIANT_MEMBERS) for v in row.get("ShadowProductionVariants") or ()],
        "config": config,
        "scaling": saved_autoscaling.read_autoscaling_state(cloud, ids, will_be_deleted=True),
    }


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> ActionResult:
    """The endpoint, then what is left of its autoscaling, which is of no use without it."""
    saved = manifest.undo_state
    with permit():
        cloud.change("sagemaker", "DeleteEndpoint", ANY_REPLY_KEY, EndpointName=resource.name)
    remaining = saved_autoscaling.deregister_targets(cloud, saved["scaling"], permit, being_deleted(resource))
    with_it = " with its autoscaling" if saved["scaling"]["targets"] and not remaining else ""
    because = f"it is being deleted{with_it}; its configuration {saved['config']['name']} stays"
    return ActionResult(because="; ".join([because, *remaining]))


def fetch_endpoint(cloud: CloudSession, name: str) -> dict[str, Any]:
    """The reply as it is."""
    return cloud.call("sagemaker", "DescribeEndpoint", "EndpointStatus", EndpointName=name)


def variants_by_name(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Variants by name."""
    return {row["VariantName"]: row for row in rows}


def read_config_state(cloud: CloudSession, name: str) -> dict[str, Any]:
    """Name, parameters and tags. Raises CloudError if it is gone, has unknown members, or names a model that is gone."""
    row = _find_config(cloud, name)
    if row is None:
        raise _config_refusal(f"the configuration {name} is gone, so the endpoint can't be recreated")
    if odd := config_unrestorable_because(row):
        raise _config_refusal(odd)
    own_tags = tags.read_tags_now(cloud, row["EndpointConfigArn"])
    return {"name": name, "params": chosen_members(row, *CONFIG_MEMBERS), "tags": own_tags}


def require_models(cloud: CloudSession, names: set[str]) -> None:
    """Raises CloudError if one of these models is gone: nothing could be recreated from it."""
    for name in sorted(names):
        if cloud.find("sagemaker", "DescribeModel", "ModelName", ModelName=name) is None:
            raise _config_refusal(f"its model {name} is gone, so it can't be recreated")


def restore_config(cloud: CloudSession, saved: Mapping[str, Any]) -> None:
    """Create it if it is gone. Raises CloudError if another one has its name now."""
    row = _find_config(cloud, saved["name"])
    if row is None:
        named = {"EndpointConfigName": saved["name"], **saved["params"], **tags_parameter(saved["tags"])}
        cloud.call("sagemaker", "CreateEndpointConfig", "EndpointConfigArn", **named)
    elif chosen_members(row, *CONFIG_MEMBERS) != saved["params"]:
        raise _config_refusal(f"another configuration has the name {saved['name']} now, so nothing was created from it")


def _find_config(cloud: CloudSession, name: str) -> dict[str, Any] | None:
    return cloud.find("sagemaker", "DescribeEndpointConfig", "ProductionVariants", EndpointConfigName=name)


def _config_refusal(text: str) -> CloudError:
    return CloudError(Reason.REFUSED, "sagemaker:DescribeEndpointConfig", text)
