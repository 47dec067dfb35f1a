"""Deleting an endpoint with all that hangs on it, its configuration and models excepted.

An endpoint with inference components on it is not deleted, so they go first and are waited for, a minute at most; DeleteEndpoint takes
the scalable targets of its variants along: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from reaper.actions.contract import Made, Manifest, Permit, Record
from reaper.aws import autoscaling as aws_autoscaling
from reaper.aws import tags
from reaper.aws.actions import autoscaling, earlier, endpoint_config, identity, inference_component
from reaper.aws.plain_json import DONE, some
from reaper.aws.restorable import ENDPOINT, VARIANT
from reaper.aws.session import Cloud
from reaper.errors import CloudError, Trouble
from reaper.model import Move, Resource

PAUSES = (2.0, 4.0, 8.0, 15.0, 15.0, 15.0)
"""Seconds between looks at whether the components are gone."""


def record(cloud: Cloud, resource: Resource) -> Record:
    """Everything that creating it again needs. Raises CloudError where it could not be created again.

    `part` above 1: its components were deleted by an earlier action, whose manifest `previous` names and undoing follows.
    """
    row = describe(cloud, resource.name)
    config = endpoint_config.record(cloud, row["EndpointConfigName"])
    components = [inference_component.record(cloud, name) for name in inference_component.staying(cloud, resource.name)]
    endpoint_config.need_models(cloud, endpoint_config.models(config) | inference_component.models(components))
    variants = [some(v, *VARIANT) for v in row.get("ProductionVariants") or ()]
    ids = {aws_autoscaling.variant(resource.name, v["VariantName"]) for v in variants}
    ids |= {aws_autoscaling.component(one["InferenceComponentName"]) for one in components}
    own = tags.fresh(cloud, row["EndpointArn"])
    first = identity.born(row, own)
    identity.marked(own, first)
    return {
        "endpoint": some(row, *ENDPOINT),
        "born": first,
        "previous": resource.facts.get("previous"),
        "part": earlier.part(resource, lambda before: before.move is Move.DELETE and before.record.get("born") == first),
        "tags": own,
        "variants": variants,
        "shadows": [some(v, *VARIANT) for v in row.get("ShadowProductionVariants") or ()],
        "config": config,
        "components": components,
        "scaling": autoscaling.record(cloud, ids, goes=True),
    }


def carry(cloud: Cloud, resource: Resource, manifest: Manifest, permit: Permit) -> Made:
    """Components, endpoint, then what is left of the autoscaling, which is of no use without them.

    Components that take more than a minute to go leave the endpoint to an action of its own.
    """
    saved, name = manifest.record, resource.name
    gone: list[str] = []
    try:
        if not _remove(cloud, name, [one["InferenceComponentName"] for one in saved["components"]], gone, permit):
            return _left(cloud, saved, permit)
        permit()
        cloud.call("sagemaker", "DeleteEndpoint", DONE, EndpointName=name)
    except CloudError as error:
        if not gone:
            raise
        raise autoscaling.halfway(error, f"its components {', '.join(gone)} are deleted: undo brings them back") from error
    left = autoscaling.drop(cloud, saved["scaling"], permit)
    said = [f"with its {_hosted(saved, 'inference ')}"] if saved["components"] else []
    said += ["with its autoscaling"] if saved["scaling"]["targets"] and not left else []
    told = f"it is being deleted {' and '.join(said)}".rstrip()
    return Made(because="; ".join([f"{told}; its configuration {saved['config']['name']} stays", *left]))


def _left(cloud: Cloud, saved: Record, permit: Permit) -> Made:
    """What there is to say while the components are still going; their autoscaling goes, too. Raises CloudError where none was ours."""
    if not saved["components"]:
        raise _refused("its components are still being deleted, and it was left as it is")
    targets = [t for t in saved["scaling"]["targets"] if t["ScalableDimension"] == aws_autoscaling.COPIES]
    left = autoscaling.drop(cloud, {**saved["scaling"], "targets": targets}, permit)
    hosted = _hosted(saved)
    told = f"its {hosted} {'are' if len(saved['components']) > 1 else 'is'} still being deleted; the endpoint itself runs on"
    return Made(because="; ".join([told, *left]), part=f"its {hosted}; the endpoint itself is left")


def _hosted(saved: Record, sort: str = "") -> str:
    count = len(saved["components"])
    return f"{count} {sort}component{'s' * (count > 1)}"


def describe(cloud: Cloud, name: str) -> dict[str, Any]:
    """The reply as it is."""
    return cloud.call("sagemaker", "DescribeEndpoint", "EndpointStatus", EndpointName=name)


def _remove(cloud: Cloud, endpoint: str, recorded: Sequence[str], gone: list[str], permit: Permit) -> bool:
    """Delete every component of it, `gone` being told each one, and wait for a minute at most; whether none is there any more."""
    there = inference_component.staying(cloud, endpoint)
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
    for pause in PAUSES if inference_component.listed(cloud, endpoint) else ():
        time.sleep(pause)
        if not inference_component.listed(cloud, endpoint):
            return True
    return not inference_component.listed(cloud, endpoint)


def _refused(text: str) -> CloudError:
    return CloudError(Trouble.REFUSED, "sagemaker:DeleteEndpoint", text)


def shown(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Variants by name."""
    return {row["VariantName"]: row for row in rows}
