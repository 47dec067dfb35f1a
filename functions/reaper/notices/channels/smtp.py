"""Sends mail by SMTP. STARTTLS is required unless the policy says otherwise; a recipient that the server refuses is an error.

A mail has plain text first, HTML as the richer alternative, and headers that prevent automatic replies.
https://www.rfc-editor.org/rfc/rfc5321, https://www.rfc-editor.org/rfc/rfc3207, https://www.rfc-editor.org/rfc/rfc3834
"""

from __future__ import annotations

import smtplib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from uuid import uuid4

from reaper.errors import CloudError, Reason
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import ChannelContext
from reaper.notices.message import SENDER_NAME, Message, recipient
from reaper.policy.channel_settings import Smtp
from reaper.text import tidy_line

TIMEOUT_S = 20
"""For each reply of the server."""
MAX_LINE_LENGTH = 998
"""The most characters of a line (RFC 5322, 2.1.1)."""
OPERATION = "smtp:Send"


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """One mail server; each message has a connection of its own."""

    spec: Smtp
    context: ChannelContext

    def send(self, message: Message) -> str:
        """Send it and return the server's reply. Raises CloudError."""
        to = recipient(message, OPERATION)
        password = self._read_password()
        with self._errors_as_cloud_errors():
            server = self._connect(password)
            try:
                content = mail_bytes(make_mail(message, self.spec.sender, to, self.context.clock()))
                code, reply = server.mail(self.spec.sender)
                if code == 250:
                    code, reply = server.rcpt(to)
                if code in {250, 251}:
                    code, reply = server.data(content)
                else:
                    server.rset()
            finally:
                _disconnect(server)
        if code != 250:
            raise CloudError(Reason.REFUSED, OPERATION, f"{self._where} refused {to}: {code} {_one_line(reply)}")
        return f"{code} {_one_line(reply)}"

    def say_hello(self) -> str:
        """Connect, encrypt, log in and hang up, without sending anything. Returns what worked. Raises CloudError."""
        password = self._read_password()
        with self._errors_as_cloud_errors():
            _disconnect(self._connect(password))
        login = f", logged in as {self.spec.user}" if self.spec.user else ""
        return f"answers (tls: {self.spec.tls}){login}"

    @property
    def _where(self) -> str:
        return f"{self.spec.host}:{self.spec.port}"

    def _read_password(self) -> str | None:
        return self.context.read_secret(self.spec.secret) if self.spec.secret else None

    @contextmanager
    def _errors_as_cloud_errors(self) -> Iterator[None]:
        where = self._where
        try:
            yield
        except smtplib.SMTPAuthenticationError as error:
            raise CloudError(
                Reason.DENIED,
                OPERATION,
                f"{where}: login refused: {error.smtp_code} {_one_line(error.smtp_error)}",
                missing="a valid login",
            ) from error
        except smtplib.SMTPNotSupportedError as error:
            raise CloudError(Reason.REFUSED, OPERATION, f"{where}: {error}; the policy asks for tls: {self.spec.tls}") from error
        except smtplib.SMTPResponseException as error:
            raise CloudError(
                Reason.REFUSED, OPERATION, f"{where}: {error.smtp_code} {_one_line(error.smtp_error)}", code=str(error.smtp_code)
            ) from error
        except (smtplib.SMTPException, OSError) as error:
            raise CloudError(Reason.UNREACHABLE, OPERATION, f"{where}: {error}") from error

    def _connect(self, password: str | None) -> smtplib.SMTP:
        spec = self.spec
        name = spec.sender.rpartition("@")[2]
        if spec.tls == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(spec.host, spec.port, name, timeout=TIMEOUT_S, context=delivery.tls_context())
        else:
            server = smtplib.SMTP(spec.host, spec.port, name, timeout=TIMEOUT_S)
        try:
            if spec.tls == "starttls":
                server.starttls(context=delivery.tls_context())
            if spec.user is not None and password is not None:
                server.login(spec.user, password)
            server.ehlo_or_helo_if_needed()
        except (smtplib.SMTPException, OSError):
            server.close()
            raise
        return server


def _one_line(text: bytes | str) -> str:
    return tidy_line(text.decode("utf-8", "replace") if isinstance(text, bytes) else text, 200)


def _disconnect(server: smtplib.SMTP) -> None:
    """Close the connection. How the server replies doesn't matter for the mails it has accepted."""
    with suppress(smtplib.SMTPException, OSError):
        server.quit()
    server.close()


def make_mail(message: Message, sender: str, to: str, now: datetime) -> EmailMessage:
    """The mail from `sender` to the address `to`. Bodies are encoded in lines that every server accepts; `mail_bytes` does so for headers."""
    mail = EmailMessage()
    mail["From"] = Address(SENDER_NAME, addr_spec=sender)
    mail["To"] = Address(addr_spec=to)
    mail["Subject"] = message.subject
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{uuid4()}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail.set_content(message.text, cte="quoted-printable")
    mail.add_alternative(message.html, subtype="html", cte="quoted-printable")
    return mail


def mail_bytes(mail: EmailMessage, linesep: str = "\r\n") -> bytes:
    """The mail as bytes. An ASCII subject stays on one line, since readers show a folded one with extra blanks; others fold by RFC 2047."""
    whole = str(mail["Subject"]).isascii()
    return mail.as_bytes(
        policy=policy.SMTP.clone(linesep=linesep, max_line_length=MAX_LINE_LENGTH if whole else policy.SMTP.max_line_length)
    )
