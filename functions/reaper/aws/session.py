"""One AWS account and region: the session, its clients, paging, bounded concurrency, and the one place where SDK errors and odd replies
become CloudError.

Error codes and texts: https://docs.aws.amazon.com/sagemaker/latest/APIReference/CommonErrors.html; retries and their adaptive rate
limiter: https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, TypeVar

import boto3
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    ParamValidationError,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError
from botocore.utils import parse_timestamp

from reaper.coverage import NOT_REACHED
from reaper.errors import (
    NO_SIGN_IN,
    ODD_REPLY_ERRORS,
    CloudError,
    Paging,
    Reason,
    named_permission,
    odd_reply,
)
from reaper.model import Target
from reaper.urls import ca_bundle

IAM_PREFIXES = {"resourcegroupstaggingapi": "tag", "stepfunctions": "states", "sesv2": "ses"}
MAX_CONCURRENT_CALLS = 4
"""Calls under way at once in one region; SageMaker publishes no rate, and more only meets the throttle sooner."""

CA_BUNDLE_VARIABLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
"""Those that the SDK reads."""
SEND_ONCE = Config(retries={"total_max_attempts": 1, "mode": "standard"})
UNSENT_ERRORS = (NoCredentialsError, CredentialRetrievalError, SSOError, TokenRetrievalError, ParamValidationError)
"""Failures before anything is sent."""

NUMBER_KEYS = {"MinCapacity", "MaxCapacity"}
"""What every real row has and isn't a string."""
KEYS_THAT_MAY_BE_EMPTY = {"Value"}

ISO_PATTERN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", re.ASCII)

A = TypeVar("A")
B = TypeVar("B")
CLIENT_LOCK = threading.Lock()
"""Clients are made one at a time: making one takes CPU time only, and two that read the same service's description would both keep it."""


def new_session() -> boto3.Session:
    """A session with the process's own credentials and region. Raises CloudError for a profile that doesn't exist and for a
    configuration that can't be read.

    All sessions share what the SDK knows about AWS's services. Otherwise each would take 7 MB and 40 ms of its own.
    """
    ca_bundle(os.environ, CA_BUNDLE_VARIABLES)
    with loading_errors("sts:GetCallerIdentity"):
        session = boto3.Session(region_name=own_region())
    inner: Any = session._session
    inner.register_component("data_loader", _service_descriptions())
    return session


def own_region() -> str | None:
    """AWS_REGION, which boto3 doesn't read; None leaves it to AWS_DEFAULT_REGION and the profile."""
    return os.environ.get("AWS_REGION", "").strip() or None


def own_client(service: str, permission: str) -> Any:
    """A client of the process itself, in its own region. Raises CloudError of `permission` if there can be none."""
    ca_bundle(os.environ, CA_BUNDLE_VARIABLES)
    with loading_errors(permission):
        return boto3.client(service, region_name=own_region())  # type: ignore[call-overload]


@contextmanager
def loading_errors(operation: str) -> Iterator[None]:
    """Whatever goes wrong while credentials are loaded becomes a CloudError in the words of what was to fetch them: they are configured."""
    try:
        yield
    except (BotoCoreError, *ODD_REPLY_ERRORS) as error:
        raise _not_loaded(operation, error) from error


def _not_loaded(operation: str, error: Exception) -> CloudError:
    """What the program that fetches credentials said, else the SDK, in one line of about 200 characters."""
    said = error.kwargs.get("error_msg") if isinstance(error, BotoCoreError) else None
    text = f"the AWS credentials or settings can't be used: {' '.join(str(said or error).split())[:200]}"
    return CloudError(Reason.REFUSED, operation, text, code=NO_SIGN_IN, may_have_been_made=False)


@cache
def _service_descriptions() -> Any:
    """The SDK's loader of the descriptions of all services, which keeps what it has read."""
    return boto3.Session()._session.get_component("data_loader")


