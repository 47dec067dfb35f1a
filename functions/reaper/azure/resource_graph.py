"""Resources in bulk, a thousand a page, through Resource Graph.

It shows only what the caller may read and says nothing of the rest, so whatever it does not show must be asked for elsewhere:
https://learn.microsoft.com/azure/governance/resource-graph/overview#permissions-in-azure-resource-graph
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from reaper.azure import request
from reaper.azure.request import Call
from reaper.errors import CloudError, Trouble

if TYPE_CHECKING:
    from reaper.azure.session import Cloud

PERMISSION = "Microsoft.ResourceGraph/resources/read"
"""A name to count by: Resource Graph needs no right of its own."""
PATH = "/providers/Microsoft.ResourceGraph/resources"
PAGE = 1000
KEYS = ("id", "name", "type")


def rows(cloud: Cloud, *types: str) -> Iterator[dict[str, Any]]:
    """Every readable resource of these types in the subscription. Raises CloudError, also when fewer came than there are."""
    wanted = [name.lower() for name in types]
    named = ", ".join(f"'{name}'" for name in wanted)
    query = f"resources | where type in~ ({named}) | order by id asc"
    token, seen, count = "", set(), 0
    while True:
        options = {"resultFormat": "objectArray", "$top": PAGE} | ({"$skipToken": token} if token else {})
        body = {"subscriptions": [cloud.target.account], "query": query, "options": options}
        reply = cloud.call(Call(permission=PERMISSION, path=PATH, body=body, has=("data",)))
        for row in request.rows(PERMISSION, reply["data"], KEYS):
            if row["type"].lower() not in wanted:
                raise CloudError(Trouble.GARBLED, PERMISSION, f"a row is of the type {row['type']!r}, which was not asked for")
            count += 1
            yield row
        token = reply.get("$skipToken") or ""
        if not token:
            break
        if not isinstance(token, str) or token in seen:
            raise CloudError(Trouble.GARBLED, PERMISSION, "the same page came twice")
        seen.add(token)
    _counted(reply, count)


def _counted(reply: dict[str, Any], count: int) -> None:
    """Raises CloudError where the last page says that there was more: truncated without a way to go on, or more rows announced."""
    if str(reply.get("resultTruncated")).lower() == "true":
        raise CloudError(Trouble.PARTIAL, PERMISSION, f"the result was cut off after {count} rows")
    total = reply.get("totalRecords")
    if isinstance(total, int) and total > count:
        raise CloudError(Trouble.PARTIAL, PERMISSION, f"{count} of {total} rows came back")
