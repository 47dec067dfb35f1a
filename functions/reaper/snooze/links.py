"""Signed snooze links, the keys that sign them, and the links in the notices of one run: for each mail one signed address, which opens all of its
resources, or one preselected.

A link is a random ID and an expiry. What it opens is in the ledger, in the row of that ID. HMAC-SHA256 (RFC 2104), so that nothing is read from the
ledger before the signature is verified. The text of the signature is compared, not its bytes: base64 has several spellings of the same bytes
(RFC 4648, section 3.5), and only one of them is valid here. A link is signed together with its deployment, REAPER_DEPLOYMENT (a CloudFormation
stack's ARN or an Azure resource ID), and no other deployment accepts it, even with the same secret.

The keys are parsed from a secret's text, and read again every few minutes. The text has one of three forms:
`{"current": "k2", "keys": {"k1": "<base64>", "k2": "<base64>"}}`; the flat one that CloudFormation's
GenerateSecretString can make, `{"current": "k1", "k1": "<random characters>"}`; and the random characters alone, which are then key k1.
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-secretsmanager-secret-generatesecretstring.html
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import threading
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from reaper import urls
from reaper.case import is_stopped_by_hours
from reaper.errors import ReaperError, SettingsError
from reaper.finding import Finding, can_be_kept
from reaper.ledger.opening import MAX_DEPLOYMENT, deployment_id
from reaper.ledger.rows import Visit, VisitResource
from reaper.model import State, StepName
from reaper.policy import secret_grants
from reaper.prices import price_basis
from reaper.stores import secret_store
from reaper.text import DOLLARS, Currency, tidy_line

PAGE_PATH = "/keep"
"""The path of the page that links open."""
MIN_SECRET = 32
CONTEXT = b"ml-idle-reaper link to the resources of one mail\0"
"""Makes a signature that the same secret made for something else invalid here."""
_TOKEN_PATTERN = re.compile(r"v1\.([A-Za-z0-9_-]{1,32})\.([A-Za-z0-9_-]{22})\.([0-9]{9,11})\.([A-Za-z0-9_-]{43})")
CACHE_FOR = timedelta(minutes=5)
"""How long keys are used before their secret is read again."""
MIN_READ_INTERVAL = timedelta(seconds=30)
"""The least time between two reads: strangers who make up key IDs can't cause a read for each request."""
RETRY_AFTER = timedelta(minutes=1)
"""How long to wait after a failed read."""
MAX_WAIT_S = 1.0
"""Seconds that a request with an unknown key ID waits for another request's read. Reads usually take less."""
MAX_AGE = CACHE_FOR + timedelta(minutes=15)
"""How old keys may be while their secret can't be read. A removed key stays valid no longer than that."""


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


def parse_keys(text: str, where: str, deployment: str = "") -> Keys:
    """The keys in `text`. Raises SettingsError that names `where` and the problem, never the secrets."""
    try:
        fields = json.loads(text) if text.lstrip().startswith("{") else {"current": "k1", "k1": text.strip()}
        return Keys(current=_require_text(fields.get("current"), "current"), ring=_secrets_by_id(fields), deployment=deployment)
    except json.JSONDecodeError as error:
        raise SettingsError(f"{where}: not JSON at line {error.lineno}, column {error.colno}") from None
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None


def open_keyring(where: str, environ: Mapping[str, str]) -> Keyring:
    """The key ring at that address of a secret, for REAPER_DEPLOYMENT. Reads nothing yet. Raises SettingsError for an invalid setting."""
    scheme, _, place = where.partition(":")
    if scheme not in {"env", "secretsmanager", "keyvault"} or not place:
        raise SettingsError(f"REAPER_SNOOZE_KEYS={where!r}: expected secretsmanager:<name>, keyvault:<address> or env:<NAME>")
    if scheme == "keyvault":
        secret_grants.require_vault_address(place, "REAPER_SNOOZE_KEYS")
    return Keyring(lambda: secret_store.read_secret(where, environ), f"REAPER_SNOOZE_KEYS={where}", deployment_id(environ))


class Keyring:
    """Keys read by `fetch`, which returns the secret's text or raises a ReaperError. Safe for several threads.

    Only one thread reads at a time. The others use the cached keys if these will do, so a store that hangs delays one request per
    RETRY_AFTER. `fetch` must limit how long it can hang.

    `failure` is why the last read failed, or None.
    """

    def __init__(self, fetch: Callable[[], str], where: str, deployment: str = "") -> None:
        self._fetch = fetch
        self._where = where
        self._deployment = deployment
        self._cached: tuple[datetime, Keys] | None = None
        self._failed_at: datetime | None = None
        self._lock = threading.Lock()
        self.failure: ReaperError | None = None

    def keys(self, now: datetime, wanted: str | None = None) -> Keys:
        """The keys, read again if they are old or lack the key `wanted`: a key that was just added is found.

        After a failed read the next one waits for RETRY_AFTER, and cached keys are used until MAX_AGE. Without them, raises the
        error of the failed read, and SettingsError for an invalid secret.
        """
        if self._is_read_due(now, wanted) and self._lock.acquire(timeout=self._wait_s(now, wanted)):
            try:
                if self._is_read_due(now, wanted):  # another thread may have read it meanwhile
                    self._cached = (now, parse_keys(self._fetch(), self._where, self._deployment))
                    self._failed_at = self.failure = None
            except ReaperError as error:
                self._failed_at, self.failure = now, error
            finally:
                self._lock.release()
        if cached := self._usable_keys(now):
            return cached
        # Without the tracebacks of earlier raises, or one error would keep every request of its minute in memory.
        raise (self.failure or SettingsError(f"{self._where}: not read")).with_traceback(None)

    def _is_read_due(self, now: datetime, wanted: str | None) -> bool:
        """Whether to read now. Needs no lock, so that usable keys are used while another thread reads."""
        failed_at, cached = self._failed_at, self._cached
        if failed_at and now - failed_at < RETRY_AFTER:
            return False
        if cached is None:
            return True
        read_at, keys = cached
        is_unknown = wanted is not None and wanted not in keys.ring
        return now - read_at >= (MIN_READ_INTERVAL if is_unknown else CACHE_FOR)

    def _wait_s(self, now: datetime, wanted: str | None) -> float:
        """Seconds to wait for another thread's read: none if the key is cached, until its end (-1) if nothing is."""
        keys = self._usable_keys(now)
        if keys is None:
            return -1
        return MAX_WAIT_S if wanted is not None and wanted not in keys.ring else 0

    def _usable_keys(self, now: datetime) -> Keys | None:
        """The cached keys, or None if they are too old."""
        cached = self._cached
        return cached[1] if cached and now - cached[0] < MAX_AGE else None


