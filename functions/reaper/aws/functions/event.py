"""What calls a function: the options of a sweep, which narrow the deployment's settings, or a batch of CloudWatch's alarm events.

An alarm's event comes at least once, so duplicates are recognized by their ID. Account and region are those of the envelope, which EventBridge writes, never
of the detail.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch-and-eventbridge.html
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from reaper import registry
from reaper import settings as knobs
from reaper.errors import SettingsError
from reaper.model import Resource

SOURCE, DETAIL_TYPE = "aws.cloudwatch", "CloudWatch Alarm State Change"
ENDPOINT_NAMESPACES = {"AWS/SageMaker", "/aws/sagemaker/Endpoints"}
EVENT_ENVELOPE_KEYS = {"version", "id", "detail-type", "source", "account", "time", "region", "resources", "detail"}
QUEUE_SOURCE = "aws:sqs"
KINDS = ("sagemaker-endpoint", "sagemaker-inference-component")
"""An endpoint is judged together with the inference components that it hosts."""


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
            named = _endpoints_of(event)
            endpoints |= named
            dropped[_dropped_because(event)] += not named
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


def _endpoints_of(event: Mapping[str, Any]) -> set[AlarmedEndpoint]:
    """The endpoints whose metrics the alarm watches, also those inside an expression."""
    if _value(event["detail"], "state", "value") != "ALARM":
        return set()
    metrics = _value(event["detail"], "configuration", "metrics")
    watched = [_value(metric, "metricStat", "metric") for metric in metrics] if isinstance(metrics, list) else []
    names = [
        _value(metric, "dimensions", "EndpointName")
        for metric in watched
        if isinstance(namespace := _value(metric, "namespace"), str) and namespace in ENDPOINT_NAMESPACES
    ]
    return {
        AlarmedEndpoint(account=event["account"], region=event["region"], name=name.lower())
        for name in names
        if isinstance(name, str) and name
    }


def _dropped_because(event: Mapping[str, Any]) -> str:
    detail = event["detail"]
    if _value(detail, "state", "value") != "ALARM":
        return "not in ALARM"
    if _value(detail, "configuration", "alarmRule") is not None:
        return "a composite alarm, which watches other alarms"
    metrics = _value(detail, "configuration", "metrics")
    if isinstance(metrics, list) and any(_value(metric, "expression") is not None for metric in metrics):
        return "an expression that names no endpoint"
    return "not about an endpoint"


def _value(found: Any, *path: str) -> Any:
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def is_batch(event: object) -> bool:
    """Whether a queue delivered the event."""
    records = event.get("Records") if isinstance(event, dict) else None
    return isinstance(records, list) and all(isinstance(r, dict) and r.get("eventSource") == QUEUE_SOURCE for r in records)


def options_of(event: object) -> dict[str, Any]:
    """The options of a call: the event itself, or its `detail` in EventBridge's envelope. Raises SettingsError."""
    options = event or {}
    if isinstance(options, dict) and {"detail-type", "source"} <= options.keys() and options.keys() <= EVENT_ENVELOPE_KEYS:
        options = options.get("detail") or {}
    if not isinstance(options, dict):
        raise SettingsError(f'the event is a {type(options).__name__}, expected an object such as {{"mode": "audit"}}')
    return options


def event_settings(environ: Mapping[str, str], options: Mapping[str, Any]) -> knobs.Settings:
    """The deployment's settings, narrowed by the options of a call. If they name no region, it sweeps its own, so that no event can choose
    another. Raises SettingsError.
    """
    deployed, own_region = knobs.from_env(environ), environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    if own_region and not deployed.regions:
        deployed = replace(deployed, regions=(own_region,))
    settings = knobs.narrow_settings(deployed, options, registry.kind_names())
    if settings.reports and not settings.reports.startswith("s3://"):
        raise SettingsError(f"REAPER_REPORTS={settings.reports!r}: this function stores reports at s3://bucket/prefix")
    kinds = tuple(kind.name for kind in registry.kinds("aws") if kind.name in settings.kinds)
    if not kinds or settings.cloud == "azure":
        raise SettingsError("this function sweeps AWS only")
    return replace(knobs.require_durable_stores(settings), cloud="aws", kinds=kinds)
