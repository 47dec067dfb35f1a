"""One Azure subscription: calls, paging, bounded concurrency, and the one place where azure-core's errors become CloudError.

Error envelopes: https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting/common-deployment-errors
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

from azure.core.exceptions import AzureError, ClientAuthenticationError, ServiceRequestError, ServiceResponseError
from azure.core.rest import HttpRequest, HttpResponse

from reaper.azure.clients import Clients
from reaper.azure.requests import (
    API_VERSIONS,
    VERSION_REFUSED,
    ArmChange,
    ArmOperation,
    ArmRequest,
    Change,
    Json,
    error_from_reply,
    first_line,
    reading,
    sign_in_text,
    valid_rows,
)
from reaper.coverage import NOT_REACHED
from reaper.errors import NO_SIGN_IN, CloudError, Paging, Reason
from reaper.model import Target

MAX_CONCURRENT_CALLS = 3
"""Calls in progress at once per kind; three kinds share one client, whose pool has ten connections."""

A = TypeVar("A")
B = TypeVar("B")


class CloudSession:
    """One subscription as one kind sees it: shared clients, but its own count of calls and its own list of errors."""

    def __init__(self, clients: Clients, target: Target) -> None:
        self.target = target
        self.calls: Counter[str] = Counter()
        self.metrics = 0  # Azure bills calls
        self.errors: list[CloudError] = []
        self.is_over: Callable[[], bool] = lambda: False
        self.clients = clients
        self._lock = threading.Lock()

    def for_kind(self) -> CloudSession:
        """The same target with fresh counters."""
        return CloudSession(self.clients, self.target)

    def without_cache(self) -> CloudSession:
        """The same target with nothing remembered."""
        return CloudSession(self.clients.without_cache(), self.target)

    def recheck_end(self, now: datetime) -> datetime:
        """The start of this minute: it isn't documented whether Azure Monitor takes an end that lies ahead."""
        return now.replace(second=0, microsecond=0)

    def describe_target(self, name: str | None, blocked_because: str | None) -> None:
        """Set the name under which people know the target, and what blocks every change in it. The target stays the same."""
        self.target = replace(self.target, account_name=name, blocked_because=blocked_because)

    def call(self, request: ArmRequest, *, once: bool = False) -> Json:
        """The JSON of one reply, at the usual API version, or at the older one from the first time on that this cloud refuses it.

        `once`: sent only once, for a read between a permit and its call. Raises CloudError, and nothing else, if the call fails or the reply lacks
        a required key, or if the time for calls is over (`is_over`).
        """
        self._begin_call(request.permission, request.counted_as)
        older = self.clients.older_versions.get(request.permission)
        sent = replace(request, query={**request.query, "api-version": older}) if older else request
        try:
            with _as_cloud_error(request.permission):
                http = _http_request(sent)
                return _checked_reply(sent, self.clients.send_once(http) if once else self.clients.send(http, sent.region))
        except CloudError as error:
            if older or request.permission not in API_VERSIONS or not VERSION_REFUSED.search(str(error)):
                error.may_have_been_made = False  # a read changes nothing
                raise
            self.clients.older_versions[request.permission] = API_VERSIONS[request.permission.partition("/")[0]]
        return self.call(request, once=once)

    def find(self, request: ArmRequest) -> Json | None:
        """The JSON of one reply; None if what is asked for doesn't exist. Raises CloudError for any other failure."""
        try:
            return self.call(request)
        except CloudError as error:
            if error.reason is not Reason.GONE:
                raise
            return None

    def failed_as_gone(self, error: CloudError, request: ArmRequest) -> bool:
        """Whether a call failed because what the request reads no longer exists. A 404 for anything else is an ordinary failure."""
        try:
            return error.reason is Reason.GONE and self.find(request) is None
        except CloudError:
            return False

    def change(self, change: Change) -> None:
        """Make a change, sent once; Azure may only accept it. Raises CloudError alone, with `may_have_been_made` unless refused or not sent."""
        self._begin_call(change.permission, change.permission)
        with _as_cloud_error(change.permission):
            clients = self.clients
            response = clients.begin(change) if isinstance(change, ArmOperation) else clients.send_once(_http_request(change))
            if response is None:
                return
            if response.status_code >= 300:
                raise error_from_reply(change, response.status_code, response.text())
            if response.content and not isinstance(json.loads(response.text()), dict):
                raise CloudError(Reason.UNREADABLE, change.permission, "the reply isn't an object")

    def _begin_call(self, permission: str, counted_as: str) -> None:
        """Count a call. Raises CloudError if the time for calls is over."""
        if self.is_over():
            raise CloudError(Reason.UNREACHABLE, permission, NOT_REACHED, may_have_been_made=False)
        with self._lock:
            self.calls[counted_as] += 1

    def pages(self, request: ArmRequest, link_key: str, following: Callable[[str], ArmRequest]) -> Iterator[Json]:
        """Every page of a list: `following` makes a page's link the request for the next one. Raises CloudError, also if it doesn't end."""
        paging = Paging(request.permission)
        while True:
            reply = self.call(request)
            yield reply
            if not (link := reply.get(link_key)):
                return
            paging.follow(link, (row for rows in reply.values() if isinstance(rows, list) for row in rows))
            request = following(link)

    def paged_rows(
        self,
        permission: str,
        path: str,
        query: Mapping[str, str] | None = None,
        required_keys: Sequence[str] = ("id",),
        on_bad_row: Callable[[CloudError], None] | None = None,
    ) -> Iterator[Json]:
        """Every row of a paged list. A row without the `required_keys` goes to `on_bad_row`, and the others are still yielded.

        Raises CloudError, also for a page that comes twice and, without `on_bad_row`, for such a row.
        """

        def next_page(link: str) -> ArmRequest:
            with reading(permission, "the link to the next page"):
                parts = urlsplit(link)  # its host is ignored: a token must not go anywhere else
            return ArmRequest(permission=permission, path=f"{parts.path}?{parts.query}", required_keys=("value",))

        request = ArmRequest(permission=permission, path=path, query=query or {}, required_keys=("value",))
        for page in self.pages(request, "nextLink", next_page):
            yield from valid_rows(permission, page["value"], required_keys, on_bad_row)

    def list_once(self, permission: str, path: str, required_keys: Sequence[str]) -> tuple[list[Json], list[CloudError]]:
        """The rows of a paged list and the errors of its bad rows, read once for all kinds: each must report those. Raises CloudError."""

        def read() -> tuple[list[Json], list[CloudError]]:
            errors: list[CloudError] = []
            return list(self.paged_rows(permission, path, required_keys=required_keys, on_bad_row=errors.append)), errors

        return self.read_once((permission, path.lower()), read)

    def each(
        self,
        permission: str,
        rows: Iterable[B],
        parse: Callable[[B], A],
        id_of: Callable[[Any], str] = lambda row: str(row["id"]),
    ) -> Iterator[A]:
        """What `parse` makes of each row. An odd row is an error of the session, and hides no other."""
        for row in rows:
            try:
                with reading(permission, id_of(row)):
                    parsed = parse(row)
            except CloudError as error:
                self.add_error(error)
                continue
            yield parsed

    def read_once(self, key: Hashable, read: Callable[[], A]) -> A:
        """The result of `read`, read once for all kinds of this subscription. Raises the CloudError that it raised."""
        return self.clients.read_once(key, read)

    def map_concurrently(self, function: Callable[[A], B], items: Sequence[A]) -> Iterable[B]:
        """`function` of every item, at most MAX_CONCURRENT_CALLS at once, in order."""
        if len(items) < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(min(MAX_CONCURRENT_CALLS, len(items))) as pool:
            return list(pool.map(function, items))

    def add_error(self, error: CloudError) -> None:
        """Record an error that doesn't end the kind's sweep: it makes the coverage incomplete."""
        with self._lock:
            self.errors.append(error)


