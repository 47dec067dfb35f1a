"""One inference component as a manifest keeps it, and as it is created again.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateInferenceComponent.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reaper.aws import tags
from reaper.aws.cloud import Cloud
from reaper.aws.reply import plain, some, tag_list
from reaper.errors import CloudError, Trouble

NAMES = ("InferenceComponentName", "EndpointName", "VariantName")
SPECIFICATION = (
    "InstanceType", "ModelName", "StartupParameters", "ComputeResourceRequirements", "BaseInferenceComponentName",
    "DataCacheConfig", "SchedulingConfig",
)  # fmt: skip
CREATED = ("InService", "Updating")


def listed(cloud: Cloud, endpoint: str) -> list[str]:
    """The names of all components on the endpoint."""
    rows = cloud.pages(
        "sagemaker", "ListInferenceComponents", "InferenceComponents", NAMES[0], EndpointNameEquals=endpoint, MaxResults=100
    )
    return [row[NAMES[0]] for row in rows]


def describe(cloud: Cloud, name: str) -> dict[str, Any]:
    """The reply as it is."""
    return cloud.call("sagemaker", "DescribeInferenceComponent", "EndpointName", InferenceComponentName=name)


def status(cloud: Cloud, name: str) -> str:
    """Its status; empty when it is gone."""
    try:
        return str(describe(cloud, name).get("InferenceComponentStatus", ""))
    except CloudError as error:
        if error.trouble is Trouble.GONE:
            return ""
        raise


def copies(row: Mapping[str, Any]) -> int:
    """How many copies it is meant to have."""
    runtime = row.get("RuntimeConfig") or {}
    return int(runtime.get("DesiredCopyCount", runtime.get("CurrentCopyCount", 0)))


def record(cloud: Cloud, name: str) -> dict[str, Any]:
    """The parameters of CreateInferenceComponent, with its tags. Raises CloudError for an adapter, which is not brought back."""
    row = describe(cloud, name)
    specs = [s for s in (row.get("Specification"), *(row.get("Specifications") or ())) if s]
    if not specs or any(s.get("BaseInferenceComponentName") for s in specs):
        text = f"{name} is an adapter, or does not say what it is made of: what hosts it is not deleted"
        raise CloudError(Trouble.REFUSED, "sagemaker:DescribeInferenceComponent", text)
    spec = {"Specification": _spec(specs[0])} if row.get("Specification") else {"Specifications": [_spec(s) for s in specs]}
    own = tags.fresh(cloud, row["InferenceComponentArn"])
    return {**some(row, *NAMES), **spec, "copies": copies(row), "tags": own}


def create(cloud: Cloud, saved: Mapping[str, Any]) -> None:
    """Create it again. Not one copy is not legal, so it gets one at least."""
    named = {name: saved[name] for name in (*NAMES, "Specification", "Specifications") if name in saved}
    runtime = {"RuntimeConfig": {"CopyCount": max(1, saved["copies"])}}
    cloud.call("sagemaker", "CreateInferenceComponent", "InferenceComponentArn", **named, **runtime, **tag_list(saved["tags"]))


def set_copies(cloud: Cloud, name: str, count: int) -> None:
    """Ask for that many copies."""
    cloud.call(
        "sagemaker",
        "UpdateInferenceComponentRuntimeConfig",
        "InferenceComponentArn",
        InferenceComponentName=name,
        DesiredRuntimeConfig={"CopyCount": count},
    )


def models(saved: Sequence[Mapping[str, Any]]) -> set[str]:
    """The models that recorded components are made of."""
    specs = [s for one in saved for s in (one.get("Specification"), *(one.get("Specifications") or ())) if s]
    return {str(s["ModelName"]) for s in specs if s.get("ModelName")}


def _spec(row: Mapping[str, Any]) -> dict[str, Any]:
    """A specification as create calls take it; the reply shows an image as it was named and as it was found."""
    spec = some(row, *SPECIFICATION)
    if container := row.get("Container"):
        image = {"Image": (container.get("DeployedImage") or {}).get("SpecifiedImage")}
        kept = some(container, "ArtifactUrl", "Environment", "ContainerMetricsConfig")
        spec["Container"] = {**({k: plain(v) for k, v in image.items() if v}), **kept}
    return spec
