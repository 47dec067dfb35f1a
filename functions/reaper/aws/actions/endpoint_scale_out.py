"""Undoing the scale-in of an endpoint: on the very same endpoint only, and of its numbers only those that are still as the stop left them.

A number that is another one by now was chosen since, by somebody or by autoscaling, for what the endpoint has to do now: it stays.
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpointWeightsAndCapacities.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reaper.actions.contract import Manifest, Record, Undone
from reaper.aws import autoscaling as aws_autoscaling
from reaper.aws import endpoint_description
from reaper.aws.actions import autoscaling, earlier, identity, inference_component, resize
from reaper.aws.actions.restored_count import Number
from reaper.aws.endpoint_description import Described
from reaper.aws.scale_in_plan import rows
from reaper.aws.session import Cloud
from reaper.errors import CloudError, Trouble

OPERATION = "sagemaker:UpdateEndpointWeightsAndCapacities"


@dataclass(slots=True, kw_only=True)
class _Way:
    """What is met on the way back, by resource id: today's maximum, the numbers, those whose autoscaling minimum must wait or stay;
    what was lost, what failed."""

    most: Mapping[str, int]
    numbers: dict[str, Number] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    lost: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def undo(cloud: Cloud, manifest: Manifest) -> Undone:
    """Back to the numbers of before, under today's maximum of autoscaling, and then its minimum; of the earlier parts of a stop too."""
    found = _unchanged(cloud, manifest)
    way = _Way(most=autoscaling.most(cloud))
    records = [one.record for one in earlier.chain(manifest, way.failed)]
    _instances(cloud, manifest.name, found, records, way)
    for one, before in manifest.record["copies"].items():
        _copies(cloud, one, before, manifest.record["inside"].get(one), way)
    lost = [text for number in way.numbers.values() for text in number.lost]
    minimum = [text for saved in records for text in _minimum(cloud, saved, way)]
    return Undone(because=_told(way), lost=(*lost, *way.lost, *way.failed, *minimum), again=bool(way.failed))


def _minimum(cloud: Cloud, saved: Record, way: _Way) -> list[str]:
    """Autoscaling's minimum back where the number is: one that came first would scale out by itself, to less than there was."""
    chosen = {id_: number.now for id_, number in way.numbers.items() if number.chosen}
    ours = {id_: least for id_, least in saved["least"].items() if id_ not in way.kept}
    return autoscaling.lift(cloud, saved["scaling"], ours, chosen)


def _told(way: _Way) -> str:
    if any(number.wanted is not None for number in way.numbers.values()):
        return "its former numbers of instances and copies are asked for again"
    return "none of its numbers of instances and copies was changed"


def _unchanged(cloud: Cloud, manifest: Manifest) -> Described:
    """The endpoint as it is now. Raises CloudError where it is another one, made of something else, or not in service."""
    saved, name = manifest.record, manifest.name
    found = endpoint_description.describe(cloud, name)
    if not identity.same(cloud, found.raw, found.raw["EndpointArn"], saved.get("born")):
        raise identity.anew(OPERATION, name)
    if found.raw.get("EndpointConfigName") != saved["config"] or _other_instances(found, saved["instances"]):
        raise CloudError(Trouble.REFUSED, OPERATION, f"{name} has another configuration since: it is left as it is")
    if found.status != "InService":
        raise CloudError(Trouble.REFUSED, OPERATION, f"the status of {name} is {found.status}: run it again once it is InService")
    return found


def _other_instances(found: Described, were: Mapping[str, Sequence[str | None]]) -> bool:
    """Whether a variant runs other types; where its configuration is gone, then or now, its name must do."""
    now = {v.name: [kind for kind, _ in v.instances] for v in found.variants}
    return any(None not in [*kinds, *now[v]] and kinds != now[v] for v, kinds in were.items() if v in now)


def _instances(cloud: Cloud, name: str, found: Described, records: Sequence[Record], way: _Way) -> None:
    """One variant after the other. Those that cannot have their turn in this run get it in the next. Raises CloudError where all fail."""
    now = {row["VariantName"]: int(row.get("DesiredInstanceCount") or 0) for row in rows(found)}
    for saved in records:
        for variant, before in saved["counts"].items():
            _number(name, variant, (before, saved["variants"][variant]), now.get(variant), way)
    wanted = {id_.split("/")[-1]: number.wanted for id_, number in way.numbers.items() if number.wanted is not None}
    calls = [[{"VariantName": variant, "DesiredInstanceCount": count}] for variant, count in wanted.items()]
    refused: dict[str, CloudError] = {}
    later = resize.one_by_one(cloud, name, calls, refused)
    if refused and len(refused) == len(wanted):
        raise next(iter(refused.values()))
    way.kept |= {aws_autoscaling.variant(name, variant) for variant in (*refused, *later)}
    way.failed += resize.told(refused, later)


def _number(name: str, variant: str, was: tuple[int, int], now: int | None, way: _Way) -> None:
    """`was`: before the stop, and as it left it. A later action's manifest, which comes first, knows better."""
    id_, what = aws_autoscaling.variant(name, variant), f"The number of instances of {variant}"
    if now is None:
        way.lost.append(f"Its variant {variant} is gone.")
    elif id_ not in way.numbers:
        way.numbers[id_] = Number(what=what, before=was[0], left=was[1], now=now, most=way.most.get(id_))


def _copies(cloud: Cloud, name: str, before: int, born: str | None, way: _Way) -> None:
    """One component back to its copies; one that fails keeps none of the others from it."""
    id_ = aws_autoscaling.component(name)
    try:
        row = inference_component.describe(cloud, name)
        if not identity.same(cloud, row, row["InferenceComponentArn"], born):
            way.kept.add(id_)
            way.lost.append(f"The component {name} {identity.ANEW}.")
            return
        way.numbers[id_] = inference_component.number(row, before, way.most.get(id_))
        inference_component.bring_back(cloud, name, way.numbers[id_])
    except CloudError as error:
        way.kept.add(id_)
        way.failed.append(f"The copies of {name} could not be brought back ({error}).")
