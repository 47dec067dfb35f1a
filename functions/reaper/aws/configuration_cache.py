"""What the variants of endpoints that earlier sweeps described run on. A configuration never changes, but it can be deleted and made anew under its name.

So an entry is good only for the endpoint's ARN with CreationTime and LastModifiedTime as listed, and as described, and for the name that its
description gives: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpoint.html (a configuration in use must stay).

Only the instance types are kept, which the description lacks, and only of the plain case: what is serverless, asynchronous or a host of
components, and whether it could be created again, is never taken from here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from reaper.aws.endpoint_description import Described, Types, parts, size
from reaper.cache import stamp
from reaper.model import Kept, Resource

MADE, NAME, TYPES = "CreationTime", "EndpointConfigName", "types"
STEADY = "InService"
"""The only status under which an entry is written or used: nothing else says that it runs this configuration and no other."""
TYPE = re.compile(r"ml\.[a-z0-9.-]+")
ELSE = ("CurrentServerlessConfig", "InstancePools", "ManagedInstanceScaling")
"""What a variant that runs instances of one type, and a model of its own, does not have."""


def keep(resource: Resource, found: Described) -> Kept | None:
    """What to keep of an endpoint that was described just now; None where nothing of it will hold. `resource` is as listed."""
    mark = stamp(resource.created, resource.changed)
    if not mark or not _steady(found.raw, mark) or not (found.recalled or _runs(found)):
        return None
    types = _types(found)
    body = {NAME: found.raw[NAME], TYPES: types} if types else {}
    return Kept(stamp=mark, body=body, parts=parts(found), size=size(found))


def recalled(resource: Resource, kept: Kept | None, row: Mapping[str, Any]) -> Types | None:
    """The types by variant, where what was kept is of this very endpoint as listed and as described by `row`; None for everything else."""
    mark, name = stamp(resource.created, resource.changed), row.get(NAME)
    if kept is None or mark is None or kept.stamp != mark or not _steady(row, mark) or not name or kept.body.get(NAME) != name:
        return None
    types, plain = kept.body.get(TYPES), _plain(row)
    if plain is None or not isinstance(types, Mapping) or types.keys() != plain:
        return None
    return types if all(_is_type(kind) for kind in types.values()) else None


def _runs(found: Described) -> bool:
    """Whether its configuration was read, and says that it is the one that it runs."""
    return found.config.get(NAME) == found.raw.get(NAME) and isinstance(found.config.get(MADE), datetime)


def _types(found: Described) -> dict[str, str] | None:
    """The type of each variant; None for what is not the plain case."""
    kinds = {v.name: v.instances[0][0] for v in found.variants if len(v.instances) == 1}
    if kinds.keys() != _plain(found.raw) or found.asynchronous or found.hosts:
        return None
    return {name: kind for name, kind in kinds.items() if kind} if all(_is_type(kind) for kind in kinds.values()) else None


def _plain(row: Mapping[str, Any]) -> set[str] | None:
    """The names of its variants, where the description itself says that each runs instances and a model of its own."""
    rows = [*(row.get("ProductionVariants") or ()), *(row.get("ShadowProductionVariants") or ())]
    names = {one["VariantName"] for one in rows}
    plain = all(_runs_some(one.get("CurrentInstanceCount")) and one.get("DeployedImages") for one in rows)
    other = row.get("AsyncInferenceConfig") or any(one.get(key) for one in rows for key in ELSE)
    return names if plain and names and len(names) == len(rows) and not other else None


def _runs_some(count: Any) -> bool:
    return isinstance(count, int) and count > 0


def _is_type(kind: Any) -> bool:
    return isinstance(kind, str) and TYPE.fullmatch(kind) is not None


def _steady(row: Mapping[str, Any], mark: str) -> bool:
    made, changed = row.get(MADE), row.get("LastModifiedTime")
    timed = isinstance(made, datetime) and isinstance(changed, datetime)
    return row.get("EndpointStatus") == STEADY and timed and stamp(made, changed) == mark
