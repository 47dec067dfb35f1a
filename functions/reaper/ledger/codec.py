"""How ledgers write things down: flat rows of texts, keys that sort as time does, and the form in which ids are compared.

ARM ids are case-insensitive: https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/overview (resource names are).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any

from reaper.errors import CloudError, Reason
from reaper.ledger.port import RETENTION, HistoryEntry, RunStatistics, Unfinished
from reaper.model import AnnouncedAction, Memory, Result, StepName, Target

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS: Mapping[str, str] = {
    "idle_since": "idle_since",
    "last_seen_idle_at": "idle_seen",
    "warned_at": "warned_at",
    "notice_receipt": "receipt",
    "notified_owner": "told",
    "notified_fingerprint": "shape",
    "reminded_at": "reminded_at",
    "announced_action": "announced",
    "act_not_before": "promised",
    "enrolment_digest": "enrolled",
    "held_at": "held_at",
    "snoozed_until": "snoozed_until",
    "snoozed_at": "snoozed_at",
    "snoozed_by": "snoozed_by",
    "snooze_reason": "snoozed_why",
    "last_action": "last_act",
    "last_action_at": "acted_at",
    "manifest_address": "manifest",
    "last_action_run": "act_run",
    "last_action_result": "act_result",
    "last_action_because": "act_because",
    "last_action_part": "act_part",
    "last_action_told_at": "act_told",
}
"""Under which column each field of a memory is stored. A field may be renamed; a column that was ever written never is."""
SNOOZE_FIELDS = frozenset({"snoozed_until", "snoozed_at", "snoozed_by", "snooze_reason"})
"""The fields that a click on a snooze link writes."""
TIME_FIELDS = frozenset(
    {
        "idle_since",
        "last_seen_idle_at",
        "warned_at",
        "reminded_at",
        "act_not_before",
        "held_at",
        "snoozed_until",
        "snoozed_at",
        "last_action_at",
        "last_action_told_at",
    }
)
"""The fields of a memory that are datetimes."""
_STUDIO_APP_ARN = re.compile(r"(arn:[^:]+:sagemaker:[^:]*:[^:]*:app/[^/]+/[^/]+/)([^/]+)(/.+)", re.DOTALL)
ENUM_FIELDS: Mapping[str, type[StrEnum]] = {
    "announced_action": AnnouncedAction,
    "last_action": StepName,
    "last_action_result": Result,
}
"""Those that are one word out of a few."""


def comparable_id(resource_id: str) -> str:
    """The form in which two ids are compared, and under which the ledger keeps them.

    ARM ids, which begin with a slash, in lower case; of the ARN of a Studio app its type, which AWS spells `jupyterlab` here and `JupyterLab`
    there; everything else as it stands.
    """
    if resource_id.startswith("/"):
        return resource_id.lower()
    app = _STUDIO_APP_ARN.fullmatch(resource_id) if ":app/" in resource_id else None
    return f"{app[1]}{app[2].lower()}{app[3]}" if app else resource_id


def shorten_key(key: str, most: int) -> str:
    """The key itself, or its beginning and a hash of the whole where it has more than `most` bytes."""
    plain = key.encode()
    return key if len(plain) <= most else f"{plain[: most - 65].decode(errors='ignore')}~{sha256(plain).hexdigest()}"


def target_text(target: Target) -> str:
    """A target as one text."""
    return f"{target.cloud}/{target.account}/{target.region or '-'}"


def sortable_time(moment: datetime) -> str:
    """An aware datetime in UTC with a fixed width, so that texts sort as times do. Raises ValueError for a naive one."""
    if moment.utcoffset() is None:
        raise ValueError(f"{moment!r} has no time zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def retained_from(memory: Memory, now: datetime) -> datetime:
    """From when on its time is counted: the write, or the end of a snooze that is longer."""
    return max(now, memory.snoozed_until or now)


def is_retained(at: object, now: datetime) -> bool:
    """Whether what was touched `at`, a text of `stamp`, is not forgotten at `now`. A row that does not say is never forgotten."""
    return not isinstance(at, str) or not at or at >= sortable_time(now - RETENTION)


def entry_digest(entry: HistoryEntry) -> str:
    """Tells two entries of the same moment apart; the same for the same entry."""
    return sha256(json.dumps(history_columns(entry)).encode()).hexdigest()[:16]


def memory_columns(memory: Memory, fields: Collection[str] | None = None) -> dict[str, str]:
    """The columns of `fields` (None: all) that have a value, as texts; the version is the store's own business."""
    names = [name for name in COLUMNS if fields is None or name in fields]
    known = {name: value for name in names if (value := getattr(memory, name)) is not None}
    return {COLUMNS[name]: sortable_time(value) if name in TIME_FIELDS else str(value) for name, value in known.items()}


