"""Deleting an endpoint with all that hangs on it, its configuration and models excepted.

An endpoint with inference components on it is not deleted, so they go first and are waited for, a minute at most; DeleteEndpoint takes
the scalable targets of its variants along: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from reaper.acts import Made, Manifest, Permit, Record
from reaper.aws import scaling, tags
from reaper.aws.acts import autoscaling, component, endpoint_config, same
from reaper.aws.cloud import Cloud
from reaper.aws.reply import DONE, some
from reaper.errors import CloudError, Trouble
from reaper.model import Resource

VARIANT = (
    "VariantName", "CurrentInstanceCount", "DesiredInstanceCount", "CurrentWeight", "DesiredWeight", "InstancePools",
    "CurrentServerlessConfig", "ManagedInstanceScaling",
)  # fmt: skip
ENDPOINT = (
    "EndpointName", "EndpointArn", "EndpointConfigName", "EndpointStatus", "CreationTime", "DataCaptureConfig",
    "LastDeploymentConfig",
)  # fmt: skip
PAUSES = (2.0, 4.0, 8.0, 15.0, 15.0, 15.0)
"""Seconds between looks at whether the components are gone."""


def record(cloud: Cloud, resource: Resource) -> Record:
    """Everything that creating it again needs. Raises CloudError where it could not be created again."""
    row = describe(cloud, resource.name)
    config = endpoint_config.record(cloud, row["EndpointConfigName"])
    components = [component.record(cloud, name) for name in component.listed(cloud, resource.name)]
    endpoint_config.need_models(cloud, endpoint_config.models(config) | component.models(components))
    variants = [some(v, *VARIANT) for v in row.get("ProductionVariants") or ()]
    ids = {scaling.variant(resource.name, v["VariantName"]) for v in variants}
    ids |= {scaling.component(one["InferenceComponentName"]) for one in components}
    own = tags.fresh(cloud, row["EndpointArn"])
    first = same.born(row, own)
    same.marked(own, first)
    return {
        "endpoint": some(row, *ENDPOINT),
        "born": first,
        "previous": resource.facts.get("previous"),
        "tags": own,
        "variants": variants,
        "shadows": [some(v, *VARIANT) for v in row.get("ShadowProductionVariants") or ()],
        "config": config,
        "components": components,
        "scaling": autoscaling.record(cloud, ids),
    }


def carry(cloud: Cloud, resource: Resource, manifest: Manifest, permit: Permit) -> Made:
    """Components, endpoint, then what is left of the autoscaling, which is of no use without them."""
    saved = manifest.record
    gone: list[str] = []
    try:
        _remove(cloud, resource.name, [one["InferenceComponentName"] for one in saved["components"]], gone, permit)
        permit()
        cloud.call("sagemaker", "DeleteEndpoint", DONE, EndpointName=resource.name)
    except CloudError as error:
        if not gone:
            raise
        raise autoscaling.halfway(error, f"its components {', '.join(gone)} are deleted: undo brings them back") from error
    left = autoscaling.drop(cloud, saved["scaling"], permit)
    hosted = len(saved["components"])
    said = [f"with its {hosted} inference component{'s' * (hosted > 1)}"] if hosted else []
    said += ["with its autoscaling"] if saved["scaling"]["targets"] and not left else []
    told = f"it is being deleted {' and '.join(said)}".rstrip()
    return Made(because="; ".join([f"{told}; its configuration {saved['config']['name']} stays", *left]))


def describe(cloud: Cloud, name: str) -> dict[str, Any]:
    """The reply as it is."""
    return cloud.call("sagemaker", "DescribeEndpoint", "EndpointStatus", EndpointName=name)


def _remove(cloud: Cloud, endpoint: str, recorded: Sequence[str], gone: list[str], permit: Permit) -> None:
    """Every component of it, `gone` being told each one; then a wait until none is listed any more."""
    there = component.listed(cloud, endpoint)
    if new := sorted(set(there) - set(recorded)):
        raise _refused(f"the component {new[0]} was put on {endpoint} just now: nothing was deleted")
    for name in there:
        permit()
        try:
            cloud.call("sagemaker", "DeleteInferenceComponent", DONE, InferenceComponentName=name)
            gone.append(name)
        except CloudError as error:
            if error.trouble is not Trouble.GONE:
                raise
    for pause in PAUSES if there else ():
        if not component.listed(cloud, endpoint):
            return
        time.sleep(pause)
    if there and component.listed(cloud, endpoint):
        raise _refused(f"the components of {endpoint} are still being deleted and it runs on")


def _refused(text: str) -> CloudError:
    return CloudError(Trouble.REFUSED, "sagemaker:DeleteEndpoint", text)


def shown(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Variants by name."""
    return {row["VariantName"]: row for row in rows}
