"""One request to Azure as plain data: what it needs, where it goes, and what a true reply must have.

API versions: https://learn.microsoft.com/azure/templates/microsoft.machinelearningservices/change-log/summary
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from reaper.errors import ODD_REPLY_ERRORS, CloudError, Reason

Json = dict[str, Any]
UNREADABLE_REPLY_ERRORS = ODD_REPLY_ERRORS
"""What reading a reply of an unexpected shape raises."""
UNREGISTERED_TEXT = "is not registered in the subscription"
"""How a failure says that the provider it needs is not."""
TEXT_KEYS = {"id", "name", "type", "location"}

API_VERSIONS = {
    "Microsoft.MachineLearningServices": "2025-12-01",
    "Microsoft.Insights": "2024-02-01",
    "Microsoft.ResourceGraph": "2021-03-01",
    "Microsoft.Resources": "2022-12-01",
}
"""By provider. `idleTimeBeforeShutdown` of instances is in stable versions of Azure ML's API from 2025-12-01 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRequest:
    """A GET, or with a `body` a POST that reads. `permission` is the RBAC action it needs; `has` are keys of every true reply.

    A `method` of its own makes it a change: then a reply may well be empty. `region` sends it to that region's batch metrics host.
    A path with a query of its own, as next pages have, is left alone.
    """

    permission: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Json | None = None
    required_keys: tuple[str, ...] = ()
    region: str | None = None
    method: str | None = None

    @property
    def http_method(self) -> str:
        """The HTTP method."""
        return self.method or ("GET" if self.body is None else "POST")

    @property
    def counted_as(self) -> str:
        """The name it is counted under; bulk calls apart, so that the coverage tells which way metrics were read."""
        return f"{self.permission} (batch)" if self.region else self.permission

    @property
    def url(self) -> str:
        """Path and query."""
        if "?" in self.path:
            return self.path
        version = {"api-version": API_VERSIONS[self.permission.partition("/")[0]]}
        return f"{self.path}?{urlencode({**self.query, **version}, quote_via=quote)}"

    @property
    def scope(self) -> str:
        """What it asks about, for a refusal that does not say so itself."""
        return self.path.partition("?")[0]


def valid_rows(
    permission: str, value: object, required_keys: Sequence[str], on_bad_row: Callable[[CloudError], None] | None = None
) -> Iterator[Json]:
    """The rows of one page. Raises CloudError for what is no list of objects with the keys `has`; single rows only where `odd` takes no note of them."""
    if not isinstance(value, list):
        raise CloudError(Reason.UNREADABLE, permission, f"a page is {type(value).__name__}, not a list")
    for row in value:
        if (
            not isinstance(row, dict)
            or not row.keys() >= set(required_keys)
            or any(not isinstance(row[k], str) for k in TEXT_KEYS & set(required_keys))
        ):
            name = row.get("id") or row.get("name") if isinstance(row, dict) else None
            error = CloudError(
                Reason.UNREADABLE, permission, f"a row{f' ({name})' if name else ''} lacks one of {', '.join(required_keys)}"
            )
            if on_bad_row is None:
                raise error
            on_bad_row(error)
            continue
        yield row


def local_path(link: str) -> str:
    """The path and query of a next page. Its host stays ours, whatever the reply says: a token must not go anywhere else."""
    parts = urlsplit(link)
    return f"{parts.path}?{parts.query}"
