"""What the tests of channels share: a policy's channels opened, messages, and a mailbox and an HTTP receiver on loopback."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import trustme
from aiosmtpd.smtp import AuthResult, LoginPassword

from reaper import registry
from reaper.cli import sample
from reaper.errors import CloudError
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import ChannelContext, Delivery
from reaper.notices.message import Audience, Message
from reaper.policy.parse import parse_policy
from reaper.stores import secret_store

NOW = datetime(2026, 11, 21, 10, 17, tzinfo=UTC)
HEAD = "version: 1\nowners: {domains: [example.com], fallback: ml-admins@example.com}\nchannels:\n"
PASSWORD = "correct horse"


def opened(text: str, **environ: str) -> list[delivery.OpenChannel]:
    """The channels of a policy with that list, its secrets in `environ`."""
    parsed = parse_policy(HEAD + text, "policy", registry.kind_names())
    return delivery.open_channels(
        parsed.channels, ChannelContext(read_secret=lambda ref: secret_store.read_for_policy(ref, environ), clock=lambda: NOW)
    )


def sent(lines: list[delivery.OpenChannel], *messages: Message) -> list[Delivery]:
    misses: delivery.Misses = {}
    return [done for message in messages or (digest(),) for done in delivery.deliver(message, lines, misses)]


def receipt(lines: list[delivery.OpenChannel], *messages: Message) -> str:
    [delivery] = sent(lines, *messages)
    assert delivery.error is None, delivery.error
    assert delivery.receipt
    return delivery.receipt


def error(lines: list[delivery.OpenChannel], *messages: Message) -> CloudError:
    deliveries = sent(lines, *messages)
    assert not delivery.receipts_by_id(deliveries)
    assert deliveries[0].error is not None
    return deliveries[0].error


def digest(to: str = "dana@example.com") -> Message:
    return sample.sample_message(to, NOW)


def summary() -> Message:
    return Message(
        to="ml-admins@example.com",
        subject="2 idle – none new",
        text="text\n",
        html="<p>html</p>",
        audience=Audience.ADMINS,
        attributes={"audience": "admins"},
    )


@dataclass
class Inbox:
    """What a mail server took, and the answers it gives to recipients whose address begins with `bad`."""

    mails: list[tuple[EmailMessage, list[str], bool, bool]] = field(default_factory=list)
    port: int = 0

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address.startswith("bad"):
            return "550 5.1.1 no such user here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        mail = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append((mail, envelope.rcpt_tos, bool(session.authenticated), session.ssl is not None))
        return f"250 2.0.0 OK queued as M{len(self.mails)}"


def login(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
    right = isinstance(data, LoginPassword) and (data.login, data.password) == (b"reaper", PASSWORD.encode())
    return AuthResult(handled=False, success=right)


def tls(authority: trustme.CA, name: str = "localhost") -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Posts:
    """A server on loopback that keeps what is posted and gives one answer, after those in `first`. Status 0: it sends these bytes alone."""

    url: str = ""
    answer: tuple[int, dict[str, str], bytes] = (200, {"X-Request-Id": "req-7"}, b"{}")
    first: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)


def smtp(inbox: Inbox, **fields: Any) -> str:
    spec = {"type": "smtp", "host": "localhost", "port": inbox.port, "from": "reaper@example.com", **fields}
    return f"  - {json.dumps(spec)}\n"


LOGIN = {"user": "reaper", "secret": "env:REAPER_SECRET_SMTP"}


Serve = Callable[..., Inbox]
