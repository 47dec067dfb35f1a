"""Scaling an endpoint in, and back out: instances of variants, or the copies of its components, never against autoscaling.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpointWeightsAndCapacities.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reaper.acts import Manifest, Record, Undone
from reaper.aws import endpoint, scaling
from reaper.aws.acts import autoscaling, component
from reaper.aws.cloud import Cloud
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
    copies = {name: count for name in way.components if (count := component.copies(component.describe(cloud, name)))}
    if not counts and not copies:
        raise CloudError(Trouble.REFUSED, "sagemaker:DescribeEndpoint", f"{resource.name}: its components have no copies already")
    least = {scaling.variant(resource.name, name): count for name, count in way.variants.items()}
    least |= {scaling.component(name): 0 for name in copies}
    return {
        "counts": counts,
        "variants": dict(way.variants),
        "copies": copies,
        "least": least,
        "scaling": autoscaling.record(cloud, set(least)),
    }


def carry(cloud: Cloud, resource: Resource, manifest: Manifest) -> str:
    """The autoscaling minimum first, or autoscaling would undo the rest; put back where the rest fails."""
    saved = manifest.record
    with autoscaling.lowered(cloud, saved["scaling"], saved["least"]):
        _scale(cloud, resource.name, saved["variants"])
        _empty(cloud, list(saved["copies"]))
    return _told(saved)


def _empty(cloud: Cloud, names: Sequence[str]) -> None:
    """Components to no copies, one after the other; one that is gone needs none. Raises PARTIAL from the second on."""
    for at, name in enumerate(names):
        try:
            component.set_copies(cloud, name, 0)
        except CloudError as error:
            if error.trouble is Trouble.GONE:
                continue
            if not at:
                raise
            raise autoscaling.halfway(error, f"{', '.join(names[:at])} went to no copies before") from error


def undo(cloud: Cloud, manifest: Manifest) -> Undone:
    """Back to the numbers of before, where there are fewer now, and then the minimum."""
    saved, name = manifest.record, manifest.name
    found = endpoint.describe(cloud, name)
    if found.status != "InService":
        text = f"the status of {name} is {found.status}: run it again once it is InService"
        raise CloudError(Trouble.REFUSED, "sagemaker:UpdateEndpointWeightsAndCapacities", text)
    now = {row["VariantName"]: int(row.get("DesiredInstanceCount") or 0) for row in rows(found)}
    _scale(cloud, name, {v: count for v, count in saved["counts"].items() if v in now and now[v] < count})
    lost = [f"Its variant {v} is gone." for v in saved["counts"] if v not in now]
    lost += [why for one, count in saved["copies"].items() if (why := copy_again(cloud, one, count))]
    lost += autoscaling.lift(cloud, saved["scaling"], saved["least"])
    return Undone(because="its former numbers of instances and copies are asked for again", lost=tuple(lost))


def copy_again(cloud: Cloud, name: str, count: int) -> str | None:
    """Back to so many copies, where it has fewer; gives the sentence that says why not."""
    try:
        if component.copies(component.describe(cloud, name)) < count:
            component.set_copies(cloud, name, count)
    except CloudError as error:
        return f"The copies of {name} could not be brought back ({error})."
    return None


def _scale(cloud: Cloud, name: str, counts: Mapping[str, int]) -> None:
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
