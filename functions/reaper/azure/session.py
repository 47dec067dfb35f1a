"""One Azure subscription: its clients, calls, paging, bounded concurrency, and the one place where azure-core's errors become CloudError.

Requests go through azure-mgmt-core's `ARMPipelineClient`; which changes go through azure-mgmt-machinelearningservices, and why not all
calls do, is in `requests`. That package is pinned to the pre-release 2.0.0b2: the stable release uses an API of 2020 without endpoints.
The SDK's own pipeline registers a missing resource provider, which is a write, so an audit must not use it. Its defaults of 300 seconds
and ten tries don't fit a function: https://learn.microsoft.com/python/api/azure-core/azure.core.pipeline.policies.retrypolicy
Resource Graph's quota headers: https://learn.microsoft.com/azure/governance/resource-graph/concepts/guidance-for-throttled-requests
Sovereign hosts: https://learn.microsoft.com/azure/azure-government/compare-azure-government-global-azure, and the audience of the batch metrics
service: https://learn.microsoft.com/azure/azure-monitor/metrics/migrate-to-batch-api
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from azure.core.credentials import TokenCredential
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.core.pipeline import PipelineRequest, PipelineResponse, policies
from azure.core.rest import HttpRequest, HttpResponse
from azure.identity import DefaultAzureCredential
from azure.mgmt.core import ARMPipelineClient
from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy
from azure.monitor.querymetrics import MetricsClient

from reaper.azure.requests import (
    API_VERSIONS,
    VERSION_REFUSED,
    A,
    ArmChange,
    ArmRequest,
    Json,
    error_from_reply,
    first_line,
    reading,
    sign_in_text,
    valid_rows,
)
from reaper.coverage import NOT_REACHED
from reaper.errors import NO_SIGN_IN, CloudError, Paging, Reason, SettingsError
from reaper.model import Target
from reaper.urls import ca_bundle, split_address

if TYPE_CHECKING:
    from azure.mgmt.machinelearningservices import MachineLearningServicesMgmtClient

TIMEOUTS: dict[str, Any] = {"connection_timeout": 5, "read_timeout": 30}
"""Seconds."""
RETRY_COUNTS = {"retry_total": 3, "retry_connect": 2, "retry_read": 1, "retry_status": 3, "retry_backoff_max": 20}
MAX_RETRY_AFTER_S = 60
"""The longest Retry-After, in seconds, that is waited for. A longer one is a failure."""
QUOTA_HEADER, RESET_HEADER = "x-ms-user-quota-remaining", "x-ms-user-quota-resets-after"
PUBLIC, PUBLIC_METRICS = "https://management.azure.com", "https://metrics.monitor.azure.com"
BATCH_HOSTS = {
    PUBLIC: "https://{region}.metrics.monitor.azure.com",
    "https://management.usgovcloudapi.net": "https://{region}.metrics.monitor.azure.us",
    "https://management.chinacloudapi.cn": "https://{region}.metrics.monitor.azure.cn",
}
CA_BUNDLE_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Those that the SDK reads."""
PLAIN_ERRORS: dict[int, type[HttpResponseError]] = dict.fromkeys((304, 401, 404, 409), HttpResponseError)
"""An operation raises the same error for each refusal by Azure, so that ClientAuthenticationError always means that there is no token."""

# Every failure becomes a CloudError. Without a handler the SDK would also write it to standard error.
logging.getLogger("azure").addHandler(logging.NullHandler())