def _secrets_by_id(fields: dict[str, Any]) -> dict[str, bytes]:
    if "keys" not in fields:
        return {name: _require_text(value, name).encode() for name, value in fields.items() if name != "current"}
    if not isinstance(fields["keys"], dict):
        raise ValueError("`keys` must be an object of key IDs and secrets")
    return {name: _decode_secret(_require_text(value, name), name) for name, value in fields["keys"].items()}


def _require_text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is missing or not a string")
    return value


def _decode_secret(text: str, name: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ValueError(f"key {name!r} is not valid base64") from None


LINK_VALID_FOR = timedelta(days=30)
"""How long a link is valid: longer than a holiday. The next notice brings a new link."""
MAX_NAME = 100
"""Characters of a name or a place on the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSigner:
    """What signs links: the page's address without its path (`base`), the keys, the page's currency, and where random IDs come from."""

    base: str
    keys: Keys
    currency: Currency = DOLLARS
    new_id: Callable[[], str] = lambda: secrets.token_urlsafe(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailLinks:
    """The links of one mail: the visit that must be stored before they work, and the address that opens it."""

    visit: Visit
    address: str

    def to_keep(self, resource_id: str) -> str | None:
        """The link with this resource preselected; None if the mail can't keep it."""
        numbers = [number for number, each in enumerate(self.visit.resources, 1) if each.id == resource_id]
        return f"{self.address}&r={numbers[0]}" if numbers else None


def open_signer(environ: Mapping[str, str], now: datetime) -> LinkSigner | None:
    """The signer that REAPER_SNOOZE_URL and REAPER_SNOOZE_KEYS describe; None if no address is set: notices then offer only the tag.

    Only the page with the same REAPER_DEPLOYMENT accepts the links. Raises SettingsError for an address that isn't https (http only on this machine) and for invalid keys, CloudError for unreadable ones.
    """
    base = environ.get("REAPER_SNOOZE_URL", "").strip()
    if not base:
        return None
    where = environ.get("REAPER_SNOOZE_KEYS", "").strip()
    if not where:
        raise SettingsError("REAPER_SNOOZE_URL is set but REAPER_SNOOZE_KEYS is not; set both, or links can't be signed")
    return LinkSigner(base=_require_public_address(base), keys=open_keyring(where, environ).keys(now))


def open_visit(
    signer: LinkSigner, now: datetime, address: str, is_owner: bool, tz: str, findings: Sequence[Finding]
) -> MailLinks | None:
    """The links of a mail to `address`; None if it is about nothing that can be kept. Stores nothing."""
    resources = tuple(_visit_resource(finding, now) for finding in findings if _may_be_kept(finding))
    if not resources:
        return None
    new, end, currency = signer.new_id(), now + LINK_VALID_FOR, signer.currency
    visit = Visit(
        id=new,
        address=address,
        is_owner=is_owner,
        sent_at=now,
        expires=end,
        tz=tz,
        resources=resources,
        currency=currency.code,
        rate=currency.rate,
        basis=price_basis(findings, currency),
    )
    return MailLinks(visit=visit, address=link_address(signer.base, sign_link(new, end, signer.keys)))


def link_address(base: str, token: str) -> str:
    """The link in a notice; `base` is REAPER_SNOOZE_URL."""
    return f"{base.rstrip('/')}{PAGE_PATH}?t={token}"


def _may_be_kept(finding: Finding) -> bool:
    """Whether it is idle or gets a notice about office hours, and wasn't acted on, or something is to follow."""
    has_notice = finding.step.name in {StepName.WARN, StepName.REMIND}
    by_hours = has_notice and is_stopped_by_hours(finding.case)
    return can_be_kept(finding) and (finding.case.verdict.state is State.IDLE or by_hours)


def _visit_resource(finding: Finding, now: datetime) -> VisitResource:
    resource = finding.case.resource
    place = {"aws": "AWS account", "azure": "Azure subscription"}.get(resource.target.cloud, resource.target.cloud)
    return VisitResource(
        id=resource.id,
        kind=resource.kind,
        name=tidy_line(resource.name, MAX_NAME) or "(no name)",
        where=tidy_line(f"{place} {resource.target.account}, {resource.region}", MAX_NAME),
        max_days=finding.case.rule.snooze_max // timedelta(days=1),
        usd_per_hour=finding.case.price.usd_per_hour if finding.case.price else None,
        idle_since=finding.idle_since,
    )


def _require_public_address(base: str) -> str:
    parts = urls.split_address(base)
    local = parts.scheme == "http" and urls.is_loopback(parts.hostname)
    if not (parts.scheme == "https" or local) or not parts.hostname or parts.query or parts.fragment:
        raise SettingsError(f"REAPER_SNOOZE_URL={base!r}: expected https://host or https://host/path")
    return base
