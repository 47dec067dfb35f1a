"""Signed snooze links: a random ID and an expiry. What a link opens is in the ledger, in the row of that ID. Pure.

HMAC-SHA256 (RFC 2104), so that nothing is read from the ledger before the signature is verified. The text of the signature is compared, not
its bytes: base64 has several spellings of the same bytes (RFC 4648, section 3.5), and only one of them is valid here.

A link is signed together with its deployment, and no other deployment accepts it, even with the same secret.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from reaper.errors import ReaperError
from reaper.ledger.opening import MAX_DEPLOYMENT

MIN_SECRET = 32
CONTEXT = b"ml-idle-reaper link to the resources of one mail\0"
"""Makes a signature that the same secret made for something else invalid here."""

_TOKEN_PATTERN = re.compile(r"v1\.([A-Za-z0-9_-]{1,32})\.([A-Za-z0-9_-]{22})\.([0-9]{9,11})\.([A-Za-z0-9_-]{43})")


class InvalidLink(ReaperError):
    """A link that isn't valid. The text is the same for every reason; `detail` is only for the log."""

    def __init__(self, detail: str) -> None:
        super().__init__("this link isn't valid")
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Secrets by key ID; `current` signs, every key verifies links of that `deployment`, of none if empty. Raises ValueError."""

    current: str
    ring: Mapping[str, bytes]
    deployment: str = ""

    def __post_init__(self) -> None:
        if self.current not in self.ring:
            raise ValueError(f"the current key {self.current!r} is missing from the keys")
        for name, secret in self.ring.items():
            if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", name):
                raise ValueError(f"invalid key name {name!r}: use at most 32 letters, digits, - and _")
            if len(secret) < MIN_SECRET:
                raise ValueError(f"key {name!r} has {len(secret)} bytes; use at least {MIN_SECRET}")
        if len(self.deployment) > MAX_DEPLOYMENT or not self.deployment.isprintable():
            raise ValueError(f"the deployment must be one line of at most {MAX_DEPLOYMENT} characters")

    def __repr__(self) -> str:
        """The keys without their secrets, so that no log can show them."""
        return f"Keys(current={self.current!r}, ring=<{len(self.ring)} secrets>, deployment={self.deployment!r})"


def sign_link(visit_id: str, expires: datetime, keys: Keys) -> str:
    """The token of a visit, safe in an address. `visit_id`: 16 random bytes in base64, 22 characters."""
    head = f"v1.{keys.current}.{visit_id}.{int(expires.timestamp())}"
    token = f"{head}.{_signature_of(keys.ring[keys.current], head, keys.deployment)}"
    if not _TOKEN_PATTERN.fullmatch(token):
        raise ValueError(f"{visit_id!r} until {expires} is not a visit that a link can carry")
    return token


def verify_link(token: str, keys: Keys, now: datetime) -> str:
    """The ID of the visit that `token` opens. Raises InvalidLink and nothing else, whatever is wrong with it."""
    match = _TOKEN_PATTERN.fullmatch(token)
    if not match:
        raise InvalidLink("not in the form of a link")
    key, visit_id, expires, signature = match.groups()
    secret = keys.ring.get(key)
    if secret is None:
        raise InvalidLink(f"unknown key {key}")
    if not hmac.compare_digest(_signature_of(secret, token.rpartition(".")[0], keys.deployment), signature):
        raise InvalidLink(f"the signature doesn't match key {key}, or is of another deployment (REAPER_DEPLOYMENT)")
    if now.timestamp() >= int(expires):
        raise InvalidLink(f"expired at {datetime.fromtimestamp(int(expires), UTC):%Y-%m-%d %H:%M} UTC")
    return visit_id


def key_id(token: str) -> str | None:
    """The ID of the key in `token`, unverified; None if the token isn't in the form of a link."""
    match = _TOKEN_PATTERN.fullmatch(token)
    return match[1] if match else None


def _signature_of(secret: bytes, head: str, deployment: str) -> str:
    """The signature. No deployment has a NUL in its name, so the signed text has only one reading."""
    signed = CONTEXT + deployment.encode() + b"\0" + head.encode("ascii")
    return urlsafe_b64encode(hmac.digest(secret, signed, "sha256")).rstrip(b"=").decode("ascii")
