"""What DescribeInferenceComponent says of one component: its copies, what it reserves, and whether it could be recreated. Pure.

Tests compare the members with the SDK's own model: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeInferenceComponent.html
"""

from __future__ import annotations

from typing import Any

from reaper.aws.sagemaker import chosen_members, to_plain_json, unknown_members_clause
from reaper.aws.table import Row

MEMBERS = ("InferenceComponentName", "EndpointName", "VariantName")
SERVICE_MEMBERS = {
    "CreationTime", "LastModifiedTime", "EndpointArn", "InferenceComponentArn", "InferenceComponentStatus", "FailureReason",
    "Specification", "Specifications", "RuntimeConfig", "LastDeploymentConfig",
}  # fmt: skip
SPECIFICATION_MEMBERS = (
    "InstanceType", "ModelName", "StartupParameters", "ComputeResourceRequirements", "BaseInferenceComponentName",
    "DataCacheConfig", "SchedulingConfig",
)  # fmt: skip
CONTAINER_MEMBERS = ("ArtifactUrl", "Environment", "ContainerMetricsConfig")
UNCOMPARED_KEYS = {"InferenceComponentStatus", "LastModifiedTime", "FailureReason", "RuntimeConfig"}
"""Compared as a field of the resource or as a number, or of no matter."""


def specifications(row: Row) -> list[Row]:
    """A reply has `Specification` or `Specifications`, never both."""
    return [spec for spec in (row.get("Specification"), *(row.get("Specifications") or ())) if spec]


def base_component(row: Row) -> str | None:
    """The component that this one is an adapter of."""
    names = (spec.get("BaseInferenceComponentName") for spec in specifications(row))
    return next((str(name) for name in names if name), None)


def copies_running(row: Row) -> int | None:
    """How many copies run now."""
    count: int | None = (row.get("RuntimeConfig") or {}).get("CurrentCopyCount")
    return count


def copy_count(row: Row) -> int:
    """How many copies it is meant to have."""
    runtime = row.get("RuntimeConfig") or {}
    return int(runtime.get("DesiredCopyCount", runtime.get("CurrentCopyCount", 0)))


def reserved(row: Row, unit: str) -> float:
    """How much its copies reserve together; 0 if that isn't known."""
    needs = (row.get("Specification") or {}).get("ComputeResourceRequirements") or {}
    return float(needs.get(unit) or 0) * (copies_running(row) or 0)


def settings(row: Row) -> Row:
    """Everything that a person may change but its copies."""
    return {key: value for key, value in row.items() if key not in UNCOMPARED_KEYS}


def unrestorable_because(row: Row) -> str | None:
    """The clause that says why an inference component can't be recreated; adapters never are."""
    specs, name = specifications(row), row.get("InferenceComponentName")
    if not specs or base_component(row):
        return f"{name} is an adapter or has no readable specification, so it couldn't be recreated"
    odd = [unknown_members_clause(row, MEMBERS, SERVICE_MEMBERS)]
    odd += [unknown_members_clause(s, SPECIFICATION_MEMBERS, ("Container",)) for s in specs]
    odd += [unknown_members_clause(s.get("Container") or {}, CONTAINER_MEMBERS, ("DeployedImage",)) for s in specs]
    return next((f"the component {name} {one}" for one in odd if one), None)


def specifications_to_create(row: Row) -> dict[str, Any]:
    """What it runs, as create calls take it."""
    if row.get("Specification"):
        return {"Specification": _specification_to_create(row["Specification"])}
    return {"Specifications": [_specification_to_create(spec) for spec in row.get("Specifications") or ()]}


def _specification_to_create(row: Row) -> dict[str, Any]:
    """A specification as create calls take it; the reply shows an image as it was named and as it was found."""
    spec = chosen_members(row, *SPECIFICATION_MEMBERS)
    if container := row.get("Container"):
        image = {"Image": (container.get("DeployedImage") or {}).get("SpecifiedImage")}
        members = chosen_members(container, *CONTAINER_MEMBERS)
        spec["Container"] = {**({k: to_plain_json(v) for k, v in image.items() if v}), **members}
    return spec
