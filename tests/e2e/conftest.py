"""Servers on loopback for the tests of channels: mail, AWS, Azure, and a place that things are posted to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiosmtpd.controller import Controller

import quick_moto
from e2e.post import NOW, Inbox, Posts, Serve, free_port, login, tls
from reaper_sandbox.azure.server import Server as Azure


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """One that the product trusts."""
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    return made


@pytest.fixture
def serve(authority: trustme.CA) -> Iterator[Serve]:
    running: list[Controller] = []

    def start(**options: Any) -> Inbox:
        inbox = Inbox()
        inbox.port = free_port()
        controller = Controller(inbox, hostname="127.0.0.1", port=inbox.port, ready_timeout=10, **options)
        controller.start()
        running.append(controller)
        return inbox

    yield start
    for controller in running:
        controller.stop()


@pytest.fixture
def inbox(serve: Serve, authority: trustme.CA) -> Inbox:
    return serve(tls_context=tls(authority), require_starttls=True, authenticator=login, auth_required=True)


@pytest.fixture
def moto(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with quick_moto.serving() as port:
        url = f"http://127.0.0.1:{port}"
        for name, value in {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
        yield url


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Azure]:
    with Azure(NOW) as running:
        for name, value in running.env.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def posts() -> Iterator[Posts]:
    new_posts = Posts()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            new_posts.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            status, headers, answer = new_posts.first.pop(0) if new_posts.first else new_posts.answer
            if not status:
                self.wfile.write(answer)
                return
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST

        def log_message(self, *parts: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    new_posts.url = f"http://127.0.0.1:{server.server_port}"
    yield new_posts
    server.shutdown()
    server.server_close()
