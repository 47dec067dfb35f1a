"""Turns a message into a mail: plain text first, HTML as the richer alternative, headers that prevent automatic replies.

https://www.rfc-editor.org/rfc/rfc3834 (automatic mail is marked)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from uuid import uuid4

from reaper.errors import CloudError, Reason
from reaper.notices.message import Audience, Message, is_plain_address

SENDER_NAME = "ML Idle Reaper"
MAX_LINE_LENGTH = 998
"""The most characters of a line (RFC 5322, 2.1.1)."""


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


# MERGED The recipients of a mail: the owner, or the channel's admins. Pure.


def recipient_addresses(message: Message, admins: Sequence[str], operation: str) -> list[str]:
    """The addresses, each once. Raises CloudError if there are none or if one is not plain."""
    addresses = list(dict.fromkeys(admins)) if message.audience is Audience.ADMINS and admins else [message.to]
    if not all(is_plain_address(address) for address in addresses):
        raise CloudError(Reason.REFUSED, operation, "no recipient: set the channel's `to`, or owners.fallback in the policy")
    return addresses