def _http_request(request: ArmRequest | ArmChange) -> HttpRequest:
    return HttpRequest(request.method, request.url, json=request.body)


def _checked_reply(request: ArmRequest, response: HttpResponse) -> Json:
    if response.status_code >= 300:
        raise error_from_reply(request, response.status_code, response.text())
    reply = json.loads(response.text() or " ")
    if not isinstance(reply, dict):
        raise CloudError(Reason.UNREADABLE, request.permission, f"the reply is {type(reply).__name__}, not an object")
    if missing := [key for key in request.required_keys if key not in reply]:
        raise CloudError(Reason.UNREADABLE, request.permission, f"the reply has no {', '.join(missing)}")
    return reply


@contextmanager
def _as_cloud_error(permission: str) -> Iterator[None]:
    """Turn azure-core's errors, and those of an unreadable reply, into a CloudError."""
    with reading(permission, "the reply"):
        try:
            yield
        except ClientAuthenticationError as error:
            raise CloudError(Reason.REFUSED, permission, sign_in_text(error), code=NO_SIGN_IN) from error
        except (ServiceRequestError, ServiceResponseError, OSError) as error:
            raise CloudError(Reason.UNREACHABLE, permission, first_line(error)) from error
        except AzureError as error:
            raise CloudError(Reason.UNREADABLE, permission, f"the reply broke off ({first_line(error)})") from error
