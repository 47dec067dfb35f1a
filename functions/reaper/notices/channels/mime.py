"""A message as a mail: plain text first, HTML as the better alternative, headers that keep robots from answering.

https://www.rfc-editor.org/rfc/rfc3834 (automatic mails say so)
"""

from __future__ import annotations

from datetime import datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from uuid import uuid4

from reaper.notices.message import Message

SENDER_NAME = "ML Idle Reaper"
MAX_LINE_LENGTH = 998
"""Characters that a line may have (RFC 5322, 2.1.1)."""


def make_mail(message: Message, sender: str, to: str, now: datetime) -> EmailMessage:
    """The mail from `sender` to the one address `to`. Bodies are encoded in lines that any server takes; `packed` does it for headers."""
    made = EmailMessage()
    made["From"] = Address(SENDER_NAME, addr_spec=sender)
    made["To"] = Address(addr_spec=to)
    made["Subject"] = message.subject
    made["Date"] = format_datetime(now)
    made["Message-ID"] = f"<{uuid4()}@{sender.rpartition('@')[2]}>"
    made["Auto-Submitted"] = "auto-generated"
    made["X-Auto-Response-Suppress"] = "All"
    made.set_content(message.text, cte="quoted-printable")
    made.add_alternative(message.html, subtype="html", cte="quoted-printable")
    return made


def mail_bytes(made: EmailMessage, linesep: str = "\r\n") -> bytes:
    """The mail as bytes. A plain subject stays on one line, since readers show a folded one with blanks in it; others fold as RFC 2047 asks."""
    whole = str(made["Subject"]).isascii()
    return made.as_bytes(
        policy=policy.SMTP.clone(linesep=linesep, max_line_length=MAX_LINE_LENGTH if whole else policy.SMTP.max_line_length)
    )
