"""How calls to Azure are made: timeouts, retries and tokens.

The SDK's own pipeline registers a missing resource provider, which is a write, so an audit must not use it. Its defaults of 300 seconds
and ten tries don't fit a function: https://learn.microsoft.com/python/api/azure-core/azure.core.pipeline.policies.retrypolicy
Resource Graph's quota headers: https://learn.microsoft.com/azure/governance/resource-graph/concepts/guidance-for-throttled-requests
"""

from __future__ import annotations

import threading
import time
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
QUOTA_HEADER, RESET_HEADER = "x-ms-user-quota-remaining", "x-ms-user-quota-resets-after"


class ShortRetryPolicy(RetryPolicy[Any, Any]):
    """Few tries, and Retry-After up to a minute. For reads alone, some of which are POSTs; a change has no retry policy at all."""

    def __init__(self) -> None:
        super().__init__(**RETRY_COUNTS)
        self._method_whitelist = frozenset({"GET", "POST"})

    def is_retry(self, settings: dict[str, Any], response: PipelineResponse[Any, Any]) -> bool:
        """Whether to try again."""
        wait = self.get_retry_after(response) or 0
        return bool(wait <= MAX_RETRY_AFTER_S and super().is_retry(settings, response))


class SendOncePolicy(ARMChallengeAuthenticationPolicy):
    """Authenticates a change, and leaves it at one try: azure-core would send it again with another token after a 401 with claims."""

    def on_challenge(self, request: PipelineRequest[Any], response: PipelineResponse[Any, Any]) -> bool:
        """Never sends the request again. The 401 says that it wasn't carried out."""
        return False


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


def reading_policies(credential: TokenCredential, scope: str, graph_quota: GraphQuotaPolicy) -> list[Any]:
    """The policies of a client that only reads, outermost first. Tokens are requested for `scope`."""
    return _policies(ShortRetryPolicy(), graph_quota, ARMChallengeAuthenticationPolicy(credential, scope))


def changing_policies(credential: TokenCredential, scope: str) -> list[Any]:
    """The policies of a client that makes changes: each is sent once, at once, and neither redirected nor repeated."""
    return _policies(SendOncePolicy(credential, scope))


def _policies(*own: Any) -> list[Any]:
    return [RequestIdPolicy(), UserAgentPolicy("ml-idle-reaper"), ProxyPolicy(), *own, HttpLoggingPolicy()]


def _quota_reset_seconds(text: str) -> float:
    """`00:00:05` in seconds. Five, the length of the quota's window, if it can't be read."""
    parts = text.split(":")
    return sum(int(p) * 60**i for i, p in enumerate(reversed(parts))) if all(p.isdigit() for p in parts) else 5.0
