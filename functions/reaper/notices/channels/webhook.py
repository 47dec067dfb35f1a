"""A POST of JSON to an address of yours, signed so that the receiver can tell who sent it, and when.

`Reaper-Signature: t=<unix seconds>,v1=<hex>` where v1 is HMAC-SHA256 over `<t>.<body>` with the shared secret; refuse a t that is more than
five minutes off. Redirects are not followed: the message is for that address and no other.
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
from reaper.notices.channels import tls
from reaper.notices.channels.delivery import ChannelContext
from reaper.notices.message import Message, without_markup
from reaper.policy.channel_settings import Webhook

TIMEOUT_S = 15
OPERATION = "webhook:Post"


class Channel:
    """One address."""

    def __init__(self, spec: Webhook, means: ChannelContext) -> None:
        self._spec = spec
        self._means = means

    def send(self, message: Message) -> str:
        """Post it; gives the status and the receiver's request id. Raises CloudError for any answer but 2xx."""
        content = json.dumps(message_json(message), ensure_ascii=False, sort_keys=True).encode()
        stamp = int(self._means.clock().timestamp())
        secret = self._means.read_secret(self._spec.secret)
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "Reaper-Signature": f"t={stamp},v1={content_signature(secret, stamp, content)}",
            "User-Agent": f"ml-idle-reaper/{__version__}",
        }
        request = urllib.request.Request(self._spec.url, data=content, headers=headers, method="POST")
        host = urlsplit(self._spec.url).netloc
        opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=tls.tls_context()))
        try:
            with opener.open(request, timeout=TIMEOUT_S) as reply:
                return _receipt(reply)
        except urllib.error.HTTPError as error:
            raise _refusal(host, error) from error
        except (OSError, HTTPException) as error:
            raise CloudError(Reason.UNREACHABLE, OPERATION, f"{host}: {error}") from error


def message_json(message: Message) -> dict[str, Any]:
    """What is posted, `schema: 1`; subject and text may go on to a chat as they are."""
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
    name = "".join(c for c in reply.headers.get("X-Request-Id", "") if c.isprintable())[:80]
    return f"HTTP {reply.status} {name}".strip()


def _refusal(host: str, error: urllib.error.HTTPError) -> CloudError:
    trouble = {401: Reason.DENIED, 403: Reason.DENIED, 429: Reason.THROTTLED}.get(error.code, Reason.REFUSED)
    missing = "the signature's secret on the other side" if trouble is Reason.DENIED else None
    error.close()
    return CloudError(trouble, OPERATION, f"{host} answered {error.code}", code=str(error.code), missing=missing)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Never: the answer stays a refusal."""


CHANNEL = Channel