class Clients:
    """The clients of one subscription. `may_use_batch`: whether metrics may be read in batches; true until Azure refuses.

    `older_versions`: by permission, the API version to ask for since Azure refused a newer one. `pause(seconds)` is how an action waits.
    """

    def __init__(self, credential: TokenCredential, subscription: str, hosts: AzureHosts, graph_quota: GraphQuotaPolicy) -> None:
        self.may_use_batch = hosts.metrics is not None
        self.older_versions: dict[str, str] = {}
        self.pause: Callable[[float], None] = time.sleep
        self._credential, self._subscription, self._hosts, self._graph_quota = credential, subscription, hosts, graph_quota
        self._opened: dict[str, Any] = {}
        self._lock = threading.Lock()

    def send(self, request: HttpRequest, region: str | None = None, *, once: bool = False) -> HttpResponse:
        """One request to Resource Manager, or one that reads from the batch metrics host of `region`. `once`: without a second try whatever happens
        to it. Raises azure-core's errors.
        """
        with _local_errors():
            if region is not None:
                host, scope = str(self._hosts.metrics).replace("{region}", region), self._hosts.metrics_scope
                new_metrics = partial(MetricsClient, host, self._credential, audience=scope.removesuffix("/.default"))
                metrics: MetricsClient = self._opened_once(f"metrics {region}", new_metrics, scope)
                return metrics.send_request(request)
            key, new_client = "change" if once else "read", partial(ARMPipelineClient, self._hosts.arm)
            arm: ARMPipelineClient[HttpRequest, HttpResponse] = self._opened_once(
                key, new_client, self._hosts.arm_scope, once=once
            )
            request.url = arm.format_url(request.url)
            return arm.send_request(request)

    def begin(self, operation: Callable[..., object]) -> Any | None:
        """Begin a change by a public operation of the SDK, sent once. Returns Azure's reply if it isn't the documented one; raises its errors."""
        try:
            with _local_errors():
                operation(polling=False, error_map=PLAIN_ERRORS)
        except ClientAuthenticationError:
            raise
        except HttpResponseError as error:
            if error.response is None:
                raise
            return error.response
        return None

    def operations_client(self) -> MachineLearningServicesMgmtClient:
        """The SDK's client for changes by its public operations, each sent once."""
        # Imported here because only actions need it, and its thousands of models take time and memory to load.
        from azure.mgmt.machinelearningservices import MachineLearningServicesMgmtClient

        new_client = partial(
            MachineLearningServicesMgmtClient,
            self._credential,
            self._subscription,
            base_url=self._hosts.arm,
            api_version=API_VERSIONS["Microsoft.MachineLearningServices"],
            credential_scopes=[self._hosts.arm_scope],
        )
        sdk: MachineLearningServicesMgmtClient = self._opened_once("operations", new_client, self._hosts.arm_scope, once=True)
        return sdk

    def _opened_once(self, key: str, new_client: Callable[..., Any], scope: str, *, once: bool = False) -> Any:
        """The client of that key, whose tokens are requested for `scope`. `once`: each of its calls is sent once, at once, and neither redirected nor
        repeated; any other client only reads.
        """
        with self._lock:
            if key not in self._opened:
                reading = [ShortRetryPolicy(), self._graph_quota, ARMChallengeAuthenticationPolicy(self._credential, scope)]
                own = [SendOncePolicy(self._credential, scope)] if once else reading
                first = [policies.RequestIdPolicy(), policies.UserAgentPolicy("ml-idle-reaper"), policies.ProxyPolicy()]
                client = new_client(policies=[*first, *own, policies.HttpLoggingPolicy()], **TIMEOUTS)
                self._opened[key] = client.__enter__()
            return self._opened[key]


@contextmanager
def _local_errors() -> Iterator[None]:
    """Errors of requests about local files, such as certificates to trust, come through azure-core unchanged."""
    try:
        yield
    except OSError as error:
        raise ServiceRequestError(f"this machine can't make the call: {error}") from error


class ShortRetryPolicy(policies.RetryPolicy[Any, Any]):
    """Few tries, and Retry-After up to `longest_s` seconds. For reads alone, some of which are POSTs; a change has no retry policy at all."""

    def __init__(self, longest_s: float = MAX_RETRY_AFTER_S, **counts: Any) -> None:
        super().__init__(**(counts or RETRY_COUNTS))
        self._longest_s = longest_s
        self._method_whitelist = frozenset({"GET", "POST"})

    def is_retry(self, settings: dict[str, Any], response: PipelineResponse[Any, Any]) -> bool:
        wait = self.get_retry_after(response) or 0
        return bool(wait <= self._longest_s and super().is_retry(settings, response))


class SendOncePolicy(ARMChallengeAuthenticationPolicy):
    """Authenticates a change, and leaves it at one try: azure-core would send it again with another token after a 401 with claims."""

    def on_challenge(self, request: PipelineRequest[Any], response: PipelineResponse[Any, Any]) -> bool:
        """Never sends the request again. The 401 says that it wasn't carried out."""
        return False