class CloudSession:
    """One target as one kind sees it: shared clients, but its own count of calls and its own list of what went wrong."""

    def __init__(
        self, session: boto3.Session, target: Target, method: Callable[..., Any] | None = None, limits: Config | None = None
    ) -> None:
        self.target = target
        self.calls: Counter[str] = Counter()
        self.metrics = 0
        self.errors: list[CloudError] = []
        self.is_over: Callable[[], bool] = lambda: False
        self._session = session
        self._method = method or _methods(session, target.region, limits or Config())
        self._lock = threading.Lock()

    @property
    def region(self) -> str:
        """The region's name."""
        return self.target.region or ""

    @property
    def partition(self) -> str:
        """`aws`, `aws-cn` or `aws-us-gov`, for building ARNs."""
        return str(self._session.get_partition_for_region(self.region))

    def sagemaker_arn(self, below: str, name: str) -> str:
        """The ARN of a resource here, such as `endpoint` and its name."""
        return f"arn:{self.partition}:sagemaker:{self.region}:{self.target.account}:{below}/{name}"

    def for_kind(self) -> CloudSession:
        """The same target with fresh counters, and with nothing remembered from before."""
        return CloudSession(self._session, self.target, self._method)

    without_cache = for_kind

    def recheck_end(self, now: datetime) -> datetime:
        """The end of this minute, so that CloudWatch's present minute is seen, too."""
        return now.replace(second=0, microsecond=0) + timedelta(minutes=1)

    def call(self, service: str, operation: str, want: str, **params: Any) -> dict[str, Any]:
        """One API call, such as `call("sagemaker", "DescribeEndpoint", "EndpointStatus", EndpointName=...)`.

        `want` is a key that every true reply has. Raises CloudError, and nothing else, when the call fails or the reply lacks it, or when
        the time for calls is over (`is_over`). The SDK sends it again after a passing failure.
        """
        return self._call(service, operation, want, params, sends_once=False)

    def is_offered(self, service: str) -> bool:
        """Whether the SDK knows the service in this region, or doesn't know the region at all."""
        known = {
            name: self._session.get_available_regions(name, partition_name=self.partition) for name in (service, "sagemaker")
        }
        return self.region in known[service] or self.region not in known["sagemaker"]

    def change(self, service: str, operation: str, want: str, **params: Any) -> dict[str, Any]:
        """One changing call of an action, sent once: nothing sends it again, and no rate limiter delays it. Arguments and errors as of `call`.

        `CloudError.may_have_been_made` says whether it may have taken effect although it failed.
        """
        return self._call(service, operation, want, params, sends_once=True)

    def _call(self, service: str, operation: str, want: str, params: Mapping[str, Any], *, sends_once: bool) -> dict[str, Any]:
        permission = permission_of(service, operation)
        if self.is_over():
            raise CloudError(Reason.UNREACHABLE, permission, NOT_REACHED, may_have_been_made=False)
        with self._lock:
            self.calls[permission] += 1
        with loading_errors(permission):
            method = self._method(service, operation, sends_once=sends_once)
        try:
            reply = method(**params)
        except ClientError as error:
            raise _error_from_reply(permission, error) from error
        except CredentialRetrievalError as error:
            raise _not_loaded(permission, error) from error
        except (BotoCoreError, OSError) as error:
            was_sent = not isinstance(error, UNSENT_ERRORS)
            raise CloudError(Reason.UNREACHABLE, permission, str(error), may_have_been_made=was_sent) from error
        except (ResponseParserError, *ODD_REPLY_ERRORS) as error:
            raise CloudError(Reason.UNREADABLE, permission, f"the reply can't be read ({error})") from error
        if not isinstance(reply, dict) or want not in reply:
            raise CloudError(Reason.UNREADABLE, permission, f"the reply has no {want}")
        return reply

    def find(self, service: str, operation: str, want: str, **params: Any) -> dict[str, Any] | None:
        """The same as `call`; None if what is described no longer exists."""
        try:
            return self.call(service, operation, want, **params)
        except CloudError as error:
            if error.reason is Reason.GONE:
                return None
            raise

    def pages(
        self, service: str, operation: str, want: str, token_key: str = "NextToken", **params: Any
    ) -> Iterator[dict[str, Any]]:
        """Every page of a reply, following `token_key` until it is missing or empty. Raises CloudError, also if it doesn't end."""
        paging = None
        while True:
            page = self.call(service, operation, want, **params)
            yield page
            if not page.get(token_key):
                return
            paging = paging or Paging(permission_of(service, operation))
            paging.follow(page[token_key], page[want] or ())
            params[token_key] = page[token_key]

    def paged_rows(
        self, service: str, operation: str, want: str, *has: str, token_key: str = "NextToken", **params: Any
    ) -> Iterator[dict[str, Any]]:
        """Every row of a paged list.

        `has` are the keys that every true row has, all of them names but for `NUMBER_KEYS`. Raises CloudError, also for a row without them.
        """
        for page in self.pages(service, operation, want, token_key, **params):
            for row in page[want] or ():
                if not isinstance(row, dict) or not all(_has_valid_value(row, key) for key in has):
                    text = f"a row lacks one of {', '.join(has)}"
                    raise CloudError(Reason.UNREADABLE, permission_of(service, operation), text)
                yield row

    def attempt(self, operation: str, read: Callable[[], A], *, may_be_gone: bool = False) -> A | CloudError:
        """What `read` returns, or why it failed, which makes the coverage incomplete: a call of `operation`, or the parsing of its reply.

        `may_be_gone`: the failure isn't noted if the resource no longer exists.
        """
        try:
            return read()
        except CloudError as error:
            failure = error
        except ODD_REPLY_ERRORS as error:
            failure = odd_reply(operation, error)
        if not may_be_gone or failure.reason is not Reason.GONE:
            self.add_error(failure)
        return failure

    def describe(self, operation: str, want: str, **params: Any) -> dict[str, Any] | CloudError:
        """The reply of one of SageMaker's calls about one resource, or why there is none, which is noted unless the resource is gone."""
        read = partial(self.call, "sagemaker", operation, want, **params)
        return self.attempt(permission_of("sagemaker", operation), read, may_be_gone=True)

    def read_or_none(self, operation: str, read: Callable[[], A]) -> A | None:
        """What `read` returns; None, and noted, if it failed."""
        result = self.attempt(operation, read)
        return None if isinstance(result, CloudError) else result

    def each(self, operation: str, rows: Iterable[A], parse: Callable[[A], B]) -> Iterator[B]:
        """The rows of a list, parsed. One that can't be read is noted and left out, and hides no other."""
        for row in rows:
            parsed = self.attempt(operation, partial(parse, row))
            if not isinstance(parsed, CloudError):
                yield parsed

    def map_concurrently(
        self, function: Callable[[A], B], items: Sequence[A], max_concurrent: int = MAX_CONCURRENT_CALLS
    ) -> Iterable[B]:
        """`function` of every item, at most `max_concurrent` at a time, in order."""
        if len(items) < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(min(max_concurrent, len(items))) as pool:
            return list(pool.map(function, items))

    def count_metrics(self, count: int) -> None:
        """Count metrics that are about to be requested: CloudWatch bills each."""
        with self._lock:
            self.metrics += count

    def add_error(self, error: CloudError) -> None:
        """Remember a failure that does not end the kind's sweep: it makes the coverage incomplete."""
        with self._lock:
            self.errors.append(error)


