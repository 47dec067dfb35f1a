"""Adapters: inference components that run inside a base component, so that their traffic and their tags are the base's too. Pure.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_InferenceComponentSpecification.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reaper.aws import protection
from reaper.aws.component_actions import details_of
from reaper.errors import CloudError, Reason
from reaper.evidence import last_used
from reaper.model import Resource, Role
from reaper.observation import Observation, Reading, Window

DescriptionOrError = dict[str, Any] | CloudError


def with_adapters(
    observation: Observation,
    described: Mapping[str, DescriptionOrError],
    observations: Mapping[str, Observation],
    window: Window,
) -> Observation:
    """The traffic of its adapters is its own, it is as young as the youngest of them, and their own tags forbid what would end them."""
    resource, readings = observation.resource, list(observation.readings)
    adapters: list[Resource] = []
    for other in _hosted_with(resource, observations):
        row = described.get(other.resource.name)
        if isinstance(row, CloudError) and row.reason is Reason.GONE:
            # A deleted component is no adapter. If it was one until a moment ago, its use still counts.
            readings += _traffic_readings(other, "deleted component") if last_used(other) else ()
        elif isinstance(row, CloudError):
            return replace(observation, unknown_because=f"whether {other.resource.name} is an adapter of it couldn't be read")
        elif row is not None and base_component(row) == resource.name:
            adapters.append(replace(other.resource, details=None))
            readings += _traffic_readings(other, "adapter")
    times = [t for t in (resource.changed, *(t for a in adapters for t in (a.created, a.changed))) if t]
    whole = replace(resource, changed=max(times, default=None), contained=tuple(adapters))
    tags_by_name = {adapter.name: adapter.tags for adapter in adapters}
    details = replace(
        details_of(resource),
        adapters=tuple(tags_by_name),
        protected_inside=protection.protected_inside(tags_by_name, window.end),
    )
    return replace(observation, resource=replace(whole, details=details), readings=tuple(readings))


def _hosted_with(resource: Resource, observations: Mapping[str, Observation]) -> list[Observation]:
    """The other components of its endpoint."""
    endpoint = details_of(resource).endpoint_name
    others = [o for o in observations.values() if o.resource.name != resource.name]
    return [o for o in others if details_of(o.resource).endpoint_name == endpoint]


def _traffic_readings(observation: Observation, what: str) -> list[Reading]:
    name = observation.resource.name
    return [replace(r, signal=f"{r.signal} of {what} {name}") for r in observation.readings if r.role is Role.ACTIVITY]


def base_component(row: Mapping[str, Any]) -> str | None:
    """The component that this one is an adapter of. A reply has `Specification` or `Specifications`, never both."""
    specs = [row.get("Specification"), *(row.get("Specifications") or ())]
    return next((str(s["BaseInferenceComponentName"]) for s in specs if s and s.get("BaseInferenceComponentName")), None)
