"""Slack's incoming webhooks and Teams's workflows: one room for all readers. The webhook's URL is the secret, so no error or receipt has more than its host.

https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
https://support.microsoft.com/office/create-incoming-webhooks-with-workflows-for-microsoft-teams-8ae491c7-0394-4861-ba59-055e33f75498
"""

from __future__ import annotations

import json
import re
import time
from datetime import timedelta
from http.client import HTTPResponse
from urllib.parse import unquote

from reaper.errors import CloudError, Reason
from reaper.notices.channels.delivery import ChannelContext
from reaper.notices.channels.webhook import post_json
from reaper.notices.message import Message
from reaper.notices.render import card_payload
from reaper.policy.channel_settings import Room
from reaper.text import tidy_line
from reaper.urls import is_loopback, split_address

HOSTS = {
    "slack": r"hooks\.slack\.com",
    "teams": r"[a-z0-9.-]+\.(environment\.api\.powerplatform\.com|logic\.azure\.(com|us|cn))",
}
RETIRED_HOSTS = r"(.+\.)?webhook\.office\.com|outlook\.office(365)?\.com"
EXAMPLES = {"slack": "https://hooks.slack.com/services/…", "teams": "https://….environment.api.powerplatform.com/…"}
FIXES = {
    "slack": "create an incoming webhook for a channel that still exists, have an admin allow it, and store its URL as the secret",
    "teams": "check that the workflow is on and posts the card that it gets, or create a new one and store its URL as the secret",
}
OF_THE_MESSAGE = r"4(?!01|03|04|10)\d\d"
"""The statuses that refuse one message. Any other refusal is about the room, or comes from something in between."""
REASONS = {401: Reason.DENIED, 403: Reason.DENIED, 408: Reason.UNREACHABLE, 429: Reason.THROTTLED}
MAX_WAIT_S = 30
"""The longest wait that a service may ask for before a message is posted once more."""


class Channel:
    """One room. Once its service has refused the webhook itself, it isn't asked again in this run."""

    def __init__(self, spec: Room, context: ChannelContext) -> None:
        self._spec = spec
        self._context = context
        self._operation = f"{spec.type}:Post"
        self._refusal: CloudError | None = None

    def send(self, message: Message) -> str:
        """Post its card and return a receipt. Raises CloudError if it isn't accepted."""
        if self._refusal:
            raise self._refusal
        payload = card_payload(message, self._spec.type)
        if payload is None:
            raise CloudError(Reason.REFUSED, self._operation, "the message is too long for a card")
        try:
            return self._post(json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace"))
        except CloudError as error:
            if error.reason is not Reason.UNREACHABLE and not re.fullmatch(OF_THE_MESSAGE, error.code):
                self._refusal = error
            raise

    def url(self) -> str:
        """The webhook's URL, a secret. Raises CloudError if it is none of the service's, and doesn't repeat it."""
        text, kind = self._context.read_secret(self._spec.secret).strip(), self._spec.type
        parts = split_address(text)
        host = (parts.hostname or "").lower()
        is_local = parts.scheme == "http" and is_loopback(host)
        problem = None
        if re.fullmatch(RETIRED_HOSTS, host):
            problem = f"this is an Office 365 connector, which Microsoft has retired; {FIXES['teams']}"
        elif not (parts.scheme == "https" or is_local) or not re.fullmatch(r"[!-?A-~]+", text):
            problem = f"expected the https URL of a webhook, such as {EXAMPLES[kind]}"
        elif not (is_local or re.fullmatch(HOSTS[kind], host) or host == (self._spec.host or "").lower()):
            problem = f"the URL's host isn't that of {kind}: expected {EXAMPLES[kind]}, or set `host` in the policy"
        if problem:
            raise CloudError(Reason.REFUSED, self._operation, f"{self._spec.secret}: {problem}")
        return text

    def _post(self, content: bytes) -> str:
        url = self.url()
        try:
            reply, text = post_json(url, content, {}, self._operation)
            if reply.status == 429 and self._has_waited(reply.headers.get("Retry-After", "")):
                reply, text = post_json(url, content, {}, self._operation)
        except CloudError as error:
            raise error.reworded(without_parts(str(error).removeprefix(f"{self._operation}: "), url)) from None
        if self._spec.type == "slack" and reply.status == 200 and text.strip() == "ok":
            return "accepted (HTTP 200)"
        if self._spec.type == "teams" and 200 <= reply.status < 300 and not text.lstrip().startswith("<"):
            return f"accepted, which isn't proof of delivery (HTTP {reply.status})"
        raise self._refused(reply, without_parts(tidy_line(text, 200), url), split_address(url).netloc)

    def _has_waited(self, asked: str) -> bool:
        """Whether the wait that the service asks for was short enough."""
        seconds, deadline = int(asked) if re.fullmatch("[0-9]{1,4}", asked) else MAX_WAIT_S + 1, self._context.deadline
        if seconds > MAX_WAIT_S or (deadline and self._context.clock() + timedelta(seconds=seconds) > deadline):
            return False
        time.sleep(seconds)
        return True

    def _refused(self, reply: HTTPResponse, text: str, host: str) -> CloudError:
        status = reply.status
        fix = FIXES[self._spec.type]
        if status < 400:
            fix = "that isn't the service's own answer; check the URL, and that no proxy or login page is in between"
        elif status == 429 or status >= 500:
            fix = "the next message is tried again"
        reason = REASONS.get(status, Reason.UNREACHABLE if status >= 500 else Reason.REFUSED)
        missing = f"a valid webhook in {self._spec.secret}" if reason is Reason.DENIED else None
        says = f" ({'a web page' if text.startswith('<') else text})" if text else ""
        return CloudError(reason, self._operation, f"{host} answered {status}{says}; {fix}", code=str(status), missing=missing)


def without_parts(text: str, url: str) -> str:
    """`text` without any part of the URL that may be secret. Parts of less than eight characters are words such as `invoke`."""
    parts = split_address(url)
    pieces = {url, parts.path, parts.query, *re.split("[/&=]", f"{parts.path}&{parts.query}")}
    for piece in sorted({*pieces, *map(unquote, pieces)}, key=len, reverse=True):
        text = text.replace(piece, "…") if len(piece) >= 8 else text
    return text