def written_columns(fields: Collection[str] | None = None) -> frozenset[str]:
    """The columns that a write of `fields` (None: all) sets or removes; every other one stays as it is."""
    return frozenset(column for name, column in COLUMNS.items() if fields is None or name in fields)


def merge_row(row: Mapping[str, Any], memory: Memory, fields: Collection[str] | None = None) -> dict[str, Any]:
    """The stored row with the columns of `fields` (None: all that this version knows) written anew, and all others as they were."""
    ours = written_columns(fields)
    return {name: value for name, value in row.items() if name not in ours} | memory_columns(memory, fields)


def memory_from_row(row: Mapping[str, Any], version: object, resource_id: str) -> Memory:
    """The memory in a row; columns of a later version of this product are passed over.

    Raises CloudError for one that cannot be read: a column that is there and is no text is not one that is not there.
    """
    try:
        said = {name: _parse_column(name, row[column]) for name, column in COLUMNS.items() if column in row}
        return Memory(**{**said, "version": _parse_version(version)})
    except (ValueError, TypeError) as error:
        raise _unreadable(f"the memory of {resource_id}", error) from error


def unfinished_columns(entry: Unfinished) -> dict[str, str]:
    """An open action as texts."""
    texts = {name: getattr(entry, name) for name in ("id", "kind", "name", "owner", "region", "run") if getattr(entry, name)}
    return {**texts, "action": entry.action.value, "at": sortable_time(entry.at)}


def unfinished_from_row(row: Mapping[str, str], target: Target) -> Unfinished:
    """The open action in a row. Raises CloudError for one that cannot be read."""
    try:
        return Unfinished(
            target=target,
            id=row["id"],
            kind=row["kind"],
            name=row["name"],
            region=row["region"],
            owner=row.get("owner"),
            action=StepName(row["action"]),
            run=row["run"],
            at=parse_time(row["at"]),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise _unreadable("a row of an open action", error) from error


def statistics_columns(summary: RunStatistics) -> dict[str, str]:
    """A summary as texts."""
    region = {"region": summary.target.region} if summary.target.region else {}
    return {
        "run": summary.run,
        "cloud": summary.target.cloud,
        "account": summary.target.account,
        "kind": summary.kind,
        "started": sortable_time(summary.started),
        "seen": str(summary.seen),
        "idle": str(summary.idle),
        "usd_per_hour": repr(float(summary.usd_per_hour)),
        "unpriced": str(summary.unpriced),
        **({"held": "yes"} if summary.was_jump else {}),
        **region,
    }


def statistics_from_row(row: Mapping[str, str]) -> RunStatistics:
    """The summary in a row. Raises CloudError for one that cannot be read."""
    try:
        return RunStatistics(
            run=row["run"],
            target=Target(cloud=row["cloud"], account=row["account"], region=row.get("region")),
            kind=row["kind"],
            started=parse_time(row["started"]),
            seen=int(row["seen"]),
            idle=int(row["idle"]),
            usd_per_hour=float(row["usd_per_hour"]),
            unpriced=int(row["unpriced"]),
            was_jump="held" in row,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise _unreadable("a summary", error) from error


def history_columns(entry: HistoryEntry) -> dict[str, str]:
    """An entry as texts."""
    return {"id": entry.id, "when": sortable_time(entry.when), "what": entry.what, "by": entry.by, "because": entry.because}


def history_from_row(row: Mapping[str, str]) -> HistoryEntry:
    """The entry in a row. Raises CloudError for one that cannot be read."""
    try:
        when = parse_time(row["when"])
        return HistoryEntry(id=row["id"], when=when, what=row["what"], by=row["by"], because=row["because"])
    except (KeyError, ValueError, TypeError) as error:
        raise _unreadable("an entry of the history", error) from error


def _parse_column(name: str, text: object) -> Any:
    if not isinstance(text, str):
        raise TypeError(f"{name} is not a text")
    if name in TIME_FIELDS:
        return parse_time(text)
    return ENUM_FIELDS[name](text) if name in ENUM_FIELDS else text


def _parse_version(version: object) -> int:
    """A version as a store gives it; one below 1 would be taken for none."""
    if isinstance(version, bool) or not isinstance(version, int | str) or int(version) < 1:
        raise ValueError(f"{version!r} is not a version")
    return int(version)


def parse_time(text: str) -> datetime:
    """The datetime that `stamp` wrote. Raises ValueError for a naive one."""
    found = datetime.fromisoformat(text)
    if found.utcoffset() is None:
        raise ValueError(f"{text!r} has no time zone")
    return found


def _unreadable(what: str, error: Exception) -> CloudError:
    return CloudError(Reason.UNREADABLE, "ledger:Read", f"{what} cannot be read ({type(error).__name__}: {error})")
