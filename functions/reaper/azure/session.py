"""One Azure subscription: calls, paging, bounded concurrency, and the one place where azure-core's errors become CloudError.

Error envelopes: https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting/common-deployment-errors
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from azure.core.exceptions import AzureError, ClientAuthenticationError, ServiceRequestError, ServiceResponseError
from azure.core.rest import HttpRequest

from reaper.azure.clients import Clients
from reaper.azure.error_reply import error_from_reply, first_line
from reaper.azure.http_policies import RetryRecord
from reaper.azure.request import UNREADABLE_REPLY_ERRORS, ArmOperation, ArmRequest, Json, local_path, valid_rows
from reaper.errors import CloudError, Reason
from reaper.model import Target
from reaper.planning.run_age import NOT_REACHED

MAX_CONCURRENT_CALLS = 3
"""Calls in progress at once per kind; three kinds share one client, whose pool has ten connections."""

A = TypeVar("A")
B = TypeVar("B")


class CloudSession:
    """One subscription as one kind sees it: shared clients, but its own count of calls and its own list of errors."""

    def __init__(self, clients: Clients, target: Target) -> None:
        self.target = target
        self.calls: Counter[str] = Counter()
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

    def call(self, request: ArmRequest | ArmOperation) -> Json:
        """The JSON of one reply, empty if a change is answered without any.

        Raises CloudError, and nothing else, if the call fails or the reply lacks a required key, or if the time for calls is over
        (`is_over`).
        """
        if self.is_over():
            raise CloudError(Reason.UNREACHABLE, request.permission, NOT_REACHED)
        with self._lock:
            self.calls[request.counted_as] += 1
        reply = _send(request, self.clients)
        missing = [key for key in request.required_keys if key not in reply]
        if missing:
            raise CloudError(Reason.UNREADABLE, request.permission, f"the reply has no {', '.join(missing)}")
        return reply

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
        links: set[str] = set()
        request = ArmRequest(permission=permission, path=path, query=query or {}, required_keys=("value",))
        while True:
            reply = self.call(request)
            yield from valid_rows(permission, reply["value"], required_keys, on_bad_row)
            link = reply.get("nextLink")
            if not link:
                return
            if not isinstance(link, str) or link in links:
                raise CloudError(Reason.UNREADABLE, permission, "the same page came twice")
            links.add(link)
            request = ArmRequest(permission=permission, path=_next_path(permission, link), required_keys=("value",))

    def read_once(self, key: Hashable, read: Callable[[], A]) -> A:
        """The result of `read`, read once for all kinds of this subscription. Raises the CloudError that it raised."""
        value: A = self.clients.read_once(key, read)
        return value

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


def _http_request(request: ArmRequest) -> HttpRequest:
    if request.body is None:
        return HttpRequest(request.http_method, request.url)
    return HttpRequest(request.http_method, request.url, json=request.body)


def _next_path(permission: str, link: str) -> str:
    try:
        return local_path(link)
    except UNREADABLE_REPLY_ERRORS as error:
        text = f"the link to the next page can't be read ({first_line(error)})"
        raise CloudError(Reason.UNREADABLE, permission, text) from error


def _send(request: ArmRequest | ArmOperation, clients: Clients) -> Json:
    """The reply. A CloudError knows whether an earlier try of the SDK may have been carried out."""
    tries = RetryRecord()
    try:
        return _read_reply(request, clients, tries)
    except CloudError as error:
        error.retried = tries.uncertain_tries > 0
        raise


def _read_reply(request: ArmRequest | ArmOperation, clients: Clients, tries: RetryRecord) -> Json:
    permission = request.permission
    try:
        text = _reply_text(request, clients, tries)
        reply = json.loads(text) if text else {}
    except ClientAuthenticationError as error:
        raise CloudError(Reason.REFUSED, permission, f"no token: {first_line(error)}", code="NoToken") from error
    except (ServiceRequestError, ServiceResponseError, OSError) as error:
        raise CloudError(Reason.UNREACHABLE, permission, first_line(error)) from error
    except UNREADABLE_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, permission, f"the reply can't be read ({first_line(error)})") from error
    except AzureError as error:
        raise CloudError(Reason.UNREADABLE, permission, f"the reply broke off ({first_line(error)})") from error
    if not isinstance(reply, dict):
        raise CloudError(Reason.UNREADABLE, permission, f"the reply is {type(reply).__name__}, not an object")
    return reply


def _reply_text(request: ArmRequest | ArmOperation, clients: Clients, tries: RetryRecord) -> str:
    """The reply's body; empty for a change whose reply has none. Raises CloudError for an error reply, else azure-core's errors."""
    if isinstance(request, ArmOperation):
        refusal = clients.begin(request, tries)
        if refusal is not None and refusal.status_code >= 300:
            raise error_from_reply(request, refusal.status_code, refusal.text())
        return ""
    response = clients.send(_http_request(request), request.region, tries)
    if response.status_code >= 300:
        raise error_from_reply(request, response.status_code, response.text())
    if request.method and not response.content:
        return ""
    return response.text() or " "
