"""Creating a deleted endpoint again, in as many runs as it takes: what needs it in service is done by the run that finds it so.

An endpoint that has the name by then is gone on with only where it carries the mark of what we created again (see `same`), or where it is
the very one that was to be deleted and was not. Any other is somebody's own: nothing of it is touched.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpoint.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reaper.actions.contract import Manifest, Record, Undone
from reaper.aws import autoscaling as aws_autoscaling
from reaper.aws.actions import autoscaling, earlier, endpoint_config, identity, inference_component, resize
from reaper.aws.actions.endpoint_delete import describe, shown
from reaper.aws.actions.resize import AGAIN
from reaper.aws.plain_json import plain, tag_list
from reaper.aws.session import Cloud
from reaper.errors import CloudError, Trouble


def restore(cloud: Cloud, manifest: Manifest) -> Undone:
    """Configuration, endpoint, then numbers, components and autoscaling, and what the deletions took that this one goes on with.

    Every step looks first at what is there already. A number that is refused keeps nothing else from coming back.
    """
    saved, name = manifest.record, manifest.name
    made = _create(cloud, name, saved)
    lost: list[str] = []
    failed = _resized(cloud, name, saved, lost)
    status = describe(cloud, name)["EndpointStatus"]
    because = "it was created again" if made else f"its status is {status}"
    chain = earlier.chain(manifest, failed)
    never = _never(chain)
    if status != "InService":
        return Undone(because=because, lost=(_waits(chain, status), *lost, *failed, *never), again=True)
    for one in chain:
        failed += _inside(cloud, name, one.record, lost)
    return Undone(because=because, lost=(*lost, *failed, *never), again=bool(failed))


def _waits(chain: Sequence[Manifest], status: str) -> str:
    """The sentence about what needs the endpoint in service."""
    waits = ["numbers of instances", *(["components"] if any(one.record["components"] for one in chain) else [])]
    waits += ["autoscaling"] if any(one.record["scaling"]["targets"] for one in chain) else []
    return f"Not back yet: {', '.join(waits)}; its status is {status}: {AGAIN}."


def _create(cloud: Cloud, name: str, saved: Record) -> bool:
    """Whether it was created now. Raises CloudError where something else has its name, or while it is still being deleted."""
    config = saved["config"]["name"]
    try:
        row = describe(cloud, name)
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            raise
        endpoint_config.restore(cloud, saved["config"])
        own = tag_list(identity.marked(saved["tags"], saved["born"]))
        cloud.call("sagemaker", "CreateEndpoint", "EndpointArn", EndpointName=name, EndpointConfigName=config, **own)
        return True
    if row["EndpointStatus"] == "Deleting":
        raise _refused(f"{name} is still being deleted: run it again when it is gone")
    if not identity.same(cloud, row, row["EndpointArn"], saved.get("born")):
        raise identity.anew("sagemaker:CreateEndpoint", name)
    if row.get("EndpointConfigName") != config:
        raise _refused(f"there is an endpoint {name} with another configuration by now: it is left alone")
    if row["EndpointStatus"] == "Failed":
        raise _refused(f"{name} failed to start: {row.get('FailureReason', 'no reason was given')}")
    return False


def _resized(cloud: Cloud, name: str, saved: Record, lost: list[str]) -> list[str]:
    """Back to the numbers and weights that differ from the configuration's; what is not back of them yet.

    What is not as creating left it was chosen since, which `lost` is told; so is all of an endpoint that was never deleted.
    """
    row = describe(cloud, name)
    if row["EndpointStatus"] != "InService" or plain(row["CreationTime"]) == saved["endpoint"]["CreationTime"]:
        return []
    refused: dict[str, CloudError] = {}
    later = resize.one_by_one(cloud, name, resize.calls(_different(cloud, row, saved, lost)), refused)
    return resize.told(refused, later)


def _different(cloud: Cloud, row: Mapping[str, Any], saved: Record, lost: list[str]) -> list[dict[str, Any]]:
    """What to ask for by variant. Those that autoscaling has in hand again are left to it, which `lost` is told of fewer instances."""
    name = row["EndpointName"]
    now, plans = shown(row.get("ProductionVariants") or ()), shown(saved["config"]["params"]["ProductionVariants"])
    targets = {one["ResourceId"] for one in aws_autoscaling.read(cloud).targets}
    there = [v for v in saved["variants"] if v["VariantName"] in now]
    held = [v for v in there if aws_autoscaling.variant(name, v["VariantName"]) in targets]
    lost += [text for v in held if (text := _held(v, now[v["VariantName"]]))]
    return [_differs(v, now[v["VariantName"]], plans.get(v["VariantName"], {}), lost) for v in there if v not in held]


def _held(was: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    count, before = now.get("DesiredInstanceCount", 0), was.get("DesiredInstanceCount", 0)
    text = f"The number of instances of {was['VariantName']} is {count} now and not {before}: its autoscaling has it in hand."
    return text if count < before else None


def _differs(was: Mapping[str, Any], now: Mapping[str, Any], plan: Mapping[str, Any], lost: list[str]) -> dict[str, Any]:
    """What to ask for to make a variant what it was, where it still is what `plan`, its part of the configuration, made it."""
    found: dict[str, Any] = {"VariantName": was["VariantName"]}
    free = not was.get("ManagedInstanceScaling") and not was.get("InstancePools")
    asked = [("DesiredWeight", "weight", plan.get("InitialVariantWeight", 1.0))]
    asked += [("DesiredInstanceCount", "number of instances", plan.get("InitialInstanceCount"))] if free else []
    for key, word, made in asked:
        if key in was and was[key] != now.get(key):
            if now.get(key) == made:
                found[key] = was[key]
            else:
                lost.append(_chosen(word, was["VariantName"], now.get(key), was[key]))
    serverless = was.get("CurrentServerlessConfig") or {}
    if serverless and serverless != now.get("CurrentServerlessConfig"):
        if now.get("CurrentServerlessConfig") == plan.get("ServerlessConfig"):
            found["ServerlessUpdateConfig"] = {k: v for k, v in serverless.items() if k != "MemorySizeInMB"}
        else:
            lost.append(_chosen("concurrency", was["VariantName"], "another", "as before"))
    return found


def _chosen(word: str, variant: str, now: Any, before: Any) -> str:
    return f"The {word} of {variant} is {now} now and not {before}: it was chosen since and is left as it is."


def _inside(cloud: Cloud, name: str, saved: Record, lost: list[str]) -> list[str]:
    """Components, and the autoscaling of variants and of those components that are in service; what running it again may bring.

    What no run brings back is told to `lost`.
    """
    ready = {aws_autoscaling.variant(name, row["VariantName"]) for row in saved["variants"]}
    later: list[str] = []
    for one in saved["components"]:
        status = _component(cloud, one, later, lost)
        if status == "InService":
            ready.add(aws_autoscaling.component(one["InferenceComponentName"]))
        elif status:
            later.append(f"Component {one['InferenceComponentName']} is {status}: its autoscaling is not back yet: run it again.")
    return later + (autoscaling.restore(cloud, saved["scaling"], ready) if saved["scaling"]["targets"] else [])


def _component(cloud: Cloud, saved: Mapping[str, Any], later: list[str], theirs: list[str]) -> str:
    """Create it where it is gone, and give its status; empty where it is not to be had, or is somebody else's, which the lists say."""
    name = saved["InferenceComponentName"]
    try:
        return inference_component.again(cloud, saved, theirs)[0]
    except CloudError as error:
        if error.code == identity.CODE:
            theirs.append(f"Component {name} {identity.ANEW}.")
        else:
            later.append(f"Component {name} could not be created again ({error}).")
        return ""


def _never(chain: Sequence[Manifest]) -> list[str]:
    """What no run brings back."""
    saved = chain[0].record
    lost = ["The tags of its autoscaling are not kept."] if any(one.record["scaling"]["targets"] for one in chain) else []
    lost += ["Its last deployment settings are not set again."] if saved["endpoint"].get("LastDeploymentConfig") else []
    return lost + identity.before(chain[-1])


def _refused(text: str) -> CloudError:
    return CloudError(Trouble.REFUSED, "sagemaker:CreateEndpoint", text)
