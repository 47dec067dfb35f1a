"""Scaling an endpoint in: instances of one variant, or the copies of its components, never against autoscaling. `endpoint_scale_out` undoes it.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpointWeightsAndCapacities.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reaper.actions.contract import Made, Manifest, Permit, Record
from reaper.aws import autoscaling as aws_autoscaling
from reaper.aws import endpoint_description, protection, restorable, tags
from reaper.aws.actions import autoscaling, earlier, identity, inference_component, resize
from reaper.aws.endpoint_description import Described
from reaper.aws.scale_in_plan import ScaleIn, rows, scale_in
from reaper.aws.session import Cloud
from reaper.errors import CloudError, Trouble
from reaper.model import Move, Resource


def record(cloud: Cloud, resource: Resource) -> Record:
    """What would change, decided anew from fresh replies: numbers before and after, and the autoscaling of it all.

    `parts`: how many variants there were to scale in, this one and those of the actions that it goes on with included.
    """
    found = endpoint_description.describe(cloud, resource.name)
    way = scale_in(resource, found, inference_component.listed(cloud, resource.name), aws_autoscaling.read(cloud))
    if way.bar:
        raise _refused(f"{resource.name}: {way.bar.because}")
    identity = _identity(cloud, found)
    part = earlier.part(resource, lambda before: _goes_on(before, identity, way))
    numbers = _numbers(cloud, resource.name, found, way)
    return {
        **identity,
        **numbers,
        "previous": resource.facts.get("previous"),
        "part": part,
        "parts": part - 1 + max(1, len(way.variants)),
        "scaling": autoscaling.record(cloud, set(numbers["least"])),
    }


def _numbers(cloud: Cloud, name: str, found: Described, way: ScaleIn) -> dict[str, Any]:
    """Instances and copies before and after, and by resource id what autoscaling's minimum must not be above."""
    counts = {row["VariantName"]: int(row["CurrentInstanceCount"]) for row in rows(found) if row["VariantName"] in way.first}
    inside = {one: row for one in way.components if restorable.copies(row := inference_component.describe(cloud, one))}
    if not counts and not inside:
        raise _refused(f"{name}: its components have no copies already")
    least = {aws_autoscaling.variant(name, one): count for one, count in way.first.items()}
    return {
        "counts": counts,
        "variants": way.first,
        "inside": {one: inference_component.born(cloud, row) for one, row in inside.items()},
        "copies": {one: restorable.copies(row) for one, row in inside.items()},
        "least": least | {aws_autoscaling.component(one): 0 for one in inside},
    }


def _refused(text: str) -> CloudError:
    return CloudError(Trouble.REFUSED, "sagemaker:DescribeEndpoint", text)


def _identity(cloud: Cloud, found: Described) -> dict[str, Any]:
    """Which endpoint of its name it is, and what it is made of."""
    return {
        "born": identity.born(found.raw, tags.fresh(cloud, found.raw["EndpointArn"])),
        "config": found.raw.get("EndpointConfigName"),
        "instances": {v.name: [kind for kind, _ in v.instances] for v in found.variants},
    }


def _goes_on(before: Manifest, identity: Mapping[str, Any], way: ScaleIn) -> bool:
    """Whether this action goes on with that one: it left some of this very endpoint's variants, and what it did still stands."""
    saved = before.record
    left_some = before.move is Move.STOP and saved.get("part", 1) < saved.get("parts", 1)
    same_one = all(saved.get(key) == identity[key] for key in ("born", "config"))
    return left_some and same_one and not saved["variants"].keys() & way.variants.keys()


def carry(cloud: Cloud, resource: Resource, manifest: Manifest, permit: Permit) -> Made:
    """The autoscaling minimum first, or autoscaling would undo the rest; put back where the rest fails."""
    saved = manifest.record
    with autoscaling.lowered(cloud, manifest, permit):
        if saved["variants"]:
            permit()
            wanted = [{"VariantName": v, "DesiredInstanceCount": count} for v, count in saved["variants"].items()]
            resize.ask(cloud, resource.name, wanted)
        _empty(cloud, list(saved["copies"]), permit)
    left = saved["part"] < saved["parts"]
    part = f"{saved['part']} of {saved['parts']} variants" if left else None
    return Made(because=_told(saved) + protection.stack_again(resource.tags), part=part)


def _empty(cloud: Cloud, names: Sequence[str], permit: Permit) -> None:
    """Components to no copies, one after the other; one that is gone needs none. Raises PARTIAL from the second on."""
    for at, name in enumerate(names):
        permit()
        try:
            inference_component.set_copies(cloud, name, 0)
        except CloudError as error:
            if error.trouble is Trouble.GONE:
                continue
            if not at:
                raise
            raise autoscaling.halfway(error, f"{', '.join(names[:at])} went to no copies before") from error


def _told(saved: Record) -> str:
    said = [f"{v} from {saved['counts'][v]} to {count}" for v, count in saved["variants"].items()]
    said += [f"component {name} from {count} to no copies" for name, count in saved["copies"].items()]
    held = [t for t in saved["scaling"]["targets"] if t["MinCapacity"] > saved["least"].get(t["ResourceId"], t["MinCapacity"])]
    lowered = "; the autoscaling minimum was lowered first" if held else ""
    later = "; a scheduled action may raise it again" if saved["scaling"]["actions"] else ""
    return f"it is scaling in: {', '.join(said)}{lowered}{later}"
