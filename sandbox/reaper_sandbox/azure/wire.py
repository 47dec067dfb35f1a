"""HTTP/1.1 on 127.0.0.1, in plain or over TLS: one thread for each connection, keep-alive, every reply in one write."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from reaper_sandbox.azure.request import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


Answer = Callable[[Incoming], Reply | None]
"""None closes the connection without a reply."""


class Listener(ThreadingHTTPServer):
    """Serves `answer` on a free port until `stop`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""

    def stop(self) -> None:
        """Ends the thread and closes the port."""
        self.shutdown()
        self.server_close()
        self._thread.join(5)


class Handler(BaseHTTPRequestHandler):
    """Reads a request, asks the listener's `answer`, writes the reply."""

    server: Listener
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 60

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        place = urlsplit(self.path)
        incoming = Incoming(
            method=self.command,
            path=unquote(place.path).rstrip("/"),
            query=dict(parse_qsl(place.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=body,
        )
        reply = self.server.answer(incoming)
        if reply is None:
            self.close_connection = True
            return
        self._write(reply)

    def _write(self, reply: Reply) -> None:
        data = reply.body if isinstance(reply.body, bytes) else b"" if reply.body is None else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in {"Content-Type": "application/json; charset=utf-8", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing goes to stderr; `Server.requests` is the log."""

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve
