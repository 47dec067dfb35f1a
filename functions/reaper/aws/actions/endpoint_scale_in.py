"""Scaling an endpoint in: instances of one variant, or the copies of its components, never against autoscaling. `endpoint_scale_out` undoes it.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpointWeightsAndCapacities.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reaper.actions.contract import ActionResult, CallCheck, Manifest, UndoState
from reaper.aws import autoscaling as aws_autoscaling
from reaper.aws import endpoint_description, protection, restorable, tags
from reaper.aws.actions import autoscaling, earlier, identity, inference_component, resize
from reaper.aws.endpoint_description import EndpointDescription
from reaper.aws.scale_in_plan import ScaleInPlan, plan_scale_in, production_variants
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import Resource, StepName


def read_undo_state(cloud: CloudSession, resource: Resource) -> UndoState:
    """What would change, decided anew from fresh replies: numbers before and after, and the autoscaling of it all.

    `parts`: how many variants there were to scale in, this one and those of the actions that it goes on with included.
    """
    found = endpoint_description.describe_endpoint(cloud, resource.name)
    way = plan_scale_in(
        resource, found, inference_component.component_names(cloud, resource.name), aws_autoscaling.read_autoscaling(cloud)
    )
    if way.blocked:
        raise _scale_in_refusal(f"{resource.name}: {way.blocked.because}")
    identity = _endpoint_identity(cloud, found)
    part = earlier.part_number(resource, lambda before: _continues(before, identity, way))
    numbers = _counts_before_and_after(cloud, resource.name, found, way)
    return {
        **identity,
        **numbers,
        "previous": resource.facts.get("previous"),
        "part": part,
        "parts": part - 1 + max(1, len(way.instances_by_variant)),
        "scaling": autoscaling.read_autoscaling_state(cloud, set(numbers["least"])),
    }


def _counts_before_and_after(cloud: CloudSession, name: str, found: EndpointDescription, way: ScaleInPlan) -> dict[str, Any]:
    """Instances and copies before and after, and by resource id what autoscaling's minimum must not be above."""
    counts = {
        row["VariantName"]: int(row["CurrentInstanceCount"])
        for row in production_variants(found)
        if row["VariantName"] in way.first_variant
    }
    inside = {one: row for one in way.components if restorable.copy_count(row := inference_component.fetch_component(cloud, one))}
    if not counts and not inside:
        raise _scale_in_refusal(f"{name}: its components have no copies already")
    least = {aws_autoscaling.variant_resource_id(name, one): count for one, count in way.first_variant.items()}
    return {
        "counts": counts,
        "variants": way.first_variant,
        "inside": {one: inference_component.component_first_created(cloud, row) for one, row in inside.items()},
        "copies": {one: restorable.copy_count(row) for one, row in inside.items()},
        "least": least | {aws_autoscaling.component_resource_id(one): 0 for one in inside},
    }


def _scale_in_refusal(text: str) -> CloudError:
    return CloudError(Reason.REFUSED, "sagemaker:DescribeEndpoint", text)


def _endpoint_identity(cloud: CloudSession, found: EndpointDescription) -> dict[str, Any]:
    """Which endpoint of its name it is, and what it is made of."""
    return {
        "born": identity.first_created(found.reply, tags.read_tags_now(cloud, found.reply["EndpointArn"])),
        "config": found.reply.get("EndpointConfigName"),
        "instances": {v.name: [kind for kind, _ in v.instances] for v in found.variants},
    }


def _continues(before: Manifest, identity: Mapping[str, Any], way: ScaleInPlan) -> bool:
    """Whether this action goes on with that one: it left some of this very endpoint's variants, and what it did still stands."""
    saved = before.undo_state
    left_some = before.action is StepName.STOP and saved.get("part", 1) < saved.get("parts", 1)
    same_one = all(saved.get(key) == identity[key] for key in ("born", "config"))
    return left_some and same_one and not saved["variants"].keys() & way.instances_by_variant.keys()


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: CallCheck) -> ActionResult:
    """The autoscaling minimum first, or autoscaling would undo the rest; put back where the rest fails."""
    saved = manifest.undo_state
    with autoscaling.minimum_lowered(cloud, manifest, permit):
        if saved["variants"]:
            permit()
            wanted = [{"VariantName": v, "DesiredInstanceCount": count} for v, count in saved["variants"].items()]
            resize.update_capacities(cloud, resource.name, wanted)
        _take_copies_to_zero(cloud, list(saved["copies"]), permit)
    left = saved["part"] < saved["parts"]
    part = f"{saved['part']} of {saved['parts']} variants" if left else None
    return ActionResult(because=_result_sentence(saved) + protection.stack_warning(resource.tags), part_done=part)


def _take_copies_to_zero(cloud: CloudSession, names: Sequence[str], permit: CallCheck) -> None:
    """Components to no copies, one after the other; one that is gone needs none. Raises PARTIAL from the second on."""
    for at, name in enumerate(names):
        permit()
        try:
            inference_component.set_copies(cloud, name, 0)
        except CloudError as error:
            if error.reason is Reason.GONE:
                continue
            if not at:
                raise
            raise autoscaling.partial_error(error, f"{', '.join(names[:at])} went to no copies before") from error


def _result_sentence(saved: UndoState) -> str:
    said = [f"{v} from {saved['counts'][v]} to {count}" for v, count in saved["variants"].items()]
    said += [f"component {name} from {count} to no copies" for name, count in saved["copies"].items()]
    held = [t for t in saved["scaling"]["targets"] if t["MinCapacity"] > saved["least"].get(t["ResourceId"], t["MinCapacity"])]
    lowered = "; the autoscaling minimum was lowered first" if held else ""
    later = "; a scheduled action may raise it again" if saved["scaling"]["actions"] else ""
    return f"it is scaling in: {', '.join(said)}{lowered}{later}"
