"""A whole run from settings to report: `observe → decide → act → conclude` in one process. Entry points differ only in the source of the
settings and the destination of the report.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from reaper import __version__
from reaper.case import Report
from reaper.ledger import opening
from reaper.model import Run
from reaper.registry import CLOUDS, kinds
from reaper.sessions import open_sessions
from reaper.settings import Settings

if TYPE_CHECKING:
    from reaper.actions.executor import ActContext
    from reaper.actions.manifest import Archive
    from reaper.actions.plan_file import PlanFile
    from reaper.decide import DecideContext
    from reaper.handover import Acted, Decided, Observed
    from reaper.ledger.lease import RunLeases
    from reaper.model import Target
    from reaper.notices.context import ConcludeContext
    from reaper.observe import ObserveContext
    from reaper.policy.file import PolicySource
    from reaper.policy.schema import Policy

HandedOver = TypeVar("HandedOver", "Observed", "Decided", "Acted")
OpenActContext = Callable[["Target", "RunLeases"], "ActContext"]
"""The context of acting on one target, while the process keeps these leases alive."""


class HandOver(Protocol):
    """Hands a value from one phase to the next: a workflow stores it and reads it again."""

    def __call__(self, value: HandedOver) -> HandedOver:
        """The value for the next phase."""
        ...


def unchanged(value: HandedOver) -> HandedOver:
    """In one process the next phase gets the very same value."""
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """A run with the context of each phase. `act` is None below mode enforce: the acting code isn't even loaded."""

    run: Run
    observe: ObserveContext
    decide: DecideContext
    act: OpenActContext | None
    conclude: ConcludeContext


def run(
    settings: Settings,
    source: PolicySource,
    clock: Callable[[], datetime],
    progress: Callable[[str], None] = lambda text: None,
    deadline: datetime | None = None,
    agreed: PlanFile | None = None,
) -> Report:
    """Sweep everything that `settings` ask for, and notify and act as their mode allows, until shortly before `deadline`.

    With `agreed` only what that plan file asks for is carried out. Raises SettingsError if nothing can be swept or no channel can notify
    owners. Failures of a cloud, ledger or channel are in the coverage.
    """
    return run_phases(open_run(settings, source, clock, progress, deadline, agreed))


def open_run(
    settings: Settings,
    source: PolicySource,
    clock: Callable[[], datetime],
    progress: Callable[[str], None] = lambda text: None,
    deadline: datetime | None = None,
    agreed: PlanFile | None = None,
) -> OpenRun:
    """The run with every context opened. Raises SettingsError."""
    from reaper.decide import DecideContext  # imports pydantic, which would slow every `--help` and cold start

    new = Run(
        id=uuid.uuid4().hex[:12],
        started_at=clock(),
        mode=settings.mode,
        version=__version__,
        policy_sha256=source.sha256,
    )
    conclude = _conclude_context(settings, source.policy, clock)
    archive = _open_archive(settings)
    observe = _observe_context(settings, new, conclude, progress)
    return OpenRun(
        run=new,
        observe=observe,
        decide=DecideContext(policy=source.policy, ledger=conclude.ledger, clock=clock, agreed=agreed),
        act=_act_opener(observe, conclude, archive, deadline) if archive else None,
        conclude=conclude,
    )


def run_phases(opened: OpenRun, hand_over: HandOver = unchanged) -> Report:
    """The four phases, one after the other. `hand_over` gets the value of one phase and returns what the next one gets."""
    from reaper.conclude import conclude, leases_of
    from reaper.decide import decide
    from reaper.observe import observe

    observed = hand_over(observe(opened.run, opened.observe, opened.run.started_at))
    decided = decide([observed], opened.decide)
    leases = leases_of(decided, opened.conclude)
    with ExitStack() as on_failure:
        if leases:
            on_failure.callback(leases.give_back)
        decided = hand_over(decided)
        acted = [hand_over(each) for each in _act_on_targets(decided, opened, leases)]
        on_failure.pop_all()  # conclude gives them back
    return conclude([observed], decided, acted, opened.conclude)


def _act_on_targets(decided: Decided, opened: OpenRun, leases: RunLeases | None) -> list[Acted]:
    """Act on one target after the other, the one with the most expensive action first. Below mode enforce no acting code is loaded."""
    if opened.act is None or leases is None:
        return []
    from reaper.act import act, targets_by_cost

    return [act(decided.for_target(target), opened.act(target, leases)) for target in targets_by_cost(decided)]


def _conclude_context(settings: Settings, policy: Policy, clock: Callable[[], datetime]) -> ConcludeContext:
    """The ledger and the channels. An audit writes nothing; it reads a ledger if one was named, to know of snoozes and notices."""
    from reaper.notices.context import ConcludeContext, open_context

    if not settings.mode.writes:
        ledger = opening.open_ledger(settings.ledger, os.environ, read_only=True) if settings.ledger else None
        return ConcludeContext(policy=policy, ledger=ledger, clock=clock)
    places = {
        "REAPER_LEDGER": settings.ledger or opening.default_address(os.environ),
        "REAPER_MANIFESTS": settings.manifests or "",
    }
    return replace(open_context(settings.ledger, policy, os.environ, clock), location_settings=places)


def _observe_context(settings: Settings, new: Run, conclude: ConcludeContext, progress: Callable[[str], None]) -> ObserveContext:
    from reaper.observe import ObserveContext
    from reaper.observing.cache import open_cache

    chosen = [kind for kind in kinds() if not settings.kinds or kind.name in settings.kinds]
    sessions, unopened = open_sessions(settings, [c for c in CLOUDS if any(kind.cloud == c for kind in chosen)], progress)
    ledger = conclude.ledger
    return ObserveContext(
        sessions=sessions,
        kinds=chosen,
        policy=conclude.policy,
        clock=conclude.clock,
        progress=progress,
        cache=open_cache(ledger, new.started_at, progress, may_write=settings.mode.writes) if ledger else None,
        unopened=tuple(unopened),
    )


def _open_archive(settings: Settings) -> Archive | None:
    """The archive of manifests, opened before anything is observed. Raises SettingsError."""
    if not settings.mode.acts:
        return None
    from reaper.actions.manifest import open_archive

    return open_archive(settings.manifests, os.environ)


def _act_opener(
    observe: ObserveContext, conclude: ConcludeContext, archive: Archive, deadline: datetime | None
) -> OpenActContext:
    from reaper.actions.executor import ActContext

    sessions = {session.target: session for session in observe.sessions}
    ledger = conclude.ledger
    if ledger is None:
        raise ValueError("acting needs a ledger")

    def open_act(target: Target, leases: RunLeases) -> ActContext:
        return ActContext(
            session=sessions[target],
            policy=conclude.policy,
            prices=observe.prices,
            ledger=ledger,
            archive=archive,
            clock=conclude.clock,
            leases=leases,
            deadline=deadline,
        )

    return open_act
