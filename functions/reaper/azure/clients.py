"""What all kinds of one subscription share: the SDK's clients, each opened once, and what was read once for all of them.

Requests go through azure-mgmt-core's `ARMPipelineClient`; which changes go through azure-mgmt-machinelearningservices, and why not all
calls do, is in `request`. That package is pinned to the pre-release 2.0.0b2: the stable release uses an API of 2020 without endpoints.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from azure.core.credentials import TokenCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ServiceRequestError
from azure.core.rest import HttpRequest, HttpResponse
from azure.mgmt.core import ARMPipelineClient
from azure.monitor.querymetrics import MetricsClient

from reaper.azure.http_policies import TIMEOUTS, GraphQuotaPolicy, changing_policies, reading_policies
from reaper.azure.request import API_VERSIONS, ArmOperation
from reaper.azure.service_hosts import AzureHosts
from reaper.errors import CloudError

if TYPE_CHECKING:
    from azure.mgmt.machinelearningservices import MachineLearningServicesMgmtClient

PLAIN_ERRORS: dict[int, type[HttpResponseError]] = dict.fromkeys((304, 401, 404, 409), HttpResponseError)
"""An operation raises the same error for each refusal by Azure, so that ClientAuthenticationError always means that there is no token."""


@dataclass(slots=True)
class _Memo:
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_done: bool = False
    value: Any = None
    error: CloudError | None = None


class Clients:
    """The clients of one subscription. `may_use_batch`: whether metrics may be read in batches; true until Azure refuses.

    `pause(seconds)` is how an action waits.
    """

    def __init__(self, credential: TokenCredential, subscription: str, hosts: AzureHosts, graph_quota: GraphQuotaPolicy) -> None:
        self.may_use_batch = hosts.metrics is not None
        self.pause: Callable[[float], None] = time.sleep
        self._credential, self._subscription, self._hosts, self._graph_quota = credential, subscription, hosts, graph_quota
        self._arm: ARMPipelineClient[HttpRequest, HttpResponse] = ARMPipelineClient(
            hosts.arm, policies=reading_policies(credential, hosts.arm_scope, graph_quota), **TIMEOUTS
        )
        self._arm.__enter__()
        self._changing: list[ARMPipelineClient[HttpRequest, HttpResponse]] = []
        self._operations: list[MachineLearningServicesMgmtClient] = []
        self._metrics: dict[str, MetricsClient] = {}
        self._memos: dict[Hashable, _Memo] = {}
        self._lock = threading.Lock()

    def send(self, request: HttpRequest, region: str | None) -> HttpResponse:
        """One request that reads from Resource Manager, or from the batch metrics host of `region`. Raises azure-core's errors."""
        with _local_errors():
            if region is not None:
                return self._metrics_client(region).send_request(request)
            request.url = self._arm.format_url(request.url)
            return self._arm.send_request(request)

    def send_once(self, request: HttpRequest) -> HttpResponse:
        """One request to Resource Manager, without a second try whatever happens to it. Raises azure-core's errors."""
        with _local_errors():
            client = self._changing_client()
            request.url = client.format_url(request.url)
            return client.send_request(request)

    def begin(self, operation: ArmOperation) -> Any | None:
        """Begin a change by a public operation of the SDK, sent once, without waiting for its end. Raises azure-core's errors.

        Returns None, or Azure's reply if it isn't the documented one.
        """
        try:
            with _local_errors():
                operation.begin(polling=False, error_map=PLAIN_ERRORS)
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

        with self._lock:
            if not self._operations:
                client = MachineLearningServicesMgmtClient(
                    self._credential,
                    self._subscription,
                    base_url=self._hosts.arm,
                    api_version=API_VERSIONS["Microsoft.MachineLearningServices"],
                    credential_scopes=[self._hosts.arm_scope],
                    policies=changing_policies(self._credential, self._hosts.arm_scope),
                    **TIMEOUTS,
                )
                self._operations.append(client.__enter__())
            return self._operations[0]

    def read_once(self, key: Hashable, read: Callable[[], Any]) -> Any:
        """The result of `read`, called by the first caller only. A CloudError is remembered and raised to all."""
        with self._lock:
            memo = self._memos.setdefault(key, _Memo())
        with memo.lock:
            if not memo.is_done:
                try:
                    memo.value = read()
                except CloudError as error:
                    memo.error = error
                memo.is_done = True
        if memo.error:
            raise memo.error
        return memo.value

    def without_cache(self) -> Clients:
        """The same clients with nothing remembered, for reading again."""
        fresh = copy.copy(self)
        fresh._memos = {}
        return fresh

    def _changing_client(self) -> ARMPipelineClient[HttpRequest, HttpResponse]:
        with self._lock:
            if not self._changing:
                policies = changing_policies(self._credential, self._hosts.arm_scope)
                client: ARMPipelineClient[HttpRequest, HttpResponse] = ARMPipelineClient(
                    self._hosts.arm, policies=policies, **TIMEOUTS
                )
                client.__enter__()
                self._changing.append(client)
            return self._changing[0]

    def _metrics_client(self, region: str) -> MetricsClient:
        with self._lock:
            if region not in self._metrics:
                scope = self._hosts.metrics_scope
                client = MetricsClient(
                    str(self._hosts.metrics).replace("{region}", region),
                    self._credential,
                    audience=scope.removesuffix("/.default"),
                    policies=reading_policies(self._credential, scope, self._graph_quota),
                    **TIMEOUTS,
                )
                self._metrics[region] = client.__enter__()
            return self._metrics[region]


@contextmanager
def _local_errors() -> Iterator[None]:
    """Errors of requests about local files, such as certificates to trust, come through azure-core unchanged."""
    try:
        yield
    except OSError as error:
        raise ServiceRequestError(f"this machine can't make the call: {error}") from error
