"""Slack, Teams, PagerDuty and a hundred more, through Apprise: https://github.com/caronc/apprise/wiki

Text is sent as plain text, so that each service's plugin escapes it; masked links and mentions of a whole channel are broken up first.
"""

from __future__ import annotations

from dataclasses import dataclass

import apprise

from reaper.errors import CloudError, Reason
from reaper.notices.channels.delivery import ChannelContext
from reaper.notices.message import Message, without_markup
from reaper.policy.channel_settings import Apprise

TIMEOUT_S = 30
OPERATION = "apprise:Notify"


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """One Apprise address."""

    spec: Apprise
    context: ChannelContext

    def send(self, message: Message) -> str:
        """Send it and return the service's name, since chats have no receipts. Raises CloudError if the service doesn't accept it."""
        target = self._open_target()
        result = target.notify(
            body=without_markup(message.text),
            title=without_markup(message.subject),
            body_format=apprise.NotifyFormat.TEXT,
            timeout=TIMEOUT_S,
        )
        name = str(target[0].service_name)
        if not result:
            status = result.status.name.lower()
            reason = Reason.UNREACHABLE if status == "timeout" else Reason.REFUSED
            raise CloudError(reason, OPERATION, f"{name} did not accept the message ({status})")
        return f"accepted by {name}"

    def service_name(self) -> str:
        """The service that the address names. Connects to nothing. Raises CloudError for an invalid address."""
        return str(self._open_target()[0].service_name)

    def _open_target(self) -> apprise.Apprise:
        """The opened address. Errors never repeat it: it is a secret."""
        address = self.context.read_secret(self.spec.secret) if self.spec.secret else self.spec.url or ""
        asset = apprise.AppriseAsset(app_id="ML Idle Reaper", app_desc="ML Idle Reaper", app_url="", storage_mode="memory")
        target = apprise.Apprise(asset=asset)
        if not target.add(address.strip()) or len(target) != 1:
            raise CloudError(Reason.REFUSED, OPERATION, f"{self.spec.secret or 'url'} is not a single Apprise address")
        for service in target:
            service.overflow_mode = apprise.OverflowMode.SPLIT
        return target
