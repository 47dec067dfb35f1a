"""Azure Monitor's autoscale, which restores the instances of a deployment that its settings keep.

https://learn.microsoft.com/rest/api/monitor/autoscalesettings/list-by-subscription
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reaper.azure.request import UNREADABLE_REPLY_ERRORS, Json
from reaper.errors import CloudError, Reason

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

PERMISSION, API_VERSION = "Microsoft.Insights/autoscaleSettings/read", "2022-10-01"


def minimum_instances(cloud: CloudSession, resource_id: str) -> int:
    """The most instances that any profile of its autoscale keeps; 0 if it has none. Raises CloudError.

    The settings of the whole subscription are read, once for all: one may be in another resource group than what it scales.
    """
    settings = cloud.read_once("autoscale", lambda: _settings_by_target(cloud))
    try:
        return max((minimum for row in settings.get(resource_id.lower(), ()) for minimum in _profile_minimums(row)), default=0)
    except UNREADABLE_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, PERMISSION, f"an autoscale setting can't be read ({error!r})") from error


def _settings_by_target(cloud: CloudSession) -> dict[str, list[Json]]:
    path = f"/subscriptions/{cloud.target.account}/providers/Microsoft.Insights/autoscalesettings?api-version={API_VERSION}"
    settings: dict[str, list[Json]] = {}
    try:
        for row in cloud.paged_rows(PERMISSION, path, required_keys=("id", "properties")):
            settings.setdefault(str(row["properties"].get("targetResourceUri")).lower(), []).append(row)
    except UNREADABLE_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, PERMISSION, f"an autoscale setting can't be read ({error!r})") from error
    return settings


def _profile_minimums(row: Json) -> Iterator[int]:
    """The minimum of each profile, and its default, which applies while metrics are missing."""
    if row["properties"].get("enabled"):
        for profile in row["properties"]["profiles"]:
            yield from (int(profile["capacity"][bound]) for bound in ("minimum", "default"))
