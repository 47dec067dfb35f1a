"""The Slack room of the story: a webhook on loopback that keeps what is posted to it.

https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(slots=True, kw_only=True)
class Room:
    """The webhook's URL, and the cards that were posted and not yet read."""

    url: str = ""
    cards: list[dict[str, Any]] = field(default_factory=list)

    def read_titles(self) -> list[str]:
        """The titles of the new cards."""
        cards, self.cards = self.cards, []
        return [str(block["text"]["text"]) for card in cards for block in card["blocks"] if block["type"] == "header"]


@contextmanager
def open_room() -> Iterator[Room]:
    """A room that accepts everything."""
    room = Room()

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            room.cards.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the story reads the cards."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Webhook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        room.url = f"http://127.0.0.1:{server.server_port}/services/story"
        try:
            yield room
        finally:
            server.shutdown()
