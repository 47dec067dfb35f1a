"""Where requests for keep-links come in, whichever cloud serves them: holds the ledger, the key ring and the meters between requests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache

from reaper.errors import SettingsError
from reaper.ledger import opening
from reaper.ledger.port import Ledger
from reaper.snooze import keys, rate_limit, record
from reaper.snooze.keys import Keyring
from reaper.snooze.rate_limit import RateLimiters
from reaper.snooze.record import Reply, Request, SnoozeContext
from reaper.snooze.token import Keys


class SnoozeHandler:
    """Answers requests; made once per process, because rings and meters are worth keeping.

    `ledger` and `ring` open them, once, when a request needs them. They raise ReaperError where the deployment cannot work.
    """

    def __init__(self, ledger: Callable[[], Ledger], ring: Callable[[], Keyring], meters: RateLimiters) -> None:
        self._ledger = cache(ledger)
        self._ring = cache(ring)
        self._meters = meters

    def handle(self, request: Request, now: datetime) -> Reply:
        """The reply at `now`, always a page. Its note is empty where as much as this was logged a moment ago."""
        troubles: list[str] = []
        desk = SnoozeContext(ledger=self._ledger, keys=lambda wanted: self._keys(now, wanted, troubles), now=now)
        reply = record.handle_request(request, desk, self._meters)
        if troubles and not reply.failed:
            reply = replace(reply, note="; ".join([reply.note, *troubles]), failed=True)
        quiet = log_level(reply) > logging.INFO and not self._meters.per_log_line.allow(str((reply.status, reply.failed)), now)
        return replace(reply, note="") if quiet else reply

    def _keys(self, now: datetime, wanted: str | None, troubles: list[str]) -> Keys:
        """The keys; `troubles` gets why they are not the newest, where they could not be read again."""
        ring = self._ring()
        keys = ring.keys(now, wanted)
        if failure := ring.failure:
            troubles.append(f"the last keys are used, because they cannot be read again: {failure}")
        return keys


def open_handler(environ: Mapping[str, str]) -> SnoozeHandler:
    """The gate that REAPER_LEDGER, REAPER_SNOOZE_KEYS and REAPER_DEPLOYMENT describe.

    Nothing is opened and nothing raised yet: where one is missing or makes no sense, the page says so when a link asks for it.
    """
    return SnoozeHandler(
        ledger=lambda: opening.open_ledger(_required_setting(environ, "REAPER_LEDGER"), environ),
        ring=lambda: keys.open_keyring(_required_setting(environ, "REAPER_SNOOZE_KEYS"), environ),
        meters=rate_limit.default_limiters(),
    )


def log_level(reply: Reply) -> int:
    """How loud the log is to be: an error where something of ours failed, a warning for what was refused."""
    return logging.ERROR if reply.failed else logging.WARNING if reply.status >= 400 else logging.INFO


def _required_setting(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise SettingsError(f"{name} is not set: keep-links cannot be served without it")
    return value
