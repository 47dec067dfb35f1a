"""Models, which moto has. Those that a seeded configuration or component names are there too, until somebody deletes them.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeModel.html
"""

from __future__ import annotations

from typing import Any

from reaper.sandbox.aws.reply import invalid
from reaper.sandbox.aws.world import Region


def describe_model(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """None for one that was made by CreateModel."""
    name = params["ModelName"]
    arn = region.arn(f"model/{name}")
    if name in region.lost_models:
        raise invalid(f'Could not find model "{arn}".')
    named = {v.get("ModelName") for c in region.configs.values() for v in c.spec.get("ProductionVariants", ())}
    named |= {c.spec.get("ModelName") for c in region.components.values()}
    return {"ModelName": name, "ModelArn": arn, "CreationTime": region.now} if name in named else None


OPERATIONS = {"DescribeModel": describe_model}
