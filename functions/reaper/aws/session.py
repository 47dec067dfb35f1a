"""One AWS account and region: the session, its clients, paging, bounded concurrency, and the one place where SDK errors become CloudError.

Error codes and texts: https://docs.aws.amazon.com/sagemaker/latest/APIReference/CommonErrors.html; retries and their adaptive rate
limiter: https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import boto3
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from reaper.aws import timestamps
from reaper.errors import ODD, CloudError, Trouble
from reaper.model import Target

PREFIXES = {"resourcegroupstaggingapi": "tag", "stepfunctions": "states", "sesv2": "ses"}
WORKERS = 4
"""Calls under way at once in one region; SageMaker publishes no rate, and more only meets the throttle sooner."""

NUMBERS = {"MinCapacity", "MaxCapacity"}
"""What every true row has and is not a text."""
MAY_BE_EMPTY = {"Value"}

A = TypeVar("A")
B = TypeVar("B")


class Cloud:
    """One target as one kind sees it: shared clients, but its own count of calls and its own list of what went wrong."""

    def __init__(
        self, session: boto3.Session, target: Target, clients: _Clients | None = None, limits: Config | None = None
    ) -> None:
        self.target = target
        self.calls: Counter[str] = Counter()
        self.troubles: list[CloudError] = []
        self._session = session
        self._clients = clients or _Clients(session, target.region, limits)
        self._lock = threading.Lock()

    @property
    def region(self) -> str:
        """The region's name."""
        return self.target.region or ""

    @property
    def partition(self) -> str:
        """`aws`, `aws-cn` or `aws-us-gov`, for building ARNs."""
        return str(self._session.get_partition_for_region(self.region))

    def for_kind(self) -> Cloud:
        """The same target with fresh counters."""
        return Cloud(self._session, self.target, self._clients)

    def anew(self) -> Cloud:
        """The same target, with nothing remembered from before."""
        return self.for_kind()

    def call(self, service: str, operation: str, want: str, **params: Any) -> dict[str, Any]:
        """One API call, such as `call("sagemaker", "DescribeEndpoint", "EndpointStatus", EndpointName=...)`.

        `want` is a key that every true reply has. Raises CloudError, and nothing else, when the call fails or the reply lacks it.
        """
        permission = f"{PREFIXES.get(service, service)}:{operation}"
        with self._lock:
            self.calls[permission] += 1
        method, sent = self._clients.method(service, operation)
        sent.times = 0
        try:
            reply = method(**params)
        except ClientError as error:
            raise _refused(permission, error, sent.times > 1) from error
        except (BotoCoreError, OSError) as error:
            raise CloudError(Trouble.UNREACHABLE, permission, str(error), retried=sent.times > 1) from error
        except (ResponseParserError, *ODD) as error:
            text = f"the reply cannot be read ({error})"
            raise CloudError(Trouble.GARBLED, permission, text, retried=sent.times > 1) from error
        if not isinstance(reply, dict) or want not in reply:
            raise CloudError(Trouble.GARBLED, permission, f"the reply has no {want}")
        return reply

    def pages(
        self, service: str, operation: str, want: str, *has: str, token: str = "NextToken", **params: Any
    ) -> Iterator[dict[str, Any]]:
        """Every row of a paged list, following `token` until it is missing or empty.

        `has` are the keys that every true row has, all of them names but for `NUMBERS`. Raises CloudError, also for a row without them and
        for a page that comes twice.
        """
        permission = f"{PREFIXES.get(service, service)}:{operation}"
        seen: set[str] = set()
        while True:
            reply = self.call(service, operation, want, **params)
            for row in reply[want] or ():
                if not isinstance(row, dict) or not all(_holds(row, key) for key in has):
                    raise CloudError(Trouble.GARBLED, permission, f"a row lacks one of {', '.join(has)}")
                yield row
            following = reply.get(token)
            if not following:
                return
            if not isinstance(following, str) or following in seen:
                raise CloudError(Trouble.GARBLED, permission, "the same page came twice, or the next one cannot be named")
            seen.add(following)
            params[token] = following

    def listed(self, operation: str, want: str, *has: str) -> Iterator[dict[str, Any]]:
        """The rows of a list of SageMaker's, each for itself: one without a key of `has` is noted and left out, and hides no other."""
        for row in self.pages("sagemaker", operation, want, MaxResults=100):
            if all(_holds(row, key) for key in has):
                yield row
            else:
                self.note(CloudError(Trouble.GARBLED, f"sagemaker:{operation}", f"a row lacks one of {', '.join(has)}"))

    def each(self, function: Callable[[A], B], items: Sequence[A], at_once: int = WORKERS) -> Iterable[B]:
        """`function` of every item, at most `at_once` at a time, in order."""
        if len(items) < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(min(at_once, len(items))) as pool:
            return list(pool.map(function, items))

    def note(self, error: CloudError) -> None:
        """Remember a failure that does not end the kind's sweep: it makes the coverage incomplete."""
        with self._lock:
            self.troubles.append(error)


