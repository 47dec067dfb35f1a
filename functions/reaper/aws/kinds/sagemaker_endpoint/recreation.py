"""Recreating a deleted endpoint, in as many runs as it takes: a run that finds it in service does what needs that.

The configuration and the models stay, and are saved nevertheless. An endpoint that has the name by then is continued only if it has the tag of
what the reaper recreates (`aws.recreation`), or if it is the very one that was to be deleted and wasn't. Any other belongs to its owner and stays
untouched. https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpoint.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reaper.acting.contract import PREVIOUS_MEMBERS, Earlier, Manifest, Members, UndoResult, UndoState, any_members
from reaper.aws import autoscaling, recreation, saved_autoscaling, tags
from reaper.aws.kinds.sagemaker_endpoint.description import (
    CONFIG_MEMBERS,
    ENDPOINT_MEMBERS,
    VARIANT_MEMBERS,
    config_unrestorable_because,
)
from reaper.aws.recreation import Recreation
from reaper.aws.sagemaker import chosen_members, model_names, tags_parameter, to_plain_json
from reaper.aws.scaling import RUN_AGAIN, not_restored_sentences
from reaper.aws.session import CloudSession
from reaper.aws.table import Row
from reaper.errors import CloudError, Reason
from reaper.model import Resource

MEMBERS: Members = {
    **any_members("born", "tags"),
    "endpoint": any_members(*ENDPOINT_MEMBERS),
    "previous": PREVIOUS_MEMBERS,
    "variants": any_members(*VARIANT_MEMBERS),
    "shadows": any_members(*VARIANT_MEMBERS),
    "config": {"name": None, "params": any_members(*CONFIG_MEMBERS), "tags": None},
    "scaling": saved_autoscaling.SAVED_MEMBERS,
}


def read(cloud: CloudSession, resource: Resource, earlier: Earlier) -> UndoState:
    """Everything needed to recreate it. Raises CloudError if it can't be recreated."""
    row = _fetch_endpoint(cloud, resource.name)
    config = _read_config_state(cloud, row["EndpointConfigName"])
    recreation.require_models(cloud, model_names(config["params"]))
    variants = [chosen_members(v, *VARIANT_MEMBERS) for v in row.get("ProductionVariants") or ()]
    ids = {autoscaling.variant_resource_id(resource.name, v["VariantName"]) for v in variants}
    own_tags = tags.read_tags_now(cloud, row["EndpointArn"])
    first_created = recreation.first_created(row, own_tags)
    recreation.with_restored_tag(own_tags, first_created)
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


def _fetch_endpoint(cloud: CloudSession, name: str) -> dict[str, Any]:
    """The reply as it is."""
    return cloud.call("sagemaker", "DescribeEndpoint", "EndpointStatus", EndpointName=name)


