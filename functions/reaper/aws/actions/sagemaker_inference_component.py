"""Taking an inference component's copies to zero, deleting it, and undoing both.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateInferenceComponentRuntimeConfig.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from reaper.actions.contract import Acts, Made, Manifest, Permit, Record, Undone
from reaper.aws import autoscaling as aws_autoscaling
from reaper.aws import protection, restorable, tags
from reaper.aws.actions import autoscaling, endpoint_config, identity, inference_component
from reaper.aws.kinds import sagemaker_inference_component as kind
from reaper.aws.plain_json import DONE
from reaper.aws.session import Cloud
from reaper.errors import CloudError, Trouble
from reaper.model import Move, Resource


def look(cloud: Cloud, resource: Resource) -> Resource:
    """Its description and tags, merged with its endpoint's as `discover` does; and the same of all others on that endpoint."""
    found = _look(cloud, resource.name)
    return replace(found, facts={**found.facts, "siblings": tuple(_siblings(cloud, found))})


def _look(cloud: Cloud, name: str) -> Resource:
    row = inference_component.describe(cloud, name)
    return kind.resource(cloud, row, tags.fresh(cloud, row["InferenceComponentArn"], kind.host(cloud, row)))


def _siblings(cloud: Cloud, found: Resource) -> Iterator[Resource]:
    for name in inference_component.listed(cloud, found.facts["endpoint"]):
        try:
            if name != found.name:
                yield _look(cloud, name)
        except CloudError as error:
            if error.trouble is not Trouble.GONE:
                raise


def record(cloud: Cloud, resource: Resource, move: Move) -> Record:
    """Read anew. Raises CloudError where it could not be created again, or where nothing would wake it."""
    id_ = aws_autoscaling.component(resource.name)
    if move is Move.DELETE:
        saved = inference_component.record(cloud, resource.name)
        endpoint_config.need_models(cloud, inference_component.models([saved]))
        before = {"previous": resource.facts.get("previous")}
        return {
            "component": saved,
            "host": _host(cloud, saved["EndpointName"]),
            "scaling": autoscaling.record(cloud, {id_}, goes=True),
            **before,
        }
    if not aws_autoscaling.wakes_component(aws_autoscaling.read(cloud), resource.name):
        text = f"{resource.name}: nothing would wake it from zero any more"
        raise CloudError(Trouble.REFUSED, "application-autoscaling:DescribeScalingPolicies", text)
    row = inference_component.describe(cloud, resource.name)
    made = {"born": inference_component.born(cloud, row), "made_of": inference_component.made_of(row), "on": _on(row)}
    return {**made, "copies": restorable.copies(row), "least": {id_: 0}, "scaling": autoscaling.record(cloud, {id_})}


def _on(row: Mapping[str, Any]) -> list[str]:
    return [str(row.get(name, "")) for name in inference_component.NAMES[1:]]


def _host(cloud: Cloud, endpoint: str) -> str:
    """Which endpoint of its name it is on."""
    row = cloud.call("sagemaker", "DescribeEndpoint", "EndpointStatus", EndpointName=endpoint)
    return identity.born(row, tags.fresh(cloud, row["EndpointArn"]))


def carry(cloud: Cloud, resource: Resource, manifest: Manifest, permit: Permit) -> Made:
    """Neither move is waited for. A minimum that was lowered is put back where the rest fails."""
    saved = manifest.record
    if manifest.move is Move.DELETE:
        permit()
        cloud.call("sagemaker", "DeleteInferenceComponent", DONE, InferenceComponentName=resource.name)
        left = autoscaling.drop(cloud, saved["scaling"], permit)
        return Made(because="; ".join(["it is being deleted; its endpoint and model stay", *left]))
    with autoscaling.lowered(cloud, manifest, permit):
        permit()
        inference_component.set_copies(cloud, resource.name, 0)
    told = f"its {saved['copies']} copies are being taken to zero; a request wakes it again"
    return Made(because=told + protection.stack_again(resource.tags))


def undo(cloud: Cloud, manifest: Manifest) -> Undone:
    """Can be run again and again, and then goes on with what is missing. Copies that were chosen since stay as they are."""
    if manifest.move is Move.DELETE:
        return _create(cloud, manifest)
    saved, name = manifest.record, manifest.name
    row = inference_component.describe(cloud, name)
    if not identity.same(cloud, row, row["InferenceComponentArn"], saved.get("born")):
        raise identity.anew("sagemaker:UpdateInferenceComponentRuntimeConfig", name)
    if inference_component.made_of(row) != saved["made_of"] or _on(row) != saved["on"]:
        raise _refused(f"{name} runs something else since: it is left as it is")
    id_ = aws_autoscaling.component(name)
    copies = inference_component.number(row, saved["copies"], autoscaling.most(cloud).get(id_))
    inference_component.bring_back(cloud, name, copies)
    chosen = {id_: copies.now} if copies.chosen else {}
    lost = [*copies.lost, *autoscaling.lift(cloud, saved["scaling"], saved["least"], chosen)]
    asked = f"{copies.wanted} copies are asked for again"
    return Undone(because=asked if copies.wanted is not None else "its copies are left as they are", lost=tuple(lost))


def _create(cloud: Cloud, manifest: Manifest) -> Undone:
    saved, name = manifest.record, manifest.name
    endpoint = saved["component"]["EndpointName"]
    if _host(cloud, endpoint) != saved.get("host"):
        raise _refused(f"its endpoint {endpoint} {identity.ANEW}, and nothing is put on it")
    lost: list[str] = []
    status, made = inference_component.again(cloud, saved["component"], lost)
    if status in {"Deleting", "Failed"}:
        raise _refused(f"the status of {name} is {status}")
    waits = bool(saved["scaling"]["targets"]) and status != "InService"
    if saved["scaling"]["targets"]:
        later = [_later(status)] if waits else autoscaling.restore(cloud, saved["scaling"], {aws_autoscaling.component(name)})
        lost, waits = [*later, *lost], bool(later)
        lost.append("The tags of its autoscaling are not kept.")
    lost += identity.before(manifest)
    return Undone(because="it was created again" if made else f"its status is {status}", lost=tuple(lost), again=waits)


def _refused(text: str) -> CloudError:
    return CloudError(Trouble.REFUSED, "sagemaker:CreateInferenceComponent", text)


def _later(status: str) -> str:
    return f"Not back yet: autoscaling; its status is {status}: run it again when it is in service."


ACTS = Acts(
    look=look,
    record=record,
    carry=carry,
    undo=undo,
    undo_permissions=(
        "sagemaker:ListTags",
        "sagemaker:DescribeEndpoint",
        "sagemaker:DescribeInferenceComponent",
        "sagemaker:CreateInferenceComponent",
        "sagemaker:UpdateInferenceComponentRuntimeConfig",
        "sagemaker:AddTags",
        "iam:PassRole",
        *autoscaling.RESTORING,
    ),
)
