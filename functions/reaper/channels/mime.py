"""A message as a mail: plain text first, HTML as the better alternative, headers that keep robots from answering.

https://www.rfc-editor.org/rfc/rfc3834 (automatic mails say so)
"""

from __future__ import annotations

from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from uuid import uuid4

from reaper.message import Message

NAME = "ML Idle Reaper"


def mail(message: Message, sender: str, to: str, now: datetime) -> EmailMessage:
    """The mail from `sender` to the one address `to`. Lines are folded and encoded as RFC 5322 and 2047 ask."""
    made = EmailMessage()
    made["From"] = Address(NAME, addr_spec=sender)
    made["To"] = Address(addr_spec=to)
    made["Subject"] = message.subject
    made["Date"] = format_datetime(now)
    made["Message-ID"] = f"<{uuid4()}@{sender.rpartition('@')[2]}>"
    made["Auto-Submitted"] = "auto-generated"
    made["X-Auto-Response-Suppress"] = "All"
    made.set_content(message.text, cte="quoted-printable")
    made.add_alternative(message.html, subtype="html", cte="quoted-printable")
    return made
