"""The simulated Azure as a server.

    with Server(now) as azure:
        workspace = azure.subscription("1111…").workspace("vision")
        os.environ.update(azure.env)

Order of a request: guards in `rules`, API version, token, rights, then the answer.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from reaper_sandbox.azure import authority, identity, metric_calls, routes, tenant
from reaper_sandbox.azure.fault import Fault, Guard
from reaper_sandbox.azure.metrics import Metrics
from reaper_sandbox.azure.refusal import bad, read_only, refused, unauthorized
from reaper_sandbox.azure.request import Json, Refused, Reply, Request
from reaper_sandbox.azure.route import Route
from reaper_sandbox.azure.subscription import Subscription
from reaper_sandbox.azure.wire import Incoming, Listener
from reaper_sandbox.azure.world import World

LIMITS = {"x-ms-ratelimit-remaining-subscription-reads": "249", "x-ms-ratelimit-remaining-subscription-global-reads": "3749"}


class Server:
    """A context manager. `now` is where the sandbox's clock stands, None: the real time. Set it to step the clock."""

    def __init__(self, now: datetime | None = None) -> None:
        self.world = World(fixed=now)
        self.requests: list[Request] = []
        self._log = threading.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._listeners: list[Listener] = []
        self.ca = ""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="reaper-azure-")
        path, context = authority.issue(Path(self._folder.name))
        self.ca = str(path)
        self._listeners = [Listener(self._answer, context), Listener(self._token)]
        self.world.url = self._listeners[0].url
        return self

    def __exit__(self, *problem: object) -> None:
        for listener in self._listeners:
            listener.stop()
        if self._folder:
            self._folder.cleanup()

    @property
    def url(self) -> str:
        """Resource Manager, the metrics host and the mail service in one, `https://127.0.0.1:port`."""
        return self.world.url

    @property
    def env(self) -> dict[str, str]:
        """The environment in which the product and the SDKs find this server, trust it and get a token."""
        return {
            "REAPER_ARM_ENDPOINT": self.url,
            "REAPER_METRICS_ENDPOINT": self.url,
            "IDENTITY_ENDPOINT": f"{self._listeners[1].url}/msi/token",
            "IDENTITY_HEADER": identity.SECRET,
            "AZURE_TOKEN_CREDENTIALS": "ManagedIdentityCredential",
            "REQUESTS_CA_BUNDLE": self.ca,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }

    @property
    def now(self) -> datetime:
        """The time in the sandbox."""
        return self.world.now

    @now.setter
    def now(self, moment: datetime | None) -> None:
        self.world.fixed = moment

    @property
    def rules(self) -> list[Guard]:
        """Guards, asked in order before a request is answered."""
        return self.world.rules

    @property
    def metrics(self) -> Metrics:
        """What the metrics pipeline has stored."""
        return self.world.metrics

    @property
    def mails(self) -> list[Json]:
        """The mails that were sent, as they were posted, oldest first."""
        return self.world.mails

    @property
    def mutations(self) -> list[Request]:
        """The requests that change a resource, refused ones included."""
        with self._log:
            return [request for request in self.requests if request.mutation]

    def subscription(self, subscription_id: str, name: str = "") -> Subscription:
        """A handle to fill one subscription with; makes it when it is new."""
        return Subscription(self.world, subscription_id, name)

    def _token(self, incoming: Incoming) -> Reply:
        if incoming.path != "/msi/token":
            return Reply(status=404)
        return identity.token(incoming.query, incoming.headers)

    def _answer(self, incoming: Incoming) -> Reply | None:
        match = routes.find(incoming.method, incoming.path)
        request = _request(incoming, *match) if match else _request(incoming, None, {})
        with self._log:
            self.requests.append(request)
        lost: Fault | None = None
        for guard in list(self.rules):
            fault = guard(request)
            if fault is None:
                continue
            time.sleep(fault.delay)
            if fault.final:
                return fault.answer(request) if fault.answer else None
            lost = lost or (fault if fault.lost else None)
        try:
            reply = self._checked(request, match[0] if match else None)
        except Refused as refusal:
            reply = refusal.reply
        if lost:
            return lost.answer(request) if lost.answer else None
        return reply

    def _checked(self, request: Request, route: Route | None) -> Reply:
        if route is None:
            raise refused(404, "InvalidResourceType", f"Nothing answers {request.method} {request.path}.")
        _check_version(request, route)
        identity.check(request, route.audiences)
        if _subscription(request) in {one.lower() for one in self.world.unreadable}:
            raise unauthorized(request.action, request.scope)
        _check_state(self.world, request)
        with self.world.lock:
            self.world.operations.settle(self.world.now)
            reply = route.answer(self.world, request)
            headers = {**LIMITS, **reply.headers} if request.method == "GET" else reply.headers
            return Reply(status=reply.status, body=_bytes(reply.body), headers=headers)


def _subscription(request: Request) -> str:
    parts = request.path.lower().split("/")
    return parts[2] if parts[1] == "subscriptions" and len(parts) > 2 else ""


def _check_state(world: World, request: Request) -> None:
    """Raises Refused for a change in a subscription whose state allows only reading and deleting."""
    sub = _subscription(request)
    may_change = world.estate.states.get(sub, "Enabled") in tenant.CHANGEABLE_STATES
    if request.mutation and request.method != "DELETE" and not may_change:
        raise read_only(sub)


def _bytes(body: Any) -> bytes | None:
    """Encoded while nothing can change it. Batch replies have a faster way."""
    if body is None or isinstance(body, bytes):
        return body
    return metric_calls.encoded(body) if "values" in body else json.dumps(body).encode()


def _check_version(request: Request, route: Route) -> None:
    version = request.api_version
    if not version:
        raise bad("The api-version query parameter (?api-version=) is required for all requests.", "MissingApiVersionParameter")
    if version not in route.versions:
        known = ",".join(route.versions)
        raise bad(f"The api-version '{version}' is invalid. The supported versions are '{known}'.", "InvalidApiVersionParameter")


def _request(incoming: Incoming, route: Route | None, names: Mapping[str, str]) -> Request:
    try:
        body = json.loads(incoming.body) if incoming.body else None
    except ValueError:
        body = incoming.body
    action = route.action.format_map({**names, "verb": names.get("verb", "").lower()}) if route else ""
    return Request(
        method=incoming.method,
        path=incoming.path,
        query=incoming.query,
        headers=incoming.headers,
        body=body,
        action=action,
        scope=routes.scope(route, incoming.path) if route else "",
        names=names,
    )
