"""An endpoint's configuration as a manifest keeps it, and as it is created again where somebody deleted it meanwhile.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.aws import restorable, tags
from reaper.aws.plain_json import some, tag_list
from reaper.aws.restorable import CONFIG
from reaper.aws.session import Cloud
from reaper.errors import CloudError, Trouble


def record(cloud: Cloud, name: str) -> dict[str, Any]:
    """Name, parameters and tags. Raises CloudError where it is gone, has members we do not know, or names a model that is gone."""
    row = _describe(cloud, name)
    if row is None:
        raise _refused(f"the configuration {name} is gone, so the endpoint could not be created again")
    if odd := restorable.config(row):
        raise _refused(odd)
    own = tags.fresh(cloud, row["EndpointConfigArn"])
    return {"name": name, "params": some(row, *CONFIG), "tags": own}


def need_models(cloud: Cloud, names: set[str]) -> None:
    """Raises CloudError where one of these models is gone: nothing could be created from it again."""
    for name in sorted(names):
        try:
            cloud.call("sagemaker", "DescribeModel", "ModelName", ModelName=name)
        except CloudError as error:
            if error.trouble is not Trouble.GONE:
                raise
            raise _refused(f"its model {name} is gone, so it could not be created again") from error


def models(saved: Mapping[str, Any]) -> set[str]:
    """The models that the recorded configuration names."""
    variants = [v for key in CONFIG[:2] for v in saved["params"].get(key, ())]
    return {str(v["ModelName"]) for v in variants if v.get("ModelName")}


def restore(cloud: Cloud, saved: Mapping[str, Any]) -> bool:
    """Create it where it is gone; whether it was. Raises CloudError where another one has its name by now."""
    row = _describe(cloud, saved["name"])
    if row is None:
        named = {"EndpointConfigName": saved["name"], **saved["params"], **tag_list(saved["tags"])}
        cloud.call("sagemaker", "CreateEndpointConfig", "EndpointConfigArn", **named)
        return True
    if some(row, *CONFIG) != saved["params"]:
        raise _refused(f"the configuration {saved['name']} is another one by now: nothing was created from it")
    return False


def _describe(cloud: Cloud, name: str) -> dict[str, Any] | None:
    try:
        return cloud.call("sagemaker", "DescribeEndpointConfig", "ProductionVariants", EndpointConfigName=name)
    except CloudError as error:
        if error.trouble is Trouble.GONE:
            return None
        raise


def _refused(text: str) -> CloudError:
    return CloudError(Trouble.REFUSED, "sagemaker:DescribeEndpointConfig", text)
