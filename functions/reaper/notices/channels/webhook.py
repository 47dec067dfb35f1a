"""Posts JSON to an address of yours, signed so that the receiver can check who sent it, and when.

`Reaper-Signature: t=<unix seconds>,v1=<hex>`: v1 is HMAC-SHA256 over `<t>.<body>` with the shared secret. Refuse a t that is more than
five minutes off. Redirects are not followed: the message is for that address only.
https://www.rfc-editor.org/rfc/rfc2104
"""

from __future__ import annotations

import hmac
import json
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from reaper import __version__
from reaper.errors import CloudError, Reason
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import ChannelContext
from reaper.notices.message import Message, without_markup
from reaper.policy.channel_settings import Webhook
from reaper.text import tidy_line

TIMEOUT_S = 15
OPERATION = "webhook:Post"


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """One address."""

    spec: Webhook
    context: ChannelContext

    def send(self, message: Message) -> str:
        """Post it and return the status and the receiver's request ID. Raises CloudError for any reply but 2xx."""
        content = json.dumps(message_json(message), ensure_ascii=False, sort_keys=True).encode()
        stamp = int(self.context.clock().timestamp())
        secret = self.context.read_secret(self.spec.secret)
        signature = hmac.digest(secret.encode(), f"{stamp}.".encode() + content, "sha256").hex()
        headers = {"Reaper-Signature": f"t={stamp},v1={signature}"}
        reply, _ = post_json(self.spec.url, content, headers, OPERATION)
        if not 200 <= reply.status < 300:
            reason = {401: Reason.DENIED, 403: Reason.DENIED, 429: Reason.THROTTLED}.get(reply.status, Reason.REFUSED)
            missing = "the signing secret at the receiver" if reason is Reason.DENIED else None
            why = f"{urlsplit(self.spec.url).netloc} answered {reply.status}"
            raise CloudError(reason, OPERATION, why, code=str(reply.status), missing=missing)
        return f"HTTP {reply.status} {tidy_line(reply.headers.get('X-Request-Id', ''), 80)}".strip()


def message_json(message: Message) -> dict[str, Any]:
    """The posted JSON, `schema: 1`; subject and text are safe to pass on to a chat."""
    return {
        "schema": 1,
        "to": message.to or None,
        "audience": message.audience.value,
        "subject": without_markup(message.subject),
        "text": without_markup(message.text),
        "attributes": dict(message.attributes),
        "resources": list(message.resource_ids),
    }


def post_json(url: str, content: bytes, headers: Mapping[str, str], operation: str) -> tuple[HTTPResponse, str]:
    """Post it once and return the reply, already closed, whatever its status, and the beginning of its body. Raises CloudError if there is none."""
    named = {"Content-Type": "application/json; charset=utf-8", "User-Agent": f"ml-idle-reaper/{__version__}", **headers}
    request = urllib.request.Request(url, data=content, headers=named, method="POST")
    opener = urllib.request.build_opener(AnyStatus, urllib.request.HTTPSHandler(context=delivery.tls_context()))
    text = b""
    try:
        with opener.open(request, timeout=TIMEOUT_S) as reply:
            with suppress(OSError, HTTPException):  # the status alone says whether it was accepted
                text = reply.read1(2000)
            return reply, text.decode("utf-8", "replace")
    except (OSError, HTTPException) as error:
        raise CloudError(Reason.UNREACHABLE, operation, f"{urlsplit(url).netloc}: {error}") from error


class AnyStatus(urllib.request.HTTPErrorProcessor):
    """Returns every reply as it is: no status is an error, and no redirect is followed."""

    def http_response(self, request: urllib.request.Request, response: HTTPResponse) -> HTTPResponse:
        return response

    https_response = http_response
