"""A run over the endpoints of the alarms that a queue delivers, a batch of up to five minutes at a time. It observes and notifies; the next
scheduled run acts.

A run over one resource would pass every limit on shares, so it never acts, and it writes no statistics, no hold and no admins' summary. In
mode enforce it runs as announce. https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from reaper.aws import targets
from reaper.aws.functions.delivery import log_gaps, logger, publish_figures
from reaper.aws.functions.event import KINDS, AlarmedEndpoint, alarmed_endpoints, endpoint_of, event_settings
from reaper.decide import DecideContext
from reaper.finding import OTHER_RUN, Report
from reaper.model import Account, Mode
from reaper.policy import file
from reaper.policy.file import PolicySource
from reaper.report.figures import alarm_figures, skipped_figures
from reaper.run import OpenRun, begin_run, observe_context, run_phases, with_calendars_of
from reaper.sessions import list_accounts, open_accounts
from reaper.settings import Settings

OUTSIDE = "outside the deployment's accounts and regions"


def run_on_alarms(
    endpoints: Collection[AlarmedEndpoint],
    settings: Settings,
    source: PolicySource,
    clock: Callable[[], datetime],
    progress: Callable[[str], None],
    deadline: datetime | None,
) -> tuple[Report | None, int]:
    """Observe the endpoints and notify their owners, one message for each. Returns the report, None if nothing was left to look at, and how many
    endpoints are outside what the deployment sweeps. Raises ReaperError if nothing can be swept.
    """
    kinds = tuple(kind for kind in KINDS if not settings.kinds or kind in settings.kinds)
    mode = Mode.ANNOUNCE if settings.mode.acts else settings.mode
    chosen = replace(settings, mode=mode, kinds=kinds, cloud="aws")
    accounts, outside = _places(endpoints, list_accounts(chosen, "aws") if endpoints else [])
    if not accounts or not kinds:
        return None, outside
    source = with_calendars_of(source, clock)
    setup, conclude = begin_run(chosen, source, clock, progress, deadline)
    observe = observe_context(setup, *open_accounts(chosen, accounts, progress, may_act=False))
    opened = OpenRun(
        run=setup.run,
        observe=[replace(observe, only=lambda resource: endpoint_of(resource) in endpoints, cache=None)],
        decide=DecideContext(policy=source.policy, ledger=setup.ledger, clock=clock, notices_only=True),
        act=None,
        conclude=replace(conclude, notices_only=True),
    )
    return run_phases(opened), outside


def is_left_to_another(report: Report | None) -> bool:
    """Whether another run was processing every target: it sees the same."""
    findings = report.findings if report else ()
    return bool(findings) and all(finding.step.because == OTHER_RUN for finding in findings)


def _places(endpoints: Iterable[AlarmedEndpoint], accounts: Sequence[Account]) -> tuple[list[Account], int]:
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
    return [replace(known[account], regions=tuple(sorted(names))) for account, names in sorted(regions.items())], outside


def look_at_alarms(event: Mapping[str, Any], clock: Callable[[], datetime], deadline: datetime) -> dict[str, Any]:
    """One run over the endpoints of all alarms in the batch. Raises ReaperError if it can't be carried out: the queue delivers again.

    The answer says how many resources were judged, and how many events were dropped, by reason.
    """
    settings = event_settings(os.environ, {})
    source = file.load_policy(settings.policy)
    endpoints, dropped = alarmed_endpoints(str(record.get("body")) for record in event["Records"])
    report, outside = run_on_alarms(endpoints, settings, source, clock, logger.info, deadline)
    dropped += Counter({OUTSIDE: outside})  # leaves zeros out
    deployment = os.environ.get("REAPER_DEPLOYMENT", "")
    publish_figures(alarm_figures(dropped.total()), deployment)
    if is_left_to_another(report):
        publish_figures(skipped_figures(), deployment)
    answer: dict[str, Any] = {
        "run": report.run.id if report else None,
        "resources": len(report.findings) if report else 0,
        "dropped": dict(dropped),
    }
    logger.info("alarms followed up", **answer, skipped=is_left_to_another(report))
    if report:
        log_gaps(report)
    return answer
