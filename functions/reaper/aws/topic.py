"""The summary to an SNS topic: subject and body for people, attributes for subscription filters.

A message has at most 262,144 bytes, attributes included: https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from reaper.errors import CloudError, Reason
from reaper.model import Report
from reaper.notices.message import without_markup
from reaper.report import brief
from reaper.report.totals import is_complete, report_totals

if TYPE_CHECKING:
    from mypy_boto3_sns.type_defs import MessageAttributeValueTypeDef

MAX_BYTES = 256_000
"""Of body; the rest of the limit is left to subject and attributes."""


def publish(topic: str, report: Report, stored: str | None) -> str:
    """Send the summary; gives SNS's message id. Raises CloudError when SNS does not accept it."""
    region = topic.split(":")[3]
    try:
        reply = boto3.client("sns", region_name=region).publish(
            TopicArn=topic,
            Subject=brief.summary_subject(report),
            Message=body(report, stored),
            MessageAttributes=_attributes(report),
        )
    except (ClientError, BotoCoreError) as error:
        raise CloudError(
            Reason.REFUSED, "sns:Publish", f"{topic}: the summary was not accepted: {error}", missing="sns:Publish"
        ) from error
    return reply["MessageId"]


def body(report: Report, stored: str | None) -> str:
    """The summary, cut at a line's end to fit, with a pointer to the full report."""
    pointer = f"Full report: {stored}\n" if stored else ""
    text = without_markup(brief.render(report))
    room = MAX_BYTES - len(pointer.encode()) - 100
    if len(text.encode()) > room:
        cut = text.encode()[:room].decode(errors="ignore")
        text = cut[: cut.rfind("\n") + 1] + "... cut here because it is too long for one message.\n"
    return text + pointer


def _attributes(report: Report) -> dict[str, MessageAttributeValueTypeDef]:
    sums = report_totals(report)
    return {
        "mode": {"DataType": "String", "StringValue": report.run.mode.value},
        "coverage": {"DataType": "String", "StringValue": "complete" if is_complete(report) else "incomplete"},
        "idle": {"DataType": "Number", "StringValue": str(sums.by_state["idle"])},
        "unknown": {"DataType": "Number", "StringValue": str(sums.by_state["unknown"])},
        "idle_usd_per_hour": {"DataType": "Number", "StringValue": str(sums.idle_usd_per_hour)},
    }
