"""Creating a deleted endpoint again, in as many runs as it takes: what needs it in service is done by the run that finds it so.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpoint.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.acts import Manifest, Record, Undone
from reaper.aws import scaling
from reaper.aws.acts import autoscaling, component, endpoint_config
from reaper.aws.acts.endpoint_delete import describe, shown
from reaper.aws.cloud import Cloud
from reaper.aws.reply import DONE, tag_list
from reaper.errors import CloudError, Trouble

AGAIN = "run it again when the endpoint is in service"


def restore(cloud: Cloud, manifest: Manifest) -> Undone:
    """Configuration, endpoint, then numbers, components and autoscaling. Every step looks first at what is there already."""
    saved, name = manifest.record, manifest.name
    made = _create(cloud, name, saved)
    status = describe(cloud, name)["EndpointStatus"]
    if status == "InService" and _resize(cloud, name, saved):
        status = describe(cloud, name)["EndpointStatus"]
    because = "it was created again" if made else f"its status is {status}"
    if status != "InService":
        waits = ["numbers of instances", *(["components"] if saved["components"] else [])]
        waits += ["autoscaling"] if saved["scaling"]["targets"] else []
        return Undone(
            because=because, lost=(f"Not back yet: {', '.join(waits)}; its status is {status}: {AGAIN}.", *_never(saved))
        )
    return Undone(because=because, lost=(*_inside(cloud, name, saved), *_never(saved)))


def _create(cloud: Cloud, name: str, saved: Record) -> bool:
    """Whether it was created now. Raises CloudError where something else has its name, or while it is still being deleted."""
    config = saved["config"]["name"]
    try:
        row = describe(cloud, name)
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            raise
        endpoint_config.restore(cloud, saved["config"])
        named = {"EndpointName": name, "EndpointConfigName": config, **tag_list(saved["tags"])}
        cloud.call("sagemaker", "CreateEndpoint", "EndpointArn", **named)
        return True
    if row["EndpointStatus"] == "Deleting":
        raise _refused(f"{name} is still being deleted: run it again when it is gone")
    if row.get("EndpointConfigName") != config:
        raise _refused(f"there is an endpoint {name} with another configuration by now: it is left alone")
    if row["EndpointStatus"] == "Failed":
        raise _refused(f"{name} failed to start: {row.get('FailureReason', 'no reason was given')}")
    return False


def _resize(cloud: Cloud, name: str, saved: Record) -> bool:
    """Back to the numbers and weights that differ from the configuration's; those that autoscaling has in hand again are left to it."""
    now = shown(describe(cloud, name).get("ProductionVariants") or ())
    held = {row["ResourceId"] for row in scaling.read(cloud).targets}
    rows = [
        row for row in saved["variants"] if row["VariantName"] in now and scaling.variant(name, row["VariantName"]) not in held
    ]
    wanted = [found for row in rows if len(found := _differs(row, now[row["VariantName"]])) > 1]
    if wanted:
        operation = "UpdateEndpointWeightsAndCapacities"
        cloud.call("sagemaker", operation, DONE, EndpointName=name, DesiredWeightsAndCapacities=wanted)
    return bool(wanted)


def _differs(was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"VariantName": was["VariantName"]}
    if "DesiredWeight" in was and was["DesiredWeight"] != now.get("DesiredWeight"):
        found["DesiredWeight"] = was["DesiredWeight"]
    free = not was.get("ManagedInstanceScaling") and not was.get("InstancePools")
    if free and "DesiredInstanceCount" in was and was["DesiredInstanceCount"] != now.get("DesiredInstanceCount"):
        found["DesiredInstanceCount"] = was["DesiredInstanceCount"]
    serverless = was.get("CurrentServerlessConfig") or {}
    if serverless and serverless != now.get("CurrentServerlessConfig"):
        found["ServerlessUpdateConfig"] = {k: v for k, v in serverless.items() if k != "MemorySizeInMB"}
    return found


def _inside(cloud: Cloud, name: str, saved: Record) -> list[str]:
    """Components, and the autoscaling of variants and of those components that are in service."""
    ready = {scaling.variant(name, row["VariantName"]) for row in saved["variants"]}
    lost: list[str] = []
    for one in saved["components"]:
        status = _component(cloud, one, lost)
        if status == "InService":
            ready.add(scaling.component(one["InferenceComponentName"]))
        elif status:
            lost.append(f"Component {one['InferenceComponentName']} is {status}: its autoscaling is not back yet: run it again.")
    return lost + (autoscaling.restore(cloud, saved["scaling"], ready) if saved["scaling"]["targets"] else [])


def _component(cloud: Cloud, saved: Mapping[str, Any], lost: list[str]) -> str:
    """Create it where it is gone, and give its status; empty where it could not be created, which `lost` then says."""
    name = saved["InferenceComponentName"]
    try:
        if not component.status(cloud, name):
            component.create(cloud, saved)
        return component.status(cloud, name)
    except CloudError as error:
        lost.append(f"Component {name} could not be created again ({error}).")
        return ""


def _never(saved: Record) -> list[str]:
    """What no run brings back."""
    lost = ["The tags of its autoscaling are not kept."] if saved["scaling"]["targets"] else []
    lost += ["Its last deployment settings are not set again."] if saved["endpoint"].get("LastDeploymentConfig") else []
    return lost


def _refused(text: str) -> CloudError:
    return CloudError(Trouble.REFUSED, "sagemaker:CreateEndpoint", text)
