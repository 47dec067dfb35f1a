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
from reaper.model import Resource
from reaper.observation import CachedDescription
from reaper.observing.cache import revision_of

CREATED_KEY, CONFIG_NAME_KEY, TYPES_KEY = "CreationTime", "EndpointConfigName", "types"
STEADY_STATUS = "InService"
"""The only status under which an entry is written or used: nothing else says that it runs this configuration and no other."""
INSTANCE_TYPE_PATTERN = re.compile(r"ml\.[a-z0-9.-]+")
OTHER_CAPACITY_KEYS = ("CurrentServerlessConfig", "InstancePools", "ManagedInstanceScaling")
"""What a variant that runs instances of one type, and a model of its own, does not have."""


def description_to_cache(resource: Resource, endpoint: EndpointDescription) -> CachedDescription | None:
    """What to keep of an endpoint that was described just now; None where nothing of it will hold. `resource` is as listed."""
    revision = revision_of(resource.created, resource.changed)
    if (
        not revision
        or not _is_steady(endpoint.reply, revision)
        or not (endpoint.has_cached_types or _is_running_config(endpoint))
    ):
        return None
    types = _instance_types(endpoint)
    body = {CONFIG_NAME_KEY: endpoint.reply[CONFIG_NAME_KEY], TYPES_KEY: types} if types else {}
    return CachedDescription(revision=revision, body=body, parts=billed_parts(endpoint), size=size_text(endpoint))


def cached_types(resource: Resource, cached: CachedDescription | None, row: Mapping[str, Any]) -> InstanceTypes | None:
    """The types by variant, where what was kept is of this very endpoint as listed and as described by `row`; None for everything else."""
    revision, name = revision_of(resource.created, resource.changed), row.get(CONFIG_NAME_KEY)
    if (
        cached is None
        or revision is None
        or cached.revision != revision
        or not _is_steady(row, revision)
        or not name
        or cached.body.get(CONFIG_NAME_KEY) != name
    ):
        return None
    types, plain = cached.body.get(TYPES_KEY), _plain_variant_names(row)
    if plain is None or not isinstance(types, Mapping) or types.keys() != plain:
        return None
    return types if all(_is_instance_type(kind) for kind in types.values()) else None


def _is_running_config(endpoint: EndpointDescription) -> bool:
    """Whether its configuration was read, and says that it is the one that it runs."""
    return endpoint.config.get(CONFIG_NAME_KEY) == endpoint.reply.get(CONFIG_NAME_KEY) and isinstance(
        endpoint.config.get(CREATED_KEY), datetime
    )


def _instance_types(endpoint: EndpointDescription) -> dict[str, str] | None:
    """The type of each variant; None for what is not the plain case."""
    kinds = {v.name: v.instances[0][0] for v in endpoint.variants if len(v.instances) == 1}
    if kinds.keys() != _plain_variant_names(endpoint.reply) or endpoint.is_asynchronous or endpoint.may_host_components:
        return None
    return (
        {name: kind for name, kind in kinds.items() if kind} if all(_is_instance_type(kind) for kind in kinds.values()) else None
    )


def _plain_variant_names(row: Mapping[str, Any]) -> set[str] | None:
    """The names of its variants, where the description itself says that each runs instances and a model of its own."""
    rows = [*(row.get("ProductionVariants") or ()), *(row.get("ShadowProductionVariants") or ())]
    names = {variant["VariantName"] for variant in rows}
    plain = all(_is_positive_count(variant.get("CurrentInstanceCount")) and variant.get("DeployedImages") for variant in rows)
    other = row.get("AsyncInferenceConfig") or any(variant.get(key) for variant in rows for key in OTHER_CAPACITY_KEYS)
    return names if plain and names and len(names) == len(rows) and not other else None


def _is_positive_count(count: Any) -> bool:
    return isinstance(count, int) and count > 0


def _is_instance_type(kind: Any) -> bool:
    return isinstance(kind, str) and INSTANCE_TYPE_PATTERN.fullmatch(kind) is not None


def _is_steady(row: Mapping[str, Any], revision: str) -> bool:
    made, changed = row.get(CREATED_KEY), row.get("LastModifiedTime")
    timed = isinstance(made, datetime) and isinstance(changed, datetime)
    return row.get("EndpointStatus") == STEADY_STATUS and timed and revision_of(made, changed) == revision
