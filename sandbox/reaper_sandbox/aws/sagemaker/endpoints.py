"""Endpoints: list, describe, create, update, scale, delete, with the refusals of the real service.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeEndpoint.html
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reaper_sandbox.aws import autoscaling
from reaper_sandbox.aws.records import Endpoint, Running, running
from reaper_sandbox.aws.reply import Refusal, invalid
from reaper_sandbox.aws.sagemaker import configs, tags
from reaper_sandbox.aws.sagemaker.listing import begin, chosen, page, settle
from reaper_sandbox.aws.world import Region

UNDER_WAY = {"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"}


def list_endpoints(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Newest first unless asked otherwise."""
    settle(region)
    rows, following = page(region, "ListEndpoints", chosen(region.endpoints.values(), params), params)
    return {
        "Endpoints": [
            {
                "EndpointName": e.name,
                "EndpointArn": e.arn,
                "CreationTime": e.created,
                "LastModifiedTime": e.changed,
                "EndpointStatus": e.status,
            }
            for e in rows
        ],
        "NextToken": following,
    }


def describe_endpoint(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Instance types are not in here, except in pools; a new endpoint has no variants yet."""
    endpoint = find(region, params["EndpointName"])
    ready = endpoint.status != "Creating"
    pending = {"EndpointConfigName": endpoint.config, "StartTime": endpoint.changed}
    return {
        "EndpointName": endpoint.name,
        "EndpointArn": endpoint.arn,
        "EndpointConfigName": endpoint.config,
        "ProductionVariants": [_shown(v) for v in endpoint.variants] if endpoint.variants and ready else None,
        "ShadowProductionVariants": [_shown(v) for v in endpoint.shadows] if endpoint.shadows and ready else None,
        "EndpointStatus": endpoint.status,
        "FailureReason": endpoint.failure,
        "CreationTime": endpoint.created,
        "LastModifiedTime": endpoint.changed,
        "AsyncInferenceConfig": endpoint.asynchronous,
        "PendingDeploymentSummary": pending if endpoint.status in ("Creating", "Updating") else None,
    }


def create_endpoint(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """From a configuration that exists, under a name that does not."""
    settle(region)
    name, now = params["EndpointName"], region.now
    arn = region.arn(f"endpoint/{name}")
    if name in region.endpoints:
        raise invalid(f'Cannot create already existing endpoint "{arn}".')
    config = configs.find(region, params["EndpointConfigName"])
    endpoint = Endpoint(name=name, arn=arn, config=config.name, created=now, changed=now, tags=tags.read(params.get("Tags")))
    _deploy(endpoint, config.spec)
    region.endpoints[name] = endpoint
    begin(region, endpoint, "Creating", "InService")
    return {"EndpointArn": arn}


def update_endpoint(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """To another configuration; counts and weights stay where RetainAllVariantProperties asks for it."""
    endpoint = find(region, params["EndpointName"])
    _refuse_under_way(endpoint)
    if endpoint.status == "Failed":
        raise invalid(f'Cannot update failed endpoint "{endpoint.arn}".')
    config = configs.find(region, params["EndpointConfigName"])
    before = {v.name: v for v in endpoint.variants}
    _deploy(endpoint, config.spec)
    endpoint.config = config.name
    if params.get("RetainAllVariantProperties"):
        endpoint.variants = [
            replace(v, count=old.count, weight=old.weight) if (old := before.get(v.name)) else v for v in endpoint.variants
        ]
    begin(region, endpoint, "Updating", "InService")
    return {"EndpointArn": endpoint.arn}


def update_weights(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Weights of variants, or the capacity of one. Zero instances are for asynchronous endpoints and for hosts of components only."""
    endpoint = find(region, params["EndpointName"])
    _refuse_under_way(endpoint)
    variants = {v.name: v for v in endpoint.variants}
    wanted = params["DesiredWeightsAndCapacities"]
    if len(wanted) > 1 and any(one.keys() & {"DesiredInstanceCount", "ServerlessUpdateConfig"} for one in wanted):
        raise invalid("The capacity of one variant only can be updated at a time.")  # its real text is not known
    for one in wanted:
        variant = variants.get(one["VariantName"])
        if variant is None:
            raise invalid(f'The variant name "{one["VariantName"]}" does not exist in endpoint "{endpoint.arn}".')
        hosts = not variant.spec.get("ModelName")
        if one.get("DesiredInstanceCount") == 0 and not endpoint.asynchronous and not hosts:
            raise invalid("DesiredInstanceCount must be at least 1 for a real-time variant.")  # its real text is not known
    for one in wanted:
        _scale(variants[one["VariantName"]], one)
        autoscaling.check_capacity(region, f"endpoint/{endpoint.name}/variant/{one['VariantName']}", autoscaling.VARIANT)
    begin(region, endpoint, "Updating", "InService")
    return {"EndpointArn": endpoint.arn}


def delete_endpoint(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Not while it is being changed, nor with components on it; its configuration stays, its variants' scalable targets go."""
    endpoint = find(region, params["EndpointName"])
    _refuse_under_way(endpoint)
    if any(c.endpoint == endpoint.name for c in region.components.values()):
        raise invalid("Endpoint has inference components attached.")
    for key in [key for key in region.scalable if key[0].startswith(f"endpoint/{endpoint.name}/")]:
        autoscaling.deregister(region, {"ServiceNamespace": "sagemaker", "ResourceId": key[0], "ScalableDimension": key[1]})
    begin(region, endpoint, "Deleting", "")
    return {}


def find(region: Region, name: str) -> Endpoint:
    """The endpoint of that very name. Raises ValidationException."""
    settle(region)
    if name not in region.endpoints:
        raise missing(region, name)
    return region.endpoints[name]


def missing(region: Region, name: str) -> Refusal:
    """What the service says of an endpoint that is not there."""
    return invalid(f'Could not find endpoint "{region.arn(f"endpoint/{name}")}".')


def _refuse_under_way(endpoint: Endpoint) -> None:
    if endpoint.status in UNDER_WAY:
        raise invalid(f'Cannot update in-progress endpoint "{endpoint.arn}".')


def _deploy(endpoint: Endpoint, spec: dict[str, Any]) -> None:
    endpoint.variants = [running(v) for v in spec["ProductionVariants"]]
    endpoint.shadows = [running(v) for v in spec.get("ShadowProductionVariants") or ()]
    endpoint.asynchronous = spec.get("AsyncInferenceConfig")


def _scale(variant: Running, wanted: dict[str, Any]) -> None:
    if "DesiredInstanceCount" in wanted:
        variant.count = int(wanted["DesiredInstanceCount"])
    if "DesiredWeight" in wanted:
        variant.weight = float(wanted["DesiredWeight"])
    if "ServerlessUpdateConfig" in wanted and variant.serverless:
        variant.serverless = variant.serverless | wanted["ServerlessUpdateConfig"]


def _shown(variant: Running) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "VariantName": variant.name,
        "CurrentWeight": variant.weight,
        "DesiredWeight": variant.weight,
        "ManagedInstanceScaling": variant.spec.get("ManagedInstanceScaling"),
        "RoutingConfig": variant.spec.get("RoutingConfig"),
    }
    if variant.spec.get("ModelName"):
        image = f"123456789012.dkr.ecr.us-east-1.amazonaws.com/{variant.spec['ModelName']}:latest"
        shown["DeployedImages"] = [{"SpecifiedImage": image, "ResolvedImage": image}]
    if variant.serverless:
        return shown | {"CurrentServerlessConfig": variant.serverless, "DesiredServerlessConfig": variant.serverless}
    counts = {"CurrentInstanceCount": variant.count, "DesiredInstanceCount": variant.count}
    pools = [{"InstanceType": kind, "CurrentInstanceCount": count} for kind, count in variant.pools]
    return shown | counts | {"InstancePools": pools or None}


OPERATIONS = {
    "ListEndpoints": list_endpoints,
    "DescribeEndpoint": describe_endpoint,
    "CreateEndpoint": create_endpoint,
    "UpdateEndpoint": update_endpoint,
    "UpdateEndpointWeightsAndCapacities": update_weights,
    "DeleteEndpoint": delete_endpoint,
}
