"""How ledgers write things down: flat rows of texts, keys that sort as time does, and the form in which ids are compared.

ARM ids are case-insensitive: https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/overview (resource names are).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from reaper.errors import CloudError, Trouble
from reaper.ledger import KEEP, History, Summary
from reaper.model import Memory, Move, Target

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = frozenset(
    {"idle_since", "idle_seen", "warned_at", "reminded_at", "promised", "held_at", "snoozed_until", "snoozed_at", "acted_at"}
)
"""The fields of a memory that are datetimes."""
MOVES = frozenset({"announced", "last_act"})
"""Those that are moves."""
FIELDS = tuple(f.name for f in fields(Memory) if f.name != "version")


def same(id: str) -> str:
    """The form in which two ids are compared: ARM ids, which begin with a slash, in lower case; everything else as it stands."""
    return id.lower() if id.startswith("/") else id


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


def from_memory(memory: Memory) -> dict[str, str]:
    """What is known, as texts; the version is the store's own business."""
    found = {name: value for name in FIELDS if (value := getattr(memory, name)) is not None}
    return {name: stamp(value) if name in MOMENTS else str(value) for name, value in found.items()}


def to_memory(row: Mapping[str, Any], version: object, id: str) -> Memory:
    """The memory in a row; fields of a later version of this product are passed over.

    Raises CloudError for one that cannot be read: a field that is there and is no text is not one that is not there.
    """
    try:
        said = {name: _parsed(name, row[name]) for name in FIELDS if name in row}
        return Memory(**{**said, "version": _count(version)})
    except (ValueError, TypeError) as error:
        raise _garbled(f"the memory of {id}", error) from error


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
            started=_moment(row["started"]),
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
        when = _moment(row["when"])
        return History(id=row["id"], when=when, what=row["what"], by=row["by"], because=row["because"])
    except (KeyError, ValueError, TypeError) as error:
        raise _garbled("an entry of the history", error) from error


def _parsed(name: str, text: object) -> Any:
    if not isinstance(text, str):
        raise TypeError(f"{name} is not a text")
    if name in MOMENTS:
        return _moment(text)
    return Move(text) if name in MOVES else text


def _count(version: object) -> int:
    """A version as a store gives it; one below 1 would be taken for none."""
    if isinstance(version, bool) or not isinstance(version, int | str) or int(version) < 1:
        raise ValueError(f"{version!r} is not a version")
    return int(version)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.utcoffset() is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment


def _garbled(what: str, error: Exception) -> CloudError:
    return CloudError(Trouble.GARBLED, "ledger:Read", f"{what} cannot be read ({type(error).__name__}: {error})")
