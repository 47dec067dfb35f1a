"""Azure Monitor's autoscale, which puts back the instances of a deployment that it is told to keep.

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


def minimum_instances(cloud: CloudSession, id_: str) -> int:
    """How many instances of the resource autoscale keeps at least, in any of its profiles; 0 where none does. Raises CloudError.

    The settings of the whole subscription are read, once for all: one may lie in another resource group than what it scales.
    """
    settings = cloud.read_once("autoscale", lambda: _settings_by_target(cloud))
    try:
        return max((least for row in settings.get(id_.lower(), ()) for least in _profile_minimums(row)), default=0)
    except UNREADABLE_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, PERMISSION, f"an autoscale setting cannot be read ({error!r})") from error


def _settings_by_target(cloud: CloudSession) -> dict[str, list[Json]]:
    path = f"/subscriptions/{cloud.target.account}/providers/Microsoft.Insights/autoscalesettings?api-version={API_VERSION}"
    found: dict[str, list[Json]] = {}
    try:
        for row in cloud.paged_rows(PERMISSION, path, required_keys=("id", "properties")):
            found.setdefault(str(row["properties"].get("targetResourceUri")).lower(), []).append(row)
    except UNREADABLE_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, PERMISSION, f"an autoscale setting cannot be read ({error!r})") from error
    return found


def _profile_minimums(row: Json) -> Iterator[int]:
    """The minimum of each profile, and its default, which holds while metrics are missing."""
    if row["properties"].get("enabled"):
        for profile in row["properties"]["profiles"]:
            yield from (int(profile["capacity"][bound]) for bound in ("minimum", "default"))
