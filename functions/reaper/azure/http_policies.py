"""How calls to Azure are made: timeouts, retries and tokens.

The SDK's own pipeline registers a missing resource provider, which is a write, so an audit must not use it. Its defaults of 300 seconds
and ten tries don't fit a function: https://learn.microsoft.com/python/api/azure-core/azure.core.pipeline.policies.retrypolicy
Resource Graph's quota headers: https://learn.microsoft.com/azure/governance/resource-graph/concepts/guidance-for-throttled-requests
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from azure.core.credentials import TokenCredential
from azure.core.pipeline import PipelineRequest, PipelineResponse
from azure.core.pipeline.policies import (
    HttpLoggingPolicy,
    ProxyPolicy,
    RequestIdPolicy,
    RetryPolicy,
    SansIOHTTPPolicy,
    UserAgentPolicy,
)
from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy

CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 5, 30
"""Seconds."""
TIMEOUTS: dict[str, Any] = {"connection_timeout": CONNECT_TIMEOUT_S, "read_timeout": READ_TIMEOUT_S}
RETRY_COUNTS = {"retry_total": 3, "retry_connect": 2, "retry_read": 1, "retry_status": 3, "retry_backoff_max": 20}
MAX_RETRY_AFTER_S = 60
"""The longest Retry-After, in seconds, that is waited for. A longer one is a failure."""
UNCERTAIN_STATUSES = frozenset({408, *range(500, 600)})
"""Statuses after which the request may have been carried out all the same. 429 says that it wasn't."""
RETRY_RECORD_OPTION = "reaper_tries"
QUOTA_HEADER, RESET_HEADER = "x-ms-user-quota-remaining", "x-ms-user-quota-resets-after"


@dataclass(slots=True)
class RetryRecord:
    """How many tries of one request were repeated although they may have been carried out: without a reply, or with an ambiguous one.

    azure-core shows a request's history to policies only, and not at all if the last try had no reply.
    """

    uncertain_tries: int = 0


class ShortRetryPolicy(RetryPolicy[Any, Any]):
    """Few tries, and Retry-After up to a minute. Every method is retried, because none of the reaper's calls does more if repeated.

    A POST reads, stops, starts or sets one value; PUT and PATCH set values and never add to them; what is deleted stays deleted. If a
    reply was lost, the second try of a stop, start or delete may find it in progress (409) or done (404). Actions check that before
    they call it a failure, and the `RetryRecord` that came with the request, if any, counts the doubtful tries.
    """

    def __init__(self) -> None:
        super().__init__(**RETRY_COUNTS)
        self._method_whitelist = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})

    def is_retry(self, settings: dict[str, Any], response: PipelineResponse[Any, Any]) -> bool:
        """Whether to try again."""
        wait = self.get_retry_after(response) or 0
        return bool(wait <= MAX_RETRY_AFTER_S and super().is_retry(settings, response))

    def configure_retries(self, options: dict[str, Any]) -> dict[str, Any]:
        """The settings of one request. Its `RetryRecord` is removed from the transport's options."""
        tries = options.pop(RETRY_RECORD_OPTION, None) or RetryRecord()
        return {**super().configure_retries(options), RETRY_RECORD_OPTION: tries}

    def increment(self, settings: dict[str, Any], response: Any = None, error: Exception | None = None) -> bool:
        """Count a failed try, and whether it may have been carried out. Returns whether another one follows."""
        again = super().increment(settings, response, error)
        if again and (error is not None or response.http_response.status_code in UNCERTAIN_STATUSES):
            settings[RETRY_RECORD_OPTION].uncertain_tries += 1
        return again


class GraphQuotaPolicy(SansIOHTTPPolicy[Any, Any]):
    """Waits for Resource Graph's quota instead of being throttled. All subscriptions share one quota."""

    def __init__(self) -> None:
        self._free_at = 0.0
        self._lock = threading.Lock()

    def on_request(self, request: PipelineRequest[Any]) -> None:
        """Waits if the last reply said that nothing remains."""
        if "/providers/microsoft.resourcegraph/" in request.http_request.url.lower():
            with self._lock:
                wait = self._free_at - time.monotonic()
            if wait > 0:
                time.sleep(min(wait, MAX_RETRY_AFTER_S))

    def on_response(self, request: PipelineRequest[Any], response: PipelineResponse[Any, Any]) -> None:
        """Reads the quota headers."""
        headers = response.http_response.headers
        if headers.get(QUOTA_HEADER, "").strip() == "0":
            with self._lock:
                self._free_at = time.monotonic() + _quota_reset_seconds(headers.get(RESET_HEADER, ""))


def client_policies(credential: TokenCredential, scope: str, graph_quota: GraphQuotaPolicy) -> list[Any]:
    """The policies of one client, outermost first. Tokens are requested for `scope`."""
    return [
        RequestIdPolicy(),
        UserAgentPolicy("ml-idle-reaper"),
        ProxyPolicy(),
        ShortRetryPolicy(),
        graph_quota,
        ARMChallengeAuthenticationPolicy(credential, scope),
        HttpLoggingPolicy(),
    ]


def _quota_reset_seconds(text: str) -> float:
    """`00:00:05` in seconds. Five, the length of the quota's window, if it can't be read."""
    parts = text.split(":")
    return sum(int(p) * 60**i for i, p in enumerate(reversed(parts))) if all(p.isdigit() for p in parts) else 5.0
