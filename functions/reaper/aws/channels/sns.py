"""Publishes to an SNS topic, with attributes, so that a filter policy such as {"owner": ["lee@example.com"]} passes on only their messages.

A message has at most 262,144 bytes, attributes included: https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
Attribute types: https://docs.aws.amazon.com/sns/latest/dg/sns-message-attributes.html
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping

from reaper.aws.session import CloudSession, new_session
from reaper.model import Target
from reaper.notices.channels.delivery import ChannelContext
from reaper.notices.message import MAX_SHORT_SUBJECT, WORD_JOINER, AttributeValue, Message, without_markup
from reaper.policy.channel_settings import Sns

MAX_BYTES = 262_144
CUT_NOTE = "\n[cut here: SNS accepts no longer messages]\n"


class Channel:
    """One topic; its ARN names the region."""

    def __init__(self, spec: Sns, context: ChannelContext) -> None:
        account, region = spec.topic.split(":")[4], spec.topic.split(":")[3]
        self._topic = spec.topic
        self._cloud = CloudSession(new_session(), Target(cloud="aws", account=account, region=region))

    def send(self, message: Message) -> str:
        """Publish it and return SNS's message ID. Raises CloudError."""
        title = ascii_subject(without_markup(message.short_subject or message.subject))
        attributes = message_attributes(message.attributes)
        spent = len(title) + sum(len(name) + sum(len(v.encode()) for v in value.values()) for name, value in attributes.items())
        reply = self._cloud.call(
            "sns",
            "Publish",
            "MessageId",
            TopicArn=self._topic,
            Subject=title,
            Message=cut_to_bytes(without_markup(message.text), MAX_BYTES - spent),
            MessageAttributes=attributes,
        )
        return str(reply["MessageId"])


def ascii_subject(text: str) -> str:
    """In ASCII and short enough, beginning with a letter, a digit or punctuation, as SNS requires.

    A word joiner becomes a blank, since it is not ASCII; other invisible characters are removed.
    """
    visible = "".join(c for c in text.replace(WORD_JOINER, " ") if unicodedata.category(c) != "Cf")
    return visible.encode("ascii", "replace").decode().strip()[:MAX_SHORT_SUBJECT]


def message_attributes(values: Mapping[str, AttributeValue]) -> dict[str, dict[str, str]]:
    """In SNS's form. A list becomes a String.Array, of which a filter has to match one element; empty values are omitted."""
    return {name: _attribute_value(value) for name, value in values.items() if value not in ("", ())}


def cut_to_bytes(text: str, room: int) -> str:
    """`text` in at most `room` bytes of UTF-8, cut between characters, with a note."""
    raw = text.encode()
    return text if len(raw) <= room else raw[: room - len(CUT_NOTE)].decode("utf-8", "ignore") + CUT_NOTE


def _attribute_value(value: AttributeValue) -> dict[str, str]:
    if isinstance(value, tuple):
        return {"DataType": "String.Array", "StringValue": json.dumps(value)}
    kind = "String" if isinstance(value, str) else "Number"
    return {"DataType": kind, "StringValue": str(value)}
