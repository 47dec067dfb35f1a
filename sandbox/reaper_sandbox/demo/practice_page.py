"""The snooze page over HTTP on this machine: the product's own handler, for the links in the mails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reaper.snooze import handler
from reaper.snooze.pages import Request

if TYPE_CHECKING:
    from werkzeug.wrappers import Request as HttpRequest
    from werkzeug.wrappers import Response


@contextmanager
def serve_page(environ: dict[str, str], clock: Callable[[], datetime]) -> Iterator[str]:
    """Serve the page on a free port and yield its address. Settings are read from `environ` when a link is opened first."""
    from werkzeug import serving

    class Quiet(serving.WSGIRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Links stay out of the terminal."""

    server = serving.make_server("127.0.0.1", 0, _application(environ, clock), threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _application(environ: Mapping[str, str], clock: Callable[[], datetime]) -> Any:
    """The page as a WSGI application."""
    from werkzeug.wrappers import Request as HttpRequest
    from werkzeug.wrappers import Response

    page = handler.open_handler(environ)

    @HttpRequest.application
    def answer(http: HttpRequest) -> Response:
        reply = page.handle(_read_request(http), clock())
        return Response(reply.body, status=reply.status, headers=dict(reply.headers))

    return answer


def _read_request(http: HttpRequest) -> Request:
    return Request(
        method=http.method,
        path=http.path,
        query=http.query_string.decode(),
        headers={name.lower(): value for name, value in http.headers.items()},
        body=http.get_data(),
        source_ip=http.remote_addr or "",
    )
