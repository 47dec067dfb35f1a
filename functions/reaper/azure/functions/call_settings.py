"""The settings of a run: the deployment's, narrowed by the options of a manual call."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reaper import registry
from reaper import settings as knobs
from reaper.errors import SettingsError
from reaper.model import Mode

AWS_OPTIONS = {
    *("region", "regions", "account", "accounts", "organization", "ou", "ous", "exclude_account", "exclude_accounts"),
}
"""Options that only narrow a sweep of AWS. If they were ignored silently, they would seem to have worked."""


def parse_body(body: bytes) -> dict[str, Any]:
    """The options in the body of a manual call. Raises SettingsError."""
    try:
        options = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"the body isn't JSON: {error}") from error
    if not isinstance(options, dict):
        raise SettingsError(f'the body is a {type(options).__name__}, expected an object such as {{"mode": "audit"}}')
    return options


def call_settings(base: knobs.Settings, options: Mapping[str, Any]) -> knobs.Settings:
    """The deployment's settings, narrowed by the call. Raises SettingsError."""
    if aws_options := sorted(key for key in AWS_OPTIONS & options.keys() if options[key]):
        raise SettingsError(f"{aws_options[0]!r} is for AWS only; use 'subscriptions' to narrow a sweep of Azure")
    azure_kinds = tuple(kind.name for kind in registry.kinds("azure"))
    settings = knobs.narrow_settings(base, options, registry.kind_names())
    if settings.cloud == "aws" or not set(settings.kinds) & set(azure_kinds):
        raise SettingsError("this function sweeps Azure only")
    if not settings.runs:
        raise SettingsError("set REAPER_RUNS to a blob container's https URL: the phases of a run hand over their results there")
    from reaper.azure import targets  # imports Azure's SDK, which would slow every cold start

    return replace(
        knobs.require_durable_stores(settings),
        cloud="azure",
        subscriptions=tuple(targets.valid_subscription_id(name) for name in settings.subscriptions),
        kinds=tuple(k for k in settings.kinds if k in azure_kinds),
    )


def listing_settings(options: Mapping[str, Any]) -> knobs.Settings:
    """The settings for the step that lists the targets of a run that was started with these options: the deployment may have changed since.

    A mode that the deployment no longer has is lowered to the deployment's. Raises SettingsError.
    """
    base = knobs.from_env(os.environ)
    asked = options.get("mode")
    if isinstance(asked, str) and asked in knobs.MODES and knobs.MODES.index(Mode(asked)) > knobs.MODES.index(base.mode):
        options = {**options, "mode": base.mode.value}
    return call_settings(base, options)


def later_settings(options: Mapping[str, Any]) -> knobs.Settings:
    """The settings for a later step of that run: the deployment's as they are by now, in the mode of the run or a lower one.

    Places and kinds are those of the stored run. So a run can tell what it has done even if the deployment no longer sweeps all its places.
    Raises SettingsError.
    """
    return listing_settings({"mode": options.get("mode")})


def deployment() -> str:
    """What this deployment is called in the run's lease: the app's resource ID, or else the name of its host."""
    return (
        os.environ.get("REAPER_DEPLOYMENT", "").strip() or os.environ.get("WEBSITE_HOSTNAME", "").strip() or "of an unnamed app"
    )
