"""Taking an inference component's copies to zero, deleting it, and undoing both.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateInferenceComponentRuntimeConfig.html
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reaper.acts import Acts, Manifest, Record, Undone
from reaper.aws import scaling, tags
from reaper.aws.acts import autoscaling, component, endpoint_config
from reaper.aws.cloud import Cloud
from reaper.aws.kinds import sagemaker_inference_component as kind
from reaper.aws.reply import DONE
from reaper.errors import CloudError, Trouble
from reaper.model import Move, Resource


def look(cloud: Cloud, resource: Resource) -> Resource:
    """Its description and tags, merged with its endpoint's as `discover` does; and the same of all others on that endpoint."""
    found = _look(cloud, resource.name)
    return replace(found, facts={**found.facts, "siblings": tuple(_siblings(cloud, found))})


def _look(cloud: Cloud, name: str) -> Resource:
    row = component.describe(cloud, name)
    return kind.resource(cloud, row, tags.fresh(cloud, row["InferenceComponentArn"], kind.host(cloud, row)))


def _siblings(cloud: Cloud, found: Resource) -> Iterator[Resource]:
    for name in component.listed(cloud, found.facts["endpoint"]):
        try:
            if name != found.name:
                yield _look(cloud, name)
        except CloudError as error:
            if error.trouble is not Trouble.GONE:
                raise


def record(cloud: Cloud, resource: Resource, move: Move) -> Record:
    """Read anew. Raises CloudError where it could not be created again, or where nothing would wake it."""
    id_ = scaling.component(resource.name)
    if move is Move.DELETE:
        saved = component.record(cloud, resource.name)
        endpoint_config.need_models(cloud, component.models([saved]))
        return {"component": saved, "scaling": autoscaling.record(cloud, {id_})}
    if not scaling.wakes_component(scaling.read(cloud), resource.name):
        text = f"{resource.name}: nothing would wake it from zero any more"
        raise CloudError(Trouble.REFUSED, "application-autoscaling:DescribeScalingPolicies", text)
    copies = component.copies(component.describe(cloud, resource.name))
    return {"copies": copies, "least": {id_: 0}, "scaling": autoscaling.record(cloud, {id_})}


def carry(cloud: Cloud, resource: Resource, manifest: Manifest) -> str:
    """Neither move is waited for. A minimum that was lowered is put back where the rest fails."""
    saved = manifest.record
    if manifest.move is Move.DELETE:
        cloud.call("sagemaker", "DeleteInferenceComponent", DONE, InferenceComponentName=resource.name)
        left = autoscaling.drop(cloud, saved["scaling"])
        return "; ".join(["it is being deleted; its endpoint and model stay", *left])
    with autoscaling.lowered(cloud, saved["scaling"], saved["least"]):
        component.set_copies(cloud, resource.name, 0)
    return f"its {saved['copies']} copies are being taken to zero; a request wakes it again"


def undo(cloud: Cloud, manifest: Manifest) -> Undone:
    """Can be run again and again, and then goes on with what is missing."""
    if manifest.move is Move.DELETE:
        return _create(cloud, manifest)
    saved = manifest.record
    if component.copies(component.describe(cloud, manifest.name)) < saved["copies"]:
        component.set_copies(cloud, manifest.name, saved["copies"])
    lost = autoscaling.lift(cloud, saved["scaling"], saved["least"])
    return Undone(because=f"{saved['copies']} copies are asked for again", lost=tuple(lost))


def _create(cloud: Cloud, manifest: Manifest) -> Undone:
    saved, name = manifest.record, manifest.name
    made = not component.status(cloud, name)
    if made:
        component.create(cloud, saved["component"])
    status = component.status(cloud, name)
    if status in {"Deleting", "Failed"}:
        raise CloudError(Trouble.REFUSED, "sagemaker:CreateInferenceComponent", f"the status of {name} is {status}")
    lost: list[str] = []
    if saved["scaling"]["targets"]:
        lost += (
            autoscaling.restore(cloud, saved["scaling"], {scaling.component(name)}) if status == "InService" else [_later(status)]
        )
        lost.append("The tags of its autoscaling are not kept.")
    return Undone(because="it was created again" if made else f"its status is {status}", lost=tuple(lost))


def _later(status: str) -> str:
    return f"Not back yet: autoscaling; its status is {status}: run it again when it is in service."


ACTS = Acts(
    look=look,
    record=record,
    carry=carry,
    undo=undo,
    undo_permissions=(
        "sagemaker:DescribeInferenceComponent",
        "sagemaker:CreateInferenceComponent",
        "sagemaker:UpdateInferenceComponentRuntimeConfig",
        "sagemaker:AddTags",
        "iam:PassRole",
        *autoscaling.RESTORING,
    ),
)
