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

from reaper.errors import CloudError, Trouble
from reaper.ledger.port import KEEP, History, Summary, Unfinished
from reaper.model import Announced, Memory, Move, Result, Target

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS: Mapping[str, str] = {
    "idle_since": "idle_since",
    "idle_seen": "idle_seen",
    "warned_at": "warned_at",
    "receipt": "receipt",
    "told": "told",
    "shape": "shape",
    "reminded_at": "reminded_at",
    "announced": "announced",
    "promised": "promised",
    "enrolled": "enrolled",
    "held_at": "held_at",
    "snoozed_until": "snoozed_until",
    "snoozed_at": "snoozed_at",
    "snoozed_by": "snoozed_by",
    "snoozed_why": "snoozed_why",
    "last_act": "last_act",
    "acted_at": "acted_at",
    "manifest": "manifest",
    "act_run": "act_run",
    "act_result": "act_result",
    "act_because": "act_because",
    "act_part": "act_part",
    "act_told": "act_told",
}
"""Under which column each field of a memory is stored. A field may be renamed; a column that was ever written never is."""
SNOOZE = frozenset({"snoozed_until", "snoozed_at", "snoozed_by", "snoozed_why"})
"""The fields that a click on a snooze link writes."""
MOMENTS = frozenset(
    {
        "idle_since",
        "idle_seen",
        "warned_at",
        "reminded_at",
        "promised",
        "held_at",
        "snoozed_until",
        "snoozed_at",
        "acted_at",
        "act_told",
    }
)
"""The fields of a memory that are datetimes."""
_APP = re.compile(r"(arn:[^:]+:sagemaker:[^:]*:[^:]*:app/[^/]+/[^/]+/)([^/]+)(/.+)", re.DOTALL)
WORDS: Mapping[str, type[StrEnum]] = {"announced": Announced, "last_act": Move, "act_result": Result}
"""Those that are one word out of a few."""


def same(id: str) -> str:
    """The form in which two ids are compared, and under which the ledger keeps them.

    ARM ids, which begin with a slash, in lower case; of the ARN of a Studio app its type, which AWS spells `jupyterlab` here and `JupyterLab`
    there; everything else as it stands.
    """
    if id.startswith("/"):
        return id.lower()
    app = _APP.fullmatch(id) if ":app/" in id else None
    return f"{app[1]}{app[2].lower()}{app[3]}" if app else id


def short(key: str, most: int) -> str:
    """The key itself, or its beginning and a hash of the whole where it has more than `most` bytes."""
    plain = key.encode()
    return key if len(plain) <= most else f"{plain[: most - 65].decode(errors='ignore')}~{sha256(plain).hexdigest()}"


def place(target: Target) -> str:
    """A target as one text."""
    return f"{target.cloud}/{target.account}/{target.region or '-'}"


