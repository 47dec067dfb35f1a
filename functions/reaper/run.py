"""A whole run from settings to report; the entry points differ only in where settings come from and where the report goes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from reaper import __version__, cache
from reaper.model import Finding, Report, Run
from reaper.registry import CLOUDS, kinds
from reaper.sessions import open_sessions
from reaper.settings import Settings

if TYPE_CHECKING:
    from reaper.decide import Hand
    from reaper.ledger.port import Ledger
    from reaper.notices.context import ConcludeContext
    from reaper.observe import CloudSession, ObserveContext
    from reaper.policy.file import PolicySource
    from reaper.policy.schema import Policy


def run(
    settings: Settings,
    source: PolicySource,
    clock: Callable[[], datetime],
    progress: Callable[[str], None] = lambda text: None,
    deadline: datetime | None = None,
    narrow: Callable[[Finding], Finding] | None = None,
) -> Report:
    """Sweep everything that `settings` ask for; tell about it and act as far as their mode goes, until shortly before `deadline`.

    `narrow` takes from what is planned whatever a plan file does not ask for.
    Raises SettingsError where nothing can be swept or told; a cloud, ledger or channel that fails is in the coverage.
    """
    from reaper.observe import ObserveContext, sweep  # with it pydantic, which no `--help` and no cold start waits for

    started = clock()
    follow, kept = _follow_up(settings, source.policy, clock, (deadline, narrow))
    asked = [kind for kind in kinds() if not settings.kinds or kind.name in settings.kinds]
    clouds, failed = open_sessions(settings, [c for c in CLOUDS if any(k.cloud == c for k in asked)], progress)
    held = cache.open_cache(kept, started, progress, may_write=settings.mode.writes) if kept else None
    order = ObserveContext(policy=source.policy, now=started, progress=progress, cache=held)
    swept = sweep(clouds, asked, order)
    facts = Run(
        id=uuid.uuid4().hex[:12],
        started_at=started,
        finished_at=clock(),
        mode=settings.mode,
        version=__version__,
        policy_sha256=source.sha256,
    )
    report = follow(Report(run=facts, coverage=(*swept.coverage, *failed), findings=swept.findings), clouds, order)
    return replace(report, run=replace(facts, finished_at=clock()))


FollowUp = Callable[[Report, Sequence["CloudSession"], "ObserveContext"], Report]


Bounds = tuple[datetime | None, Callable[[Finding], Finding] | None]
"""Until when may be acted, and what takes away from what is planned."""


def _follow_up(
    settings: Settings, policy: Policy, clock: Callable[[], datetime], bounds: Bounds
) -> tuple[FollowUp, Ledger | None]:
    """What comes after the sweep, and the ledger where there is one.

    An audit writes nothing; it reads a ledger where one was named, to know of snoozes and notices.
    """
    if not settings.mode.writes and settings.ledger is None:
        return lambda report, clouds, order: report, None
    from reaper import conclude
    from reaper.ledger import opening
    from reaper.notices import context

    if not settings.mode.writes:
        known = opening.open_ledger(settings.ledger, os.environ, read_only=True)
        return lambda report, clouds, order: conclude.recalled(report, policy, known, report.run.started_at), known
    places = {
        "REAPER_LEDGER": settings.ledger or opening.default_address(os.environ),
        "REAPER_MANIFESTS": settings.manifests or "",
    }
    at = replace(context.open(settings.ledger, policy, os.environ, clock), places=places)
    if not settings.mode.acts:
        return lambda report, clouds, order: conclude.tell(report, policy, at), at.ledger
    hire = _hands(settings, at, bounds)
    return lambda report, clouds, order: conclude.tell(report, policy, at, hire(report, clouds, order)), at.ledger


def _hands(
    settings: Settings, at: ConcludeContext, bounds: Bounds
) -> Callable[[Report, Sequence[CloudSession], ObserveContext], Hand]:
    """What acts. Nothing of it is loaded in a mode that does not."""
    from reaper import decide
    from reaper.actions import executor, manifest
    from reaper.ledger import lease

    archive = manifest.open_archive(settings.manifests, os.environ)

    def hire(report: Report, clouds: Sequence[CloudSession], order: ObserveContext) -> Hand:
        ours = executor.ActContext(
            clouds={cloud.target: cloud for cloud in clouds},
            order=order,
            ledger=at.ledger,
            archive=archive,
            clock=at.clock,
            run=report.run.id,
            renew=lambda target: at.ledger.take_lease(target, report.run.id, at.clock(), lease.LEASE),
            deadline=bounds[0],
        )
        return decide.Hand(act=lambda found: executor.execute(found, ours), narrow=bounds[1] or decide.anything)

    return hire
