"""What the variants of endpoints that earlier sweeps described run on. A configuration never changes, but it can be deleted and recreated under its name.

So an entry is good only for the endpoint's ARN with CreationTime and LastModifiedTime as listed, and as described, and for the name that its
description gives: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpoint.html (a configuration in use must stay).

Only the instance types are kept, which the description lacks, and only of the plain case: what is serverless, asynchronous or a host of
components, and whether it could be recreated, is never taken from here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from reaper.aws.endpoint_description import EndpointDescription, InstanceTypes, billed_parts, size_text
from reaper.cache import revision_of
from reaper.model import CachedDescription, Resource

CREATED_KEY, CONFIG_NAME_KEY, TYPES_KEY = "CreationTime", "EndpointConfigName", "types"
STEADY_STATUS = "InService"
"""The only status under which an entry is written or used: nothing else says that it runs this configuration and no other."""
INSTANCE_TYPE_PATTERN = re.compile(r"ml\.[a-z0-9.-]+")
OTHER_CAPACITY_KEYS = ("CurrentServerlessConfig", "InstancePools", "ManagedInstanceScaling")
"""What a variant that runs instances of one type, and a model of its own, does not have."""


def description_to_cache(resource: Resource, found: EndpointDescription) -> CachedDescription | None:
    """What to keep of an endpoint that was described just now; None where nothing of it will hold. `resource` is as listed."""
    mark = revision_of(resource.created, resource.changed)
    if not mark or not _is_steady(found.reply, mark) or not (found.has_cached_types or _is_running_config(found)):
        return None
    types = _instance_types(found)
    body = {CONFIG_NAME_KEY: found.reply[CONFIG_NAME_KEY], TYPES_KEY: types} if types else {}
    return CachedDescription(revision=mark, body=body, parts=billed_parts(found), size=size_text(found))


def cached_types(resource: Resource, kept: CachedDescription | None, row: Mapping[str, Any]) -> InstanceTypes | None:
    """The types by variant, where what was kept is of this very endpoint as listed and as described by `row`; None for everything else."""
    mark, name = revision_of(resource.created, resource.changed), row.get(CONFIG_NAME_KEY)
    if (
        kept is None
        or mark is None
        or kept.revision != mark
        or not _is_steady(row, mark)
        or not name
        or kept.body.get(CONFIG_NAME_KEY) != name
    ):
        return None
    types, plain = kept.body.get(TYPES_KEY), _plain_variant_names(row)
    if plain is None or not isinstance(types, Mapping) or types.keys() != plain:
        return None
    return types if all(_is_instance_type(kind) for kind in types.values()) else None


def _is_running_config(found: EndpointDescription) -> bool:
    """Whether its configuration was read, and says that it is the one that it runs."""
    return found.config.get(CONFIG_NAME_KEY) == found.reply.get(CONFIG_NAME_KEY) and isinstance(
        found.config.get(CREATED_KEY), datetime
    )


def _instance_types(found: EndpointDescription) -> dict[str, str] | None:
    """The type of each variant; None for what is not the plain case."""
    kinds = {v.name: v.instances[0][0] for v in found.variants if len(v.instances) == 1}
    if kinds.keys() != _plain_variant_names(found.reply) or found.is_asynchronous or found.may_host_components:
        return None
    return (
        {name: kind for name, kind in kinds.items() if kind} if all(_is_instance_type(kind) for kind in kinds.values()) else None
    )


def _plain_variant_names(row: Mapping[str, Any]) -> set[str] | None:
    """The names of its variants, where the description itself says that each runs instances and a model of its own."""
    rows = [*(row.get("ProductionVariants") or ()), *(row.get("ShadowProductionVariants") or ())]
    names = {one["VariantName"] for one in rows}
    plain = all(_is_positive_count(one.get("CurrentInstanceCount")) and one.get("DeployedImages") for one in rows)
    other = row.get("AsyncInferenceConfig") or any(one.get(key) for one in rows for key in OTHER_CAPACITY_KEYS)
    return names if plain and names and len(names) == len(rows) and not other else None


def _is_positive_count(count: Any) -> bool:
    return isinstance(count, int) and count > 0


def _is_instance_type(kind: Any) -> bool:
    return isinstance(kind, str) and INSTANCE_TYPE_PATTERN.fullmatch(kind) is not None


def _is_steady(row: Mapping[str, Any], mark: str) -> bool:
    made, changed = row.get(CREATED_KEY), row.get("LastModifiedTime")
    timed = isinstance(made, datetime) and isinstance(changed, datetime)
    return row.get("EndpointStatus") == STEADY_STATUS and timed and revision_of(made, changed) == mark
