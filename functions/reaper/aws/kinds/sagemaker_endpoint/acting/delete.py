"""Deleting an endpoint and its components and autoscaling, but not its configuration or models, which a manifest stores nevertheless.

An endpoint with inference components on it is not deleted, so they go first and are waited for, a minute at most; DeleteEndpoint takes
the scalable targets of its variants along: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from reaper.acting.contract import (
    PREVIOUS_MEMBERS,
    ActionResult,
    Earlier,
    Manifest,
    Members,
    OwnChanges,
    Permit,
    UndoState,
    any_members,
    next_part,
)
from reaper.aws import autoscaling, tags
from reaper.aws.kinds import acting
from reaper.aws.kinds.sagemaker_endpoint.acting import autoscaling as saved_autoscaling
from reaper.aws.kinds.sagemaker_endpoint.acting import components
from reaper.aws.kinds.sagemaker_endpoint.acting.live_settings import being_deleted, components_deleted
from reaper.aws.kinds.sagemaker_endpoint.description import (
    CONFIG_MEMBERS,
    ENDPOINT_MEMBERS,
    VARIANT_MEMBERS,
    config_unrestorable_because,
)
from reaper.aws.sagemaker import ANY_REPLY_KEY, chosen_members, model_names, tags_parameter
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason, gone_as_partial
from reaper.model import Resource, StepName

SAVED_MEMBERS: Members = {"name": None, "params": any_members(*CONFIG_MEMBERS), "tags": None}
"""Of a configuration."""
PAUSES_S = (2.0, 4.0, 8.0, 15.0, 15.0, 15.0)
"""Seconds between looks at whether the components are gone."""
UNDO_MEMBERS: Members = {
    **any_members("born", "part", "tags"),
    "endpoint": any_members(*ENDPOINT_MEMBERS),
    "previous": PREVIOUS_MEMBERS,
    "variants": any_members(*VARIANT_MEMBERS),
    "shadows": any_members(*VARIANT_MEMBERS),
    "config": SAVED_MEMBERS,
    "components": components.SAVED_MEMBERS,
    "scaling": saved_autoscaling.SAVED_MEMBERS,
}


def read_undo_state(cloud: CloudSession, resource: Resource, earlier: Earlier) -> UndoState:
    """Everything needed to recreate it. Raises CloudError if it can't be recreated.

    `part` above 1: an earlier action deleted its components; `previous` names its manifest, and undo follows it.
    """
    row = fetch_endpoint(cloud, resource.name)
    config = read_config_state(cloud, row["EndpointConfigName"])
    hosted = [
        components.read_component_state(cloud, name)
        for name in components.component_names(cloud, resource.name, also_deleting=False)
    ]
    require_models(cloud, model_names(config["params"], *hosted))
    variants = [chosen_members(v, *VARIANT_MEMBERS) for v in row.get("ProductionVariants") or ()]
    ids = {autoscaling.variant_resource_id(resource.name, v["VariantName"]) for v in variants}
    ids |= {autoscaling.component_resource_id(one["InferenceComponentName"]) for one in hosted}
    own_tags = tags.read_tags_now(cloud, row["EndpointArn"])
    first_created = acting.first_created(row, own_tags)
    acting.with_restored_tag(own_tags, first_created)
    return {
        "endpoint": chosen_members(row, *ENDPOINT_MEMBERS),
        "born": first_created,
        "previous": earlier.record,
        "part": next_part(earlier, lambda before: _continues(before, first_created)),
        "tags": own_tags,
        "variants": variants,
        "shadows": [chosen_members(v, *VARIANT_MEMBERS) for v in row.get("ShadowProductionVariants") or ()],
        "config": config,
        "components": hosted,
        "scaling": saved_autoscaling.read_autoscaling_state(cloud, ids, will_be_deleted=True),
    }


def _continues(before: Manifest, first_created: str) -> bool:
    """Whether deleting this endpoint continues that action."""
    return before.action is StepName.DELETE and before.undo_state.get("born") == first_created


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> ActionResult:
    """Components, endpoint, then what is left of the autoscaling, which is of no use without them.

    Components that take more than a minute to go leave the endpoint to an action of its own.
    """
    saved, name = manifest.undo_state, resource.name
    deleted = _delete_components(cloud, resource, saved, permit)
    own_changes = components_deleted(resource, deleted)
    if deleted and not _wait_until_gone(cloud, name):
        return _result_while_components_go(cloud, saved, permit, own_changes)
    if deleted:
        permit.after_wait(own_changes)
    with permit(own_changes):
        cloud.change("sagemaker", "DeleteEndpoint", ANY_REPLY_KEY, EndpointName=name)
    remaining = saved_autoscaling.deregister_targets(cloud, saved["scaling"], permit, being_deleted(resource))
    with_it = [f"with its {_component_count_text(saved, 'inference ')}"] if saved["components"] else []
    with_it += ["with its autoscaling"] if saved["scaling"]["targets"] and not remaining else []
    summary = f"it is being deleted {' and '.join(with_it)}".rstrip()
    return ActionResult(because="; ".join([f"{summary}; its configuration {saved['config']['name']} stays", *remaining]))


def _result_while_components_go(cloud: CloudSession, saved: UndoState, permit: Permit, own_changes: OwnChanges) -> ActionResult:
    """What there is to say while the components are still going; their autoscaling goes, too."""
    targets = [t for t in saved["scaling"]["targets"] if t["ScalableDimension"] == autoscaling.COPIES_DIMENSION]
    scaling = {**saved["scaling"], "targets": targets}
    remaining = saved_autoscaling.deregister_targets(cloud, scaling, permit, own_changes)
    hosted = _component_count_text(saved)
    summary = f"its {hosted} {'are' if len(saved['components']) > 1 else 'is'} still being deleted; the endpoint itself runs on"
    return ActionResult(because="; ".join([summary, *remaining]), part_done=f"its {hosted}; the endpoint remains")


def _component_count_text(saved: UndoState, sort: str = "") -> str:
    count = len(saved["components"])
    return f"{count} {sort}component{'s' * (count > 1)}"


def fetch_endpoint(cloud: CloudSession, name: str) -> dict[str, Any]:
    """The reply as it is."""
    return cloud.call("sagemaker", "DescribeEndpoint", "EndpointStatus", EndpointName=name)


def _delete_components(cloud: CloudSession, resource: Resource, saved: UndoState, permit: Permit) -> list[str]:
    """Delete every component of the manifest, each with a permit of its own for its owner's sake. Returns their names."""
    ids = {inner.name: inner.id for inner in resource.contained}
    deleted: list[str] = []
    for name in (component["InferenceComponentName"] for component in saved["components"]):
        with permit(components_deleted(resource, deleted), inside=ids[name]), gone_as_partial():
            cloud.change("sagemaker", "DeleteInferenceComponent", ANY_REPLY_KEY, InferenceComponentName=name)
        deleted.append(name)
    return deleted


def _wait_until_gone(cloud: CloudSession, endpoint: str) -> bool:
    """Whether its components are gone, waiting for a minute at most."""
    for pause in PAUSES_S:
        if not components.component_names(cloud, endpoint):
            return True
        time.sleep(pause)
    return not components.component_names(cloud, endpoint)


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
