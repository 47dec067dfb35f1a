"""An endpoint's configuration as a manifest stores it, and as undo recreates it if it was deleted.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.actions.contract import Members, any_members
from reaper.aws import restorable, tags
from reaper.aws.plain_json import chosen_members, tags_parameter
from reaper.aws.restorable import CONFIG_MEMBERS
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason

SAVED_MEMBERS: Members = {"name": None, "params": any_members(*CONFIG_MEMBERS), "tags": None}


def read_config_state(cloud: CloudSession, name: str) -> dict[str, Any]:
    """Name, parameters and tags. Raises CloudError if it is gone, has unknown members, or names a model that is gone."""
    row = _find_config(cloud, name)
    if row is None:
        raise _config_refusal(f"the configuration {name} is gone, so the endpoint can't be recreated")
    if odd := restorable.config_unrestorable_because(row):
        raise _config_refusal(odd)
    own_tags = tags.read_tags_now(cloud, row["EndpointConfigArn"])
    return {"name": name, "params": chosen_members(row, *CONFIG_MEMBERS), "tags": own_tags}


def require_models(cloud: CloudSession, names: set[str]) -> None:
    """Raises CloudError if one of these models is gone: nothing could be recreated from it."""
    for name in sorted(names):
        try:
            cloud.call("sagemaker", "DescribeModel", "ModelName", ModelName=name)
        except CloudError as error:
            if error.reason is not Reason.GONE:
                raise
            raise _config_refusal(f"its model {name} is gone, so it can't be recreated") from error


def model_names(saved: Mapping[str, Any]) -> set[str]:
    """The models that the recorded configuration names."""
    variants = [v for key in CONFIG_MEMBERS[:2] for v in saved["params"].get(key, ())]
    return {str(v["ModelName"]) for v in variants if v.get("ModelName")}


def restore_config(cloud: CloudSession, saved: Mapping[str, Any]) -> bool:
    """Create it if it is gone. Returns whether it was. Raises CloudError if another one has its name now."""
    row = _find_config(cloud, saved["name"])
    if row is None:
        named = {"EndpointConfigName": saved["name"], **saved["params"], **tags_parameter(saved["tags"])}
        cloud.call("sagemaker", "CreateEndpointConfig", "EndpointConfigArn", **named)
        return True
    if chosen_members(row, *CONFIG_MEMBERS) != saved["params"]:
        raise _config_refusal(f"another configuration has the name {saved['name']} now, so nothing was created from it")
    return False


def _find_config(cloud: CloudSession, name: str) -> dict[str, Any] | None:
    try:
        return cloud.call("sagemaker", "DescribeEndpointConfig", "ProductionVariants", EndpointConfigName=name)
    except CloudError as error:
        if error.reason is Reason.GONE:
            return None
        raise


def _config_refusal(text: str) -> CloudError:
    return CloudError(Reason.REFUSED, "sagemaker:DescribeEndpointConfig", text)
