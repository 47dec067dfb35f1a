"""A whole run from settings to report: `observe → decide → act → conclude` in one process. Entry points differ only in the source of the
settings and the destination of the report.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from reaper import __version__, contexts
from reaper.case import Report
from reaper.contexts import RunSetup, no_progress
from reaper.model import Run
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
    from reaper.sessions import CloudSession

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
    progress: Callable[[str], None] = no_progress,
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
    progress: Callable[[str], None] = no_progress,
    deadline: datetime | None = None,
    agreed: PlanFile | None = None,
) -> OpenRun:
    """The run with every context opened. Raises SettingsError."""
    new = new_run(settings, source, clock)
    conclude = contexts.conclude_context(settings, source.policy, clock, deadline)
    setup = RunSetup(
        settings=settings, policy=source.policy, ledger=conclude.ledger, clock=clock, progress=progress, deadline=deadline
    )
    archive = contexts.open_archive(settings)
    sessions, unopened = open_sessions(settings, contexts.clouds_of(settings), progress)
    return OpenRun(
        run=new,
        observe=contexts.observe_context(new, setup, sessions, unopened),
        decide=contexts.decide_context(setup, agreed),
        act=_act_opener(setup, sessions, archive) if archive else None,
        conclude=conclude,
    )


def new_run(settings: Settings, source: PolicySource, clock: Callable[[], datetime], run_id: str | None = None) -> Run:
    """A run that begins now, under that policy."""
    return Run(
        id=run_id or uuid.uuid4().hex[:12],
        started_at=clock(),
        mode=settings.mode,
        version=__version__,
        policy_sha256=source.sha256,
    )


def run_phases(opened: OpenRun, hand_over: HandOver = unchanged) -> Report:
    """The four phases, one after the other. `hand_over` gets the value of one phase and returns what the next one gets."""
    from reaper.conclude import conclude, leases_of
    from reaper.decide import decide
    from reaper.observe import observe

    observed = hand_over(observe(opened.run, opened.observe, opened.run.started_at))
    decided = decide([observed], opened.decide)
    leases = leases_of(decided, opened.conclude.ledger, opened.conclude.clock)
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


def _act_opener(setup: RunSetup, sessions: Sequence[CloudSession], archive: Archive) -> OpenActContext:
    by_target = {session.target: session for session in sessions}

    def open_act(target: Target, leases: RunLeases) -> ActContext:
        return contexts.act_context(setup, by_target[target], leases, archive)

    return open_act
