"""Mail by SMTP. STARTTLS is insisted on unless the policy says otherwise; a recipient whom the server refuses is an error.

https://www.rfc-editor.org/rfc/rfc5321, https://www.rfc-editor.org/rfc/rfc3207
"""

from __future__ import annotations

import smtplib
from contextlib import suppress

from reaper.errors import CloudError, Reason
from reaper.notices.channels import tls
from reaper.notices.channels.delivery import ChannelContext
from reaper.notices.channels.mime import mail_bytes, make_mail
from reaper.notices.channels.recipients import recipient_addresses
from reaper.notices.message import Message
from reaper.policy.channel_settings import Smtp

TIMEOUT_S = 20
"""For each answer of the server."""
OPERATION = "smtp:Send"


class Channel:
    """One mail server; a connection for every message."""

    def __init__(self, spec: Smtp, means: ChannelContext) -> None:
        self._spec = spec
        self._means = means

    def send(self, message: Message) -> str:
        """Hand it over, to each address in a mail of its own; gives the server's answers. Raises CloudError."""
        where = f"{self._spec.host}:{self._spec.port}"
        people = recipient_addresses(message, self._spec.to, OPERATION)
        password = self._means.read_secret(self._spec.secret) if self._spec.secret else None
        try:
            server = self._connect(password)
            try:
                answers = [(to, *self._send_one(server, message, to)) for to in people]
            finally:
                _disconnect(server)
        except smtplib.SMTPAuthenticationError as error:
            raise CloudError(
                Reason.DENIED, OPERATION, f"{where}: login refused: {_error_text(error)}", missing="a valid login"
            ) from error
        except smtplib.SMTPNotSupportedError as error:
            raise CloudError(Reason.REFUSED, OPERATION, f"{where}: {error}; tls: {self._spec.tls} was asked for") from error
        except smtplib.SMTPResponseException as error:
            raise CloudError(Reason.REFUSED, OPERATION, f"{where}: {_error_text(error)}", code=str(error.smtp_code)) from error
        except (smtplib.SMTPException, OSError) as error:
            raise CloudError(Reason.UNREACHABLE, OPERATION, f"{where}: {error}") from error
        refused = [f"{to}: {code} {text}" for to, code, text in answers if code != 250]
        if refused:
            raise CloudError(Reason.REFUSED, OPERATION, f"{where} refused {'; '.join(refused)}")
        return "; ".join(f"{code} {text}" for _, code, text in answers)

    def _connect(self, password: str | None) -> smtplib.SMTP:
        spec = self._spec
        name = spec.sender.rpartition("@")[2]
        if spec.tls == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(spec.host, spec.port, name, timeout=TIMEOUT_S, context=tls.tls_context())
        else:
            server = smtplib.SMTP(spec.host, spec.port, name, timeout=TIMEOUT_S)
        try:
            if spec.tls == "starttls":
                server.starttls(context=tls.tls_context())
            if spec.user is not None and password is not None:
                server.login(spec.user, password)
            server.ehlo_or_helo_if_needed()
        except (smtplib.SMTPException, OSError):
            server.close()
            raise
        return server

    def _send_one(self, server: smtplib.SMTP, message: Message, to: str) -> tuple[int, str]:
        """The server's last answer: 250 once it has taken the mail, else the refusal."""
        content = mail_bytes(make_mail(message, self._spec.sender, to, self._means.clock()))
        code, text = server.mail(self._spec.sender)
        if code == 250:
            code, text = server.rcpt(to)
        if code in {250, 251}:
            code, text = server.data(content)
        else:
            server.rset()
        return code, _one_line(text)


def _error_text(error: smtplib.SMTPResponseException) -> str:
    return f"{error.smtp_code} {_one_line(error.smtp_error)}"


def _one_line(text: bytes | str) -> str:
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return " ".join("".join(c if c.isprintable() else " " for c in words).split())[:200]


def _disconnect(server: smtplib.SMTP) -> None:
    """Say goodbye. How the server takes that says nothing of the mails it has taken before."""
    with suppress(smtplib.SMTPException, OSError):
        server.quit()
    server.close()


CHANNEL = Channel
