"""A managed-identity endpoint whose tokens also please Azurite: unsigned JWTs for storage, the sandbox's own for everything else."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

from reaper_sandbox.azure import identity

STORAGE = "https://storage.azure.com"


class _Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        reply = identity.token(query, {name.lower(): value for name, value in self.headers.items()})
        body = dict(reply.body)
        if reply.status == 200 and query["resource"].rstrip("/") == STORAGE:
            body["access_token"] = unsigned(STORAGE)
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())


@contextmanager
def endpoint() -> Iterator[str]:
    """The address for IDENTITY_ENDPOINT."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/msi/token"
    finally:
        server.shutdown()
        server.server_close()


def unsigned(audience: str) -> str:
    """A token that Azurite takes: it looks at issuer, audience and time, not at the signature. It is valid for decades, because tests travel."""
    since, until = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    claims = {
        "aud": audience,
        "iss": "https://sts.windows.net/5b7c5a51-2f1b-4a43-9d1c-3f6f0a7d8e10/",
        "nbf": int(since.timestamp()),
        "iat": int(since.timestamp()),
        "exp": int(until.timestamp()),
    }
    return ".".join([*(_part(part) for part in ({"alg": "RS256", "typ": "JWT"}, claims)), "c2lnbmF0dXJl"])


def _part(claims: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
