"""One request to Azure as plain data: what it needs, where it goes, and what a true reply must have.

Why not all calls go through the public operations of azure-mgmt-machinelearningservices 2.0.0b2, whose models are of 2023. Each reason has
its test in tests/on_azure/test_sdk_operations.py.

| call | through | because |
|---|---|---|
| stop and start an instance, delete a deployment | the SDK's `begin_...`, see `operations` | neither sends nor reads a body; polling=False |
| set an instance's idle shutdown | a request | the SDK has no such operation |
| PATCH a cluster's minimum or a deployment's instances | a request | a reply of 200 that its models can't read raises an error after the change, without the status, and looks like a failure |
| PUT an endpoint's traffic or a deployment | a request | the same; and a body built from its models loses what they don't know |
| get a compute | a request | `minNodeCount` "2", 2.5 or true becomes a count; an odd tag is an error instead of a protection |
| get a deployment or endpoint | a request | what a later PUT restores must be complete, and a new endpointComputeType would be lost |
| get or list workspaces | a request | `hubResourceId` and `associatedWorkspaces` are lost, so whose jobs run where |
| every list (computes, jobs, endpoints, deployments, workspaces) | a request | one odd row fails the page and hides the others; a new compute or job type loses its name; the next link is followed to any host, token included; a page that links to itself never ends |
| Resource Graph, autoscale, metrics, subscriptions, assets | a request | they belong to other services, or are read for existence only |

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
"""The errors of reading a reply of an unexpected shape."""
UNREGISTERED_TEXT = "is not registered in the subscription"
"""The part of an error's text that says that a resource provider isn't registered."""
TEXT_KEYS = {"id", "name", "type", "location"}

API_VERSIONS = {
    "Microsoft.MachineLearningServices": "2025-12-01",
    "Microsoft.Insights": "2024-02-01",
    "Microsoft.Management": "2023-04-01",
    "Microsoft.ResourceGraph": "2021-03-01",
    "Microsoft.Resources": "2022-12-01",
}
"""By provider. `idleTimeBeforeShutdown` of instances is in stable versions of Azure ML's API from 2025-12-01 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRequest:
    """A GET, or with a `body` a POST that reads. `permission`: the RBAC action it needs. `required_keys`: the keys of every true reply.

    `region` sends it to that region's batch metrics host. A path with a query of its own, as next pages have, is used unchanged.
    """

    permission: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Json | None = None
    required_keys: tuple[str, ...] = ()
    region: str | None = None

    @property
    def method(self) -> str:
        """The HTTP method."""
        return "GET" if self.body is None else "POST"

    @property
    def counted_as(self) -> str:
        """The name it is counted under; batch calls have one of their own, so that the coverage shows how metrics were read."""
        return f"{self.permission} (batch)" if self.region else self.permission

    @property
    def url(self) -> str:
        """Path and query."""
        return _url(self.path, self.permission, self.query)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmChange:
    """A change, sent as it stands here. `permission`: the RBAC action it needs. A path with a query of its own is used unchanged."""

    permission: str
    path: str
    method: str
    body: Json

    @property
    def url(self) -> str:
        """Path and query."""
        return _url(self.path, self.permission, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmOperation:
    """A change that a public operation of the SDK begins: `begin(**options)`. `permission`: the RBAC action it needs."""

    permission: str
    path: str
    begin: Callable[..., object]


Change = ArmChange | ArmOperation
"""What an action or an undo sends, once."""


def _url(path: str, permission: str, query: Mapping[str, str]) -> str:
    if "?" in path:
        return path
    version = {"api-version": API_VERSIONS[permission.partition("/")[0]]}
    return f"{path}?{urlencode({**query, **version}, quote_via=quote)}"


def valid_rows(
    permission: str, value: object, required_keys: Sequence[str], on_bad_row: Callable[[CloudError], None] | None = None
) -> Iterator[Json]:
    """The rows of one page. A row that isn't an object with the `required_keys` goes to `on_bad_row`.

    Raises CloudError for a page that isn't a list and, without `on_bad_row`, for such a row.
    """
    if not isinstance(value, list):
        raise CloudError(Reason.UNREADABLE, permission, f"a page is {type(value).__name__}, not a list")
    for row in value:
        if _is_complete_row(row, required_keys):
            yield row
            continue
        name = row.get("id") or row.get("name") if isinstance(row, dict) else None
        text = f"a row{f' ({name})' if name else ''} lacks one of {', '.join(required_keys)}"
        error = CloudError(Reason.UNREADABLE, permission, text)
        if on_bad_row is None:
            raise error
        on_bad_row(error)


def _is_complete_row(row: object, required_keys: Sequence[str]) -> bool:
    if not isinstance(row, dict) or not row.keys() >= set(required_keys):
        return False
    return all(isinstance(row[key], str) for key in TEXT_KEYS & set(required_keys))


def local_path(link: str) -> str:
    """The path and query of a next page. Its host is ignored: a token must not go anywhere else."""
    parts = urlsplit(link)
    return f"{parts.path}?{parts.query}"
