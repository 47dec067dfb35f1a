"""Scaling an endpoint in, and back out: instances of one variant, never against autoscaling.

Undoing is for the very same endpoint only, and of its numbers only for those that are still as the stop left them. Any other number was
chosen since, by a person or by autoscaling, for what the endpoint has to do now: it stays. A call takes any number of weights, or the
capacity of one variant; the endpoint is being updated after it, and refuses the next until it is in service:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpointWeightsAndCapacities.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reaper.acting.contract import (
    PREVIOUS_MEMBERS,
    ActionResult,
    Earlier,
    Manifest,
    Members,
    Permit,
    UndoResult,
    UndoState,
    any_members,
    next_part,
    part_of,
)
from reaper.aws import autoscaling, sagemaker, tags
from reaper.aws.kinds import acting
from reaper.aws.kinds.acting import RestoredCount
from reaper.aws.kinds.sagemaker_endpoint import description
from reaper.aws.kinds.sagemaker_endpoint.acting import autoscaling as saved_autoscaling
from reaper.aws.kinds.sagemaker_endpoint.acting import live_settings
from reaper.aws.kinds.sagemaker_endpoint.acting.delete import fetch_endpoint
from reaper.aws.kinds.sagemaker_endpoint.acting.live_settings import numbers_set
from reaper.aws.kinds.sagemaker_endpoint.blocked import ScaleInPlan, plan_scale_in, production_variants
from reaper.aws.kinds.sagemaker_endpoint.description import EndpointDescription
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import Resource, SideChange, StepName

OPERATION = "sagemaker:UpdateEndpointWeightsAndCapacities"
RUN_AGAIN_TEXT = "run this again once the endpoint is in service"
CapacityRow = Mapping[str, Any]
"""One row of DesiredWeightsAndCapacities."""
UNDO_MEMBERS: Members = {
    **any_members("born", "config", "instances", "counts", "variants", "least", "part", "parts"),
    "previous": PREVIOUS_MEMBERS,
    "scaling": saved_autoscaling.SAVED_MEMBERS,
}


def read_undo_state(cloud: CloudSession, resource: Resource, earlier: Earlier) -> UndoState:
    """What would change, decided again from fresh replies: counts before and after, and all their autoscaling.

    `parts`: how many variants there were to scale in, this one and those of the actions that it goes on with included.
    """
    endpoint = description.describe_endpoint(cloud, resource.name)
    plan = plan_scale_in(resource, endpoint, autoscaling.read_autoscaling(cloud))
    if plan.blocked:
        raise CloudError(Reason.REFUSED, "sagemaker:DescribeEndpoint", f"{resource.name}: {plan.blocked.because}")
    same = _endpoint_identity(cloud, endpoint)
    part = _part(earlier, same, plan)
    numbers = _counts_before_and_after(resource.name, endpoint, plan)
    return {
        **same,
        **numbers,
        "previous": earlier.record,
        "part": part,
        "parts": part - 1 + len(plan.instances_by_variant),
        "scaling": saved_autoscaling.read_autoscaling_state(cloud, set(numbers["least"])),
    }


def _counts_before_and_after(name: str, endpoint: EndpointDescription, plan: ScaleInPlan) -> dict[str, Any]:
    """Instances before and after, and by resource id what autoscaling's minimum must not be above."""
    counts = {row["VariantName"]: int(row["CurrentInstanceCount"]) for row in production_variants(endpoint)}
    first = plan.first_variant
    least = {autoscaling.variant_resource_id(name, variant): count for variant, count in first.items()}
    return {"counts": {variant: counts[variant] for variant in first}, "variants": first, "least": least}


def _endpoint_identity(cloud: CloudSession, endpoint: EndpointDescription) -> dict[str, Any]:
    """Which endpoint of its name it is, and what it is made of."""
    return {
        "born": acting.first_created(endpoint.reply, tags.read_tags_now(cloud, endpoint.reply["EndpointArn"])),
        "config": endpoint.reply.get("EndpointConfigName"),
        "instances": {v.name: [kind for kind, _ in v.instances] for v in endpoint.variants},
    }


def _part(earlier: Earlier, same: Mapping[str, Any], plan: ScaleInPlan) -> int:
    """Which part this action is: the same as one before it on the same variants that isn't known to have been carried out."""
    before = earlier.manifest
    if before and not earlier.is_known and _is_same_stop(before, same) and _overlaps(before, plan):
        return part_of(before)
    return next_part(earlier, lambda before: _continues(before, same, plan))


