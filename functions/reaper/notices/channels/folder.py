"""Writes mails to files, for the demo and to preview them: one .eml and one .html each."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from reaper.errors import CloudError, Reason
from reaper.notices.channels.delivery import ChannelContext
from reaper.notices.channels.smtp import mail_bytes, make_mail
from reaper.notices.message import Message
from reaper.policy.channel_settings import Folder

SENDER = "ml-idle-reaper@localhost.localdomain"
ADMINS = "admins@localhost.localdomain"
UNSAFE_IN_A_NAME = r"[^A-Za-z0-9.@_+'=-]+"
"""What isn't in an address. Addresses stay as they are, so that `reaper forget` finds them in the receipts."""


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """One directory, created with the first mail."""

    spec: Folder
    context: ChannelContext

    def send(self, message: Message) -> str:
        """Write it and return the path of the .eml. The same message written twice is one file."""
        to = message.to or ADMINS
        digest = hashlib.sha256(f"{to}\n{message.subject}\n{message.text}".encode("utf-8", "replace")).hexdigest()[:8]
        folder = Path(self.spec.path)
        path = folder / f"{re.sub(UNSAFE_IN_A_NAME, '-', to)[:80]}-{digest}.eml"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(mail_bytes(make_mail(message, SENDER, to, self.context.clock()), "\n"))
            path.with_suffix(".html").write_text(message.html, encoding="utf-8")
        except OSError as error:
            raise CloudError(Reason.REFUSED, "folder:Write", f"{folder}: {error}") from error
        return str(path)
