"""Resources in bulk, a thousand a page, through Resource Graph.

It shows only what the caller may read, without a word about the rest. So what it doesn't show must be read elsewhere:
https://learn.microsoft.com/azure/governance/resource-graph/overview#permissions-in-azure-resource-graph
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from reaper.azure import request
from reaper.azure.request import ArmRequest
from reaper.errors import CloudError, Reason

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

PERMISSION = "Microsoft.ResourceGraph/resources/read"
"""A name to count by: Resource Graph needs no permission of its own."""
PATH = "/providers/Microsoft.ResourceGraph/resources"
PAGE_SIZE = 1000
ROW_KEYS = ("id", "name", "type")


def list_resources(cloud: CloudSession, *types: str) -> Iterator[dict[str, Any]]:
    """Every readable resource of these types in the subscription. Raises CloudError, also if the result is incomplete."""
    wanted = [name.lower() for name in types]
    named = ", ".join(f"'{name}'" for name in wanted)
    query = f"resources | where type in~ ({named}) | order by id asc"
    token, tokens, count = "", set(), 0
    while True:
        options = {"resultFormat": "objectArray", "$top": PAGE_SIZE} | ({"$skipToken": token} if token else {})
        body = {"subscriptions": [cloud.target.account], "query": query, "options": options}
        reply = cloud.call(ArmRequest(permission=PERMISSION, path=PATH, body=body, required_keys=("data",)))
        for row in request.valid_rows(PERMISSION, reply["data"], ROW_KEYS):
            if row["type"].lower() not in wanted:
                raise CloudError(Reason.UNREADABLE, PERMISSION, f"a row has the type {row['type']!r}, which wasn't requested")
            count += 1
            yield row
        token = reply.get("$skipToken") or ""
        if not token:
            break
        if not isinstance(token, str) or token in tokens:
            raise CloudError(Reason.UNREADABLE, PERMISSION, "the same page came twice")
        tokens.add(token)
    _require_complete(reply, count)


def _require_complete(reply: dict[str, Any], count: int) -> None:
    """Raises CloudError if the last page says that there is more: truncated without a way to continue, or more rows announced."""
    if str(reply.get("resultTruncated")).lower() == "true":
        raise CloudError(Reason.PARTIAL, PERMISSION, f"the result was cut off after {count} rows")
    total = reply.get("totalRecords")
    if isinstance(total, int) and total > count:
        raise CloudError(Reason.PARTIAL, PERMISSION, f"{count} of {total} rows came back")
