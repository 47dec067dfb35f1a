"""The summary by Azure Communication Services e-mail, as a page and as plain text.

https://learn.microsoft.com/azure/communication-services/quickstarts/email/send-email; one request has at most 10 MB:
https://learn.microsoft.com/azure/communication-services/concepts/service-limits#email
"""

from __future__ import annotations

from html import escape
from typing import Any

from azure.communication.email import EmailClient
from azure.core.exceptions import AzureError

from reaper.azure import trusted_hosts
from reaper.azure.credential import new_credential
from reaper.azure.http_policies import TIMEOUTS
from reaper.errors import CloudError, Reason
from reaper.model import Report
from reaper.report import brief, html
from reaper.settings import Email

PERMISSION = "Microsoft.Communication/CommunicationServices/write"
LARGEST_PAGE = 1_000_000
"""Letters; a longer page is left out in favour of the summary."""
PATIENCE = 120
"""Seconds until the service must have taken the mail."""


def send(email: Email, report: Report, stored: str | None) -> str:
    """Send the summary; gives the service's id of the mail. Raises CloudError when it is not accepted."""
    if because := trusted_hosts.refused_because(email.endpoint, "communication"):
        raise CloudError(Reason.REFUSED, PERMISSION, f"REAPER_EMAIL_ENDPOINT={because}")
    try:
        with EmailClient(email.endpoint, new_credential(), **TIMEOUTS) as client:
            poller = client.begin_send(message(email, report, stored), polling_interval=2)
            poller.wait(PATIENCE)
            result = poller.result() if poller.done() else {"status": poller.status(), "id": "unknown"}
    except (AzureError, ValueError) as error:
        text = (str(error).strip().splitlines() or [repr(error)])[0]
        raise CloudError(Reason.REFUSED, PERMISSION, f"{email.endpoint}: the summary was not accepted: {text}") from error
    if result.get("status") != "Succeeded":
        raise CloudError(
            Reason.REFUSED,
            PERMISSION,
            f"{email.endpoint}: the summary was not sent: {result.get('status')} {result.get('error')}",
        )
    return str(result["id"])


def message(email: Email, report: Report, stored: str | None) -> dict[str, Any]:
    """The mail as the service wants it."""
    text = brief.render(report) + (f"Full report: {stored}\n" if stored else "")
    page = html.render(report)
    if len(page) > LARGEST_PAGE:
        page = f"<!doctype html><html lang='en'><body><pre>{escape(text)}</pre></body></html>"
    return {
        "senderAddress": email.sender,
        "recipients": {"to": [{"address": address} for address in email.to]},
        "content": {"subject": brief.summary_subject(report), "plainText": text, "html": page},
        "userEngagementTrackingDisabled": True,
    }
