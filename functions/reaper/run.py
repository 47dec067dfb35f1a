"""A run from settings to report: `observe → decide → act → conclude`, and the context that each phase gets.

In one process all contexts are opened (`open_run`), a workflow's step opens only its own. Entry points differ only in the source of the settings
and the destination of the report.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeVar

from reaper import __version__, handover
from reaper.case import Coverage
from reaper.coverage import NOT_REACHED, PlaceName, failure_row, unopened_rows
from reaper.errors import CloudError, Interrupted, ReaperError, Reason, SettingsError, interrupted_as
from reaper.finding import Report
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger, RunLeases, read_gaps
from reaper.model import Account, Run
from reaper.prices import price_book
from reaper.registry import CLOUDS, kinds
from reaper.sessions import list_all_accounts, open_account, open_accounts, session_of
from reaper.settings import Settings

if TYPE_CHECKING:
    from reaper.acting.look import ActContext
    from reaper.acting.manifest import Archive
    from reaper.calendars.resolve import FreshFreezes
    from reaper.decide import DecideContext
    from reaper.handover import Acted, Decided, Observed
    from reaper.model import Target
    from reaper.notices.context import ConcludeContext
    from reaper.observe import ObserveContext
    from reaper.pending.plan_file import PlanFile
    from reaper.policy.file import PolicySource
    from reaper.policy.schema import Policy
    from reaper.sessions import CloudSession

HandedOver = TypeVar("HandedOver", "Observed", "Decided", "Acted")
OpenActContext = Callable[["Target", "RunLeases"], "ActContext"]
"""The context of acting on one target, while the process keeps these leases alive."""
ACCOUNTS_AT_ONCE = 8
"""Accounts that are open at the same time. Each of their regions has clients of its own, which take up to 3 MB."""
MAIL_MARGIN = timedelta(seconds=45)
"""The time that conclude needs after its last message to an owner: for the statistics, the report and the admins' summary."""


class HandOver(Protocol):
    """Hands a value from one phase to the next: a workflow stores it and reads it again."""

    def __call__(self, value: HandedOver) -> HandedOver:
        """The value for the next phase."""
        ...


def unchanged(value: HandedOver) -> HandedOver:
    """In one process the next phase gets the very same value."""
    return value


