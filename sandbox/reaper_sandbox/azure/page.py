"""Lists in pages: `$skip` in, an absolute `nextLink` out that keeps the caller's other parameters."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from reaper_sandbox.azure.refusal import bad
from reaper_sandbox.azure.request import Json, Reply, Request
from reaper_sandbox.azure.world import World


def page(world: World, request: Request, items: Sequence[Json], size: int | None = None) -> Reply:
    """One page of `items`, `size` (or the world's page size) at most. Raises Refused (400) for a `$skip` that is no number."""
    skip = request.query.get("$skip", "0")
    if not skip.isdigit():
        raise bad(f"Invalid continuation token {skip}")
    start, length = int(skip), min(size or world.page_size, world.page_size)
    body: Json = {"value": list(items[start : start + length])}
    if start + length < len(items):
        again = {**request.query, "$skip": str(start + length)}
        body["nextLink"] = f"{world.url}{request.path}?{urlencode(again)}"
    return Reply(body=body)