def _continues(before: Manifest, same: Mapping[str, Any], plan: ScaleInPlan) -> bool:
    """Whether this action goes on with that one: it left some of this very endpoint's variants, and what it did still stands."""
    left_some = part_of(before) < before.undo_state.get("parts", 1)
    return left_some and _is_same_stop(before, same) and not _overlaps(before, plan)


def _is_same_stop(before: Manifest, same: Mapping[str, Any]) -> bool:
    return before.action is StepName.STOP and all(before.undo_state.get(key) == same[key] for key in ("born", "config"))


def _overlaps(before: Manifest, plan: ScaleInPlan) -> bool:
    return not plan.instances_by_variant.keys().isdisjoint(before.undo_state["variants"])


def side_changes(manifest: Manifest) -> tuple[SideChange, ...]:
    """The autoscaling minima, and the numbers of the stop itself: they show whether it took effect."""
    saved = manifest.undo_state
    minima = live_settings.minimum_changes(saved["scaling"], saved["least"])
    numbers = (
        SideChange(what=autoscaling.variant_resource_id(manifest.name, v), before=saved["counts"][v], ours=count)
        for v, count in saved["variants"].items()
    )
    return (*minima, *numbers)


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> ActionResult:
    """The autoscaling minimum first, or autoscaling would undo the rest."""
    saved = manifest.undo_state
    minima = live_settings.lower_minimum(cloud, manifest, permit)
    wanted = [{"VariantName": v, "DesiredInstanceCount": count} for v, count in saved["variants"].items()]
    with permit(numbers_set(minima)):
        update_capacities(cloud.change, resource.name, wanted)
    has_rest = saved["part"] < saved["parts"]
    part = f"{saved['part']} of {saved['parts']} variants" if has_rest else None
    return ActionResult(because=_result_sentence(saved) + sagemaker.stack_warning(resource.tags), part_done=part)


def _result_sentence(saved: UndoState) -> str:
    changes = [f"{v} from {saved['counts'][v]} to {count}" for v, count in saved["variants"].items()]
    has_lowered = live_settings.minimum_changes(saved["scaling"], saved["least"])
    lowered = "; the autoscaling minimum was lowered first" if has_lowered else ""
    later = "; a scheduled action may raise it again" if saved["scaling"]["actions"] else ""
    return f"it is scaling in: {', '.join(changes)}{lowered}{later}"


