"""The one query that a sweep sends to Resource Graph: resources of some types, ordered by ID. Every other query is refused. Pure.

https://learn.microsoft.com/azure/governance/resource-graph/concepts/query-language
"""

from __future__ import annotations

import re
from typing import Any

Row = dict[str, Any]
QUERY = re.compile(r"resources \| where type in~ \((?P<types>'[^']+'(?:, '[^']+')*)\) \| order by id asc")


class ParserFailure(ValueError):
    """The query isn't the one that the sandbox knows."""


def run(query: str, rows: list[Row]) -> list[Row]:
    """The rows that match the query, in its order. Raises ParserFailure."""
    match = QUERY.fullmatch(query)
    if not match:
        raise ParserFailure(f"The sandbox doesn't know the query '{query}'")
    types = {name.lower() for name in re.findall(r"'([^']+)'", match["types"])}
    return sorted((row for row in rows if row["type"].lower() in types), key=lambda row: str(row["id"]).lower())
