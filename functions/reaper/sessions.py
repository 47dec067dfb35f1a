"""The clouds to sweep by the settings, and a session for each account and region or subscription."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any, Protocol, Self

from reaper.case import Coverage
from reaper.errors import CloudError, ReaperError, SettingsError
from reaper.model import Status, Target
from reaper.registry import kinds
from reaper.settings import Settings


class CloudSession(Protocol):
    """One target as one kind sees it; both clouds have sessions of this shape."""

    target: Target
    calls: Any
    errors: list[CloudError]
    is_over: Callable[[], bool]

    def for_kind(self) -> Self:
        """The same target with fresh counters."""
        ...

    def without_cache(self) -> Self:
        """The same target with fresh counters and no cached replies, for the re-check."""
        ...

    def recheck_end(self, now: datetime) -> datetime:
        """The end of the metrics that the re-check reads."""
        ...


def open_sessions(
    settings: Settings, clouds: Sequence[str], progress: Callable[[str], None]
) -> tuple[list[CloudSession], list[Coverage]]:
    """The sessions to sweep, and a row for each cloud that couldn't even be opened.

    A cloud that the settings don't name is skipped, with a message, if it has no credentials here. Raises SettingsError if nothing is left to
    sweep.
    """
    sessions: list[CloudSession] = []
    rows: list[Coverage] = []
    settings_errors: list[SettingsError] = []
    for name in clouds if settings.cloud == "all" else [c for c in clouds if c == settings.cloud]:
        try:
            targets = import_module(f"reaper.{name}.targets")
        except ImportError as error:
            if settings.cloud == name or _is_named(settings, name):
                raise SettingsError(f"{name} needs an extra: pip install 'ml-idle-reaper[{name}]' ({error})") from error
            progress(f"{name}: skipped, its SDK isn't installed")
            continue
        try:
            if settings.cloud == "all" and not _is_named(settings, name) and not targets.has_credentials():
                progress(f"{name}: skipped, no credentials found. Use --cloud {name} to make this an error")
                continue
            sessions += sessions_of(settings, name)
        except CloudError as error:
            rows.append(_failure_row(name, error, error.missing))
        except SettingsError as error:
            settings_errors.append(error)
            rows.append(_failure_row(name, error))
    # Wrong settings of one cloud don't prevent the sweep of the other, unless nothing else is left to sweep.
    if not sessions and settings_errors:
        raise SettingsError("\n".join(map(str, settings_errors)))
    if not sessions and not rows:
        raise SettingsError(
            "nothing to sweep: no credentials for any cloud; set up AWS or Azure credentials, or try `reaper demo`"
        )
    return sessions, rows


def target_of(resource_id: str) -> Target | None:
    """The target of a resource by its ARN or ARM ID; None for anything else, such as a name."""
    if arn := re.fullmatch(r"arn:aws[a-z-]*:[a-z0-9-]+:([a-z0-9-]+):(\d{12}):.+", resource_id.strip().lower()):
        return Target(cloud="aws", account=arn[2], region=arn[1])
    if arm := re.match(r"/subscriptions/([0-9a-z-]+)/", resource_id.strip().lower()):
        return Target(cloud="azure", account=arm[1])
    return None


def sessions_of(settings: Settings, cloud: str) -> list[CloudSession]:
    """A session for each target of one cloud. Raises SettingsError for an invalid scope, CloudError if it can't be read."""
    targets = import_module(f"reaper.{cloud}.targets")
    if cloud == "azure":
        return list(targets.target_sessions(settings.subscriptions))
    return list(
        targets.target_sessions(settings.regions, settings.accounts, _role_session(settings, targets) if settings.role else None)
    )


def _role_session(settings: Settings, targets: Any) -> Any:
    """A session of the role to sweep with. Below mode enforce it can only read."""
    reading = sorted({action for kind in kinds("aws") for action in kind.permissions} | set(targets.PERMISSIONS))
    return import_module("reaper.aws.assumed_role").assume_role(settings.role, settings.mode.acts, reading)


def _is_named(settings: Settings, cloud: str) -> bool:
    return bool(settings.regions if cloud == "aws" else settings.subscriptions)


def _failure_row(cloud: str, error: ReaperError, missing: str | None = None) -> Coverage:
    """The row for a cloud that couldn't even be opened."""
    status = Status.DENIED if missing else Status.FAILED
    return Coverage(cloud=cloud, account="unknown", region=None, kind="*", status=status, missing=missing, error=str(error))