def permission_of(service: str, operation: str) -> str:
    """The permission that a call needs: `sagemaker:ListEndpoints`."""
    return f"{IAM_PREFIXES.get(service, service)}:{operation}"


def _has_valid_value(row: Mapping[str, Any], key: str) -> bool:
    value = row.get(key)
    if key in NUMBER_KEYS:
        return isinstance(value, int)
    return isinstance(value, str) and bool(value or key in KEYS_THAT_MAY_BE_EMPTY)


def _methods(session: boto3.Session, region: str | None, limits: Config) -> Callable[..., Any]:
    """What finds the SDK's methods for one region. Its clients are made once: those that retry, and those that send each request once."""
    factory: Any = session._session.get_component("response_parser_factory")
    factory.set_parser_defaults(timestamp_parser=parse_moment)
    made: dict[tuple[str, bool], Any] = {}

    def method(service: str, operation: str, *, sends_once: bool) -> Any:
        """`sends_once`: it has no retries, so it has no rate limiter either."""
        with CLIENT_LOCK:
            if (service, sends_once) not in made:
                config = _client_config(session).merge(limits).merge(SEND_ONCE if sends_once else Config())
                made[service, sends_once] = session.client(service, region_name=region, config=config)  # type: ignore[call-overload]
        return getattr(made[service, sends_once], xform_name(operation))

    return method


