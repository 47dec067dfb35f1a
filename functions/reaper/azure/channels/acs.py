"""Sends mail with Azure Communication Services, and waits until its operation reports success.

https://learn.microsoft.com/azure/communication-services/quickstarts/email/send-email
"""

from __future__ import annotations

import binascii
from typing import Any

from azure.communication.email import EmailClient
from azure.core.credentials import AzureKeyCredential, TokenCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError

from reaper.azure.requests import first_line
from reaper.azure.session import new_credential
from reaper.azure.stores import trusted_hosts
from reaper.errors import CloudError, Reason
from reaper.notices.channels.delivery import ChannelContext
from reaper.notices.message import Message, recipient
from reaper.policy.channel_settings import Acs

SEND_TIMEOUT_S = 60
"""How long the service may take to report that it has sent the mail."""
TIMEOUTS = {"connection_timeout": 5, "read_timeout": 30, "retry_total": 3, "polling_interval": 1}
OPERATION = "Microsoft.Communication/emails/action"


class Channel:
    """One communication service, with its access key or the app's own identity."""

    def __init__(self, spec: Acs, context: ChannelContext) -> None:
        self._spec = spec
        self._context = context

    def send(self, message: Message) -> str:
        """Send it, wait for the result, and return the operation's ID. Raises CloudError."""
        mail = {
            "senderAddress": self._spec.sender,
            "recipients": {"to": [{"address": recipient(message, OPERATION)}]},
            "content": {"subject": message.subject, "plainText": message.text, "html": message.html},
            "headers": {"X-Auto-Response-Suppress": "All"},
            "userEngagementTrackingDisabled": True,
        }
        credential = self.credential()
        try:
            with EmailClient(self._spec.endpoint, credential, **TIMEOUTS) as client:
                poller: Any = client.begin_send(mail)
                done = poller.result(SEND_TIMEOUT_S)
        except (AzureError, binascii.Error) as error:
            raise error_from_sdk(error) from error
        if not poller.done():
            raise CloudError(Reason.PARTIAL, OPERATION, f"no confirmation after {SEND_TIMEOUT_S} seconds")
        if done.get("status") != "Succeeded":
            raise CloudError(
                Reason.REFUSED, OPERATION, f"{done.get('status')}: {(done.get('error') or {}).get('message', '')}"[:300]
            )
        return str(done["id"])

    def credential(self) -> AzureKeyCredential | TokenCredential:
        if self._spec.secret:
            return AzureKeyCredential(self._context.read_secret(self._spec.secret))
        if because := trusted_hosts.refused_because(self._spec.endpoint, "communication"):
            raise CloudError(Reason.REFUSED, OPERATION, because)
        return new_credential()


def error_from_sdk(error: Exception) -> CloudError:
    """The meaning of azure-core's errors. The text of a wrong key is not repeated."""
    if isinstance(error, ClientAuthenticationError):
        return CloudError(Reason.DENIED, OPERATION, first_line(error), missing=OPERATION)
    if isinstance(error, binascii.Error):
        return CloudError(Reason.REFUSED, OPERATION, "the access key isn't base64")
    if not isinstance(error, HttpResponseError):
        return CloudError(Reason.UNREACHABLE, OPERATION, first_line(error))
    if error.status_code == 403:
        return CloudError(Reason.DENIED, OPERATION, first_line(error), code="403", missing=OPERATION)
    reason = Reason.THROTTLED if error.status_code == 429 else Reason.REFUSED
    return CloudError(reason, OPERATION, first_line(error), code=str(error.status_code or ""))
