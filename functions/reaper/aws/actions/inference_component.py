"""One inference component as a manifest keeps it, and as it is created again.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateInferenceComponent.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reaper.aws import restorable, tags
from reaper.aws.actions import identity
from reaper.aws.actions.restored_count import Number
from reaper.aws.plain_json import plain, some, tag_list
from reaper.aws.session import Cloud
from reaper.errors import CloudError, Trouble

NAMES = restorable.COMPONENT
CREATED = ("InService", "Updating")


def listed(cloud: Cloud, endpoint: str) -> list[str]:
    """The names of all components on the endpoint."""
    return [row[NAMES[0]] for row in _rows(cloud, endpoint)]


def staying(cloud: Cloud, endpoint: str) -> list[str]:
    """The names of those that are not being deleted already."""
    return [row[NAMES[0]] for row in _rows(cloud, endpoint) if status(row) != "Deleting"]


def _rows(cloud: Cloud, endpoint: str) -> Iterator[dict[str, Any]]:
    asked: dict[str, Any] = {"EndpointNameEquals": endpoint, "MaxResults": 100}
    return cloud.pages("sagemaker", "ListInferenceComponents", "InferenceComponents", NAMES[0], **asked)


def describe(cloud: Cloud, name: str) -> dict[str, Any]:
    """The reply as it is."""
    return cloud.call("sagemaker", "DescribeInferenceComponent", "EndpointName", InferenceComponentName=name)


def find(cloud: Cloud, name: str) -> dict[str, Any] | None:
    """The reply as it is; None when it is gone."""
    try:
        return describe(cloud, name)
    except CloudError as error:
        if error.trouble is Trouble.GONE:
            return None
        raise


def status(row: Mapping[str, Any]) -> str:
    """What a description says."""
    return str(row.get("InferenceComponentStatus", ""))


def born(cloud: Cloud, row: Mapping[str, Any]) -> str:
    """Which incarnation of its name a description is of."""
    return identity.born(row, tags.fresh(cloud, row["InferenceComponentArn"]))


def again(cloud: Cloud, saved: Mapping[str, Any], lost: list[str]) -> tuple[str, bool]:
    """Its status and whether it was created now. Raises CloudError where somebody made another one of its name."""
    name = saved["InferenceComponentName"]
    if saved.get("LastDeploymentConfig"):
        lost.append(f"The last deployment settings of {name} are not set again.")
    row = find(cloud, name)
    if row is None:
        create(cloud, saved, lost)
        return status(describe(cloud, name)), True
    if not identity.same(cloud, row, row["InferenceComponentArn"], saved.get("born")):
        raise identity.anew("sagemaker:CreateInferenceComponent", name)
    return status(row), False


def record(cloud: Cloud, name: str) -> dict[str, Any]:
    """The parameters of CreateInferenceComponent, with its tags. Raises CloudError for what is not brought back, such as an adapter."""
    row = describe(cloud, name)
    if odd := restorable.component(row):
        raise CloudError(Trouble.REFUSED, "sagemaker:DescribeInferenceComponent", odd)
    own = tags.fresh(cloud, row["InferenceComponentArn"])
    first = identity.born(row, own)
    identity.marked(own, first)
    saved = {**some(row, *NAMES, "LastDeploymentConfig"), **made_of(row)}
    return {**saved, "copies": restorable.copies(row), "tags": own, "born": first}


def made_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What it runs, as create calls take it."""
    if row.get("Specification"):
        return {"Specification": _spec(row["Specification"])}
    return {"Specifications": [_spec(one) for one in row.get("Specifications") or ()]}


def create(cloud: Cloud, saved: Mapping[str, Any], lost: list[str]) -> None:
    """Create it again, with the mark of what is, and as many copies as there were.

    The API takes 0 copies, and what to do where it refuses them in fact is not documented: then it gets one, and `lost` is told.
    """
    params = {name: saved[name] for name in (*NAMES, "Specification", "Specifications") if name in saved}
    params |= tag_list(identity.marked(saved["tags"], saved["born"]))
    try:
        _create(cloud, params, saved["copies"])
    except CloudError as error:
        if saved["copies"] or error.trouble is not Trouble.REFUSED:
            raise
        _create(cloud, params, 1)
        lost.append(
            f"{saved['InferenceComponentName']} has one copy and not 0 as before, with which AWS did not create it ({error})."
        )


def _create(cloud: Cloud, params: Mapping[str, Any], count: int) -> None:
    runtime = {"CopyCount": count}
    cloud.call("sagemaker", "CreateInferenceComponent", "InferenceComponentArn", **params, RuntimeConfig=runtime)


def set_copies(cloud: Cloud, name: str, count: int) -> None:
    """Ask for that many copies."""
    cloud.call(
        "sagemaker",
        "UpdateInferenceComponentRuntimeConfig",
        "InferenceComponentArn",
        InferenceComponentName=name,
        DesiredRuntimeConfig={"CopyCount": count},
    )


def number(row: Mapping[str, Any], before: int, most: int | None) -> Number:
    """Its copies, which a stop took to zero."""
    what = f"The number of copies of {row['InferenceComponentName']}"
    return Number(what=what, before=before, left=0, now=restorable.copies(row), most=most)


def bring_back(cloud: Cloud, name: str, copies: Number) -> None:
    """Ask for as many copies as there were, if any must be asked for."""
    if copies.wanted is not None:
        set_copies(cloud, name, copies.wanted)


def models(saved: Sequence[Mapping[str, Any]]) -> set[str]:
    """The models that recorded components are made of."""
    specs = [s for one in saved for s in (one.get("Specification"), *(one.get("Specifications") or ())) if s]
    return {str(s["ModelName"]) for s in specs if s.get("ModelName")}


def _spec(row: Mapping[str, Any]) -> dict[str, Any]:
    """A specification as create calls take it; the reply shows an image as it was named and as it was found."""
    spec = some(row, *restorable.SPECIFICATION)
    if container := row.get("Container"):
        image = {"Image": (container.get("DeployedImage") or {}).get("SpecifiedImage")}
        kept = some(container, *restorable.CONTAINER)
        spec["Container"] = {**({k: plain(v) for k, v in image.items() if v}), **kept}
    return spec
