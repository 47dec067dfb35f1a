"""Posts JSON to an address of yours, signed so that the receiver can check who sent it, and when.

`Reaper-Signature: t=<unix seconds>,v1=<hex>`: v1 is HMAC-SHA256 over `<t>.<body>` with the shared secret. Refuse a t that is more than
five minutes off. Redirects are not followed: the message is for that address only.
https://www.rfc-editor.org/rfc/rfc2104
"""

from __future__ import annotations

import hmac
import json
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import IO, Any
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


class Channel:
    """One address."""

    def __init__(self, spec: Webhook, context: ChannelContext) -> None:
        self._spec = spec
        self._context = context

    def send(self, message: Message) -> str:
        """Post it and return the status and the receiver's request ID. Raises CloudError for any reply but 2xx."""
        content = json.dumps(message_json(message), ensure_ascii=False, sort_keys=True).encode()
        stamp = int(self._context.clock().timestamp())
        secret = self._context.read_secret(self._spec.secret)
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "Reaper-Signature": f"t={stamp},v1={content_signature(secret, stamp, content)}",
            "User-Agent": f"ml-idle-reaper/{__version__}",
        }
        request = urllib.request.Request(self._spec.url, data=content, headers=headers, method="POST")
        host = urlsplit(self._spec.url).netloc
        opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=delivery.tls_context()))
        try:
            with opener.open(request, timeout=TIMEOUT_S) as reply:
                return _receipt(reply)
        except urllib.error.HTTPError as error:
            raise _refusal(host, error) from error
        except (OSError, HTTPException) as error:
            raise CloudError(Reason.UNREACHABLE, OPERATION, f"{host}: {error}") from error


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


def content_signature(secret: str, stamp: int, content: bytes) -> str:
    """HMAC-SHA256 over `stamp.content`, in hex."""
    return hmac.digest(secret.encode(), f"{stamp}.".encode() + content, "sha256").hex()


def _receipt(reply: HTTPResponse) -> str:
    name = tidy_line(reply.headers.get("X-Request-Id", ""), 80)
    return f"HTTP {reply.status} {name}".strip()


def _refusal(host: str, error: urllib.error.HTTPError) -> CloudError:
    reason = {401: Reason.DENIED, 403: Reason.DENIED, 429: Reason.THROTTLED}.get(error.code, Reason.REFUSED)
    missing = "the signing secret at the receiver" if reason is Reason.DENIED else None
    error.close()
    return CloudError(reason, OPERATION, f"{host} answered {error.code}", code=str(error.code), missing=missing)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Never follow: the reply stays a refusal."""


CHANNEL = Channel
