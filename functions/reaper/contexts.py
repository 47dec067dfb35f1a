"""The context of each phase: what it needs besides its data, opened from the settings of a run.

A run in one process opens all of them (`run`), a workflow's step only its own (`workflow`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from reaper import handover
from reaper.case import Coverage
from reaper.coverage import PlaceName
from reaper.ledger import opening
from reaper.model import Run
from reaper.registry import CLOUDS, kinds
from reaper.settings import Settings

if TYPE_CHECKING:
    from reaper.acting.executor import ActContext
    from reaper.acting.manifest import Archive
    from reaper.decide import DecideContext
    from reaper.ledger.lease import RunLeases
    from reaper.ledger.port import Ledger
    from reaper.notices.context import ConcludeContext
    from reaper.observe import ObserveContext
    from reaper.pending.plan_file import PlanFile
    from reaper.policy.schema import Policy
    from reaper.sessions import CloudSession

NO_HINTS: tuple[frozenset[PlaceName], frozenset[str]] = (frozenset(), frozenset())
MAIL_MARGIN = timedelta(seconds=45)
"""The time that conclude needs after its last message to an owner: for the statistics, the report and the admins' summary."""


def no_progress(text: str) -> None:
    """No progress is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup:
    """What the contexts of one run share. `ledger` is None in an audit that has none. `deadline`: when the process will be ended;
    `observe_share`: how much of the time until then it may observe.
    """

    settings: Settings
    policy: Policy
    ledger: Ledger | None
    clock: Callable[[], datetime]
    progress: Callable[[str], None] = no_progress
    deadline: datetime | None = None
    observe_share: float = handover.SHARE_OF_ALL


def clouds_of(settings: Settings) -> list[str]:
    """The clouds whose kinds the settings name."""
    return [cloud for cloud in CLOUDS if any(_is_chosen(kind.name, settings) for kind in kinds(cloud))]


def open_ledger(settings: Settings) -> Ledger | None:
    """The run's ledger. An audit writes nothing; it reads a ledger if one was named, to know of snoozes and notices."""
    if settings.mode.writes:
        return opening.open_ledger(settings.ledger, os.environ)
    return opening.open_ledger(settings.ledger, os.environ, read_only=True) if settings.ledger else None


def open_archive(settings: Settings) -> Archive | None:
    """The archive of manifests in enforce mode, opened before anything is observed. Raises SettingsError."""
    if not settings.mode.acts:
        return None
    from reaper.acting.manifest import open_archive

    return open_archive(settings.manifests, os.environ)


def observe_context(
    run: Run, setup: RunSetup, sessions: Sequence[CloudSession], unopened: Sequence[Coverage] = ()
) -> ObserveContext:
    """The context of observing these sessions, with every kind that the settings name."""
    from reaper.observe import ObserveContext
    from reaper.observing.cache import open_cache

    writes, ledger, progress = setup.settings.mode.writes, setup.ledger, setup.progress
    read_first, in_full = _read_hints(ledger, progress) if ledger and writes else NO_HINTS
    return ObserveContext(
        sessions=sessions,
        kinds=[kind for kind in kinds() if _is_chosen(kind.name, setup.settings)],
        policy=setup.policy,
        clock=setup.clock,
        progress=progress,
        cache=open_cache(ledger, run.started_at, progress, may_write=writes) if ledger else None,
        unopened=tuple(unopened),
        read_first=read_first,
        in_full=in_full,
        deadline=handover.observe_deadline(run, setup.clock(), setup.deadline, setup.observe_share),
    )


def decide_context(setup: RunSetup, agreed: PlanFile | None = None) -> DecideContext:
    """The context of deciding. `agreed`: a plan file; only what it asks for is carried out."""
    from reaper.decide import DecideContext  # imports pydantic, which would slow every `--help` and cold start

    return DecideContext(policy=setup.policy, ledger=setup.ledger, clock=setup.clock, agreed=agreed)


def act_context(setup: RunSetup, session: CloudSession, leases: RunLeases, archive: Archive, policy_sha256: str) -> ActContext:
    """The context of acting on the session's target, while the process keeps these leases alive.

    `policy_sha256`: the hash of the policy as it is now. If it has changed since the run began, act refuses everything.
    """
    from reaper.acting.executor import ActContext

    if setup.ledger is None:
        raise ValueError("acting needs a ledger")
    return ActContext(
        session=session,
        policy=setup.policy,
        ledger=setup.ledger,
        archive=archive,
        clock=setup.clock,
        leases=leases,
        deadline=setup.deadline,
        policy_sha256=policy_sha256,
    )


def conclude_context(
    settings: Settings, policy: Policy, clock: Callable[[], datetime], deadline: datetime | None = None
) -> ConcludeContext:
    """The context of concluding: the ledger and the channels. Raises SettingsError if no channel can notify owners."""
    from reaper.notices.context import ConcludeContext, open_context

    if not settings.mode.writes:
        return ConcludeContext(policy=policy, ledger=open_ledger(settings), clock=clock)
    places = {
        "REAPER_LEDGER": settings.ledger or opening.default_address(os.environ),
        "REAPER_MANIFESTS": settings.manifests or "",
    }
    opened = open_context(settings.ledger, policy, os.environ, clock)
    return replace(opened, location_settings=places, deadline=deadline - MAIL_MARGIN if deadline else None)


def read_unreached_accounts(settings: Settings, ledger: Ledger | None) -> frozenset[str]:
    """The accounts in which earlier runs had no time for something. Empty in an audit."""
    if ledger is None or not settings.mode.writes:
        return frozenset()
    return frozenset(account for _, account, _, _ in _read_hints(ledger, no_progress)[0])


def _is_chosen(kind: str, settings: Settings) -> bool:
    return not settings.kinds or kind in settings.kinds


def _read_hints(ledger: Ledger, progress: Callable[[str], None]) -> tuple[frozenset[PlaceName], frozenset[str]]:
    """The places to read first, and the IDs of what to read as a whole. If the ledger fails, neither matters: that is reported when it is needed."""
    from reaper.errors import ReaperError
    from reaper.ledger.unreached import read_hints

    try:
        return read_hints(ledger)
    except ReaperError as error:
        progress(f"ledger: {error}")
        return NO_HINTS
