"""Models, which moto has. Those that a seeded configuration or component names exist too, until they are deleted.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeModel.html
"""

from __future__ import annotations

from typing import Any

from reaper_sandbox.aws.reply import invalid
from reaper_sandbox.aws.sagemaker.listing import page
from reaper_sandbox.aws.world import Region


def describe_model(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """None for one that was made by CreateModel."""
    name = params["ModelName"]
    if name in region.lost_models:
        raise invalid(f'Could not find model "{region.arn(f"model/{name}")}".')
    return _row(region, name) if name in _named(region) else None


def list_models(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """Those that something here names; None where nothing names any, for then they are moto's."""
    if not _named(region):
        return None
    rows, following = page(region, "ListModels", sorted(_named(region) - region.lost_models), params)
    return {"Models": [_row(region, name) for name in rows], "NextToken": following}


def _named(region: Region) -> set[str]:
    variants = [v for c in region.configs.values() for v in c.spec.get("ProductionVariants", ())]
    variants += [v for c in region.configs.values() for v in c.spec.get("ShadowProductionVariants", ())]
    specs = [c.spec for c in region.components.values()]
    return {str(one["ModelName"]) for one in (*variants, *specs) if one.get("ModelName")}


def _row(region: Region, name: str) -> dict[str, Any]:
    return {"ModelName": name, "ModelArn": region.arn(f"model/{name}"), "CreationTime": region.now}


OPERATIONS = {"DescribeModel": describe_model, "ListModels": list_models}
