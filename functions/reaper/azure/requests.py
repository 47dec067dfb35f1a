"""One request to Azure as plain data: what it needs, where it goes, what a true reply must have, and how its values and errors are read.

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
Error envelopes: https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting/common-deployment-errors
Values: times are ISO 8601 with up to seven fractional digits; tag names are case-insensitive:
https://learn.microsoft.com/azure/azure-resource-manager/management/tag-resources
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from reaper.errors import ODD_REPLY_ERRORS, CloudError, Reason
from reaper.model import PROTECTING_TAGS
from reaper.policy.tags import plain_key

A = TypeVar("A")
Json = dict[str, Any]
UNREGISTERED_TEXT = "is not registered in the subscription"
"""The part of an error's text that says that a resource provider isn't registered."""
Tags = dict[str, str] | None
"""A resource's tags; None if they couldn't be read."""
DURATION_PATTERN = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.\d+)?S)?)?")
UNIT_SECONDS = (86400, 3600, 60, 1)
MAX_COUNT = 100_000
NOT_SET_UP = re.compile(r"unavailable|installed|not found|not be found")
"""What DefaultAzureCredential says of those that can't be meant."""
TEXT_KEYS = {"id", "name", "type", "location"}

API_VERSIONS = {
    "Microsoft.MachineLearningServices/workspaces/computes/read": "2026-03-01",
    "Microsoft.MachineLearningServices": "2025-12-01",
    "Microsoft.Insights": "2024-02-01",
    "Microsoft.Management": "2023-04-01",
    "Microsoft.ResourceGraph": "2021-03-01",
    "Microsoft.Resources": "2022-12-01",
}
"""By permission, or by provider: then also where a cloud, such as a sovereign one, refuses the permission's. `idleTimeBeforeShutdown` may be missing
from replies before 2026-03-01: https://github.com/cloud-custodian/cloud-custodian/issues/11108"""
VERSION_REFUSED = re.compile(
    r": 40[04] (?:NoRegisteredProviderFound|InvalidResourceType|.*api.?version)", re.IGNORECASE | re.DOTALL
)

_DENIED_SENTENCE = re.compile(r"action(?:s|\(s\))? '([^']+)' (?:over|at|on) (?:the )?scope '([^']+)'", re.IGNORECASE)
# The part of such a sentence before that names an allowed action.
_DENIED_LINKED_SENTENCE = re.compile(r"action(?:s|\(s\))? '([^']+)' on the linked scope(?:s|\(s\))? '([^']+)'", re.IGNORECASE)
_UNREGISTERED_SENTENCE = re.compile(
    r"not\s+(?:been\s+|yet\s+)?registered|unregistered|MissingSubscriptionRegistration|NotRegistered", re.IGNORECASE
)
_PROVIDER = re.compile(r"\bmicrosoft\.[a-z]+\b", re.IGNORECASE)
_GONE_CODES = {"ResourceNotFound", "NotFound", "ParentResourceNotFound"}
_NOT_FOUND = r"\W+(?:(?:was|is|could|can|does|did|has)\s+)?(?:not|cannot|\w+n't)\s+(?:be\s+|been\s+)?(?:found|exist)"
_SUBJECT = r"\W*(?:(?!of\b)\w+\s+){0,4}?['\"]?"
_NAMED_RESOURCE = re.compile(r"\bresource '([^']+)'", re.IGNORECASE)


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
        return "GET" if self.body is None else "POST"

    @property
    def counted_as(self) -> str:
        """Batch calls have a name of their own, so that the coverage shows how metrics were read."""
        return f"{self.permission} (batch)" if self.region else self.permission

    @property
    def url(self) -> str:
        return _url(self.path, self.permission, self.query)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmChange:
    """What an action or an undo sends, once. `permission`: the RBAC action it needs. A path with a query of its own is used unchanged.

    `begin(**options)`: the public operation of the SDK that sends it; else it is sent as it stands here.
    """

    permission: str
    path: str
    method: str = ""
    body: Json | None = None
    begin: Callable[..., object] | None = None

    @property
    def url(self) -> str:
        return _url(self.path, self.permission, {})


