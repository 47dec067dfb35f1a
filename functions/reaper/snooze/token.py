"""Signed keep-links: one resource, the verb `keep`, an expiry, and what the page shows. Pure.

HMAC-SHA256 (RFC 2104) over `version.key.payload`, so that nothing is parsed before it is known to be ours. The text of the signature is
compared, not its bytes: base64 has several spellings of the same bytes (RFC 4648, section 3.5), and only one of them passes here.

Form `v2` is signed together with the deployment it is for, and no other deployment accepts it, even one with the same secret. Form `v1`
names no deployment: links of earlier versions, and those of a sweep without REAPER_DEPLOYMENT. Each form signs under a context of its own,
so that no signature of one form passes as that of the other.
"""

from __future__ import annotations

import hmac
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reaper.errors import ReaperError
from reaper.text import clean_line

FORM_ANYWHERE, FORM_BOUND = "v1", "v2"
"""The forms: good wherever the secret is, and good at one deployment."""
VERB = "keep"
MAX_TOKEN = 2048
"""Characters; mail programs and proxies pass addresses of that length on unharmed."""
MIN_SECRET = 32
MAX_DAYS = 3650
CONTEXT = b"ml-idle-reaper keep-link\0"
"""Keeps a signature made with the same secret for something else from passing here."""
BOUND_CONTEXT = b"ml-idle-reaper snooze link of one deployment\0"
MAX_DEPLOYMENT = 1024

_TOKEN_PATTERN = re.compile(r"(v1|v2)\.([A-Za-z0-9_-]{1,32})\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{43})")


class InvalidLink(ReaperError):
    """A link that does not hold. The text is the same for every reason; `detail` is for the log alone."""

    def __init__(self, detail: str) -> None:
        super().__init__("this link does not hold")
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Secrets by key id; `current` signs, every one of them verifies. Raises ValueError for a ring that cannot be used.

    `deployment`: whose links these sign; empty where none is named, and links are then of the form that is good anywhere.
    """

    current: str
    ring: Mapping[str, bytes]
    deployment: str = ""

    def __post_init__(self) -> None:
        if self.current not in self.ring:
            raise ValueError(f"the current key {self.current!r} is not among the keys")
        for name, secret in self.ring.items():
            if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", name):
                raise ValueError(f"{name!r} is no name for a key: expected at most 32 letters, digits, - and _")
            if len(secret) < MIN_SECRET:
                raise ValueError(f"key {name!r} has {len(secret)} bytes, expected {MIN_SECRET} at least")
        if len(self.deployment) > MAX_DEPLOYMENT or not self.deployment.isprintable():
            raise ValueError(f"a deployment's name is one line of at most {MAX_DEPLOYMENT} characters")

    def __repr__(self) -> str:
        """Without the secrets, so that no log can show them."""
        return f"Keys(current={self.current!r}, ring=<{len(self.ring)} secrets>, deployment={self.deployment!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnoozeLink:
    """What one link lets its holder keep, for at most `max_days` at a time, and what its page shows. Texts are cut, the id never."""

    resource: str
    expires: datetime
    max_days: int
    kind: str
    name: str
    where: str = ""
    owner: str = ""
    usd_per_hour: float | None = None
    idle_since: datetime | None = None


def sign_link(link: SnoozeLink, keys: Keys) -> str:
    """The token, safe in an address. Raises ValueError for what no link can carry: an id too long, days out of range."""
    if not 1 <= link.max_days <= MAX_DAYS:
        raise ValueError(f"max_days is {link.max_days}, expected 1 to {MAX_DAYS}")
    if link.expires.tzinfo is None or not link.resource:
        raise ValueError("a link needs a resource and an expiry with a time zone")
    text = json.dumps(_payload_of(link), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    head = f"{FORM_BOUND if keys.deployment else FORM_ANYWHERE}.{keys.current}.{_to_base64(text.encode())}"
    token = f"{head}.{_signature_of(keys.ring[keys.current], head, keys.deployment)}"
    if len(token) > MAX_TOKEN:
        raise ValueError(f"the link would have {len(token)} characters, expected {MAX_TOKEN} at most")
    return token


def verify_link(token: str, keys: Keys, now: datetime) -> SnoozeLink:
    """The link that `token` carries. Raises BadLink, and nothing else, whatever is wrong with it."""
    if len(token) > MAX_TOKEN:
        raise InvalidLink(f"{len(token)} characters are too many")
    match = _TOKEN_PATTERN.fullmatch(token)
    if not match:
        raise InvalidLink("not of a link's shape")
    form, key, payload, signature = match.groups()
    secret = keys.ring.get(key)
    if secret is None:
        raise InvalidLink(f"key {key} is not among the keys")
    if form == FORM_BOUND and not keys.deployment:
        raise InvalidLink("it is of one deployment, and this page has no REAPER_DEPLOYMENT")
    deployment = keys.deployment if form == FORM_BOUND else ""
    if not hmac.compare_digest(_signature_of(secret, token.rpartition(".")[0], deployment), signature):
        raise InvalidLink(f"the signature is not that of key {key}" + (", or of another deployment" if deployment else ""))
    link = _link_from_payload(payload)
    if now >= link.expires:
        raise InvalidLink(f"expired at {link.expires:%Y-%m-%d %H:%M} UTC")
    return link


def key_id(token: str) -> str | None:
    """The id of the key that `token` says it was signed with, unverified; None when it has no such shape."""
    match = _TOKEN_PATTERN.fullmatch(token) if len(token) <= MAX_TOKEN else None
    return match[2] if match else None


def _signature_of(secret: bytes, head: str, deployment: str) -> str:
    """No deployment has a NUL in its name, so what is signed can be read in one way only."""
    context = BOUND_CONTEXT + deployment.encode() + b"\0" if deployment else CONTEXT
    return _to_base64(hmac.digest(secret, context + head.encode("ascii"), "sha256"))


def _to_base64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _payload_of(link: SnoozeLink) -> dict[str, Any]:
    return {
        "a": VERB,
        "r": link.resource,
        "e": int(link.expires.timestamp()),
        "d": link.max_days,
        "k": _shorten(link.kind, 64),
        "n": _shorten(link.name, 100),
        "w": _shorten(link.where, 100),
        "o": _shorten(link.owner, 120),
        "u": link.usd_per_hour,
        "i": int(link.idle_since.timestamp()) if link.idle_since else None,
    }


def _shorten(text: str, most: int) -> str:
    """As much of a name as a page needs, without control and direction marks; a mark that is half a character becomes a `?`."""
    return clean_line(text.encode("utf-8", "replace").decode(), most)


def _link_from_payload(payload: str) -> SnoozeLink:
    """The payload of a token whose signature holds; a verb or shape of another version is still refused."""
    try:
        said = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        if said["a"] != VERB:
            raise InvalidLink(f"the verb is {said['a']!r}")
        return SnoozeLink(
            resource=str(said["r"]),
            expires=datetime.fromtimestamp(said["e"], UTC),
            max_days=int(said["d"]),
            kind=str(said["k"]),
            name=str(said["n"]),
            where=str(said["w"]),
            owner=str(said["o"]),
            usd_per_hour=None if said["u"] is None else float(said["u"]),
            idle_since=None if said["i"] is None else datetime.fromtimestamp(said["i"], UTC),
        )
    except (ValueError, KeyError, TypeError, OverflowError, OSError) as error:
        raise InvalidLink(f"signed by us, but not readable: {error!r}") from error