def no_progress(text: str) -> None:
    """No progress is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup:
    """What the contexts of one run share. `ledger` is None in an audit that has none. `deadline`: when the process will be ended;
    `observe_share`: how much of the time until then it may observe.
    """

    run: Run
    settings: Settings
    policy: Policy
    ledger: Ledger | None
    clock: Callable[[], datetime]
    progress: Callable[[str], None] = no_progress
    deadline: datetime | None = None
    observe_share: float = handover.SHARE_OF_ALL


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
    with interrupted_as("Nothing was changed."):
        opened = open_run(settings, source, clock, progress, deadline, agreed)
    return run_phases(opened)


def open_run(
    settings: Settings,
    source: PolicySource,
    clock: Callable[[], datetime],
    progress: Callable[[str], None] = no_progress,
    deadline: datetime | None = None,
    agreed: PlanFile | None = None,
) -> OpenRun:
    """The run with every context, of which those of observing open their sessions in turn. Raises SettingsError."""
    from reaper.decide import DecideContext  # imports pydantic, which would slow every `--help` and cold start

    if agreed and agreed.policy_sha256 != source.sha256:
        raise SettingsError(f"the plan was made under a different policy than {source.name}; run reaper plan again")
    source = with_calendars_of(source, clock)
    setup, conclude = begin_run(settings, source, clock, progress, deadline)
    archive = open_archive(settings)
    clouds = [cloud for cloud in CLOUDS if any(_is_chosen(kind.name, settings) for kind in kinds(cloud))]
    accounts, unlisted = list_all_accounts(settings, clouds, progress)
    return OpenRun(
        run=setup.run,
        observe=_observe_contexts(setup, accounts, unlisted),
        decide=DecideContext(policy=source.policy, ledger=setup.ledger, clock=clock, agreed=agreed, archive=archive),
        act=_act_opener(setup, accounts, archive, source.where) if archive else None,
        conclude=conclude,
    )


def with_calendars_of(source: PolicySource, clock: Callable[[], datetime]) -> PolicySource:
    """The policy with its calendars as they are now. One without any imports nothing."""
    if not source.policy.calendars:
        return source
    from reaper.calendars.resolve import with_calendars

    return replace(source, policy=with_calendars(source.policy, source.where, clock()))


def begin_run(
    settings: Settings,
    source: PolicySource,
    clock: Callable[[], datetime],
    progress: Callable[[str], None],
    deadline: datetime | None,
) -> tuple[RunSetup, ConcludeContext]:
    """A run that begins now, with its ledger and channels. Raises SettingsError if no channel can notify owners."""
    begun = new_run(settings, source, clock)
    conclude = conclude_context(settings, source.policy, clock, deadline)
    setup = RunSetup(
        run=begun,
        settings=settings,
        policy=source.policy,
        ledger=conclude.ledger,
        clock=clock,
        progress=progress,
        deadline=deadline,
    )
    return setup, conclude


def new_run(settings: Settings, source: PolicySource, clock: Callable[[], datetime], run_id: str | None = None) -> Run:
    """A run that begins now, under that policy. Raises PolicyError if the policy accepts something for too long."""
    if source.policy.accept:
        from reaper.policy.accepted import require_near_ends

        require_near_ends(source, clock())
    return Run(
        id=run_id or uuid.uuid4().hex[:12],
        started_at=clock(),
        mode=settings.mode,
        version=__version__,
        policy_sha256=source.sha256,
    )


def run_phases(opened: OpenRun, hand_over: HandOver = unchanged) -> Report:
    """The four phases, one after the other. `hand_over` gets the value of one phase and returns what the next one gets.

    Raises Interrupted, which says what was done, if a person ends it.
    """
    from reaper.conclude import conclude, leases_of
    from reaper.decide import decide
    from reaper.observe import observe
    from reaper.pending.unfinished import done_so_far

    def observe_some(context: ObserveContext) -> Observed:
        return hand_over(observe(opened.run, context, opened.run.started_at))

    decided, ledger, clock = None, opened.conclude.ledger, opened.conclude.clock
    try:
        # The variable of a loop would keep the sessions of one context while those of the next are opened.
        observed = list(map(observe_some, opened.observe))
        decided = decide(observed, opened.decide)
        leases = leases_of(decided, ledger, clock)
        with ExitStack() as on_failure:
            if leases:
                on_failure.callback(leases.give_back)
            decided = hand_over(decided)
            acted = [hand_over(each) for each in _act_on_targets(decided, opened, leases)]
            on_failure.pop_all()  # conclude gives them back
        return conclude(observed, decided, acted, opened.conclude)
    except KeyboardInterrupt as interrupt:
        raise Interrupted(done_so_far(opened.run, decided, ledger, clock())) from interrupt


def open_ledger(settings: Settings) -> Ledger | None:
    """The run's ledger. An audit writes nothing; it reads a ledger if one was named, to know of snoozes and notices."""
    writes = settings.mode.writes
    return opening.open_ledger(settings.ledger, os.environ, read_only=not writes) if writes or settings.ledger else None


def open_archive(settings: Settings) -> Archive | None:
    """The archive of manifests in enforce mode, opened before anything is observed. Raises SettingsError."""
    if not settings.mode.acts:
        return None
    from reaper.acting import manifest

    return manifest.open_archive(settings.manifests, os.environ)


def observe_context(setup: RunSetup, sessions: Sequence[CloudSession], unopened: Sequence[Coverage] = ()) -> ObserveContext:
    """The context of observing these sessions, with every kind that the settings name."""
    from reaper.observe import ObserveContext
    from reaper.observing.cache import ConfigurationCache

    run, ledger, writes, progress = setup.run, setup.ledger, setup.settings.mode.writes, setup.progress
    read_first, in_full = _read_gaps(setup.settings, ledger, progress)
    return ObserveContext(
        sessions=sessions,
        kinds=[kind for kind in kinds() if _is_chosen(kind.name, setup.settings)],
        policy=setup.policy,
        clock=setup.clock,
        prices=price_book(setup.policy),
        progress=progress,
        cache=ConfigurationCache(ledger=ledger, now=run.started_at, may_write=writes, report_failure=progress)
        if ledger
        else None,
        unopened=tuple(unopened),
        read_first=read_first,
        in_full=in_full,
        deadline=handover.observe_deadline(run, setup.clock(), setup.deadline, setup.observe_share),
    )


