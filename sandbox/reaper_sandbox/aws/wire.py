"""HTTP/1.1 on 127.0.0.1 for a WSGI application: one thread for each connection, keep-alive, every reply in one write."""

from __future__ import annotations

import io
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import ThreadedWSGIServer
from werkzeug.wsgi import get_input_stream

log = logging.getLogger(__name__)


class Listener(ThreadedWSGIServer):
    """Serves the application on a free port until `stop`, which ends every connection too."""

    daemon_threads = True

    def __init__(self, application: Any) -> None:
        self.connections: set[socket.socket] = set()
        super().__init__("127.0.0.1", 0, application, handler=Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close the port."""
        self.shutdown()
        self.server_close()
        self._thread.join()
        for connection in tuple(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Handler(MotoRequestHandler):
    """werkzeug's own handler closes the connection after every reply, and waits for the client to do so."""

    server: Listener
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with suppress(ConnectionError):
            super().finish()

    def handle_expect_100(self) -> bool:
        """Sent at once: a client waits for it with what it puts into S3."""
        expected = super().handle_expect_100()
        self.wfile.flush()
        return expected

    def run_wsgi(self) -> None:
        self.environ = environ = self.make_environ()
        if environ.get("wsgi.input_terminated"):  # what may follow the last chunk is not read
            self.close_connection = True
        content = get_input_stream(environ).read()
        environ |= {"wsgi.input": io.BytesIO(content), "CONTENT_LENGTH": str(len(content))}
        status, headers = "", list[tuple[str, str]]()

        def start(answered: str, with_headers: list[tuple[str, str]], _: Any = None) -> Callable[[bytes], object]:
            nonlocal status, headers
            status, headers = answered, with_headers
            return self.wfile.write

        try:
            body = b"".join(self.server.app(environ, start))
        except ConnectionError:  # cut on purpose
            self.close_connection = True
            return
        except Exception:
            log.exception("%s %s failed", self.command, self.path)
            status, headers, body = "500 Internal Server Error", [], b""
        self._write(status, headers, body)

    def _write(self, status: str, headers: list[tuple[str, str]], body: bytes) -> None:
        code, _, reason = status.partition(" ")
        self.send_response(int(code), reason)
        for name, value in headers:
            self.send_header(name, value)
        if "content-length" not in {name.lower() for name, _ in headers} and code not in {"204", "304"}:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Requests are in `Server.calls`."""
