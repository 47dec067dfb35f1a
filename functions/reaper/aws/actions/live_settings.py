"""What may be changed about an endpoint or a component, as the looks before an action compare it; and what of it the action's own calls changed.

Numbers have names of their own, because own calls set them: instances by a variant's ID for autoscaling, copies by a component's, and the
minimum of each. Everything else is a digest. Other changes than one's own always show.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reaper.actions.contract import OwnChanges
from reaper.aws import autoscaling, restorable
from reaper.aws.actions.saved_autoscaling import SavedAutoscaling, autoscaling_digest
from reaper.aws.plain_json import digest
from reaper.model import Resource, SideChange

MINIMUM, SCALING = "minimum of ", "autoscaling of "
UNCOMPARED_KEYS = {"EndpointStatus", "InferenceComponentStatus", "LastModifiedTime", "FailureReason", "RuntimeConfig"}
"""Compared as a field of the resource or as a number, or of no matter."""
COUNT_KEYS = {"CurrentInstanceCount", "DesiredInstanceCount", "VariantStatus"}
VARIANT_KEYS = ("ProductionVariants", "ShadowProductionVariants")
Settings = dict[str, str]
Numbers = dict[str, int]


def endpoint_settings(row: Mapping[str, Any]) -> tuple[Settings, Numbers]:
    """Of an endpoint's description. A pending deployment counts if it is of another configuration."""
    name, shown = row["EndpointName"], {key: value for key, value in row.items() if key not in UNCOMPARED_KEYS}
    shown |= {key: [_without(one, COUNT_KEYS) for one in row.get(key) or ()] for key in VARIANT_KEYS}
    pending = (shown.pop("PendingDeploymentSummary", None) or {}).get("EndpointConfigName")
    variants = [one for key in VARIANT_KEYS for one in row.get(key) or ()]
    counts = {
        autoscaling.variant_resource_id(name, one["VariantName"]): one.get(
            "DesiredInstanceCount", one.get("CurrentInstanceCount")
        )
        for one in variants
    }
    is_pending = pending not in {None, row.get("EndpointConfigName")}
    return {name: digest([shown, is_pending])}, {id_: int(count) for id_, count in counts.items() if count is not None}


def component_settings(row: Mapping[str, Any]) -> tuple[Settings, Numbers]:
    """Of a component's description."""
    id_ = autoscaling.component_resource_id(row["InferenceComponentName"])
    return {id_: digest(_without(row, UNCOMPARED_KEYS))}, {id_: restorable.copy_count(row)}


def autoscaling_settings(saved: SavedAutoscaling, ids: Collection[str]) -> tuple[Settings, Numbers]:
    """Of the autoscaling of those resource IDs."""
    minima = {
        MINIMUM + target["ResourceId"]: int(target["MinCapacity"])
        for target in saved["targets"]
        if target["ScalableDimension"] in autoscaling.CAPACITY_DIMENSIONS
    }
    return {SCALING + id_: autoscaling_digest(saved, id_) for id_ in ids}, minima


def _without(row: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in keys}


def numbers_set(made: Sequence[SideChange]) -> OwnChanges:
    """Takes out the numbers that earlier calls set."""

    def as_before(now: Resource) -> Resource:
        numbers = {**now.details.numbers}
        numbers |= {change.what: change.before for change in made if numbers.get(change.what) == change.ours}
        return _with_details(now, numbers=numbers)

    return as_before


def components_scaled(before: Resource, made: Sequence[SideChange], names: Collection[str]) -> OwnChanges:
    """Takes out the numbers that earlier calls set, and what follows for a host whose components of these `names` have no copies now."""

    def as_before(now: Resource) -> Resource:
        old = {inner.id: inner for inner in before.contained if inner.name in names}
        contained = tuple(_settled(inner, old.get(inner.id)) for inner in now.contained)
        return _host_before(before, replace(numbers_set(made)(now), contained=contained)) if names else numbers_set(made)(now)

    return as_before


def _settled(inner: Resource, before: Resource | None) -> Resource:
    """A component as it was before its copies went: it is updated for a while, and then changed."""
    if before is None or inner.created != before.created or inner.status not in {"InService", "Updating"}:
        return inner
    return replace(inner, status=before.status, changed=before.changed)


def components_deleted(before: Resource, names: Collection[str]) -> OwnChanges:
    """Puts the components of these `names` back into their host, if they are gone or going. One of another creation time stays as it is."""

    def as_before(now: Resource) -> Resource:
        present = {inner.name: inner for inner in now.contained}
        gone = [inner for inner in before.contained if inner.name in names and _is_going(present.get(inner.name), inner)]
        if not gone:
            return now
        going = {inner.name: inner for inner in gone}
        ids = {prefix + autoscaling.component_resource_id(name) for name in going for prefix in ("", MINIMUM, SCALING)}
        old = before.details
        details = {
            "component_tags": now.details.component_tags | {n: t for n, t in old.component_tags.items() if n in going},
            "settings": _without(now.details.settings, ids) | {key: value for key, value in old.settings.items() if key in ids},
            "numbers": _without(now.details.numbers, ids) | {key: value for key, value in old.numbers.items() if key in ids},
        }
        contained = tuple((present | going)[name] for name in sorted(present | going))
        return _host_before(before, replace(_with_details(now, **details), contained=contained))

    return as_before


def _is_going(now: Resource | None, before: Resource) -> bool:
    return now is None or (now.status == "Deleting" and now.created == before.created)


def _host_before(before: Resource, now: Resource) -> Resource:
    """The host without what SageMaker does to it when its components go: it releases instances, and may update it for that."""
    if now.status not in {"InService", "Updating"}:
        return now
    old = before.details.numbers
    counts = {
        id_: old[id_] for id_, count in now.details.numbers.items() if id_.startswith("endpoint/") and count < old.get(id_, 0)
    }
    settled = _with_details(now, numbers={**now.details.numbers, **counts})
    return replace(settled, status=before.status, changed=before.changed)


def being_deleted(before: Resource) -> OwnChanges:
    """Takes out everything, if the resource is being deleted, and is still the same."""
    return lambda now: before if now.status == "Deleting" and now.created == before.created else now


def _with_details(resource: Resource, **changes: Any) -> Resource:
    return replace(resource, details=replace(resource.details, **changes))
