"""The secrets that sign keep-links: from their text, wherever that is kept, into a ring of keys that is read anew every few minutes.

Three shapes of text are read: `{"current": "k2", "keys": {"k1": "<base64>", "k2": "<base64>"}}`; the flat one that CloudFormation's
GenerateSecretString can make, `{"current": "k1", "k1": "<random characters>"}`; and the random characters alone, which are then key k1.
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-secretsmanager-secret-generatesecretstring.html
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from reaper import secret
from reaper.errors import SettingsError
from reaper.token import Keys

KEEP = timedelta(minutes=5)
"""How long a ring is used before its secret is read again."""
PAUSE = timedelta(seconds=30)
"""The least time between two readings: strangers who make up key ids cannot make us ask for the secret all the time."""


def parse(text: str, where: str) -> Keys:
    """The ring that `text` holds. Raises SettingsError that names `where` and what is wrong, never the secrets."""
    try:
        said = json.loads(text) if text.lstrip().startswith("{") else {"current": "k1", "k1": text.strip()}
        return Keys(current=_text(said.get("current"), "current"), ring=_ring(said))
    except json.JSONDecodeError as error:
        raise SettingsError(f"{where}: not JSON at line {error.lineno}, column {error.colno}") from None
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None


def open(where: str, environ: Mapping[str, str]) -> Keyring:
    """The ring at `where`, any place that `reaper.secret` knows; nothing is read yet. Raises SettingsError where it names no such place."""
    scheme, _, place = where.partition(":")
    if scheme not in {"env", "secretsmanager", "keyvault"} or not place:
        raise SettingsError(f"REAPER_SNOOZE_KEYS={where!r}: expected secretsmanager:<name>, keyvault:<address> or env:<NAME>")
    return Keyring(lambda: secret.read(where, environ), f"REAPER_SNOOZE_KEYS={where}")


class Keyring:
    """A ring of keys behind `fetch`, which gives the secret's text or raises a ReaperError."""

    def __init__(self, fetch: Callable[[], str], where: str) -> None:
        self._fetch = fetch
        self._where = where
        self._held: tuple[datetime, Keys] | None = None

    def keys(self, now: datetime, wanted: str | None = None) -> Keys:
        """The keys, read again when they are old or when `wanted` is not among them: a key that was added a moment ago is found.

        Raises what `fetch` raises, and SettingsError for a secret that cannot be used.
        """
        if self._held is not None:
            read_at, held = self._held
            unknown = wanted is not None and wanted not in held.ring
            if now - read_at < (PAUSE if unknown else KEEP):
                return held
        keys = parse(self._fetch(), self._where)
        self._held = (now, keys)
        return keys


def _ring(said: dict[str, Any]) -> dict[str, bytes]:
    if "keys" not in said:
        return {name: _text(value, name).encode() for name, value in said.items() if name != "current"}
    if not isinstance(said["keys"], dict):
        raise ValueError("`keys` is not an object of key ids and secrets")
    return {name: _bytes(_text(value, name), name) for name, value in said["keys"].items()}


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is missing or not a text")
    return value


def _bytes(text: str, name: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ValueError(f"key {name!r} is not base64") from None
