"""The page's keys in Key Vault: how long a place that hangs may hold a request."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from azure.core.pipeline import PipelineContext, PipelineResponse
from azure.core.rest import HttpRequest

from hanging import hanging
from reaper.azure.session import ShortRetryPolicy
from reaper.azure.stores import secrets
from reaper.errors import CloudError, Reason

VAULT = "https://team.vault.azure.net/secrets/keys"


@pytest.fixture
def store() -> Iterator[tuple[int, list[socket.socket]]]:
    """A service that hangs: its port and the connections."""
    with hanging() as vault:
        yield vault


@pytest.fixture
def identity() -> Iterator[int]:
    """A managed identity's endpoint that gives tokens: its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            expires = str(int(time.time()) + 3600)
            body = json.dumps({"access_token": "t", "expires_on": expires, "resource": "r", "token_type": "Bearer"}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *parts: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits as they are, but tenths of a second instead of seconds."""
    quick = {"connection_timeout": 0.2, "read_timeout": 0.2}
    monkeypatch.setattr(secrets, "LIMITS", secrets.LIMITS | quick)
    monkeypatch.delenv("REAPER_ARM_ENDPOINT", raising=False)
    monkeypatch.setenv("IDENTITY_HEADER", "x")
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")


def at_port(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """Vaults are at this port of our own."""
    resolve = socket.getaddrinfo

    def ours(host: str, original_port: object, *args: object, **options: object) -> object:
        return resolve("127.0.0.1", port, *args, **options) if "vault" in host else resolve(host, original_port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", ours)


def test_a_vault_that_hangs_is_given_up_after_two_tries(
    hurried: None, store: tuple[int, list[socket.socket]], identity: int, monkeypatch: pytest.MonkeyPatch
):
    port, taken = store
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://127.0.0.1:{identity}/msi/token")
    at_port(monkeypatch, port)
    with pytest.raises(CloudError, match="timed out") as refused:
        secrets.read_secret(VAULT)
    assert refused.value.reason is Reason.UNREACHABLE
    assert len(taken) == 2


def test_an_identity_that_hangs_is_given_up_after_two_tries(
    hurried: None, store: tuple[int, list[socket.socket]], monkeypatch: pytest.MonkeyPatch
):
    port, taken = store
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://127.0.0.1:{port}/msi/token")
    with pytest.raises(CloudError) as refused:
        secrets.read_secret(VAULT)
    assert refused.value.reason is Reason.UNREACHABLE
    assert len(taken) == 2


def test_the_limits_of_a_vault_call_are_a_few_seconds():
    limits = secrets.LIMITS
    assert (limits["connection_timeout"] + limits["read_timeout"]) * (1 + limits["retry_total"]) <= 10


class Reply:
    """A reply of a vault that is throttled."""

    status_code = 429

    def __init__(self, retry_after: str) -> None:
        self.headers = {"Retry-After": retry_after}


@pytest.mark.parametrize(("seconds", "again"), [("1", True), ("60", False)])
def test_a_long_retry_after_of_a_vault_is_not_waited_for(seconds: str, again: bool):
    policy = ShortRetryPolicy(secrets.MAX_RETRY_AFTER_S, **secrets.LIMITS)
    request = HttpRequest("GET", VAULT)
    reply = PipelineResponse(request, Reply(seconds), PipelineContext(None))
    assert policy.is_retry({"methods": {"GET"}, "total": 1}, reply) is again