def stamp(moment: datetime) -> str:
    """An aware datetime in UTC with a fixed width, so that texts sort as times do. Raises ValueError for a naive one."""
    if moment.utcoffset() is None:
        raise ValueError(f"{moment!r} has no time zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def micros(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def touched(memory: Memory, now: datetime) -> datetime:
    """From when on its time is counted: the write, or the end of a snooze that is longer."""
    return max(now, memory.snoozed_until or now)


def fresh(at: object, now: datetime) -> bool:
    """Whether what was touched `at`, a text of `stamp`, is not forgotten at `now`. A row that does not say is never forgotten."""
    return not isinstance(at, str) or not at or at >= stamp(now - KEEP)


def digest(entry: History) -> str:
    """Tells two entries of the same moment apart; the same for the same entry."""
    return sha256(json.dumps(from_history(entry)).encode()).hexdigest()[:16]


def from_memory(memory: Memory, fields: Collection[str] | None = None) -> dict[str, str]:
    """The columns of `fields` (None: all) that have a value, as texts; the version is the store's own business."""
    names = [name for name in COLUMNS if fields is None or name in fields]
    known = {name: value for name in names if (value := getattr(memory, name)) is not None}
    return {COLUMNS[name]: stamp(value) if name in MOMENTS else str(value) for name, value in known.items()}


def columns(fields: Collection[str] | None = None) -> frozenset[str]:
    """The columns that a write of `fields` (None: all) sets or removes; every other one stays as it is."""
    return frozenset(column for name, column in COLUMNS.items() if fields is None or name in fields)


def merged(row: Mapping[str, Any], memory: Memory, fields: Collection[str] | None = None) -> dict[str, Any]:
    """The stored row with the columns of `fields` (None: all that this version knows) written anew, and all others as they were."""
    ours = columns(fields)
    return {name: value for name, value in row.items() if name not in ours} | from_memory(memory, fields)


def to_memory(row: Mapping[str, Any], version: object, id: str) -> Memory:
    """The memory in a row; columns of a later version of this product are passed over.

    Raises CloudError for one that cannot be read: a column that is there and is no text is not one that is not there.
    """
    try:
        said = {name: _parsed(name, row[column]) for name, column in COLUMNS.items() if column in row}
        return Memory(**{**said, "version": _count(version)})
    except (ValueError, TypeError) as error:
        raise _garbled(f"the memory of {id}", error) from error


def from_unfinished(entry: Unfinished) -> dict[str, str]:
    """An open action as texts."""
    texts = {name: getattr(entry, name) for name in ("id", "kind", "name", "owner", "region", "run") if getattr(entry, name)}
    return {**texts, "action": entry.action.value, "at": stamp(entry.at)}


def to_unfinished(row: Mapping[str, str], target: Target) -> Unfinished:
    """The open action in a row. Raises CloudError for one that cannot be read."""
    try:
        return Unfinished(
            target=target,
            id=row["id"],
            kind=row["kind"],
            name=row["name"],
            region=row["region"],
            owner=row.get("owner"),
            action=Move(row["action"]),
            run=row["run"],
            at=moment(row["at"]),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise _garbled("a row of an open action", error) from error


def from_summary(summary: Summary) -> dict[str, str]:
    """A summary as texts."""
    region = {"region": summary.target.region} if summary.target.region else {}
    return {
        "run": summary.run,
        "cloud": summary.target.cloud,
        "account": summary.target.account,
        "kind": summary.kind,
        "started": stamp(summary.started),
        "seen": str(summary.seen),
        "idle": str(summary.idle),
        "usd_per_hour": repr(float(summary.usd_per_hour)),
        "unpriced": str(summary.unpriced),
        **({"held": "yes"} if summary.held else {}),
        **region,
    }


def to_summary(row: Mapping[str, str]) -> Summary:
    """The summary in a row. Raises CloudError for one that cannot be read."""
    try:
        return Summary(
            run=row["run"],
            target=Target(cloud=row["cloud"], account=row["account"], region=row.get("region")),
            kind=row["kind"],
            started=moment(row["started"]),
            seen=int(row["seen"]),
            idle=int(row["idle"]),
            usd_per_hour=float(row["usd_per_hour"]),
            unpriced=int(row["unpriced"]),
            held="held" in row,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise _garbled("a summary", error) from error


def from_history(entry: History) -> dict[str, str]:
    """An entry as texts."""
    return {"id": entry.id, "when": stamp(entry.when), "what": entry.what, "by": entry.by, "because": entry.because}


def to_history(row: Mapping[str, str]) -> History:
    """The entry in a row. Raises CloudError for one that cannot be read."""
    try:
        when = moment(row["when"])
        return History(id=row["id"], when=when, what=row["what"], by=row["by"], because=row["because"])
    except (KeyError, ValueError, TypeError) as error:
        raise _garbled("an entry of the history", error) from error


def _parsed(name: str, text: object) -> Any:
    if not isinstance(text, str):
        raise TypeError(f"{name} is not a text")
    if name in MOMENTS:
        return moment(text)
    return WORDS[name](text) if name in WORDS else text


def _count(version: object) -> int:
    """A version as a store gives it; one below 1 would be taken for none."""
    if isinstance(version, bool) or not isinstance(version, int | str) or int(version) < 1:
        raise ValueError(f"{version!r} is not a version")
    return int(version)


def moment(text: str) -> datetime:
    """The datetime that `stamp` wrote. Raises ValueError for a naive one."""
    found = datetime.fromisoformat(text)
    if found.utcoffset() is None:
        raise ValueError(f"{text!r} has no time zone")
    return found


def _garbled(what: str, error: Exception) -> CloudError:
    return CloudError(Trouble.GARBLED, "ledger:Read", f"{what} cannot be read ({type(error).__name__}: {error})")
