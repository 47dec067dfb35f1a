"""One Azure subscription: calls, paging, bounded concurrency, and the one place where azure-core's errors become CloudError.

Error envelopes: https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting/common-deployment-errors
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from azure.core.exceptions import AzureError, ClientAuthenticationError, ServiceRequestError, ServiceResponseError
from azure.core.rest import HttpRequest, HttpResponse

from reaper.azure.clients import Clients
from reaper.azure.http_policies import RetryRecord
from reaper.azure.request import UNREADABLE_REPLY_ERRORS, UNREGISTERED_TEXT, ArmRequest, Json, local_path, valid_rows
from reaper.errors import CloudError, Reason
from reaper.model import Target

MAX_CONCURRENT_CALLS = 3
"""Calls under way at once per kind; three kinds share one client, whose pool holds ten connections."""

A = TypeVar("A")
B = TypeVar("B")


class CloudSession:
    """One subscription as one kind sees it: shared clients, but its own count of calls and its own list of what went wrong."""

    def __init__(self, session: Clients, target: Target) -> None:
        self.target = target
        self.calls: Counter[str] = Counter()
        self.errors: list[CloudError] = []
        self.clients = session
        self._lock = threading.Lock()

    def for_kind(self) -> CloudSession:
        """The same target with fresh counters."""
        return CloudSession(self.clients, self.target)

    def without_cache(self) -> CloudSession:
        """The same target, with nothing remembered from before."""
        return CloudSession(self.clients.without_cache(), self.target)

    def recheck_end(self, now: datetime) -> datetime:
        """The start of this minute: it isn't documented whether Azure Monitor takes an end that lies ahead."""
        return now.replace(second=0, microsecond=0)

    def set_account_name(self, name: str | None) -> None:
        """Its target goes by this name from now on, in what is shown to people; the target stays the same."""
        self.target = replace(self.target, account_name=name)

    def call(self, call: ArmRequest) -> Json:
        """The JSON of one reply, empty where a change is answered without any.

        Raises CloudError, and nothing else, when the call fails or the reply lacks what it must have.
        """
        with self._lock:
            self.calls[call.counted_as] += 1
        reply = _send_request(call, self.clients)
        lacking = [key for key in call.required_keys if key not in reply]
        if lacking:
            raise CloudError(Reason.UNREADABLE, call.permission, f"the reply has no {', '.join(lacking)}")
        return reply

    def paged_rows(
        self,
        permission: str,
        path: str,
        query: Mapping[str, str] | None = None,
        required_keys: Sequence[str] = ("id",),
        on_bad_row: Callable[[CloudError], None] | None = None,
    ) -> Iterator[Json]:
        """Every row of a paged list. `has` are the keys of every true row; one without them is told to `odd`, and the others are given.

        Raises CloudError, also for a page that comes twice and, without `odd`, for such a row.
        """
        seen: set[str] = set()
        call = ArmRequest(permission=permission, path=path, query=query or {}, required_keys=("value",))
        while True:
            reply = self.call(call)
            yield from valid_rows(permission, reply["value"], required_keys, on_bad_row)
            following = reply.get("nextLink")
            if not following:
                return
            if not isinstance(following, str) or following in seen:
                raise CloudError(Reason.UNREADABLE, permission, "the same page came twice")
            seen.add(following)
            call = ArmRequest(permission=permission, path=_next_path(permission, following), required_keys=("value",))

    def read_once(self, key: Hashable, make: Callable[[], A]) -> A:
        """What `make` gives, read once for all kinds of this subscription. Raises the CloudError that it raised."""
        found: A = self.clients.read_once(key, make)
        return found

    def map_concurrently(self, function: Callable[[A], B], items: Sequence[A]) -> Iterable[B]:
        """`function` of every item, at most WORKERS at once, in order."""
        if len(items) < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(min(MAX_CONCURRENT_CALLS, len(items))) as pool:
            return list(pool.map(function, items))

    def add_error(self, error: CloudError) -> None:
        """Remember a failure that does not end the kind's sweep: it makes the coverage incomplete."""
        with self._lock:
            self.errors.append(error)


def _http_request(call: ArmRequest) -> HttpRequest:
    return (
        HttpRequest(call.http_method, call.url) if call.body is None else HttpRequest(call.http_method, call.url, json=call.body)
    )


def _next_path(permission: str, link: str) -> str:
    try:
        return local_path(link)
    except UNREADABLE_REPLY_ERRORS as error:
        raise CloudError(
            Reason.UNREADABLE, permission, f"the link to the next page cannot be read ({_first_line(error)})"
        ) from error


def _send_request(call: ArmRequest, session: Clients) -> Json:
    """The reply. A CloudError knows whether an earlier try of the SDK's may have been carried out."""
    tries = RetryRecord()
    try:
        return _read_reply(call, session, tries)
    except CloudError as error:
        error.retried = tries.uncertain_tries > 0
        raise


def _read_reply(call: ArmRequest, session: Clients, tries: RetryRecord) -> Json:
    try:
        response = session.send(_http_request(call), call.region, tries)
        if response.status_code >= 300:
            raise _error_from_reply(call, response)
        if call.method and not response.content:
            return {}
        reply = response.json()
    except ClientAuthenticationError as error:
        raise CloudError(Reason.REFUSED, call.permission, f"no token: {_first_line(error)}", code="NoToken") from error
    except (ServiceRequestError, ServiceResponseError, OSError) as error:
        raise CloudError(Reason.UNREACHABLE, call.permission, _first_line(error)) from error
    except UNREADABLE_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, call.permission, f"the reply cannot be read ({_first_line(error)})") from error
    except AzureError as error:
        raise CloudError(Reason.UNREADABLE, call.permission, f"the reply broke off ({_first_line(error)})") from error
    if not isinstance(reply, dict):
        raise CloudError(Reason.UNREADABLE, call.permission, f"the reply is {type(reply).__name__}, not an object")
    return reply


