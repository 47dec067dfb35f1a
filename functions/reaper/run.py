"""A whole run from settings to report: `observe → decide → act → conclude` in one process. Entry points differ only in the source of the
settings and the destination of the report.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Protocol, TypeVar

from reaper import __version__, contexts
from reaper.case import Coverage, Report
from reaper.contexts import RunSetup, no_progress
from reaper.coverage import failure_row, unopened_rows
from reaper.errors import CloudError, ReaperError, Reason
from reaper.model import Account, Run
from reaper.planning import run_age
from reaper.sessions import list_all_accounts, open_account, open_accounts, session_of
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
ACCOUNTS_AT_ONCE = 8
"""Accounts that are open at the same time. Each of their regions has clients of its own."""


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
    """A run with the context of each phase. `act` is None below mode enforce: the acting code isn't even loaded.

    `later`: the contexts of observing further accounts. They are opened one after the other, when their turn comes.
    """

    run: Run
    observe: ObserveContext
    decide: DecideContext
    act: OpenActContext | None
    conclude: ConcludeContext
    later: Iterable[ObserveContext] = ()


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
    accounts, unlisted = list_all_accounts(settings, contexts.clouds_of(settings), progress)
    parts = _observe_contexts(new, setup, accounts, unlisted)
    return OpenRun(
        run=new,
        observe=next(parts),
        decide=contexts.decide_context(setup, agreed),
        act=_act_opener(setup, accounts, archive) if archive else None,
        conclude=conclude,
        later=parts,
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

    parts = chain([opened.observe], opened.later)
    observed = [hand_over(observe(opened.run, part, opened.run.started_at)) for part in parts]
    decided = decide(observed, opened.decide)
    leases = leases_of(decided, opened.conclude.ledger, opened.conclude.clock)
    with ExitStack() as on_failure:
        if leases:
            on_failure.callback(leases.give_back)
        decided = hand_over(decided)
        acted = [hand_over(each) for each in _act_on_targets(decided, opened, leases)]
        on_failure.pop_all()  # conclude gives them back
    return conclude(observed, decided, acted, opened.conclude)


def _act_on_targets(decided: Decided, opened: OpenRun, leases: RunLeases | None) -> list[Acted]:
    """Act on one target after the other, the one with the most expensive action first. Below mode enforce no acting code is loaded."""
    if opened.act is None or leases is None:
        return []
    from reaper.act import act, refuse_target, targets_by_cost

    acted = []
    for target in targets_by_cost(decided):
        try:
            acted.append(act(decided.for_target(target), opened.act(target, leases)))
        except ReaperError as error:
            because = f"the re-check couldn't begin: {error}"
            acted.append(refuse_target(decided, target, because, (failure_row("acts", error),)))
    return acted


def _observe_contexts(
    run: Run, setup: RunSetup, accounts: Sequence[Account], unlisted: Sequence[Coverage]
) -> Iterator[ObserveContext]:
    """The contexts of observing, one for a few accounts at a time: 500 accounts don't fit into memory. First what earlier runs had no time for."""
    unreached = contexts.read_unreached_accounts(setup.settings, setup.ledger) if len(accounts) > 1 else frozenset()
    ordered = sorted(accounts, key=lambda account: account.id not in unreached)
    opened = open_accounts(setup.settings, ordered[:ACCOUNTS_AT_ONCE], setup.progress)
    context = contexts.observe_context(run, setup, opened[0], [*unlisted, *opened[1]])
    yield context
    for start in range(ACCOUNTS_AT_ONCE, len(ordered), ACCOUNTS_AT_ONCE):
        some = ordered[start : start + ACCOUNTS_AT_ONCE]
        opened = (
            ([], _unreached_rows(context, some)) if context.is_over() else open_accounts(setup.settings, some, setup.progress)
        )
        yield replace(context, sessions=opened[0], unopened=tuple(opened[1]))


def _unreached_rows(context: ObserveContext, accounts: Iterable[Account]) -> list[Coverage]:
    """The rows of accounts for which the time is over."""
    error = CloudError(Reason.UNREACHABLE, "observe", run_age.NOT_REACHED)
    return [
        row
        for account in accounts
        for row in unopened_rows(account, [kind.name for kind in context.kinds if kind.cloud == account.cloud], error)
    ]


def _act_opener(setup: RunSetup, accounts: Iterable[Account], archive: Archive) -> OpenActContext:
    by_id = {(account.cloud, account.id): account for account in accounts}

    @cache
    def open_once(cloud: str, account: str) -> tuple[list[CloudSession], list[Coverage]]:
        return open_account(setup.settings, by_id[cloud, account], may_act=True)

    def open_act(target: Target, leases: RunLeases) -> ActContext:
        session = session_of(target, *open_once(target.cloud, target.account))
        return contexts.act_context(setup, session, leases, archive)

    return open_act