def _url(path: str, permission: str, query: Mapping[str, str]) -> str:
    if "?" in path:
        return path
    version = API_VERSIONS.get(permission) or API_VERSIONS[permission.partition("/")[0]]
    return f"{path}?{urlencode({'api-version': version, **query}, quote_via=quote)}"


def valid_rows(
    permission: str, value: object, required_keys: Sequence[str], on_bad_row: Callable[[CloudError], None] | None = None
) -> Iterator[Json]:
    """The rows of one page. A row that isn't an object with the `required_keys` goes to `on_bad_row`.

    Raises CloudError for a page that isn't a list and, without `on_bad_row`, for such a row.
    """
    if not isinstance(value, list):
        raise CloudError(Reason.UNREADABLE, permission, f"a page is {type(value).__name__}, not a list")
    keys = set(required_keys)
    for row in value:
        if isinstance(row, dict) and row.keys() >= keys and all(isinstance(row[key], str) for key in TEXT_KEYS & keys):
            yield row
            continue
        name = row.get("id") or row.get("name") if isinstance(row, dict) else None
        text = f"a row{f' ({name})' if name else ''} lacks one of {', '.join(required_keys)}"
        error = CloudError(Reason.UNREADABLE, permission, text)
        if on_bad_row is None:
            raise error
        on_bad_row(error)


@contextmanager
def reading(permission: str, subject: str) -> Iterator[None]:
    """Turn the failure of code on an odd reply into a CloudError that names the `subject`."""
    try:
        yield
    except ODD_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, permission, f"{subject} can't be read ({repr(error)[:300]})") from error


def parse_row(permission: str, row: Json, parse: Callable[[Json], A]) -> A:
    """What `parse` makes of the row. Raises CloudError for an odd one."""
    with reading(permission, str(row.get("id"))):
        return parse(row)


def error_from_reply(request: ArmRequest | ArmChange, status: int, body: str) -> CloudError:
    """The error of a reply, from its status, its code and, if access was denied, its sentence."""
    permission, scope, (code, text) = request.permission, request.path.partition("?")[0], _code_and_message(body)
    status_and_code = f"{status} {code}".strip()
    if provider := _unregistered_provider(permission, status, code, text):
        because = f"{provider} {UNREGISTERED_TEXT}; run `az provider register --namespace {provider}` ({status_and_code})"
        return CloudError(Reason.REFUSED, permission, because, code=status_and_code)
    if status in (401, 403):
        denied = _DENIED_LINKED_SENTENCE.search(text) or _DENIED_SENTENCE.search(text)
        action, place = denied.groups() if denied else (permission, scope)
        because = f"missing permission {action} on {place} ({code or status})"
        return CloudError(Reason.DENIED, permission, because, code=code, missing=action)
    if status == 429:
        how = "still throttled after every retry" if isinstance(request, ArmRequest) else "throttled"
        return CloudError(Reason.THROTTLED, permission, f"{how} ({code or status})", code=code)
    if status == 404 and _means_resource_gone(scope, code, text):
        return CloudError(Reason.GONE, permission, text or "not found", code=code)
    if not isinstance(request, ArmRequest) and (status >= 500 or status == 408):
        because = f"{status} {code}: {text}"[:400]
        return CloudError(Reason.UNREACHABLE, permission, f"{because}; it may have been carried out", code=f"{status} {code}")
    return CloudError(Reason.REFUSED, permission, f"{status} {code}: {text}"[:500], code=status_and_code)


def _means_resource_gone(scope: str, code: str, text: str) -> bool:
    """Whether a 404 says that the resource, or one above it, doesn't exist.

    A proxy, a wrong route, API version or subscription also answer 404, and say nothing about the resource. So may something it needs: if
    the text names a resource, it must be this one or one above it. Azure ML has a `UserError` for many things, so its sentence must be
    about the resource.
    """
    if code == "UserError":
        name = re.escape(scope.rstrip("/").rpartition("/")[2])
        return bool(re.match(f"{_SUBJECT}{name}{_NOT_FOUND}", text, re.IGNORECASE))
    named = _NAMED_RESOURCE.search(text)
    return code in _GONE_CODES and (named is None or named[1].strip("/").lower() in set(_resource_spellings(scope.lower())))