def _variants_by_name(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Variants by name."""
    return {row["VariantName"]: row for row in rows}


def _read_config_state(cloud: CloudSession, name: str) -> dict[str, Any]:
    """Name, parameters and tags. Raises CloudError if it is gone, has unknown members, or names a model that is gone."""
    row = _find_config(cloud, name)
    if row is None:
        raise _config_refusal(f"the configuration {name} is gone, so the endpoint can't be recreated")
    if odd := config_unrestorable_because(row):
        raise _config_refusal(odd)
    own_tags = tags.read_tags_now(cloud, row["EndpointConfigArn"])
    return {"name": name, "params": chosen_members(row, *CONFIG_MEMBERS), "tags": own_tags}


def _restore_config(cloud: CloudSession, saved: Mapping[str, Any]) -> None:
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
    never, scaling = _never_restored(saved), saved["scaling"]
    if status != "InService":
        waits = "numbers of instances, autoscaling" if scaling["targets"] else "numbers of instances"
        waiting = f"Not restored yet: {waits}. Its status is {status}; {RUN_AGAIN}."
        return UndoResult(because=because, not_restored=(waiting, *lost, *failed, *never), run_again=True)
    if scaling["targets"]:
        ids = {autoscaling.variant_resource_id(name, row["VariantName"]) for row in saved["variants"]}
        failed += saved_autoscaling.restore_autoscaling(cloud, scaling, ids)
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
        raise _create_refusal(f"{name} is still being deleted; run this again once it is gone")
    if not recreation.is_same_resource(cloud, row, row["EndpointArn"], saved.get("born")):
        raise recreation.recreated_error("sagemaker:CreateEndpoint", name)
    if row.get("EndpointConfigName") != config:
        raise _create_refusal(f"endpoint {name} has another configuration now, so the reaper left it alone")
    if row["EndpointStatus"] == "Failed":
        raise _create_refusal(f"{name} failed to start: {row.get('FailureReason', 'no reason was given')}")
    return False


def _restore_sizes(cloud: CloudSession, name: str, saved: UndoState, lost: list[str]) -> list[str]:
    """Back to the numbers and weights that differ from the configuration's; what is not back of them yet.

    What isn't as recreating left it was changed since, and `lost` gets a sentence. So was everything on an endpoint that was never deleted.
    """
    row = _fetch_endpoint(cloud, name)
    if row["EndpointStatus"] != "InService" or to_plain_json(row["CreationTime"]) == saved["endpoint"]["CreationTime"]:
        return []
    refused: dict[str, CloudError] = {}
    later = _call_while_in_service(cloud, name, _capacity_calls(_size_changes(cloud, row, saved, lost)), refused)
    return not_restored_sentences(refused, later)


def _size_changes(cloud: CloudSession, row: Row, saved: UndoState, lost: list[str]) -> list[dict[str, Any]]:
    """What to ask for by variant. Autoscaling decides on those it scales again; `lost` gets a sentence about what stays different."""
    name = row["EndpointName"]
    now = _variants_by_name(row.get("ProductionVariants") or ())
    configured = _variants_by_name(saved["config"]["params"]["ProductionVariants"])
    scaled_ids = {target["ResourceId"] for target in autoscaling.read_autoscaling(cloud).targets}
    changes = []
    for before in (variant for variant in saved["variants"] if variant["VariantName"] in now):
        variant = before["VariantName"]
        if autoscaling.variant_resource_id(name, variant) in scaled_ids:
            lost += _autoscaled_sentences(before, now[variant])
            continue
        request, kept = _settings_to_restore(before, now[variant], configured.get(variant, {}))
        lost += kept
        changes.append(request)
    return changes


def _never_restored(saved: UndoState) -> list[str]:
    """What no run brings back."""
    lost = ["The tags of its autoscaling are lost."] if saved["scaling"]["targets"] else []
    lost += ["Its last deployment settings aren't restored."] if saved["endpoint"].get("LastDeploymentConfig") else []
    return lost


def _create_refusal(text: str) -> CloudError:
    return CloudError(Reason.REFUSED, "sagemaker:CreateEndpoint", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """One setting of a variant: what to ask for, its name for people, and its value before the deletion, now, and as created.

    Creating an endpoint makes its variants as the configuration says. A setting that is no longer so was chosen since, and stays:
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DesiredWeightAndCapacity.html
    """

    request: Row
    label: str
    before: Any
    now: Any
    as_created: Any


def _settings_to_restore(before: Row, now: Row, configured: Row) -> tuple[dict[str, Any], list[str]]:
    """What to ask for by one call, with the variant's name, and a sentence for each setting that stays as it was chosen since."""
    request: dict[str, Any] = {"VariantName": before["VariantName"]}
    kept: list[str] = []
    for setting in _settings(before, now, configured):
        if setting.before == setting.now:
            continue
        if setting.now == setting.as_created:
            request |= setting.request
        else:
            kept.append(_chosen_since_sentence(setting, before["VariantName"]))
    return request, kept


def _autoscaled_sentences(before: Row, now: Row) -> list[str]:
    """The sentence about a variant whose number is left to its autoscaling, if it has fewer instances than before."""
    count, wanted = now.get("DesiredInstanceCount", 0), before.get("DesiredInstanceCount", 0)
    text = f"The number of instances of {before['VariantName']} is {count} now and not {wanted}: its autoscaling sets it now."
    return [text] if count < wanted else []


def _settings(before: Row, now: Row, configured: Row) -> Iterator[_Setting]:
    if "DesiredWeight" in before:
        yield _plain_setting("DesiredWeight", "weight", before, now, configured.get("InitialVariantWeight", 1.0))
    if "DesiredInstanceCount" in before and not before.get("ManagedInstanceScaling") and not before.get("InstancePools"):
        yield _plain_setting("DesiredInstanceCount", "number of instances", before, now, configured.get("InitialInstanceCount"))
    if before.get("CurrentServerlessConfig"):
        yield _concurrency_setting(before, now, configured)


def _plain_setting(key: str, label: str, before: Row, now: Row, as_created: Any) -> _Setting:
    return _Setting(request={key: before[key]}, label=label, before=before[key], now=now.get(key), as_created=as_created)


def _concurrency_setting(before: Row, now: Row, configured: Row) -> _Setting:
    """Its memory size can't be changed by this call."""
    serverless = before["CurrentServerlessConfig"]
    return _Setting(
        request={"ServerlessUpdateConfig": {key: value for key, value in serverless.items() if key != "MemorySizeInMB"}},
        label="concurrency",
        before=serverless,
        now=now.get("CurrentServerlessConfig"),
        as_created=configured.get("ServerlessConfig"),
    )


def _chosen_since_sentence(setting: _Setting, variant: str) -> str:
    now, before = ("another", "as before") if setting.label == "concurrency" else (setting.now, setting.before)
    return f"The {setting.label} of {variant} is {now} now and not {before}: it was changed since, so the reaper left it alone."


def _capacity_calls(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows as calls: all weights together, then each capacity."""
    weights = [{"VariantName": r["VariantName"], "DesiredWeight": r["DesiredWeight"]} for r in rows if "DesiredWeight" in r]
    sizes = [{key: value for key, value in row.items() if key != "DesiredWeight"} for row in rows]
    return ([[*weights]] if weights else []) + [[size] for size in sizes if len(size) > 1]


def _call_while_in_service(
    cloud: CloudSession, name: str, wanted: Sequence[Sequence[Row]], refused: dict[str, CloudError]
) -> list[str]:
    """Make those calls while the endpoint is in service; gives the variants whose turn has not come.

    A call that fails, such as one over a quota, keeps no other from its turn: `refused` gets its variants and the error.
    """
    waiting = list(wanted)
    while waiting and _fetch_endpoint(cloud, name)["EndpointStatus"] == "InService":
        rows = waiting.pop(0)
        try:
            operation = "UpdateEndpointWeightsAndCapacities"
            cloud.call("sagemaker", operation, "EndpointArn", EndpointName=name, DesiredWeightsAndCapacities=list(rows))
        except CloudError as error:
            refused |= {str(row["VariantName"]): error for row in rows}
    return [str(row["VariantName"]) for rows in waiting for row in rows]


RECREATION = Recreation(
    read=read,
    recreate=recreate,
    members=MEMBERS,
    permissions=(
        "sagemaker:ListTags",
        "sagemaker:DescribeEndpointConfig",
        "sagemaker:CreateEndpointConfig",
        "sagemaker:CreateEndpoint",
        "sagemaker:AddTags",
        "sagemaker:UpdateEndpointWeightsAndCapacities",
        "iam:PassRole",
        *saved_autoscaling.RESTORE_PERMISSIONS,
    ),
)
