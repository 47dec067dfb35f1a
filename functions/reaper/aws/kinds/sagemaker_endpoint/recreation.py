"""Recreating a deleted endpoint, in as many runs as it takes: a run that finds it in service does what needs that.

The configuration and the models stay, and are saved nevertheless. An endpoint that has the name by then is continued only if it has the tag of
what the reaper recreates (`aws.recreation`), or if it is the very one that was to be deleted and wasn't. Any other belongs to its owner and stays
untouched. https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpoint.html
"""

from __future__ import annotations

from typing import Any

from reaper.acting.contract import PREVIOUS_MEMBERS, Earlier, Manifest, Members, UndoResult, UndoState, any_members
from reaper.aws import autoscaling, reader, recreation
from reaper.aws.kinds.sagemaker_endpoint.description import (
    CONFIG_MEMBERS,
    ENDPOINT_MEMBERS,
    VARIANT_MEMBERS,
    config_unrestorable_because,
)
from reaper.aws.reader import Row
from reaper.aws.recreation import IN_SERVICE, RUN_AGAIN, Recreation, not_restored_sentences, send_in_turn
from reaper.aws.sagemaker import chosen_members, model_names, tags_parameter, to_plain_json
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import Resource

MEMBERS: Members = {
    **any_members("born", "tags"),
    "endpoint": any_members(*ENDPOINT_MEMBERS),
    "previous": PREVIOUS_MEMBERS,
    "variants": any_members(*VARIANT_MEMBERS),
    "shadows": any_members(*VARIANT_MEMBERS),
    "config": {"name": None, "params": any_members(*CONFIG_MEMBERS), "tags": None},
    "scaling": recreation.SAVED_MEMBERS,
}
COUNT, SERVERLESS = "DesiredInstanceCount", "CurrentServerlessConfig"
SETTINGS = (
    ("DesiredWeight", "weight", "InitialVariantWeight", 1.0),
    (COUNT, "number of instances", "InitialInstanceCount", None),
    (SERVERLESS, "concurrency", "ServerlessConfig", None),
)
"""Settings of a variant: as described, for people, as configured, and as created where the configuration doesn't say."""
FIND_CONFIG = ("sagemaker", "DescribeEndpointConfig", "ProductionVariants")
CONFIG_PERMISSION, CREATE_PERMISSION = "sagemaker:DescribeEndpointConfig", "sagemaker:CreateEndpoint"


def read(cloud: CloudSession, resource: Resource, earlier: Earlier) -> UndoState:
    """Everything needed to recreate it. Raises CloudError if it can't be recreated."""
    row = _fetch_endpoint(cloud, resource.name)
    config = _read_config_state(cloud, row["EndpointConfigName"])
    recreation.require_models(cloud, model_names(config["params"]))
    variants = [chosen_members(v, *VARIANT_MEMBERS) for v in row.get("ProductionVariants") or ()]
    ids = {autoscaling.variant_resource_id(resource.name, v["VariantName"]) for v in variants}
    identity = recreation.read_identity(cloud, row, row["EndpointArn"])
    return {
        "endpoint": chosen_members(row, *ENDPOINT_MEMBERS),
        **identity,
        "previous": earlier.record,
        "variants": variants,
        "shadows": [chosen_members(v, *VARIANT_MEMBERS) for v in row.get("ShadowProductionVariants") or ()],
        "config": config,
        "scaling": recreation.read_autoscaling_state(cloud, ids, will_be_deleted=True),
    }


def _fetch_endpoint(cloud: CloudSession, name: str) -> dict[str, Any]:
    return cloud.call("sagemaker", "DescribeEndpoint", "EndpointStatus", EndpointName=name)


def _read_config_state(cloud: CloudSession, name: str) -> dict[str, Any]:
    """Name, parameters and tags. Raises CloudError if it is gone or has unknown members."""
    row = cloud.find(*FIND_CONFIG, EndpointConfigName=name)
    because = config_unrestorable_because(row) if row else f"the configuration {name} is gone, so the endpoint can't be recreated"
    if because or not row:
        raise CloudError(Reason.REFUSED, CONFIG_PERMISSION, because or "")
    return {
        "name": name,
        "params": chosen_members(row, *CONFIG_MEMBERS),
        "tags": reader.read_tags_now(cloud, row["EndpointConfigArn"]),
    }