_DENIED_SENTENCE = re.compile(r"action(?:s|\(s\))? '([^']+)' (?:over|at|on) (?:the )?scope '([^']+)'", re.IGNORECASE)
# Before that, such a sentence names an action that is allowed.
_DENIED_LINKED_SENTENCE = re.compile(r"action(?:s|\(s\))? '([^']+)' on the linked scope(?:s|\(s\))? '([^']+)'", re.IGNORECASE)
_UNREGISTERED_SENTENCE = re.compile(
    r"not\s+(?:been\s+|yet\s+)?registered|unregistered|MissingSubscriptionRegistration|NotRegistered", re.IGNORECASE
)
_PROVIDER = re.compile(r"\bmicrosoft\.[a-z]+\b", re.IGNORECASE)
_GONE_CODES = {"ResourceNotFound", "NotFound", "ParentResourceNotFound"}
_NOT_FOUND = r"\W+(?:(?:was|is|could|can|does|did|has)\s+)?(?:not|cannot|\w+n't)\s+(?:be\s+|been\s+)?(?:found|exist)"
_SUBJECT = r"\W*(?:(?!of\b)\w+\s+){0,4}?['\"]?"
_NAMED_RESOURCE = re.compile(r"\bresource '([^']+)'", re.IGNORECASE)


def _error_from_reply(call: ArmRequest, response: HttpResponse) -> CloudError:
    """What an error reply means, from its status, its code and, when access was denied, from its sentence."""
    status = response.status_code
    code, text = _code_and_message(response)
    if provider := _unregistered_provider(call, status, code, text):
        told = f"{status} {code}".strip()
        remedy = f"az provider register --namespace {provider}"
        return CloudError(
            Reason.REFUSED, call.permission, f"{provider} {UNREGISTERED_TEXT}; {remedy} does that ({told})", code=told
        )
    if status in (401, 403):
        named = _DENIED_LINKED_SENTENCE.search(text) or _DENIED_SENTENCE.search(text)
        action, scope = named.groups() if named else (call.permission, call.scope)
        because = f"{action} is not allowed over scope {scope} ({code or status})"
        return CloudError(Reason.DENIED, call.permission, because, code=code, missing=action)
    if status == 429:
        return CloudError(Reason.THROTTLED, call.permission, f"still throttled after every retry ({code or status})", code=code)
    if status == 404 and _means_resource_gone(call, code, text):
        return CloudError(Reason.GONE, call.permission, text or "not found", code=code)
    if call.method and (status >= 500 or status == 408):
        told = f"{status} {code}: {text}"[:400]
        return CloudError(
            Reason.UNREACHABLE, call.permission, f"{told}; whether it was done is not known", code=f"{status} {code}"
        )
    return CloudError(Reason.REFUSED, call.permission, f"{status} {code}: {text}"[:500], code=f"{status} {code}".strip())


def _means_resource_gone(call: ArmRequest, code: str, text: str) -> bool:
    """Whether a 404 says that what was asked for is not there, or what that hangs below.

    A proxy, a wrong route, API version or subscription answer 404, too, and say nothing of it. So may what it needs: where the text names a
    resource, it must be this one or one above it. Azure ML has a `UserError` for all sorts of things, so there the sentence must be about it.
    """
    if code == "UserError":
        name = re.escape(call.scope.rstrip("/").rpartition("/")[2])
        return bool(re.match(f"{_SUBJECT}{name}{_NOT_FOUND}", text, re.IGNORECASE))
    named = _NAMED_RESOURCE.search(text)
    return code in _GONE_CODES and (named is None or named[1].strip("/").lower() in set(_resource_spellings(call.scope.lower())))


def _resource_spellings(scope: str) -> Iterator[str]:
    """How Azure names what is asked for and what is above it: by name, by types and names in turn, by all types and the last name."""
    provider, *rest = scope.rstrip("/").partition("/providers/")[2].partition("/providers/")[0].split("/")
    for end in range(2, len(rest) + 1, 2):
        yield rest[end - 1]
        yield "/".join([provider, *rest[:end]])
        yield "/".join([provider, *rest[0:end:2], rest[end - 1]])


def _unregistered_provider(call: ArmRequest, status: int, code: str, text: str) -> str | None:
    """The resource provider that the reply says is not registered in the subscription; None where it says no such thing.

    Resource Manager answers 409 MissingSubscriptionRegistration, the batch metrics hosts 403; a missing role is 401 there.
    """
    if status not in (403, 409) or code == "AuthorizationFailed" or not _UNREGISTERED_SENTENCE.search(f"{code} {text}"):
        return None
    named = _PROVIDER.search(text)
    return named[0] if named else call.permission.partition("/")[0]


def _code_and_message(response: HttpResponse) -> tuple[str, str]:
    """Code and message. The single metrics call answers without the usual `error` around them; a proxy may answer with no JSON at all."""
    try:
        body = response.json()
    except ValueError:
        return "", response.text()[:200]
    error = body.get("error", body) if isinstance(body, dict) else {}
    return (str(error.get("code") or ""), str(error.get("message") or "")) if isinstance(error, dict) else ("", str(error)[:200])


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [repr(error)]
    return lines[0][:300]
