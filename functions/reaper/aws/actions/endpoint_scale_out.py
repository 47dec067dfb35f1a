"""Undoing the scale-in of an endpoint: on the very same endpoint only, and of its numbers only those that are still as the stop left them.

A number that is another one by now was chosen since, by somebody or by autoscaling, for what the endpoint has to do now: it stays.
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpointWeightsAndCapacities.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reaper.actions.contract import Manifest, UndoResult, UndoState
from reaper.aws import autoscaling as aws_autoscaling
from reaper.aws import endpoint_description
from reaper.aws.actions import autoscaling, earlier, identity, inference_component, resize
from reaper.aws.actions.restored_count import RestoredCount
from reaper.aws.endpoint_description import EndpointDescription
from reaper.aws.scale_in_plan import production_variants
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason

OPERATION = "sagemaker:UpdateEndpointWeightsAndCapacities"


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
    found = _require_same_endpoint(cloud, manifest)
    way = _UndoProgress(maximum_by_id=autoscaling.maximum_by_id(cloud))
    records = [one.undo_state for one in earlier.manifest_chain(manifest, way.failures)]
    _restore_instances(cloud, manifest.name, found, records, way)
    for one, before in manifest.undo_state["copies"].items():
        _restore_copies(cloud, one, before, manifest.undo_state["inside"].get(one), way)
    lost = [text for number in way.counts.values() for text in number.not_restored]
    minimum = [text for saved in records for text in _restore_minimum(cloud, saved, way)]
    return UndoResult(
        because=_result_sentence(way),
        not_restored=(*lost, *way.not_restored, *way.failures, *minimum),
        run_again=bool(way.failures),
    )


def _restore_minimum(cloud: CloudSession, saved: UndoState, way: _UndoProgress) -> list[str]:
    """Autoscaling's minimum back where the number is: one that came first would scale out by itself, to less than there was."""
    chosen = {id_: number.now for id_, number in way.counts.items() if number.was_chosen_since}
    ours = {id_: least for id_, least in saved["least"].items() if id_ not in way.not_restored_ids}
    return autoscaling.raise_minimum(cloud, saved["scaling"], ours, chosen)


def _result_sentence(way: _UndoProgress) -> str:
    if any(number.count_to_request is not None for number in way.counts.values()):
        return "its former numbers of instances and copies are asked for again"
    return "none of its numbers of instances and copies was changed"


def _require_same_endpoint(cloud: CloudSession, manifest: Manifest) -> EndpointDescription:
    """The endpoint as it is now. Raises CloudError where it is another one, made of something else, or not in service."""
    saved, name = manifest.undo_state, manifest.name
    found = endpoint_description.describe_endpoint(cloud, name)
    if not identity.is_same_resource(cloud, found.reply, found.reply["EndpointArn"], saved.get("born")):
        raise identity.recreated_error(OPERATION, name)
    if found.reply.get("EndpointConfigName") != saved["config"] or _has_other_instances(found, saved["instances"]):
        raise CloudError(Reason.REFUSED, OPERATION, f"{name} has another configuration since: it is left as it is")
    if found.status != "InService":
        raise CloudError(Reason.REFUSED, OPERATION, f"the status of {name} is {found.status}: run it again once it is InService")
    return found


def _has_other_instances(found: EndpointDescription, were: Mapping[str, Sequence[str | None]]) -> bool:
    """Whether a variant runs other types; where its configuration is gone, then or now, its name must do."""
    now = {v.name: [kind for kind, _ in v.instances] for v in found.variants}
    return any(None not in [*kinds, *now[v]] and kinds != now[v] for v, kinds in were.items() if v in now)


def _restore_instances(
    cloud: CloudSession, name: str, found: EndpointDescription, records: Sequence[UndoState], way: _UndoProgress
) -> None:
    """One variant after the other. Those that cannot have their turn in this run get it in the next. Raises CloudError where all fail."""
    now = {row["VariantName"]: int(row.get("DesiredInstanceCount") or 0) for row in production_variants(found)}
    for saved in records:
        for variant, before in saved["counts"].items():
            _add_count(name, variant, (before, saved["variants"][variant]), now.get(variant), way)
    wanted = {
        id_.split("/")[-1]: number.count_to_request for id_, number in way.counts.items() if number.count_to_request is not None
    }
    calls = [[{"VariantName": variant, "DesiredInstanceCount": count}] for variant, count in wanted.items()]
    refused: dict[str, CloudError] = {}
    later = resize.call_while_in_service(cloud, name, calls, refused)
    if refused and len(refused) == len(wanted):
        raise next(iter(refused.values()))
    way.not_restored_ids |= {aws_autoscaling.variant_resource_id(name, variant) for variant in (*refused, *later)}
    way.failures += resize.not_restored_sentences(refused, later)


def _add_count(name: str, variant: str, was: tuple[int, int], now: int | None, way: _UndoProgress) -> None:
    """`was`: before the stop, and as it left it. A later action's manifest, which comes first, knows better."""
    id_, what = aws_autoscaling.variant_resource_id(name, variant), f"The number of instances of {variant}"
    if now is None:
        way.not_restored.append(f"Its variant {variant} is gone.")
    elif id_ not in way.counts:
        way.counts[id_] = RestoredCount(label=what, before=was[0], stopped_at=was[1], now=now, maximum=way.maximum_by_id.get(id_))


def _restore_copies(cloud: CloudSession, name: str, before: int, born: str | None, way: _UndoProgress) -> None:
    """One component back to its copies; one that fails keeps none of the others from it."""
    id_ = aws_autoscaling.component_resource_id(name)
    try:
        row = inference_component.fetch_component(cloud, name)
        if not identity.is_same_resource(cloud, row, row["InferenceComponentArn"], born):
            way.not_restored_ids.add(id_)
            way.not_restored.append(f"The component {name} {identity.RECREATED_TEXT}.")
            return
        way.counts[id_] = inference_component.restored_copies(row, before, way.maximum_by_id.get(id_))
        inference_component.restore_copies(cloud, name, way.counts[id_])
    except CloudError as error:
        way.not_restored_ids.add(id_)
        way.failures.append(f"The copies of {name} could not be brought back ({error}).")