def _client_config(session: boto3.Session) -> Config:
    """Time-outs that fit a function, and adaptive retries unless boto3's own settings ask for something else."""
    settings: Any = session._session
    retries: dict[str, Any] = {}
    if settings.get_config_variable("retry_mode") in (None, "legacy"):
        retries["mode"] = "adaptive"
    if settings.get_config_variable("max_attempts") is None:
        retries["total_max_attempts"] = 8
    agent = "ml-idle-reaper"
    pool = 2 * MAX_CONCURRENT_CALLS
    return Config(connect_timeout=5, read_timeout=30, retries=retries, user_agent_extra=agent, max_pool_connections=pool)  # type: ignore[arg-type]


_DENIED = re.compile(r"AccessDenied|Unauthorized|NotAuthorized|AuthorizationError|Forbidden|^403$", re.IGNORECASE)
_THROTTLED = re.compile(r"Throttl|ThroughputExceeded|TooManyRequests|RequestLimitExceeded|SlowDown", re.IGNORECASE)
_GONE = re.compile(r"could not find|recordnotfound|requested resource not found|does not exist|can't find", re.IGNORECASE)


def _error_from_reply(permission: str, error: ClientError) -> CloudError:
    """What an error reply means: code and text together, because SageMaker says `ValidationException` for almost everything.

    408, 5xx and a reply without a status may come after the call was carried out, other 4xx don't.
    """
    code, text = (str(error.response["Error"].get(key) or "") for key in ("Code", "Message"))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    is_refused = isinstance(status, int) and 400 <= status < 500 and status != 408
    new_error = partial(CloudError, code=code, may_have_been_made=not is_refused)
    if _DENIED.search(code):
        missing = named_permission(text) or permission
        return new_error(Reason.DENIED, permission, text or "access denied", missing=missing)
    if _THROTTLED.search(code) or status == 429:
        return new_error(Reason.THROTTLED, permission, f"throttled ({code})")
    if code in {"ResourceNotFound", "ResourceNotFoundException"} or (code == "ValidationException" and _GONE.search(text)):
        return new_error(Reason.GONE, permission, text)
    return new_error(Reason.REFUSED, permission, f"{code}: {text}")


def parse_moment(value: Any) -> datetime:
    """The moment that botocore would read from `value` (seconds since 1970, or text), in UTC. Raises what botocore raises.

    botocore makes each with a time zone of its own, read from the machine, which is half of a large sweep's CPU time. The AWS CLI sets another
    parser in the same way: https://github.com/aws/aws-cli/blob/develop/awscli/customizations/scalarparse.py
    """
    try:
        if type(value) in (int, float):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str) and ISO_PATTERN.fullmatch(value):
            return datetime.fromisoformat(value)
    except (ValueError, OverflowError, OSError):
        pass  # botocore has other ways to read it, and its own errors
    return parse_timestamp(value)