def _holds(row: Mapping[str, Any], key: str) -> bool:
    """Whether a row says something of the right sort there."""
    value = row.get(key)
    if key in NUMBERS:
        return isinstance(value, int)
    return isinstance(value, str) and bool(value or key in MAY_BE_EMPTY)


class _Sent(threading.local):
    """How often the SDK has sent this thread's request: replies count their retries, a connection that broke has no reply to say so."""

    times = 0

    def count(self, **_: Any) -> None:
        """Called by the SDK for every request that it sends, its own retries included."""
        self.times += 1


class _Clients:
    """The clients of one region, each made once."""

    def __init__(self, session: boto3.Session, region: str | None, limits: Config | None = None) -> None:
        factory: Any = session._session.get_component("response_parser_factory")
        factory.set_parser_defaults(timestamp_parser=timestamps.parse)
        self._session = session
        self._config = _config(session).merge(limits) if limits else _config(session)
        self._region = region
        self._made: dict[str, Any] = {}
        self._sent = _Sent()
        self._lock = threading.Lock()

    def method(self, service: str, operation: str) -> tuple[Callable[..., Any], _Sent]:
        """The SDK's method, and the count of what it sends."""
        with self._lock:
            if service not in self._made:
                client = self._session.client(service, region_name=self._region, config=self._config)  # type: ignore[call-overload]
                client.meta.events.register("request-created", self._sent.count)
                self._made[service] = client
        method: Callable[..., Any] = getattr(self._made[service], xform_name(operation))
        return method, self._sent


def _config(session: boto3.Session) -> Config:
    """Time-outs that fit a function, and adaptive retries unless boto3's own settings ask for something else."""
    settings: Any = session._session
    retries: dict[str, Any] = {}
    if settings.get_config_variable("retry_mode") in (None, "legacy"):
        retries["mode"] = "adaptive"
    if settings.get_config_variable("max_attempts") is None:
        retries["total_max_attempts"] = 8
    agent = "ml-idle-reaper"
    return Config(connect_timeout=5, read_timeout=30, retries=retries, user_agent_extra=agent, max_pool_connections=2 * WORKERS)  # type: ignore[arg-type]


_DENIED = re.compile(r"AccessDenied|Unauthorized|NotAuthorized|AuthorizationError|Forbidden|^403$", re.IGNORECASE)
_THROTTLED = re.compile(r"Throttl|ThroughputExceeded|TooManyRequests|RequestLimitExceeded|SlowDown", re.IGNORECASE)
_GONE = re.compile(r"could not find|recordnotfound|requested resource not found|does not exist|can't find", re.IGNORECASE)


def _refused(permission: str, error: ClientError, retried: bool) -> CloudError:
    """What an error reply means: code and text together, because SageMaker says `ValidationException` for almost everything."""
    code, text = (str(error.response["Error"].get(key) or "") for key in ("Code", "Message"))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    said = partial(CloudError, code=code, retried=retried)
    if _DENIED.search(code):
        named = re.search(r"not authorized to perform: ([\w-]+:\w+)", text)
        missing = named[1] if named else permission
        return said(Trouble.DENIED, permission, text or "access denied", missing=missing)
    if _THROTTLED.search(code) or status == 429:
        return said(Trouble.THROTTLED, permission, f"still throttled after every retry ({code})")
    if code in {"ResourceNotFound", "ResourceNotFoundException"} or (code == "ValidationException" and _GONE.search(text)):
        return said(Trouble.GONE, permission, text)
    return said(Trouble.REFUSED, permission, f"{code}: {text}")
