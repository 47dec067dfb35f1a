"""Scaling an endpoint in: instances of variants, or the copies of its components, never against autoscaling. `endpoint_scale_out` undoes it.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpointWeightsAndCapacities.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reaper.acts import Made, Manifest, Permit, Record
from reaper.aws import endpoint, guard, scaling, tags
from reaper.aws.acts import autoscaling, component, same
from reaper.aws.cloud import Cloud
from reaper.aws.endpoint import Described
from reaper.aws.reply import DONE
from reaper.aws.scale_in import rows, scale_in
from reaper.errors import CloudError, Trouble
from reaper.model import Resource


def record(cloud: Cloud, resource: Resource) -> Record:
    """What would change, decided anew from fresh replies: numbers before and after, and the autoscaling of it all."""
    found = endpoint.describe(cloud, resource.name)
    way = scale_in(resource.name, found, component.listed(cloud, resource.name), scaling.read(cloud))
    if way.bar:
        raise CloudError(Trouble.REFUSED, "sagemaker:DescribeEndpoint", f"{resource.name}: {way.bar.because}")
    counts = {row["VariantName"]: int(row["CurrentInstanceCount"]) for row in rows(found) if row["VariantName"] in way.variants}
    inside = {name: row for name in way.components if component.copies(row := component.describe(cloud, name))}
    copies = {name: component.copies(row) for name, row in inside.items()}
    if not counts and not copies:
        raise CloudError(Trouble.REFUSED, "sagemaker:DescribeEndpoint", f"{resource.name}: its components have no copies already")
    least = {scaling.variant(resource.name, name): count for name, count in way.variants.items()}
    least |= {scaling.component(name): 0 for name in copies}
    return {
        **_identity(cloud, found),
        "inside": {name: component.born(cloud, row) for name, row in inside.items()},
        "counts": counts,
        "variants": dict(way.variants),
        "copies": copies,
        "least": least,
        "scaling": autoscaling.record(cloud, set(least)),
    }


def _identity(cloud: Cloud, found: Described) -> dict[str, Any]:
    """Which endpoint of its name it is, and what it is made of."""
    return {
        "born": same.born(found.raw, tags.fresh(cloud, found.raw["EndpointArn"])),
        "config": found.raw.get("EndpointConfigName"),
        "instances": {v.name: [kind for kind, _ in v.instances] for v in found.variants},
    }


def carry(cloud: Cloud, resource: Resource, manifest: Manifest, permit: Permit) -> Made:
    """The autoscaling minimum first, or autoscaling would undo the rest; put back where the rest fails."""
    saved = manifest.record
    with autoscaling.lowered(cloud, manifest, permit):
        if saved["variants"]:
            permit()
            scale(cloud, resource.name, saved["variants"])
        _empty(cloud, list(saved["copies"]), permit)
    return Made(because=_told(saved) + guard.stack_again(resource.tags))


def _empty(cloud: Cloud, names: Sequence[str], permit: Permit) -> None:
    """Components to no copies, one after the other; one that is gone needs none. Raises PARTIAL from the second on."""
    for at, name in enumerate(names):
        permit()
        try:
            component.set_copies(cloud, name, 0)
        except CloudError as error:
            if error.trouble is Trouble.GONE:
                continue
            if not at:
                raise
            raise autoscaling.halfway(error, f"{', '.join(names[:at])} went to no copies before") from error


def scale(cloud: Cloud, name: str, counts: Mapping[str, int]) -> None:
    """Ask for so many instances by variant, in one call; none where there is nothing to ask for."""
    if counts:
        wanted: Sequence[dict[str, Any]] = [{"VariantName": v, "DesiredInstanceCount": count} for v, count in counts.items()]
        operation = "UpdateEndpointWeightsAndCapacities"
        cloud.call("sagemaker", operation, DONE, EndpointName=name, DesiredWeightsAndCapacities=wanted)


def _told(saved: Record) -> str:
    said = [f"{v} from {saved['counts'][v]} to {count}" for v, count in saved["variants"].items()]
    said += [f"component {name} from {count} to no copies" for name, count in saved["copies"].items()]
    held = [t for t in saved["scaling"]["targets"] if t["MinCapacity"] > saved["least"].get(t["ResourceId"], t["MinCapacity"])]
    lowered = "; the autoscaling minimum was lowered first" if held else ""
    later = "; a scheduled action may raise it again" if saved["scaling"]["actions"] else ""
    return f"it is scaling in: {', '.join(said)}{lowered}{later}"
