"""Endpoint configurations that earlier sweeps have seen. A configuration never changes, but it can be deleted and made anew under its name.

So an entry is good only for the endpoint's ARN with CreationTime and LastModifiedTime as listed, and as described, and for the name that its
description gives: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpoint.html (a configuration in use must stay).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from reaper.aws.endpoint import Described
from reaper.errors import ODD
from reaper.model import Kept, Resource

MADE, NAME = "CreationTime", "EndpointConfigName"
STEADY = "InService"
"""The only status under which an entry is written or used: nothing else says that it runs this configuration and no other."""


def keep(resource: Resource, found: Described) -> Kept | None:
    """What to keep of an endpoint that was described just now; None where nothing of it will hold. `resource` is as listed."""
    config, stamp = found.config, _stamp(resource.created, resource.changed)
    if not config or not stamp or not _steady(found.raw, stamp) or config.get(NAME) != found.raw.get(NAME):
        return None
    made = config.get(MADE)
    body = {**config, MADE: made.isoformat()} if isinstance(made, datetime) else None
    return Kept(stamp=stamp, body={k: v for k, v in body.items() if k != "ResponseMetadata"}) if body and _plain(body) else None


def recalled(resource: Resource, kept: Kept | None, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The configuration, where what was kept is of this very endpoint as listed and as described by `row`; None for everything else."""
    stamp = _stamp(resource.created, resource.changed)
    if kept is None or stamp is None or kept.stamp != stamp or not _steady(row, stamp) or kept.body.get(NAME) != row.get(NAME):
        return None
    try:
        return {**kept.body, MADE: datetime.fromisoformat(kept.body[MADE])}
    except ODD:
        return None


def _steady(row: Mapping[str, Any], stamp: str) -> bool:
    return row.get("EndpointStatus") == STEADY and _stamp(row.get(MADE), row.get("LastModifiedTime")) == stamp


def _stamp(created: datetime | None, changed: datetime | None) -> str | None:
    return f"{created.isoformat()} {changed.isoformat()}" if created and changed else None


def _plain(value: Any) -> bool:
    """Whether JSON gives it back as it is."""
    if isinstance(value, Mapping):
        return all(isinstance(k, str) and (k == "ResponseMetadata" or _plain(v)) for k, v in value.items())
    if isinstance(value, list):
        return all(_plain(one) for one in value)
    return value is None or isinstance(value, str | int | float | bool)
