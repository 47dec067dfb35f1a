"""The secrets that sign keep-links: from their text, wherever that is kept, into a ring of keys that is read anew every few minutes.

Three shapes of text are read: `{"current": "k2", "keys": {"k1": "<base64>", "k2": "<base64>"}}`; the flat one that CloudFormation's
GenerateSecretString can make, `{"current": "k1", "k1": "<random characters>"}`; and the random characters alone, which are then key k1.
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-secretsmanager-secret-generatesecretstring.html

With the ring goes the deployment that its links are for, REAPER_DEPLOYMENT: a CloudFormation stack's ARN or an Azure resource id.
"""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from reaper import secret_store
from reaper.errors import ReaperError, SettingsError
from reaper.policy import secret_grants
from reaper.snooze.token import MAX_DEPLOYMENT, Keys

CACHE_FOR = timedelta(minutes=5)
"""How long a ring is used before its secret is read again."""
MIN_READ_INTERVAL = timedelta(seconds=30)
"""The least time between two readings: strangers who make up key ids cannot make us ask for the secret all the time."""
RETRY_AFTER = timedelta(minutes=1)
"""How long a reading that failed stands before the next one."""
MAX_WAIT_S = 1.0
"""Seconds that a request with a key id we don't know waits for a reading that another request has begun. A reading takes less as a rule."""
MAX_AGE = CACHE_FOR + timedelta(minutes=15)
"""How old a ring may be while its secret cannot be read. A key that was taken away is believed no longer than that."""


def parse_keys(text: str, where: str, deployment: str = "") -> Keys:
    """The ring that `text` holds. Raises SettingsError that names `where` and what is wrong, never the secrets."""
    try:
        said = json.loads(text) if text.lstrip().startswith("{") else {"current": "k1", "k1": text.strip()}
        return Keys(current=_require_text(said.get("current"), "current"), ring=_secrets_by_id(said), deployment=deployment)
    except json.JSONDecodeError as error:
        raise SettingsError(f"{where}: not JSON at line {error.lineno}, column {error.colno}") from None
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None


def open_keyring(where: str, environ: Mapping[str, str]) -> Keyring:
    """The ring at `where`, any place that `reaper.secret_store` knows, for the deployment that REAPER_DEPLOYMENT names.

    Nothing is read yet. Raises SettingsError where a setting makes no sense.
    """
    scheme, _, place = where.partition(":")
    if scheme not in {"env", "secretsmanager", "keyvault"} or not place:
        raise SettingsError(f"REAPER_SNOOZE_KEYS={where!r}: expected secretsmanager:<name>, keyvault:<address> or env:<NAME>")
    if scheme == "keyvault":
        secret_grants.require_vault_address(place, "REAPER_SNOOZE_KEYS")
    return Keyring(lambda: secret_store.read_secret(where, environ), f"REAPER_SNOOZE_KEYS={where}", deployment_id(environ))


def deployment_id(environ: Mapping[str, str]) -> str:
    """What REAPER_DEPLOYMENT says, empty without it; Azure's resource ids in lower case, because Azure compares them without regard to it."""
    said = environ.get("REAPER_DEPLOYMENT", "").strip()
    if len(said) > MAX_DEPLOYMENT or not said.isprintable():
        raise SettingsError(f"REAPER_DEPLOYMENT={said[:80]!r}: expected one line of at most {MAX_DEPLOYMENT} characters")
    return said.lower() if said.startswith("/") else said


class Keyring:
    """A ring of keys behind `fetch`, which gives the secret's text or raises a ReaperError. Several threads may ask it.

    One of them reads at a time, and no other waits for it that can be answered from the ring that is held: a secret's place that hangs
    delays the request that reads, once per FAILED. How long it may hang is for `fetch` to limit.

    `failure` is why the last reading failed, None when it didn't.
    """

    def __init__(self, fetch: Callable[[], str], where: str, deployment: str = "") -> None:
        self._fetch = fetch
        self._where = where
        self._deployment = deployment
        self._held: tuple[datetime, Keys] | None = None
        self._failed_at: datetime | None = None
        self._lock = threading.Lock()
        self.failure: ReaperError | None = None

    def keys(self, now: datetime, wanted: str | None = None) -> Keys:
        """The keys, read again when they are old or when `wanted` is not among them: a key that was added a moment ago is found.

        A reading that failed is not repeated for FAILED, and the last ring holds for LAST. Raises what `fetch` raises, and SettingsError
        for a secret that cannot be used, where there is no such ring.
        """
        if self._is_read_due(now, wanted) and self._lock.acquire(timeout=self._wait_s(now, wanted)):
            try:
                if self._is_read_due(now, wanted):  # nobody else has read it while this one waited
                    self._read_secret(now)
            finally:
                self._lock.release()
        if held := self._usable_keys(now):
            return held
        # Without what earlier raises left on it, or one error would hold every request of its minute.
        raise (self.failure or SettingsError(f"{self._where}: not read")).with_traceback(None)

    def _is_read_due(self, now: datetime, wanted: str | None) -> bool:
        """Whether it is time to read; asked without the lock, so that a ring that will do is used whoever reads."""
        failed_at, at_hand = self._failed_at, self._held
        if failed_at and now - failed_at < RETRY_AFTER:
            return False
        if at_hand is None:
            return True
        read_at, held = at_hand
        unknown = wanted is not None and wanted not in held.ring
        return now - read_at >= (MIN_READ_INTERVAL if unknown else CACHE_FOR)

    def _wait_s(self, now: datetime, wanted: str | None) -> float:
        """Seconds to wait for a reading under way: none with the key at hand, to its end (-1) with no ring at all."""
        held = self._usable_keys(now)
        if held is None:
            return -1
        return MAX_WAIT_S if wanted is not None and wanted not in held.ring else 0

    def _usable_keys(self, now: datetime) -> Keys | None:
        """The last ring, None where it is too old."""
        held = self._held
        return held[1] if held and now - held[0] < MAX_AGE else None

    def _read_secret(self, now: datetime) -> None:
        try:
            self._held = (now, parse_keys(self._fetch(), self._where, self._deployment))
            self._failed_at = self.failure = None
        except ReaperError as error:
            self._failed_at, self.failure = now, error


def _secrets_by_id(said: dict[str, Any]) -> dict[str, bytes]:
    if "keys" not in said:
        return {name: _require_text(value, name).encode() for name, value in said.items() if name != "current"}
    if not isinstance(said["keys"], dict):
        raise ValueError("`keys` is not an object of key ids and secrets")
    return {name: _decode_secret(_require_text(value, name), name) for name, value in said["keys"].items()}


def _require_text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is missing or not a text")
    return value


def _decode_secret(text: str, name: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ValueError(f"key {name!r} is not base64") from None