class GraphQuotaPolicy(policies.SansIOHTTPPolicy[Any, Any]):
    """Waits for Resource Graph's quota instead of being throttled. All subscriptions share one quota."""

    def __init__(self) -> None:
        self._free_at = 0.0

    def on_request(self, request: PipelineRequest[Any]) -> None:
        """Waits if the last reply said that nothing remains."""
        wait = self._free_at - time.monotonic()
        if wait > 0 and "/providers/microsoft.resourcegraph/" in request.http_request.url.lower():
            time.sleep(min(wait, MAX_RETRY_AFTER_S))

    def on_response(self, request: PipelineRequest[Any], response: PipelineResponse[Any, Any]) -> None:
        headers = response.http_response.headers
        if headers.get(QUOTA_HEADER, "").strip() == "0":
            parts = headers.get(RESET_HEADER, "").split(":")
            # Such as `00:00:05`; five seconds, the length of the window, if it can't be read.
            seconds = [int(p) * 60**i for i, p in enumerate(reversed(parts))] if all(p.isdigit() for p in parts) else [5]
            self._free_at = time.monotonic() + sum(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureHosts:
    """The address of Resource Manager, and that of the batch metrics hosts with `{region}` for the region; None if unknown."""

    arm: str = PUBLIC
    metrics: str | None = BATCH_HOSTS[PUBLIC]

    @property
    def arm_scope(self) -> str:
        """The scope of tokens for Resource Manager. A host that isn't a cloud, such as a proxy, takes tokens of the public cloud."""
        return f"{self.arm if (split_address(self.arm).hostname or '').startswith('management.') else PUBLIC}/.default"

    @property
    def metrics_scope(self) -> str:
        """The scope of tokens for the batch metrics hosts: one for all regions of a cloud."""
        own = (self.metrics or "").replace("{region}.", "")
        return f"{own if (split_address(own).hostname or '').startswith('metrics.') else PUBLIC_METRICS}/.default"


def hosts_from_env(environ: Mapping[str, str]) -> AzureHosts:
    """The hosts in `environ`. Raises SettingsError for anything but an https address."""
    arm = _address_from_env(environ, "REAPER_ARM_ENDPOINT") or PUBLIC
    return AzureHosts(arm=arm, metrics=_address_from_env(environ, "REAPER_METRICS_ENDPOINT") or BATCH_HOSTS.get(arm))


def _address_from_env(environ: Mapping[str, str], name: str) -> str | None:
    text = environ.get(name, "").strip().rstrip("/")
    if text and (split_address(text).scheme != "https" or not split_address(text).netloc):
        example = {"REAPER_METRICS_ENDPOINT": BATCH_HOSTS[PUBLIC]}.get(name, PUBLIC)
        raise SettingsError(f"{name}={text!r} isn't an address such as {example}; tokens are only sent over https")
    return text or None


def new_credential(**limits: Any) -> DefaultAzureCredential:
    """A new credential. It caches its tokens, so use one for a whole run. Makes no call yet.

    `limits`: options of azure-core's pipeline, for a caller that can't wait as long as a sweep.

    Raises CloudError if the environment has settings that no credential and no call can work with.
    """
    ca_bundle(os.environ, CA_BUNDLE_VARIABLES)
    try:
        return DefaultAzureCredential(**{**TIMEOUTS, **limits})
    except (ValueError, OSError) as error:
        text = f"the settings of DefaultAzureCredential can't be used: {error}"
        raise CloudError(Reason.REFUSED, "sign in", text, code=NO_SIGN_IN) from error


MAX_CONCURRENT_CALLS = 3
"""Calls in progress at once per kind; three kinds share one client, whose pool has ten connections."""

B = TypeVar("B")


class CloudSession:
    """One subscription as one kind sees it: shared clients and `results`, but its own count of calls and its own list of errors."""

    def __init__(self, clients: Clients, target: Target, results: dict[Hashable, Future[Any]] | None = None) -> None:
        self.target = target
        self.calls: Counter[str] = Counter()
        self.metrics = 0  # Azure bills calls
        self.errors: list[CloudError] = []
        self.is_over: Callable[[], bool] = lambda: False
        self.clients = clients
        self._results = {} if results is None else results
        self._lock = threading.Lock()

    @property
    def home(self) -> str:
        """The ID of its subscription."""
        return f"/subscriptions/{self.target.account}"

    def for_kind(self) -> CloudSession:
        """The same target with fresh counters."""
        return CloudSession(self.clients, self.target, self._results)

    def without_cache(self) -> CloudSession:
        """The same target with nothing remembered."""
        return CloudSession(self.clients, self.target)

    def recheck_end(self, now: datetime) -> datetime:
        """The start of this minute: it isn't documented whether Azure Monitor takes an end that lies ahead."""
        return now.replace(second=0, microsecond=0)

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
                return _checked_reply(sent, self.clients.send(_http_request(sent), sent.region, once=once))
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

    def change(self, change: ArmChange) -> None:
        """Make a change, sent once; Azure may only accept it. Raises CloudError alone, with `may_have_been_made` unless refused or not sent."""
        self._begin_call(change.permission, change.permission)
        with _as_cloud_error(change.permission):
            begun = self.clients.begin(change.begin) if change.begin else None
            response = begun if change.begin else self.clients.send(_http_request(change), once=True)
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
        """The result of `read`, called by the first caller only, of all kinds of this subscription. Raises what it raised, to all."""
        own: Future[A] = Future()
        result: Future[A] = self._results.setdefault(key, own)
        if result is own:
            try:
                own.set_result(read())
            except BaseException as error:
                if not isinstance(error, CloudError):
                    del self._results[key]  # only those who wait now hear of it
                own.set_exception(error)
                raise
        return result.result()

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