def _restore_config(cloud: CloudSession, saved: Row) -> None:
    """Create it if it is gone. Raises CloudError if another one has its name now."""
    row = cloud.find(*FIND_CONFIG, EndpointConfigName=saved["name"])
    if row is None:
        named = {"EndpointConfigName": saved["name"], **saved["params"], **tags_parameter(saved["tags"])}
        cloud.call("sagemaker", "CreateEndpointConfig", "EndpointConfigArn", **named)
    elif chosen_members(row, *CONFIG_MEMBERS) != saved["params"]:
        text = f"another configuration has the name {saved['name']} now, so nothing was created from it"
        raise CloudError(Reason.REFUSED, CONFIG_PERMISSION, text)


def recreate(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Configuration, endpoint, then numbers and autoscaling.

    Every step looks first at what is there already. A number that is refused keeps nothing else from coming back.
    """
    saved, name = manifest.undo_state, manifest.name
    was_created = _create_endpoint(cloud, name, saved)
    lost: list[str] = []
    failed = _restore_sizes(cloud, name, saved, lost)
    status = _fetch_endpoint(cloud, name)["EndpointStatus"]
    because = "it was recreated" if was_created else f"its status is {status}"
    scaling = saved["scaling"]
    never = ["The tags of its autoscaling are lost."] if scaling["targets"] else []
    never += ["Its last deployment settings aren't restored."] if saved["endpoint"].get("LastDeploymentConfig") else []
    if status != IN_SERVICE:
        waits = "numbers of instances, autoscaling" if scaling["targets"] else "numbers of instances"
        waiting = f"Not restored yet: {waits}. Its status is {status}; {RUN_AGAIN}."
        return UndoResult(because=because, not_restored=(waiting, *lost, *failed, *never), run_again=True)
    if scaling["targets"]:
        ids = {autoscaling.variant_resource_id(name, row["VariantName"]) for row in saved["variants"]}
        failed += recreation.restore_autoscaling(cloud, scaling, ids)
    return UndoResult(because=because, not_restored=(*lost, *failed, *never), run_again=bool(failed))


def _create_endpoint(cloud: CloudSession, name: str, saved: UndoState) -> bool:
    """Whether it was created now. Raises CloudError where something else has its name, or while it is still being deleted."""
    config = saved["config"]["name"]
    row = cloud.find("sagemaker", "DescribeEndpoint", "EndpointStatus", EndpointName=name)
    if row is None:
        _restore_config(cloud, saved["config"])
        own_tags = tags_parameter(recreation.with_restored_tag(saved["tags"], saved["born"]))
        cloud.call("sagemaker", "CreateEndpoint", "EndpointArn", EndpointName=name, EndpointConfigName=config, **own_tags)
        return True
    if row["EndpointStatus"] == "Deleting":
        raise CloudError(Reason.REFUSED, CREATE_PERMISSION, f"{name} is still being deleted; run this again once it is gone")
    if not recreation.is_same_resource(cloud, row, row["EndpointArn"], saved.get("born")):
        raise CloudError.left_alone(CREATE_PERMISSION, f"{name} has been recreated since")
    if row.get("EndpointConfigName") != config:
        raise CloudError.left_alone(CREATE_PERMISSION, f"endpoint {name} has another configuration now")
    if row["EndpointStatus"] == "Failed":
        raise CloudError(
            Reason.REFUSED, CREATE_PERMISSION, f"{name} failed to start: {row.get('FailureReason', 'no reason was given')}"
        )
    return False


def _restore_sizes(cloud: CloudSession, name: str, saved: UndoState, lost: list[str]) -> list[str]:
    """Back to the numbers and weights that differ from the configuration's; what is not back of them yet.

    What isn't as recreating left it was changed since, and `lost` gets a sentence. So was everything on an endpoint that was never deleted.
    """
    row = _fetch_endpoint(cloud, name)
    if row["EndpointStatus"] != IN_SERVICE or to_plain_json(row["CreationTime"]) == saved["endpoint"]["CreationTime"]:
        return []
    changes = _size_changes(cloud, row, saved, lost)
    weights = [{"VariantName": r["VariantName"], "DesiredWeight": r["DesiredWeight"]} for r in changes if "DesiredWeight" in r]
    sizes = [{key: value for key, value in change.items() if key != "DesiredWeight"} for change in changes]
    # A call takes one capacity, or any number of weights.
    waiting = ([weights] if weights else []) + [[size] for size in sizes if len(size) > 1]

    def is_in_service() -> bool:
        return bool(_fetch_endpoint(cloud, name)["EndpointStatus"] == IN_SERVICE)

    def request(rows: list[dict[str, Any]]) -> None:
        operation = "UpdateEndpointWeightsAndCapacities"
        cloud.call("sagemaker", operation, "EndpointArn", EndpointName=name, DesiredWeightsAndCapacities=rows)

    refused, later = send_in_turn(waiting, is_in_service, request)
    failed = {str(row["VariantName"]): error for rows, error in refused for row in rows}
    return not_restored_sentences(failed, [str(row["VariantName"]) for rows in later for row in rows])


def _size_changes(cloud: CloudSession, row: Row, saved: UndoState, lost: list[str]) -> list[dict[str, Any]]:
    """What to ask for by variant. Autoscaling decides on those it scales again; `lost` gets a sentence about what stays different."""
    now = {one["VariantName"]: one for one in row.get("ProductionVariants") or ()}
    configured = {one["VariantName"]: one for one in saved["config"]["params"]["ProductionVariants"]}
    scaled_ids = {target["ResourceId"] for target in autoscaling.read_autoscaling(cloud).targets}
    changes = []
    for before in (variant for variant in saved["variants"] if variant["VariantName"] in now):
        variant = before["VariantName"]
        if autoscaling.variant_resource_id(row["EndpointName"], variant) not in scaled_ids:
            changes.append(_settings_to_restore(before, now[variant], configured.get(variant, {}), lost))
        elif (count := now[variant].get(COUNT, 0)) < (wanted := before.get(COUNT, 0)):
            lost.append(f"The number of instances of {variant} is {count} now and not {wanted}: its autoscaling sets it now.")
    return changes


def _settings_to_restore(before: Row, now: Row, configured: Row, lost: list[str]) -> dict[str, Any]:
    """What to ask for by one call, with the variant's name. A setting that isn't as the configuration has it was chosen since: it stays, and `lost`
    gets a sentence. https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DesiredWeightAndCapacity.html
    """
    request: dict[str, Any] = {"VariantName": before["VariantName"]}
    for key, label, initial, usual in SETTINGS:
        was, present = before.get(key), now.get(key)
        scales_itself = key == COUNT and (before.get("ManagedInstanceScaling") or before.get("InstancePools"))
        if was is None or was == present or scales_itself:
            continue
        if present != configured.get(initial, usual):
            is_now, is_not = ("another", "as before") if key == SERVERLESS else (present, was)
            text = f"{is_now} now and not {is_not}: it was changed since, so the reaper left it alone."
            lost.append(f"The {label} of {before['VariantName']} is {text}")
        elif key == SERVERLESS:  # its memory size can't be changed by this call
            request["ServerlessUpdateConfig"] = {name: value for name, value in was.items() if name != "MemorySizeInMB"}
        else:
            request[key] = was
    return request


RECREATION = Recreation(
    read=read,
    recreate=recreate,
    members=MEMBERS,
    permissions=(
        "sagemaker:ListTags",
        CONFIG_PERMISSION,
        "sagemaker:CreateEndpointConfig",
        CREATE_PERMISSION,
        "sagemaker:AddTags",
        "sagemaker:UpdateEndpointWeightsAndCapacities",
        "iam:PassRole",
        *recreation.RESTORE_PERMISSIONS,
    ),
)
