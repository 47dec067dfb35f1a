"""Recreating a deleted endpoint, in as many runs as it takes: a run that finds it in service does what needs that.

An endpoint that has the name by then is continued only if it has the tag of what the reaper recreates (`identity`), or if it is the very one
that was to be deleted and wasn't. Any other belongs to its owner and stays untouched.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpoint.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reaper.acting.contract import Manifest, UndoResult, UndoState
from reaper.aws import autoscaling
from reaper.aws.kinds import acting
from reaper.aws.kinds.sagemaker_endpoint.acting import autoscaling as saved_autoscaling
from reaper.aws.kinds.sagemaker_endpoint.acting import delete, scale
from reaper.aws.kinds.sagemaker_endpoint.acting.delete import fetch_endpoint, variants_by_name
from reaper.aws.kinds.sagemaker_endpoint.acting.scale import RUN_AGAIN_TEXT
from reaper.aws.sagemaker import tags_parameter, to_plain_json
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason

Row = Mapping[str, Any]
"""A variant, as described or as its configuration has it."""


def restore_endpoint(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Configuration, endpoint, then numbers and autoscaling.

    Every step looks first at what is there already. A number that is refused keeps nothing else from coming back.
    """
    saved, name = manifest.undo_state, manifest.name
    was_created = _create_endpoint(cloud, name, saved)
    lost: list[str] = []
    failed = _restore_sizes(cloud, name, saved, lost)
    status = fetch_endpoint(cloud, name)["EndpointStatus"]
    because = "it was recreated" if was_created else f"its status is {status}"
    scaling = saved["scaling"]
    never = ["The tags of its autoscaling are lost."] if scaling["targets"] else []
    never += ["Its last deployment settings aren't restored."] if saved["endpoint"].get("LastDeploymentConfig") else []
    if status != "InService":
        waits = "numbers of instances, autoscaling" if scaling["targets"] else "numbers of instances"
        waiting = f"Not restored yet: {waits}. Its status is {status}; {RUN_AGAIN_TEXT}."
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
        delete.restore_config(cloud, saved["config"])
        own_tags = tags_parameter(acting.with_restored_tag(saved["tags"], saved["born"]))
        cloud.call("sagemaker", "CreateEndpoint", "EndpointArn", EndpointName=name, EndpointConfigName=config, **own_tags)
        return True
    if row["EndpointStatus"] == "Deleting":
        raise _create_refusal(f"{name} is still being deleted; run this again once it is gone")
    if not acting.is_same_resource(cloud, row, row["EndpointArn"], saved.get("born")):
        raise CloudError.left_alone("sagemaker:CreateEndpoint", f"{name} has been recreated since")
    if row.get("EndpointConfigName") != config:
        raise CloudError.left_alone("sagemaker:CreateEndpoint", f"endpoint {name} has another configuration now")
    if row["EndpointStatus"] == "Failed":
        raise _create_refusal(f"{name} failed to start: {row.get('FailureReason', 'no reason was given')}")
    return False


def _restore_sizes(cloud: CloudSession, name: str, saved: UndoState, lost: list[str]) -> list[str]:
    """Back to the numbers and weights that differ from the configuration's; what is not back of them yet.

    What isn't as recreating left it was changed since, and `lost` gets a sentence. So was everything on an endpoint that was never deleted.
    """
    row = fetch_endpoint(cloud, name)
    if row["EndpointStatus"] != "InService" or to_plain_json(row["CreationTime"]) == saved["endpoint"]["CreationTime"]:
        return []
    refused: dict[str, CloudError] = {}
    later = scale.call_while_in_service(cloud, name, scale.capacity_calls(_size_changes(cloud, row, saved, lost)), refused)
    return scale.not_restored_sentences(refused, later)


def _size_changes(cloud: CloudSession, row: Mapping[str, Any], saved: UndoState, lost: list[str]) -> list[dict[str, Any]]:
    """What to ask for by variant. Autoscaling decides on those it scales again; `lost` gets a sentence about what stays different."""
    name = row["EndpointName"]
    now = variants_by_name(row.get("ProductionVariants") or ())
    configured = variants_by_name(saved["config"]["params"]["ProductionVariants"])
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


def _create_refusal(text: str) -> CloudError:
    return CloudError(Reason.REFUSED, "sagemaker:CreateEndpoint", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """One setting of a variant: what to ask for, its name for people, and its value before the deletion, now, and as created.

    Creating an endpoint makes its variants as the configuration says. A setting that is no longer so was chosen since, and stays:
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DesiredWeightAndCapacity.html
    """

    request: Mapping[str, Any]
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
    if serverless := before.get("CurrentServerlessConfig"):  # this call can't change its memory size
        yield _Setting(
            request={"ServerlessUpdateConfig": {key: value for key, value in serverless.items() if key != "MemorySizeInMB"}},
            label="concurrency",
            before=serverless,
            now=now.get("CurrentServerlessConfig"),
            as_created=configured.get("ServerlessConfig"),
        )


def _plain_setting(key: str, label: str, before: Row, now: Row, as_created: Any) -> _Setting:
    return _Setting(request={key: before[key]}, label=label, before=before[key], now=now.get(key), as_created=as_created)


def _chosen_since_sentence(setting: _Setting, variant: str) -> str:
    now, before = ("another", "as before") if setting.label == "concurrency" else (setting.now, setting.before)
    return f"The {setting.label} of {variant} is {now} now and not {before}: it was changed since, so the reaper left it alone."
