"""Endpoint configurations that earlier sweeps have seen. A configuration never changes, but it can be deleted and made anew under its name.

So an entry is good only for the endpoint's ARN with CreationTime and LastModifiedTime as listed, and as described, and for the name that its
description gives: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpoint.html (a configuration in use must stay).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from reaper.aws.endpoint import Described, parts, size
from reaper.cache import LASTS, stamp
from reaper.errors import ODD
from reaper.model import Kept, Resource

MADE, NAME = "CreationTime", "EndpointConfigName"
STEADY = "InService"
"""The only status under which an entry is written or used: nothing else says that it runs this configuration and no other."""


def keep(resource: Resource, found: Described, now: datetime) -> Kept | None:
    """What to keep of an endpoint that was described just now; None where nothing of it will hold. `resource` is as listed."""
    config, mark = found.config, stamp(resource.created, resource.changed)
    made = config.get(MADE)
    if not mark or not _steady(found.raw, mark) or config.get(NAME) != found.raw.get(NAME) or not isinstance(made, datetime):
        return None
    body = {**{k: v for k, v in config.items() if k != "ResponseMetadata"}, MADE: made.isoformat()}
    return Kept(stamp=mark, at=now, body=body, parts=parts(found), size=size(found)) if _plain(body) else None


def renewed(fresh: Kept | None, kept: Kept | None) -> Kept | None:
    """What is to be written of what was kept just now: nothing where it stands there already and is not old."""
    same = fresh and kept and fresh == replace(kept, at=fresh.at) and fresh.at - kept.at <= LASTS
    return None if same else fresh


def recalled(resource: Resource, kept: Kept | None, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The configuration, where what was kept is of this very endpoint as listed and as described by `row`; None for everything else."""
    mark = stamp(resource.created, resource.changed)
    if kept is None or mark is None or kept.stamp != mark or not _steady(row, mark) or kept.body.get(NAME) != row.get(NAME):
        return None
    try:
        return {**kept.body, MADE: datetime.fromisoformat(kept.body[MADE])}
    except ODD:
        return None


def _steady(row: Mapping[str, Any], mark: str) -> bool:
    return row.get("EndpointStatus") == STEADY and stamp(row.get(MADE), row.get("LastModifiedTime")) == mark


def _plain(value: Any) -> bool:
    """Whether JSON gives it back as it is."""
    if isinstance(value, Mapping):
        return all(isinstance(k, str) and _plain(v) for k, v in value.items())
    if isinstance(value, list):
        return all(_plain(one) for one in value)
    return value is None or isinstance(value, str | int | float | bool)