@dataclass(slots=True, kw_only=True)
class _UndoProgress:
    """What is met on the way back, by resource id: today's maximum, the numbers, those whose autoscaling minimum must wait or stay;
    what was lost, what failed."""

    maximum_by_id: Mapping[str, int]
    counts: dict[str, RestoredCount] = field(default_factory=dict)
    not_restored_ids: set[str] = field(default_factory=set)
    not_restored: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def undo_scale_in(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Back to the numbers of before, under today's maximum of autoscaling, and then its minimum; of the earlier parts of a stop too."""
    endpoint = _require_same_endpoint(cloud, manifest)
    progress = _UndoProgress(maximum_by_id=live_settings.maximum_by_id(cloud))
    records = [one.undo_state for one in (manifest, *manifest.continued)]
    _restore_instances(cloud, manifest.name, endpoint, records, progress)
    lost = [text for number in progress.counts.values() for text in number.not_restored]
    minimum = [text for saved in records for text in _restore_minimum(cloud, saved, progress)]
    requested = any(number.count_to_request is not None for number in progress.counts.values())
    return UndoResult(
        because="its previous instance counts were requested" if requested else "none of its instance counts changed",
        not_restored=(*lost, *progress.not_restored, *progress.failures, *minimum),
        run_again=bool(progress.failures),
    )


def _restore_minimum(cloud: CloudSession, saved: UndoState, progress: _UndoProgress) -> list[str]:
    """Raise autoscaling's minimum where the count is restored: raised first, it would scale out on its own, to less than before."""
    chosen = {id_: number.now for id_, number in progress.counts.items() if number.was_chosen_since}
    least_by_id = {id_: least for id_, least in saved["least"].items() if id_ not in progress.not_restored_ids}
    return live_settings.raise_minimum(cloud, saved["scaling"], least_by_id, chosen)


def _require_same_endpoint(cloud: CloudSession, manifest: Manifest) -> EndpointDescription:
    """The endpoint as it is now. Raises CloudError if it was recreated, is made of something else, or isn't in service."""
    saved, name = manifest.undo_state, manifest.name
    endpoint = description.describe_endpoint(cloud, name)
    if not acting.is_same_resource(cloud, endpoint.reply, endpoint.reply["EndpointArn"], saved.get("born")):
        raise CloudError.left_alone(OPERATION, f"{name} has been recreated since")
    if endpoint.reply.get("EndpointConfigName") != saved["config"] or _has_other_instances(endpoint, saved["instances"]):
        raise CloudError.left_alone(OPERATION, f"{name} has another configuration now")
    if endpoint.status != "InService":
        raise CloudError(
            Reason.REFUSED, OPERATION, f"the status of {name} is {endpoint.status}; run this again once it is InService"
        )
    return endpoint


def _has_other_instances(endpoint: EndpointDescription, before_types: Mapping[str, Sequence[str | None]]) -> bool:
    """Whether a variant runs other types; where its configuration is gone, then or now, its name must do."""
    now = {v.name: [kind for kind, _ in v.instances] for v in endpoint.variants}
    return any(None not in [*kinds, *now[v]] and kinds != now[v] for v, kinds in before_types.items() if v in now)


def _restore_instances(
    cloud: CloudSession, name: str, endpoint: EndpointDescription, records: Sequence[UndoState], progress: _UndoProgress
) -> None:
    """One variant after the other. Those that can't have their turn in this run get it in the next. Raises CloudError where all fail."""
    now = {row["VariantName"]: int(row.get("DesiredInstanceCount") or 0) for row in production_variants(endpoint)}
    for saved in records:
        for variant, before in saved["counts"].items():
            _add_count(name, variant, (before, saved["variants"][variant]), now.get(variant), progress)
    requests = {id_.split("/")[-1]: number.count_to_request for id_, number in progress.counts.items()}
    wanted = {variant: count for variant, count in requests.items() if count is not None}
    calls = [[{"VariantName": variant, "DesiredInstanceCount": count}] for variant, count in wanted.items()]
    refused: dict[str, CloudError] = {}
    later = call_while_in_service(cloud, name, calls, refused)
    if refused and len(refused) == len(wanted):
        raise next(iter(refused.values()))
    progress.not_restored_ids |= {autoscaling.variant_resource_id(name, variant) for variant in (*refused, *later)}
    progress.failures += not_restored_sentences(refused, later)


def _add_count(name: str, variant: str, before_and_after: tuple[int, int], now: int | None, progress: _UndoProgress) -> None:
    """`before_and_after`: before the stop, and as it left it. A later action's manifest, which comes first, knows better."""
    id_, what = autoscaling.variant_resource_id(name, variant), f"The number of instances of {variant}"
    if now is None:
        progress.not_restored.append(f"Its variant {variant} is gone.")
    elif id_ not in progress.counts:
        progress.counts[id_] = RestoredCount(
            label=what,
            before=before_and_after[0],
            stopped_at=before_and_after[1],
            now=now,
            maximum=progress.maximum_by_id.get(id_),
        )


def update_capacities(send: Callable[..., Any], name: str, rows: Sequence[CapacityRow]) -> None:
    """One call. `send`: the session's `call` or `change`."""
    operation = "UpdateEndpointWeightsAndCapacities"
    send("sagemaker", operation, "EndpointArn", EndpointName=name, DesiredWeightsAndCapacities=list(rows))


def capacity_calls(rows: Sequence[CapacityRow]) -> list[list[CapacityRow]]:
    """The rows as calls: all weights together, then each capacity."""
    weights = [{"VariantName": r["VariantName"], "DesiredWeight": r["DesiredWeight"]} for r in rows if "DesiredWeight" in r]
    sizes = [{key: value for key, value in row.items() if key != "DesiredWeight"} for row in rows]
    return ([[*weights]] if weights else []) + [[size] for size in sizes if len(size) > 1]


def call_while_in_service(
    cloud: CloudSession, name: str, wanted: Sequence[Sequence[CapacityRow]], refused: dict[str, CloudError]
) -> list[str]:
    """Make those calls while the endpoint is in service; gives the variants whose turn has not come.

    A call that fails, such as one over a quota, keeps no other from its turn: `refused` gets its variants and the error.
    """
    waiting = list(wanted)
    while waiting and fetch_endpoint(cloud, name)["EndpointStatus"] == "InService":
        rows = waiting.pop(0)
        try:
            update_capacities(cloud.call, name, rows)
        except CloudError as error:
            refused |= {str(row["VariantName"]): error for row in rows}
    return [str(row["VariantName"]) for rows in waiting for row in rows]


def not_restored_sentences(refused: Mapping[str, CloudError], later: Sequence[str]) -> list[str]:
    """What is not back of the variants' sizes and weights, and how it comes back."""
    sentences = [f"Not restored: the size or weight of {name} ({error}). Run this again." for name, error in refused.items()]
    return sentences + ([f"Not restored yet: the size of {', '.join(later)}; {RUN_AGAIN_TEXT}."] if later else [])
