"""A whole run from settings to report; the entry points differ only in where settings come from and where the report goes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any

from reaper import __version__
from reaper.errors import CloudError, SettingsError
from reaper.model import Coverage, Report, Run, Status
from reaper.registry import CLOUDS, kinds
from reaper.settings import Settings
from reaper.source import Source
from reaper.sweep import Cloud, Order, sweep


def run(
    settings: Settings, source: Source, clock: Callable[[], datetime], progress: Callable[[str], None] = lambda text: None
) -> Report:
    """Sweep everything that `settings` ask for. Raises SettingsError where nothing can be swept; a cloud that fails is in the coverage."""
    started = clock()
    asked = [kind for kind in kinds() if not settings.kinds or kind.name in settings.kinds]
    clouds, failed = _clouds(settings, [c for c in CLOUDS if any(k.cloud == c for k in asked)], progress)
    swept = sweep(clouds, asked, Order(policy=source.policy, now=started, progress=progress))
    facts = Run(
        id=uuid.uuid4().hex[:12],
        started_at=started,
        finished_at=clock(),
        mode=settings.mode,
        version=__version__,
        policy_sha256=source.sha256,
    )
    return Report(run=facts, coverage=(*swept.coverage, *failed), findings=swept.findings)


def _clouds(settings: Settings, wanted: Sequence[str], progress: Callable[[str], None]) -> tuple[list[Cloud], list[Coverage]]:
    """The sessions to sweep. A cloud that nobody named is passed over, loudly, when it has no credentials here."""
    found: list[Cloud] = []
    failed: list[Coverage] = []
    for name in wanted if settings.cloud == "all" else [c for c in wanted if c == settings.cloud]:
        try:
            targets = import_module(f"reaper.{name}.targets")
        except ImportError as error:
            if settings.cloud == name:
                raise SettingsError(f"{name} needs an extra: pip install 'ml-idle-reaper[{name}]' ({error})") from error
            progress(f"{name}: passed over, its SDK is not installed")
            continue
        if settings.cloud == "all" and not _named(settings, name) and not targets.has_credentials():
            progress(f"{name}: passed over, no credentials found; name it with --cloud {name} to insist")
            continue
        try:
            found += targets.clouds(*_scope(settings, name))
        except CloudError as error:
            failed.append(_failure(name, error))
    if not found and not failed:
        raise SettingsError(
            "nothing to sweep: no credentials for any cloud; set up AWS or Azure credentials, or try `reaper demo`"
        )
    return found, failed


def _named(settings: Settings, cloud: str) -> bool:
    return bool(settings.regions if cloud == "aws" else settings.subscriptions)


def _scope(settings: Settings, cloud: str) -> tuple[Any, ...]:
    return (settings.regions, settings.accounts) if cloud == "aws" else (settings.subscriptions,)


def _failure(cloud: str, error: CloudError) -> Coverage:
    """The line that stands for a cloud which could not even be opened."""
    status = Status.DENIED if error.missing else Status.FAILED
    return Coverage(cloud=cloud, account="unknown", region=None, kind="*", status=status, missing=error.missing, error=str(error))
