"""Mail by Amazon SES, version 2 of its API: https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html"""

from __future__ import annotations

from email.utils import formataddr
from typing import Any

import boto3

from reaper.aws.session import Cloud
from reaper.model import Target
from reaper.notices.channels.delivery import Means
from reaper.notices.channels.mime import NAME
from reaper.notices.channels.recipients import recipients
from reaper.notices.message import Message
from reaper.policy.channel_settings import Ses

OPERATION = "ses:SendEmail"


class Channel:
    """One region's SES; `from` is an identity that is verified there."""

    def __init__(self, spec: Ses, means: Means) -> None:
        session = boto3.Session()
        self._spec = spec
        self._cloud = Cloud(session, Target(cloud="aws", account="unknown", region=spec.region or session.region_name))

    def send(self, message: Message) -> str:
        """Send it with both bodies; gives SES's message id. Raises CloudError."""
        chosen: dict[str, Any] = {"ConfigurationSetName": self._spec.configuration_set} if self._spec.configuration_set else {}
        reply = self._cloud.call(
            "sesv2",
            "SendEmail",
            "MessageId",
            FromEmailAddress=formataddr((NAME, self._spec.sender)),
            Destination={"ToAddresses": recipients(message, self._spec.to, OPERATION)},
            Content={"Simple": {"Subject": _text(message.subject), "Body": _bodies(message)}},
            **chosen,
        )
        return str(reply["MessageId"])


def _bodies(message: Message) -> dict[str, dict[str, str]]:
    return {"Text": _text(message.text), "Html": _text(message.html)}


def _text(text: str) -> dict[str, str]:
    return {"Data": text, "Charset": "UTF-8"}


CHANNEL = Channel
