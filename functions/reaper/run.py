"""A whole run from settings to report: `observe → decide → act → conclude` in one process. Entry points differ only in the source of the
settings and the destination of the report.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeVar

from reaper import __version__, contexts, coverage
from reaper.case import Coverage, Report
from reaper.contexts import RunSetup, no_progress
from reaper.coverage import failure_row, unopened_rows
from reaper.errors import CloudError, ReaperError, Reason, SettingsError
from reaper.model import Account, Run
from reaper.sessions import list_all_accounts, open_account, open_accounts, session_of
from reaper.settings import Settings

if TYPE_CHECKING:
    from reaper.acting.executor import ActContext
    from reaper.acting.manifest import Archive
    from reaper.decide import DecideContext
    from reaper.handover import Acted, Decided, Observed
    from reaper.ledger.lease import RunLeases
    from reaper.model import Target
    from reaper.notices.context import ConcludeContext
    from reaper.observe import ObserveContext
    from reaper.pending.plan_file import PlanFile
    from reaper.policy.file import PolicySource
    from reaper.sessions import CloudSession

HandedOver = TypeVar("HandedOver", "Observed", "Decided", "Acted")
OpenActContext = Callable[["Target", "RunLeases"], "ActContext"]
"""The context of acting on one target, while the process keeps these leases alive."""
ACCOUNTS_AT_ONCE = 8
"""Accounts that are open at the same time. Each of their regions has clients of its own, which take up to 3 MB."""


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

    `observe`: a context for each few accounts. Iterate over it once and keep none of them: the sessions of one are opened when those before are
    no longer needed.
    """

    run: Run
    observe: Iterable[ObserveContext]
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
    """The run with every context, of which those of observing open their sessions in turn. Raises SettingsError."""
    if agreed and agreed.policy_sha256 != source.sha256:
        raise SettingsError(f"the plan was made under a different policy than {source.name}; run reaper plan again")
    new = new_run(settings, source, clock)
    conclude = contexts.conclude_context(settings, source.policy, clock, deadline)
    setup = RunSetup(
        settings=settings, policy=source.policy, ledger=conclude.ledger, clock=clock, progress=progress, deadline=deadline
    )
    archive = contexts.open_archive(settings)
    accounts, unlisted = list_all_accounts(settings, contexts.clouds_of(settings), progress)
    return OpenRun(
        run=new,
        observe=_observe_contexts(new, setup, accounts, unlisted),
        decide=contexts.decide_context(setup, agreed),
        act=_act_opener(setup, accounts, archive, source.where) if archive else None,
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

    def observe_some(context: ObserveContext) -> Observed:
        return hand_over(observe(opened.run, context, opened.run.started_at))

    # The variable of a loop would keep the sessions of one context while those of the next are opened.
    observed = list(map(observe_some, opened.observe))
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
    base = contexts.observe_context(run, setup, ())
    for start in range(0, len(ordered) or 1, ACCOUNTS_AT_ONCE):
        yield _opened_context(base, setup, ordered[start : start + ACCOUNTS_AT_ONCE], () if start else unlisted)


def _opened_context(
    base: ObserveContext, setup: RunSetup, accounts: Sequence[Account], unlisted: Sequence[Coverage]
) -> ObserveContext:
    """The context of observing these accounts. Once the time is over, they get their rows only."""
    if base.is_over():
        return replace(base, unopened=(*unlisted, *_unreached_rows(base, accounts)))
    sessions, unopened = open_accounts(setup.settings, accounts, setup.progress)
    return replace(base, sessions=sessions, unopened=(*unlisted, *unopened))


def _unreached_rows(context: ObserveContext, accounts: Iterable[Account]) -> list[Coverage]:
    """The rows of accounts for which the time is over."""
    error = CloudError(Reason.UNREACHABLE, "observe", coverage.NOT_REACHED)
    return [
        row
        for account in accounts
        for row in unopened_rows(account, [kind.name for kind in context.kinds if kind.cloud == account.cloud], error)
    ]


def _act_opener(setup: RunSetup, accounts: Iterable[Account], archive: Archive, policy: str | None) -> OpenActContext:
    """Opens the context of acting on one target. The policy is read again for each: a person may have changed it since the run began."""
    from reaper.policy.file import load_policy

    by_id = {(account.cloud, account.id): account for account in accounts}

    @lru_cache(ACCOUNTS_AT_ONCE)
    def open_once(cloud: str, account: str) -> tuple[list[CloudSession], list[Coverage]]:
        return open_account(setup.settings, by_id[cloud, account], may_act=True)

    def open_act(target: Target, leases: RunLeases) -> ActContext:
        current = load_policy(policy)
        session = session_of(target, *open_once(target.cloud, target.account))
        return contexts.act_context(setup, session, leases, archive, current.sha256)

    return open_act
