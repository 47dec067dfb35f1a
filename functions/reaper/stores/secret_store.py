"""Secrets by their address: `env:NAME`, `secretsmanager:name` or `keyvault:https://…`. Read when needed, never cached or shown.

`secretsmanager:name#key` is one value of a secret that is a JSON object. `secret_grants` says which secrets a policy may name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from reaper.errors import CloudError, Reason
from reaper.extras import install_command
from reaper.policy import secret_grants

OPERATION = "secret:Read"


def read_secret(ref: str, environ: Mapping[str, str]) -> str:
    """The secret at `ref`, from a setting. Raises CloudError, which names the address and never the secret."""
    scheme, _, place = ref.partition(":")
    if scheme == "env":
        if not environ.get(place):
            raise CloudError(Reason.REFUSED, OPERATION, f"the environment variable {place} is not set")
        return environ[place]
    if scheme == "secretsmanager":
        name, _, key = place.partition("#")
        return _value_inside(_secret_module("aws").read_secret(name), key, ref)
    if scheme == "keyvault":
        return str(_secret_module("azure").read_secret(place))
    raise CloudError(Reason.REFUSED, OPERATION, "unknown kind of secret; use env:, secretsmanager: or keyvault:")


def read_for_policy(ref: str, environ: Mapping[str, str]) -> str:
    """The secret at `ref`, from a policy. Raises CloudError, also for a secret that no policy may name, and SettingsError.

    Also refuses what looks like the keys that sign snooze links: REAPER_SNOOZE_KEYS, which names them, may not be set here.
    """
    if because := secret_grants.forbidden_because(ref, environ):
        raise CloudError(Reason.REFUSED, OPERATION, because)
    place, _, key = ref.partition("#") if ref.startswith("secretsmanager:") else (ref, "", "")
    text = read_secret(place, environ)
    if _signs_links(text):
        raise CloudError(
            Reason.REFUSED, OPERATION, f"{ref}: holds the keys that sign snooze links, which are never sent anywhere"
        )
    return _value_inside(text, key, ref)


def _signs_links(text: str) -> bool:
    """Whether the text has one of the two forms that only keys have (`snooze.links`); random characters may be any secret."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return False
    current = content.get("current") if isinstance(content, dict) else None
    return isinstance(current, str) and (isinstance(content.get("keys"), dict) or isinstance(content.get(current), str))


def _secret_module(name: str) -> Any:
    try:
        return import_module(f"reaper.{name}.stores.secrets")
    except ImportError as error:
        raise CloudError(Reason.REFUSED, OPERATION, f"needs an extra: {install_command(name)}") from error


def _value_inside(text: str, key: str, ref: str) -> str:
    if not key:
        return text
    try:
        return str(json.loads(text)[key])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CloudError(Reason.REFUSED, OPERATION, f"{ref}: not a JSON object with this key") from None
