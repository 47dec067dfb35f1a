"""The mail server of the play: takes mails, reads them as their receivers would, and can be out of order. And a room that takes everything.

What a mail says is read from its plain text only, in the few places that any wording keeps: numbered items with a name, `Next:` lines,
dates, and links.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any
from zoneinfo import ZoneInfo

from aiosmtpd.controller import Controller

from e2e.post import free_port
from play.clouds import Accident, Wire
from play.terms import ADMINS

WORD_JOINER = "\u2060"
NUMBERED = re.compile(r"^\d+\. (\S+)$", re.MULTILINE)
ROW = re.compile(r"^- (\S+) \([^()]+\): (.+?)$((?:\n  \S.*$)*)", re.MULTILINE)
WILL = re.compile(r"\b(?:will|may) be (\w+)", re.IGNORECASE)
DATE = re.compile(r"\b\w{3} (\d{1,2} \w{3} \d{4}, \d\d:\d\d) ([A-Z]\w+(?:/\w+)*)")
KEEP = re.compile(r"https://keep\.example\.com\S+")
CORRECTED = re.compile(r"^- (\S+) \([^()]+\): used on ", re.MULTILINE)
LATER = re.compile(r"To undo this later")
BACK = re.compile(r"To undo this")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What a mail says of one resource: what is announced for when (None: nothing), whether it tells of something done (`rest`: of the
    first part only), and its link.
    """

    name: str
    announces: str | None
    date: datetime | None
    is_done: bool
    rest: bool
    link: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A mail that was taken, and in which command."""

    to: str
    at: datetime
    subject: str
    text: str
    command: int
    notices: tuple[Notice, ...]
    corrects: tuple[str, ...] = ()
    """The resources whose notices it takes back."""

    @property
    def summary(self) -> bool:
        """Whether it is the admins' summary of a sweep."""
        return self.subject.startswith("[ML Idle Reaper]")


@dataclass(slots=True)
class Room:
    """A room of Slack's on loopback, which accepts every card. `cards`: their subjects."""

    cards: list[str] = field(default_factory=list)
    url: str = ""
    _server: Any = None

    def __enter__(self) -> Room:
        cards = self.cards

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                card = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                header = next(block["text"]["text"] for block in card["blocks"] if block["type"] == "header")
                cards.append(" ".join(header.replace(WORD_JOINER, "").split()))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, format: str, *args: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/services/T0/B0/room"
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass(slots=True)
class Post:
    """A mail server on loopback. While `down` says why, it refuses every mail with that."""

    wire: Wire
    mails: list[Mail] = field(default_factory=list)
    down: str | None = None
    port: int = 0
    _controller: Any = None

    def __enter__(self) -> Post:
        self.port = free_port()
        self._controller = Controller(self, hostname="127.0.0.1", port=self.port, ready_timeout=10)
        self._controller.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._controller.stop()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """Takes a mail."""
        self.wire.arrives("smtp:Data")
        if self.down:
            return self.down
        for to in envelope.rcpt_tos:
            self.mails.append(_read(envelope.content, to, self.wire))
        if self.wire.taken("smtp:Data"):
            session_transport = getattr(server, "transport", None)
            if session_transport:
                session_transport.abort()
        return f"250 taken as {len(self.mails)}"

    def since(self, count: int) -> list[Mail]:
        """The mails taken after the first `count`."""
        return self.mails[count:]


def _read(content: bytes, to: str, wire: Wire) -> Mail:
    message = message_from_bytes(content, policy=policy.default)
    assert isinstance(message, EmailMessage)
    body = message.get_body(("plain",))
    text = str(body.get_content()).replace("\r\n", "\n") if body else ""
    subject = " ".join(str(message["Subject"]).split())
    corrects = tuple(name.rpartition("/")[2] for name in CORRECTED.findall(text)) if subject.startswith("Correction:") else ()
    notices = () if corrects or subject.startswith("[ML Idle Reaper]") else tuple(_notices(text))
    return Mail(
        to=to.lower(), at=wire.clock.now, subject=subject, text=text, command=wire.command, notices=notices, corrects=corrects
    )


def _notices(text: str) -> Iterator[Notice]:
    parts = NUMBERED.split(text.partition("\nAnd ")[0])[1:]
    for name, about in zip(parts[::2], parts[1::2], strict=True):
        yield _notice(name, about.split("\n\n")[0])
    for name, about, more in ROW.findall(text):
        yield _notice(name, about + more)


def _notice(name: str, about: str) -> Notice:
    following = next((line for line in about.splitlines() if "Next:" in line or "Done:" in line), about)
    announced = WILL.search(following)
    date = DATE.search(following) if announced else None
    link = KEEP.search(about)
    return Notice(
        name=name.rpartition("/")[2],
        announces={"deleted": "delete"}.get(announced[1].lower(), "stop") if announced else None,
        date=_moment(date) if date else None,
        is_done=bool(BACK.search(about)) and not LATER.search(about),
        rest="The rest " in about,
        link=link[0] if link else None,
        text=about,
    )


def _moment(match: re.Match[str]) -> datetime:
    return datetime.strptime(match[1], "%d %b %Y, %H:%M").replace(tzinfo=ZoneInfo(match[2])).astimezone(UTC)


__all__ = ["ADMINS", "Accident", "Mail", "Notice", "Post", "Room"]
