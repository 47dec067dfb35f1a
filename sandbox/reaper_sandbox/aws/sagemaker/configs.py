"""Endpoint configurations, which know the instance types and may be deleted while their endpoint still runs.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeEndpointConfig.html
"""

from __future__ import annotations

from typing import Any

from reaper_sandbox.aws.records import Config
from reaper_sandbox.aws.reply import invalid
from reaper_sandbox.aws.sagemaker import tags
from reaper_sandbox.aws.sagemaker.listing import chosen, page
from reaper_sandbox.aws.world import Region


def create_endpoint_config(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Any instance type; a variant without a model hosts inference components and needs an ExecutionRoleArn."""
    name = params["EndpointConfigName"]
    arn = region.arn(f"endpoint-config/{name}")
    if name in region.configs:
        raise invalid(f'Cannot create already existing endpoint configuration "{arn}".')
    if not params.get("ProductionVariants"):
        raise invalid(
            "1 validation error detected: Value at 'productionVariants' failed to satisfy constraint: Member must not be null"
        )
    hosts = any(not v.get("ModelName") for v in params["ProductionVariants"])
    if hosts and not params.get("ExecutionRoleArn"):
        raise invalid("ExecutionRoleArn is required when a production variant has no model.")
    scaled = [v for v in params["ProductionVariants"] if v.get("ManagedInstanceScaling") and v.get("ModelName")]
    if scaled:
        raise invalid("ManagedInstanceScaling is only supported for inference component endpoints")
    spec = {key: value for key, value in params.items() if key not in ("EndpointConfigName", "Tags")}
    region.configs[name] = Config(name=name, arn=arn, created=region.now, spec=spec, tags=tags.read(params.get("Tags")))
    return {"EndpointConfigArn": arn}


def describe_endpoint_config(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """What it was created with."""
    config = find(region, params["EndpointConfigName"])
    head = {"EndpointConfigName": config.name, "EndpointConfigArn": config.arn, "CreationTime": config.created}
    return head | config.spec


def list_endpoint_configs(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Newest first unless asked otherwise."""
    rows, following = page(region, "ListEndpointConfigs", chosen(region.configs.values(), params), params)
    shown = [{"EndpointConfigName": c.name, "EndpointConfigArn": c.arn, "CreationTime": c.created} for c in rows]
    return {"EndpointConfigs": shown, "NextToken": following}


def delete_endpoint_config(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Possible even while an endpoint uses it."""
    del region.configs[find(region, params["EndpointConfigName"]).name]
    return {}


def find(region: Region, name: str) -> Config:
    """The configuration of that very name. Raises ValidationException."""
    if name not in region.configs:
        raise invalid(f'Could not find endpoint configuration "{region.arn(f"endpoint-config/{name}")}".')
    return region.configs[name]


OPERATIONS = {
    "CreateEndpointConfig": create_endpoint_config,
    "DescribeEndpointConfig": describe_endpoint_config,
    "ListEndpointConfigs": list_endpoint_configs,
    "DeleteEndpointConfig": delete_endpoint_config,
}
