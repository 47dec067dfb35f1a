"""Sends mail with Amazon SES, version 2 of its API: https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html"""

from __future__ import annotations

from email.utils import formataddr
from typing import Any

from reaper.aws.session import CloudSession, new_session
from reaper.model import Target
from reaper.notices.channels.delivery import ChannelContext
from reaper.notices.message import SENDER_NAME, Message, recipient
from reaper.policy.channel_settings import Ses

OPERATION = "ses:SendEmail"


class Channel:
    """One region's SES; `from` must be an identity that is verified there."""

    def __init__(self, spec: Ses, context: ChannelContext) -> None:
        session = new_session()
        self._spec = spec
        self._cloud = CloudSession(session, Target(cloud="aws", account="unknown", region=spec.region or session.region_name))

    def send(self, message: Message) -> str:
        """Send it with both bodies and return SES's message ID. Raises CloudError."""
        options: dict[str, Any] = {"ConfigurationSetName": self._spec.configuration_set} if self._spec.configuration_set else {}
        body = {"Text": _text_content(message.text), "Html": _text_content(message.html)}
        reply = self._cloud.call(
            "sesv2",
            "SendEmail",
            "MessageId",
            FromEmailAddress=formataddr((SENDER_NAME, self._spec.sender)),
            Destination={"ToAddresses": [recipient(message, OPERATION)]},
            Content={"Simple": {"Subject": _text_content(message.subject), "Body": body}},
            **options,
        )
        return str(reply["MessageId"])


def _text_content(text: str) -> dict[str, str]:
    return {"Data": text, "Charset": "UTF-8"}
