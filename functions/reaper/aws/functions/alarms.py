"""A run over the endpoints of the alarms that a queue delivers, a batch of up to five minutes at a time. It observes and notifies; the next
scheduled run acts.

A run over one resource would pass every limit on shares, so it never acts, and it writes no statistics, no hold and no admins' summary. In
mode enforce it runs as announce. https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html

An alarm's event comes at least once, so duplicates are recognized by their ID. Account and region are those of the envelope, which EventBridge writes, never
of the detail. https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch-and-eventbridge.html
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from reaper.aws import targets
from reaper.aws.functions.delivery import log_gaps, logger, publish_figures
from reaper.aws.functions.event import event_settings
from reaper.decide import DecideContext
from reaper.finding import OTHER_RUN, Report
from reaper.model import Account, Mode, Resource
from reaper.policy import file
from reaper.policy.file import PolicySource
from reaper.report.figures import alarm_figures, skipped_figures
from reaper.run import OpenRun, begin_run, observe_context, run_phases, with_calendars_of
from reaper.sessions import list_accounts, open_accounts
from reaper.settings import Settings

SOURCE, DETAIL_TYPE = "aws.cloudwatch", "CloudWatch Alarm State Change"
ENDPOINT_NAMESPACES = {"AWS/SageMaker", "/aws/sagemaker/Endpoints"}
KINDS = ("sagemaker-endpoint", "sagemaker-inference-component")
"""An endpoint is judged together with the inference components that it hosts."""
OUTSIDE = "outside the deployment's accounts and regions"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmedEndpoint:
    """An endpoint that an alarm is about. Names are compared without regard to case, as in ARNs."""

    account: str
    region: str
    name: str


def endpoint_of(resource: Resource) -> AlarmedEndpoint:
    """The endpoint that the resource is, or lives in."""
    named = resource.name if resource.host_id is None else resource.host_id.rpartition("/")[2]
    return AlarmedEndpoint(account=resource.target.account, region=resource.target.region or "", name=named.lower())


def alarmed_endpoints(bodies: Iterable[str]) -> tuple[set[AlarmedEndpoint], Counter[str]]:
    """The endpoints that these events are about, from the bodies of a queue's messages, and how many events were dropped, by reason. Never raises."""
    dropped: Counter[str] = Counter()
    endpoints: set[AlarmedEndpoint] = set()
    seen: set[str] = set()
    for body in bodies:
        event = _parse_event(body)
        if event is None:
            dropped["not an alarm's event"] += 1
        elif event["id"] in seen:
            dropped["sent twice"] += 1
        else:
            seen.add(event["id"])
            named, otherwise = _endpoints_of(event)
            endpoints |= named
            dropped[otherwise] += not named
    return endpoints, +dropped  # without zeros


def _parse_event(body: str) -> dict[str, Any] | None:
    """The event of an alarm that went off; None for anything else."""
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or event.get("source") != SOURCE or event.get("detail-type") != DETAIL_TYPE:
        return None
    texts = [event.get(key) for key in ("id", "account", "region")]
    return event if all(isinstance(text, str) and text for text in texts) and isinstance(event.get("detail"), dict) else None


def _endpoints_of(event: Mapping[str, Any]) -> tuple[set[AlarmedEndpoint], str]:
    """The endpoints whose metrics the alarm watches, also those inside an expression; and why it names none, if it doesn't."""
    detail = event["detail"]
    if _value(detail, "state", "value") != "ALARM":
        return set(), "not in ALARM"
    metrics = _value(detail, "configuration", "metrics")
    rows = metrics if isinstance(metrics, list) else []
    names = [
        _value(metric, "dimensions", "EndpointName")
        for metric in (_value(row, "metricStat", "metric") for row in rows)
        if isinstance(namespace := _value(metric, "namespace"), str) and namespace in ENDPOINT_NAMESPACES
    ]
    otherwise = "not about an endpoint"
    if _value(detail, "configuration", "alarmRule") is not None:
        otherwise = "a composite alarm, which watches other alarms"
    elif any(_value(row, "expression") is not None for row in rows):
        otherwise = "an expression that names no endpoint"
    account, region = event["account"], event["region"]
    named = {name.lower() for name in names if isinstance(name, str) and name}
    return {AlarmedEndpoint(account=account, region=region, name=name) for name in named}, otherwise


def _value(found: Any, *path: str) -> Any:
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


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
