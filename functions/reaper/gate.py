"""Where requests for keep-links come in, whichever cloud serves them: holds the ledger, the key ring and the meters between requests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from reaper import keyring, ledger, meter, snooze
from reaper.errors import ReaperError, SettingsError
from reaper.keyring import Keyring
from reaper.ledger import Ledger
from reaper.meter import Meters
from reaper.snooze import Reply, Request
from reaper.token import key_id


class Gate:
    """Answers requests; made once per process, because rings and meters are worth keeping."""

    def __init__(self, ledger: Ledger, ring: Keyring, meters: Meters) -> None:
        self._ledger = ledger
        self._ring = ring
        self._meters = meters

    def answer(self, request: Request, now: datetime) -> Reply:
        """The reply at `now`; a page of its own when the keys cannot be had."""
        try:
            keys = self._ring.keys(now, key_id(snooze.token_of(request)))
        except ReaperError as error:
            return snooze.unavailable(now, f"keys: {error}")
        return snooze.answer(request, self._ledger, keys, now, self._meters)


def open(environ: Mapping[str, str]) -> Gate:
    """The gate that REAPER_LEDGER and REAPER_SNOOZE_KEYS describe. Raises SettingsError where one is missing or makes no sense."""
    return Gate(
        ledger=ledger.open(_needed(environ, "REAPER_LEDGER"), environ),
        ring=keyring.open(_needed(environ, "REAPER_SNOOZE_KEYS"), environ),
        meters=meter.usual(),
    )


def _needed(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise SettingsError(f"{name} is not set: keep-links cannot be served without it")
    return value