def _resource_spellings(scope: str) -> Iterator[str]:
    """How Azure spells the resource and those above it: by name, by alternating types and names, by all types and the last name."""
    provider, *rest = scope.rstrip("/").partition("/providers/")[2].partition("/providers/")[0].split("/")
    for end in range(2, len(rest) + 1, 2):
        yield rest[end - 1]
        yield "/".join([provider, *rest[:end]])
        yield "/".join([provider, *rest[0:end:2], rest[end - 1]])


def _unregistered_provider(permission: str, status: int, code: str, text: str) -> str | None:
    """The resource provider that isn't registered in the subscription; None if the reply doesn't say so.

    Resource Manager answers 409 MissingSubscriptionRegistration, the batch metrics hosts 403; a missing role is 401 there.
    """
    if status not in (403, 409) or code == "AuthorizationFailed" or not _UNREGISTERED_SENTENCE.search(f"{code} {text}"):
        return None
    named = _PROVIDER.search(text)
    return named[0] if named else permission.partition("/")[0]


def _code_and_message(text: str) -> tuple[str, str]:
    """Code and message. The single metrics call answers without the usual `error` around them; a proxy may not answer with JSON at all."""
    try:
        body = json.loads(text)
    except ValueError:
        return "", text[:200]
    error = body.get("error", body) if isinstance(body, dict) else {}
    return (str(error.get("code") or ""), str(error.get("message") or "")) if isinstance(error, dict) else ("", str(error)[:200])


def first_line(error: Exception, most: int | None = 300) -> str:
    """The first line of the error's text, up to that many characters."""
    lines = str(error).strip().splitlines() or [repr(error)]
    return lines[0][:most]


def sign_in_text(error: Exception) -> str:
    """Why there is no token: what those said that were to fetch one, in 200 characters, without those that aren't installed or set up here."""
    said = re.findall(r"^\t(\w+: .*)$", str(error), re.MULTILINE)
    return f"no token: {'; '.join(text for text in said if not NOT_SET_UP.search(text))[:200] or first_line(error)}"


def parse_time(text: object) -> datetime | None:
    """The time in UTC. None for an empty value and for the year 1, which is .NET's empty value. Raises ValueError for anything but a time."""
    if text in (None, ""):
        return None
    if not isinstance(text, str):
        raise ValueError(f"{text!r} isn't a time")
    moment = datetime.fromisoformat(text.strip())
    if moment.year == 1:
        return None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def query_time(moment: datetime) -> str:
    """The time as metric queries expect it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def latest_known(*times: datetime | None) -> datetime | None:
    return max((time for time in times if time), default=None)


def duration_seconds(value: object) -> object:
    """A duration in seconds, so that `PT2M` and `PT120S` are equal. Anything but a duration is returned unchanged."""
    match = DURATION_PATTERN.fullmatch(value) if isinstance(value, str) else None
    return sum(int(number or 0) * unit for number, unit in zip(match.groups(), UNIT_SECONDS, strict=True)) if match else value


def valid_count(value: object) -> int | None:
    """A number of machines, on which a price and an action depend; None for a boolean, a fraction, a string, anything negative or absurd."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT else None


def read_tags(value: object) -> Tags:
    """The tags of one resource: none for `null`; None for anything but an object, which protects the resource."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        return None
    return {str(key): "" if text is None else str(text) for key, text in value.items()}


def inherited_tags(*layers: Tags) -> Tags:
    """A resource's own tags, passed first, over those of its containers; None if any layer couldn't be read. `PROTECTING_TAGS` of containers stay."""
    merged: dict[str, str] = {}
    for layer in layers:
        if layer is None:
            return None
        known = {key.lower() for key in merged}
        for key, text in layer.items():
            while key.lower() in known and plain_key(key) in PROTECTING_TAGS:
                key += " "
            if key.lower() not in known:
                merged[key] = text
                known.add(key.lower())
    return merged


def region_key(text: object) -> str:
    """A region's name as prices and metrics hosts write it: `East US` is `eastus`."""
    return str(text or "").replace(" ", "").lower()
