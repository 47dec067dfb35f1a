"""Inference components, whose ARNs are lower-cased while their names are not.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeInferenceComponent.html
"""

from __future__ import annotations

from typing import Any

from reaper_sandbox.aws import autoscaling
from reaper_sandbox.aws.records import Component
from reaper_sandbox.aws.reply import invalid
from reaper_sandbox.aws.sagemaker import endpoints, tags
from reaper_sandbox.aws.sagemaker.listing import begin, chosen, page, settle
from reaper_sandbox.aws.world import Region


def list_components(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Newest first unless asked otherwise."""
    settle(region)
    components = [
        c
        for c in chosen(region.components.values(), params)
        if params.get("EndpointNameEquals") in (None, c.endpoint) and params.get("VariantNameEquals") in (None, c.variant)
    ]
    rows, following = page(region, "ListInferenceComponents", components, params)
    return {"InferenceComponents": [_summary(region, c) for c in rows], "NextToken": following}


def describe_component(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """With its copies."""
    component = find(region, params["InferenceComponentName"])
    copies = {"DesiredCopyCount": component.copies, "CurrentCopyCount": component.copies}
    base = component.spec.get("BaseInferenceComponentName")
    return _summary(region, component) | {
        "FailureReason": component.failure,
        "Specification": component.spec,
        "RuntimeConfig": None if base else copies,
    }


def create_component(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """On an endpoint in service that hosts components; with any number of copies, as its model has it."""
    settle(region)
    name, now = params["InferenceComponentName"], region.now
    arn = region.arn(f"inference-component/{name.lower()}")
    if name in region.components:
        raise invalid(f'Cannot create already existing inference component "{arn}".')
    endpoint = endpoints.find(region, params["EndpointName"])
    if endpoint.status != "InService":
        raise invalid(f'Endpoint "{endpoint.arn}" is not in service.')
    first = endpoint.variants[0].name if endpoint.variants else None
    copies = int(params.get("RuntimeConfig", {}).get("CopyCount", 0))
    spec = params.get("Specification", {})
    component = Component(
        name=name, arn=arn, endpoint=endpoint.name, variant=params.get("VariantName") or first,
        created=now, changed=now, copies=copies, spec=spec, tags=tags.read(params.get("Tags")),
    )  # fmt: skip
    region.components[name] = component
    begin(region, component, "Creating", "InService")
    return {"InferenceComponentArn": arn}


def update_copies(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """To any number of copies, none included, when it is in service."""
    component = find(region, params["InferenceComponentName"])
    if component.status != "InService":
        raise invalid(f'Cannot update inference component "{component.arn}" in status {component.status}.')
    if component.spec.get("BaseInferenceComponentName"):
        raise invalid("An adapter has no copies of its own.")  # its real text is not known
    component.copies = int(params["DesiredRuntimeConfig"]["CopyCount"])
    autoscaling.check_capacity(region, f"inference-component/{component.name}", autoscaling.COPIES)
    _fit(region, component.endpoint)
    begin(region, component, "Updating", "InService")
    return {"InferenceComponentArn": component.arn}


def delete_component(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """In service or failed, not in between."""
    component = find(region, params["InferenceComponentName"])
    if component.status not in ("InService", "Failed"):
        raise invalid(f'Cannot update in-progress inference component "{component.arn}".')
    begin(region, component, "Deleting", "")
    return {}


def _fit(region: Region, name: str) -> None:
    """What managed instance scaling does: without copies it lets the instances go, with some it brings one at least."""
    copies = sum(c.copies for c in region.components.values() if c.endpoint == name)
    for variant in region.endpoints[name].variants:
        scaling = variant.spec.get("ManagedInstanceScaling") or {}
        if scaling.get("Status") == "ENABLED":
            variant.count = max(variant.count, 1) if copies else int(scaling.get("MinInstanceCount", 1))


def find(region: Region, name: str) -> Component:
    """The component of that very name. Raises ValidationException."""
    settle(region)
    if name not in region.components:
        raise invalid(f'Could not find inference component "{region.arn(f"inference-component/{name.lower()}")}".')
    return region.components[name]


def _summary(region: Region, component: Component) -> dict[str, Any]:
    return {
        "CreationTime": component.created,
        "InferenceComponentArn": component.arn,
        "InferenceComponentName": component.name,
        "EndpointArn": region.arn(f"endpoint/{component.endpoint.lower()}"),
        "EndpointName": component.endpoint,
        "VariantName": component.variant,
        "InferenceComponentStatus": component.status,
        "LastModifiedTime": component.changed,
    }


OPERATIONS = {
    "ListInferenceComponents": list_components,
    "DescribeInferenceComponent": describe_component,
    "CreateInferenceComponent": create_component,
    "UpdateInferenceComponentRuntimeConfig": update_copies,
    "DeleteInferenceComponent": delete_component,
}
