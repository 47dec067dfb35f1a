"""What calls a function: the options of a sweep, which narrow the deployment's settings, or a queue's batch of alarm events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reaper import registry
from reaper import settings as knobs
from reaper.errors import SettingsError

EVENT_ENVELOPE_KEYS = {"version", "id", "detail-type", "source", "account", "time", "region", "resources", "detail"}
QUEUE_SOURCE = "aws:sqs"


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
