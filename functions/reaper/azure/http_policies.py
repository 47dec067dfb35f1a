"""How calls to Azure are made: time-outs, retries, tokens, and nothing that would change Azure by itself.

The SDK's own pipeline registers a missing resource provider, which is a write, so an audit must not use it; its defaults of 300 seconds
and ten tries do not fit a function: https://learn.microsoft.com/python/api/azure-core/azure.core.pipeline.policies.retrypolicy
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
"""Seconds of Retry-After that are still waited for; a longer one is told as a failure."""
UNCERTAIN_STATUSES = frozenset({408, *range(500, 600)})
"""Answers after which the request may have been carried out all the same. 429 says that it was not."""
RETRY_RECORD_OPTION = "reaper_tries"
QUOTA_HEADER, RESET_HEADER = "x-ms-user-quota-remaining", "x-ms-user-quota-resets-after"


@dataclass(slots=True)
class RetryRecord:
    """How many tries of one request were followed by another although they may have been carried out: they had no reply, or one that
    leaves it open. azure-core shows its history of a request only to policies, and not at all where the last try had no reply.
    """

    uncertain_tries: int = 0


class ShortRetryPolicy(RetryPolicy[Any, Any]):
    """Few tries, Retry-After honoured up to a minute. Every method is tried again, because none of our calls does more when made twice.

    A POST reads, stops, starts or sets one value; PUT and PATCH say what is to be, never how much more of it; what is deleted stays so.
    Where a reply was lost on its way, the second try of a stop, start or delete may find it under way (409) or done (404): the acts
    look before they call that a failure, and what was in doubt is noted in the `Tries` that came with the request, if any.
    """

    def __init__(self) -> None:
        super().__init__(**RETRY_COUNTS)
        self._method_whitelist = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})

    def is_retry(self, settings: dict[str, Any], response: PipelineResponse[Any, Any]) -> bool:
        """Whether to try again."""
        wait = self.get_retry_after(response) or 0
        return bool(wait <= MAX_RETRY_AFTER_S and super().is_retry(settings, response))

    def configure_retries(self, options: dict[str, Any]) -> dict[str, Any]:
        """The settings of one request, with its `Tries` taken out of what the transport is given."""
        tries = options.pop(RETRY_RECORD_OPTION, None) or RetryRecord()
        return {**super().configure_retries(options), RETRY_RECORD_OPTION: tries}

    def increment(self, settings: dict[str, Any], response: Any = None, error: Exception | None = None) -> bool:
        """Count a try that failed, and note whether it may have been carried out; whether another one follows."""
        again = super().increment(settings, response, error)
        if again and (error is not None or response.http_response.status_code in UNCERTAIN_STATUSES):
            settings[RETRY_RECORD_OPTION].uncertain_tries += 1
        return again


class GraphQuotaPolicy(SansIOHTTPPolicy[Any, Any]):
    """Waits for Resource Graph's quota instead of running into its throttle; the quota is one for all subscriptions."""

    def __init__(self) -> None:
        self._free_at = 0.0
        self._lock = threading.Lock()

    def on_request(self, request: PipelineRequest[Any]) -> None:
        """Waits where the last reply said that nothing is left."""
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


def client_policies(credential: TokenCredential, scope: str, pace: GraphQuotaPolicy) -> list[Any]:
    """The policies of one client, outermost first; tokens are asked for `scope`."""
    return [
        RequestIdPolicy(),
        UserAgentPolicy("ml-idle-reaper"),
        ProxyPolicy(),
        ShortRetryPolicy(),
        pace,
        ARMChallengeAuthenticationPolicy(credential, scope),
        HttpLoggingPolicy(),
    ]


def _quota_reset_seconds(text: str) -> float:
    """`00:00:05` as seconds; five for what cannot be read, which is the length of the quota's window."""
    parts = text.split(":")
    return sum(int(p) * 60**i for i, p in enumerate(reversed(parts))) if all(p.isdigit() for p in parts) else 5.0
