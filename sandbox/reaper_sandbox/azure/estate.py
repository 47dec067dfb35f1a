"""Everything that exists: ARM resources as the JSON that Resource Manager would give, found by id (case-insensitively) and by parent."""

from __future__ import annotations

from collections.abc import Iterator

from reaper_sandbox.azure.request import Json


class Estate:
    """The resources of all subscriptions. A body is the live one: changing it changes the resource.

    `states`: those of the subscriptions that aren't Enabled. `parents`: the management group of a subscription or of a group, by lower-case name.
    """

    def __init__(self) -> None:
        self.subscriptions: dict[str, str] = {}
        self.states: dict[str, str] = {}
        self.parents: dict[str, str] = {}
        self.groups: dict[tuple[str, str], str] = {}
        self._bodies: dict[str, Json] = {}
        self._shelves: dict[str, dict[str, Json]] = {}

    def put(self, body: Json) -> Json:
        """Adds or replaces the resource with this id."""
        key = body["id"].lower()
        self._bodies[key] = body
        self._shelves.setdefault(_shelf(key), {})[key] = body
        return body

    def find(self, resource_id: str) -> Json | None:
        """The resource, or None."""
        return self._bodies.get(resource_id.lower())

    def drop(self, resource_id: str) -> None:
        """Removes a resource and everything below it."""
        key = resource_id.lower()
        below = [k for k in self._bodies if k.startswith(f"{key}/")] if self._bodies.pop(key, None) else []
        self._shelves.get(_shelf(key), {}).pop(key, None)
        for child in below:
            self._bodies.pop(child)
            self._shelves.get(_shelf(child), {}).pop(child, None)

    def children(self, parent_id: str, collection: str) -> list[Json]:
        """What hangs below a resource in one collection, such as the `computes` of a workspace, oldest entry first."""
        return list(self._shelves.get(f"{parent_id}/{collection}".lower(), {}).values())

    def all(self) -> Iterator[Json]:
        """Every resource there is."""
        return iter(list(self._bodies.values()))

    def workspaces(self, subscription: str) -> list[Json]:
        """The workspaces of one subscription, over all its resource groups."""
        start = f"/subscriptions/{subscription}/".lower()
        end = "/microsoft.machinelearningservices/workspaces"
        shelves = [shelf for key, shelf in self._shelves.items() if key.startswith(start) and key.endswith(end)]
        return [body for shelf in shelves for body in shelf.values()]

    def region(self, resource_id: str) -> str:
        """The region of a resource: its own, or that of the nearest parent that has one; empty when nothing is found."""
        path = resource_id.lower()
        while path.count("/") > 4:
            body = self._bodies.get(path)
            if body and body.get("location"):
                return str(body["location"])
            path = path.rsplit("/", 2)[0]
        return ""


def _shelf(key: str) -> str:
    return key.rpartition("/")[0]
