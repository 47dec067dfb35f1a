"""The options that commands share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from reaper import duration
from reaper.errors import SettingsError

ExternalIdOption = Annotated[
    str | None,
    typer.Option("--external-id", help="External ID that this role asks for. Default: REAPER_EXTERNAL_ID", metavar="ID"),
]
POLICY_HELP = "Policy file, s3:// or ssm: address, blob URL, or inline YAML. Default: REAPER_POLICY, else the built-in policy"
PolicyOption = Annotated[str | None, typer.Option("--policy", help=POLICY_HELP, metavar="FILE|URI")]

WideOption = Annotated[bool, typer.Option("--wide", help="Cut and wrap nothing, whatever the width of the terminal")]


def parse_validity(option: str, text: str) -> timedelta:
    """The duration that an option sets, at most a week. Raises SettingsError that names the option."""
    try:
        return duration.parse_duration(text, duration.MAX_VALIDITY)
    except ValueError as error:
        raise SettingsError(f"{option} {text!r}: {error}") from error


def current_time() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)
