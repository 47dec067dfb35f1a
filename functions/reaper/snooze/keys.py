"""The keys that sign snooze links: parsed from a secret's text and read again every few minutes.

The text has one of three forms: `{"current": "k2", "keys": {"k1": "<base64>", "k2": "<base64>"}}`; the flat one that CloudFormation's
GenerateSecretString can make, `{"current": "k1", "k1": "<random characters>"}`; and the random characters alone, which are then key k1.
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-secretsmanager-secret-generatesecretstring.html

The keys carry the deployment that their links are for, REAPER_DEPLOYMENT: a CloudFormation stack's ARN or an Azure resource ID.
"""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from reaper.errors import ReaperError, SettingsError
from reaper.ledger.opening import deployment_id
from reaper.policy import secret_grants
from reaper.snooze.token import Keys
from reaper.stores import secret_store

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
