"""A run over the endpoints that alarms are about. It observes and notifies; the next scheduled run acts.

A run over one resource would pass every limit on shares, so it never acts, and it writes no statistics, no hold and no admins' summary. In
mode enforce it runs as announce.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reaper import contexts
from reaper.aws import targets
from reaper.aws.alarm_event import KINDS, AlarmedEndpoint, AlarmedEndpoints
from reaper.case import Report
from reaper.contexts import RunSetup
from reaper.decide import OTHER_RUN
from reaper.model import Account, Mode
from reaper.policy.file import PolicySource
from reaper.run import OpenRun, new_run, run_phases
from reaper.sessions import list_accounts, open_accounts
from reaper.settings import Settings

OUTSIDE = "outside the deployment's accounts and regions"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRun:
    """The result of a batch of alarms: the report, None if nothing was left to look at, and the events that were dropped, by reason."""

    report: Report | None
    dropped: dict[str, int]

    @property
    def is_skipped(self) -> bool:
        """Whether another run was processing every target: it sees the same."""
        findings = self.report.findings if self.report else ()
        return bool(findings) and all(finding.step.because == OTHER_RUN for finding in findings)


def run_on_alarms(
    alarmed: AlarmedEndpoints,
    settings: Settings,
    source: PolicySource,
    clock: Callable[[], datetime],
    progress: Callable[[str], None],
    deadline: datetime | None,
) -> AlarmRun:
    """Observe the endpoints and notify their owners, one message for each. Raises ReaperError if nothing can be swept."""
    chosen = _chosen_settings(settings)
    accounts, dropped = _places(alarmed.endpoints, list_accounts(chosen, "aws") if alarmed.endpoints else [])
    counted = dict(Counter(alarmed.dropped) + Counter(dropped))
    if not accounts or not chosen.kinds:
        return AlarmRun(report=None, dropped=counted)
    conclude = contexts.conclude_context(chosen, source.policy, clock, deadline)
    setup = RunSetup(
        settings=chosen, policy=source.policy, ledger=conclude.ledger, clock=clock, progress=progress, deadline=deadline
    )
    run = new_run(chosen, source, clock)
    observe = contexts.observe_context(run, setup, *open_accounts(chosen, accounts, progress, may_act=False))
    opened = OpenRun(
        run=run,
        observe=[replace(observe, only=alarmed.includes, cache=None)],
        decide=replace(contexts.decide_context(setup), notices_only=True),
        act=None,
        conclude=replace(conclude, notices_only=True),
    )
    return AlarmRun(report=run_phases(opened), dropped=counted)


def _chosen_settings(settings: Settings) -> Settings:
    """The settings, for endpoints only, and never in a mode that acts."""
    kinds = tuple(kind for kind in KINDS if not settings.kinds or kind in settings.kinds)
    return replace(settings, mode=Mode.ANNOUNCE if settings.mode.acts else settings.mode, kinds=kinds, cloud="aws")


def _places(endpoints: Iterable[AlarmedEndpoint], accounts: Sequence[Account]) -> tuple[list[Account], dict[str, int]]:
    """The accounts with the regions to look at, and how many endpoints are outside what the deployment sweeps."""
    outside = 0
    regions: dict[str, set[str]] = {}
    known, all_regions = {account.id: account for account in accounts}, targets.known_regions()
    for endpoint in endpoints:
        account = known.get(endpoint.account)
        if account and endpoint.region in (all_regions if "all" in account.regions else account.regions):
            regions.setdefault(account.id, set()).add(endpoint.region)
        else:
            outside += 1
    places = [replace(known[account], regions=tuple(sorted(names))) for account, names in sorted(regions.items())]
    return places, {OUTSIDE: outside} if outside else {}
