"""What all kinds of one subscription share: the SDK's clients, each made once, and what was read once for all of them.

azure-mgmt-machinelearningservices is pinned to the pre-release 2.0.0b2, because the stable release speaks an API of 2020 without
endpoints. Its typed models lose facts (unknown compute types, `tags: null`), so its pipeline is used and the JSON read as it is.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from azure.core.credentials import TokenCredential
from azure.core.exceptions import ServiceRequestError
from azure.core.rest import HttpRequest, HttpResponse
from azure.mgmt.machinelearningservices import MachineLearningServicesMgmtClient
from azure.monitor.querymetrics import MetricsClient

from reaper.azure.http_policies import RETRY_RECORD_OPTION, TIMEOUTS, GraphQuotaPolicy, RetryRecord, client_policies
from reaper.azure.request import API_VERSIONS
from reaper.azure.service_hosts import AzureHosts
from reaper.errors import CloudError


@dataclass(slots=True)
class _Memo:
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_done: bool = False
    value: Any = None
    error: CloudError | None = None


class Clients:
    """The clients of one subscription. `bulk` is whether metrics may be asked for in bulk: so until Azure says no.

    `pause(seconds)` is how an act waits.
    """

    def __init__(self, credential: TokenCredential, subscription: str, endpoints: AzureHosts, pace: GraphQuotaPolicy) -> None:
        self.may_use_batch = endpoints.metrics is not None
        self.pause: Callable[[float], None] = time.sleep
        self._credential, self._endpoints, self._pace = credential, endpoints, pace
        self._arm = MachineLearningServicesMgmtClient(
            credential,
            subscription,
            base_url=endpoints.arm,
            api_version=API_VERSIONS["Microsoft.MachineLearningServices"],
            credential_scopes=[endpoints.arm_scope],
            policies=client_policies(credential, endpoints.arm_scope, pace),
            **TIMEOUTS,
        )
        self._arm.__enter__()
        self._metrics: dict[str, MetricsClient] = {}
        self._memos: dict[Hashable, _Memo] = {}
        self._lock = threading.Lock()

    def send(self, request: HttpRequest, region: str | None, tries: RetryRecord) -> HttpResponse:
        """One request to Resource Manager, or to the batch metrics host of `region`. Raises what azure-core raises.

        `tries` is told, whatever comes of it, of tries that may have been carried out before the last one.
        """
        option: dict[str, Any] = {RETRY_RECORD_OPTION: tries}
        try:
            if region is None:
                return self._arm._send_request(request, **option)
            return self._metrics_client(region).send_request(request, **option)
        except OSError as error:
            # What requests says of this machine's files, such as certificates to trust, comes through azure-core as it is.
            raise ServiceRequestError(f"this machine cannot make the call: {error}") from error

    def read_once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What `make` gives, made by whoever asks first; a CloudError is remembered and raised to everybody."""
        with self._lock:
            memo = self._memos.setdefault(key, _Memo())
        with memo.lock:
            if not memo.is_done:
                try:
                    memo.value = make()
                except CloudError as error:
                    memo.error = error
                memo.is_done = True
        if memo.error:
            raise memo.error
        return memo.value

    def without_cache(self) -> Clients:
        """The same clients, with nothing remembered from before: for looking again."""
        fresh = copy.copy(self)
        fresh._memos = {}
        return fresh

    def _metrics_client(self, region: str) -> MetricsClient:
        with self._lock:
            if region not in self._metrics:
                scope = self._endpoints.metrics_scope
                client = MetricsClient(
                    str(self._endpoints.metrics).replace("{region}", region),
                    self._credential,
                    audience=scope.removesuffix("/.default"),
                    policies=client_policies(self._credential, scope, self._pace),
                    **TIMEOUTS,
                )
                self._metrics[region] = client.__enter__()
            return self._metrics[region]