def act_context(
    setup: RunSetup, session: CloudSession, leases: RunLeases, archive: Archive, policy_sha256: str, freezes: FreshFreezes
) -> ActContext:
    """The context of acting on the session's target, while the process keeps these leases alive.

    `policy_sha256`: the hash of the policy as it is now. If it has changed since the run began, act refuses everything.
    """
    from reaper.acting.look import ActContext

    return ActContext(
        session=session,
        policy=setup.policy,
        ledger=leases.ledger,
        archive=archive,
        clock=setup.clock,
        leases=leases,
        prices=price_book(setup.policy),
        deadline=setup.deadline,
        policy_sha256=policy_sha256,
        freezes=freezes,
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
    opened = open_context(settings.ledger, policy, os.environ, clock, deadline - MAIL_MARGIN if deadline else None)
    return replace(opened, location_settings=places)


def unreached_first(accounts: Sequence[Account], settings: Settings, ledger: Ledger | None) -> list[Account]:
    """The accounts, first those in which earlier runs had no time for something."""
    if len(accounts) < 2:
        return list(accounts)
    unreached = {account for _, account, _, _ in _read_gaps(settings, ledger, no_progress)[0]}
    return sorted(accounts, key=lambda account: account.id not in unreached)


def _is_chosen(kind: str, settings: Settings) -> bool:
    return not settings.kinds or kind in settings.kinds


def _read_gaps(
    settings: Settings, ledger: Ledger | None, progress: Callable[[str], None]
) -> tuple[frozenset[PlaceName], frozenset[str]]:
    """The places to read first, and the IDs of what to read as a whole; none in an audit.

    If the ledger fails, neither matters: that is reported when it is needed.
    """
    try:
        return read_gaps(ledger) if ledger and settings.mode.writes else (frozenset(), frozenset())
    except ReaperError as error:
        progress(f"ledger: {error}")
        return frozenset(), frozenset()


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


def _observe_contexts(setup: RunSetup, accounts: Sequence[Account], unlisted: Sequence[Coverage]) -> Iterator[ObserveContext]:
    """The contexts of observing, one for a few accounts at a time: 500 accounts don't fit into memory. First what earlier runs had no time for."""
    ordered = unreached_first(accounts, setup.settings, setup.ledger)
    base = observe_context(setup, ())
    for start in range(0, len(ordered) or 1, ACCOUNTS_AT_ONCE):
        yield _opened_context(base, setup, ordered[start : start + ACCOUNTS_AT_ONCE], () if start else unlisted)


def _opened_context(
    base: ObserveContext, setup: RunSetup, accounts: Sequence[Account], unlisted: Sequence[Coverage]
) -> ObserveContext:
    """The context of observing these accounts. Once the time is over, they get their rows only."""
    if base.is_over():
        error = CloudError(Reason.UNREACHABLE, "observe", NOT_REACHED)
        chosen = ((account, [kind.name for kind in base.kinds if kind.cloud == account.cloud]) for account in accounts)
        rows = (row for account, names in chosen for row in unopened_rows(account, names, error))
        return replace(base, unopened=(*unlisted, *rows))
    sessions, unopened = open_accounts(setup.settings, accounts, setup.progress)
    return replace(base, sessions=sessions, unopened=(*unlisted, *unopened))


def _act_opener(setup: RunSetup, accounts: Iterable[Account], archive: Archive, policy: str | None) -> OpenActContext:
    """Opens the context of acting on one target. The policy is read again for each, and its freezes before actions: a person may have changed them."""
    from reaper.calendars.resolve import FreshFreezes
    from reaper.policy.file import load_policy

    by_id = {(account.cloud, account.id): account for account in accounts}
    freezes = FreshFreezes(policy=setup.policy, where=policy)

    @lru_cache(ACCOUNTS_AT_ONCE)
    def open_once(cloud: str, account: str) -> tuple[list[CloudSession], list[Coverage]]:
        return open_account(setup.settings, by_id[cloud, account], may_act=True)

    def open_act(target: Target, leases: RunLeases) -> ActContext:
        current = load_policy(policy)
        session = session_of(target, *open_once(target.cloud, target.account))
        return act_context(setup, session, leases, archive, current.sha256, freezes)

    return open_act
