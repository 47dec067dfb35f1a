"""Secrets by where they are kept: `env:NAME`, `secretsmanager:name` or `keyvault:https://…`. Read when needed, never held or shown.

`secretsmanager:name#key` takes one value out of a secret that is a JSON object. `grant` says which of these a policy may name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from reaper.errors import CloudError, Reason
from reaper.policy import secret_grants

OPERATION = "secret:Read"


def read_secret(ref: str, environ: Mapping[str, str]) -> str:
    """The secret at `ref`, which a setting names. Raises CloudError, which names where it should be and never what it is."""
    scheme, _, place = ref.partition(":")
    if scheme == "env":
        if not environ.get(place):
            raise CloudError(Reason.REFUSED, OPERATION, f"the environment has no variable {place}")
        return environ[place]
    if scheme == "secretsmanager":
        name, _, key = place.partition("#")
        return _value_inside(_secret_module("aws").read_secret(name), key, ref)
    if scheme == "keyvault":
        return str(_secret_module("azure").read_secret(place))
    raise CloudError(Reason.REFUSED, OPERATION, "not a place we know: expected env:, secretsmanager: or keyvault:")


def read_for_policy(ref: str, environ: Mapping[str, str]) -> str:
    """The secret at `ref`, which a policy names. Raises CloudError, also for a place that no policy may name, and SettingsError.

    What looks like the keys that sign snooze links is refused, too: REAPER_SNOOZE_KEYS, which says where they are, may be set elsewhere only.
    """
    if because := secret_grants.forbidden_because(ref, environ):
        raise CloudError(Reason.REFUSED, OPERATION, because)
    place, _, key = ref.partition("#") if ref.startswith("secretsmanager:") else (ref, "", "")
    text = read_secret(place, environ)
    if _signs_links(text):
        raise CloudError(
            Reason.REFUSED, OPERATION, f"{ref}: keys that sign snooze links are kept there: they are never sent anywhere"
        )
    return _value_inside(text, key, ref)


def _signs_links(text: str) -> bool:
    """Whether it has one of the two shapes that only a ring of keys has (`keyring`); random characters alone may be any secret."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return False
    current = said.get("current") if isinstance(said, dict) else None
    return isinstance(current, str) and (isinstance(said.get("keys"), dict) or isinstance(said.get(current), str))


def _secret_module(name: str) -> Any:
    try:
        return import_module(f"reaper.{name}.secret_store")
    except ImportError as error:
        raise CloudError(Reason.REFUSED, OPERATION, f"needs the extra `{name}`: pip install 'ml-idle-reaper[{name}]'") from error


def _value_inside(text: str, key: str, ref: str) -> str:
    if not key:
        return text
    try:
        return str(json.loads(text)[key])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CloudError(Reason.REFUSED, OPERATION, f"{ref}: not a JSON object with that key") from None
