"""What is remembered between sweeps: the port, what goes through it, and the address that chooses an implementation.

`REAPER_LEDGER` is `memory:`, `sqlite:///path`, `dynamodb://table` or `table://account/table`; without it SQLite keeps the ledger in the
user's state directory (https://specifications.freedesktop.org/basedir-spec/latest/). Resources themselves are never written to.

Azure compares resource ids without regard to case and so does every ledger; ARNs are compared exactly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any, Protocol, TypeVar

from reaper.errors import CloudError, Reason, SettingsError
from reaper.model import Memory, StepName, Target

FORMAT, FORMAT_ROW = 2, "format"
"""The form in which this version writes, and the named row that says so. Ledgers of 49f8b6c have no such row."""
MAX_TRIES = 8
"""How often a write is tried again after somebody else has written in between."""
RETENTION = timedelta(days=400)
"""What nobody has written for this long is forgotten; a snooze that ends later counts as written then."""
MODULE_BY_SCHEME = {
    "memory": "reaper.ledger.in_memory",
    "sqlite": "reaper.ledger.sqlite",
    "dynamodb": "reaper.aws.dynamodb_ledger",
    "table": "reaper.azure.table_ledger",
}
EXTRA_BY_SCHEME = {"dynamodb": "aws", "table": "azure"}
Row = TypeVar("Row")
EXPECTED_ADDRESS = "memory:, sqlite:///path, dynamodb://table or table://account/table"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatistics:
    """One sweep of one target and kind in numbers. `usd_per_hour` is what the idle ones cost, without the `unpriced` among them.

    `held`: its idle share was a sudden jump, so that it says nothing of what is usual.
    """

    run: str
    target: Target
    kind: str
    started: datetime
    seen: int
    idle: int
    usd_per_hour: float = 0.0
    unpriced: int = 0
    was_jump: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One thing that happened to a resource: `what` in a word or two (`warned`, `kept`), `by` whom, and the sentence that says why."""

    id: str
    when: datetime
    what: str
    by: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A hint that an action on `id` was begun and its owner not told of the result yet: enough to tell of it when it is no longer listed."""

    target: Target
    id: str
    kind: str
    name: str
    region: str
    owner: str | None
    action: StepName
    run: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRow:
    """One named row of the ledger: what it says, and how often it was written; 0 where there is none."""

    values: Mapping[str, str] = field(default_factory=dict)
    version: int = 0


class Recalled(dict[str, Memory]):
    """The memories that could be read, by id. `garbled`: the ids of those that are there but cannot be read.

    Nobody may take one of these for a resource without a memory, for it may be kept by its owner: asking for it raises CloudError.
    """

    def __init__(self, found: Mapping[str, Memory], garbled: Mapping[str, CloudError]) -> None:
        super().__init__(found)
        self._errors = dict(garbled)

    @property
    def unreadable(self) -> frozenset[str]:
        """Leave these alone, and say so."""
        return frozenset(self._errors)

    @property
    def errors(self) -> list[CloudError]:
        """What is wrong with each of them."""
        return list(self._errors.values())

    def error_of(self, resource_id: str) -> CloudError:
        """What is wrong with that one."""
        return self._errors[resource_id]

    def __missing__(self, resource_id: str) -> Memory:
        raise self._errors.get(resource_id) or KeyError(resource_id)

    def get(self, resource_id: str, default: Any = None) -> Any:
        """The memory, or `default` where there is none. Raises CloudError where there is one that cannot be read."""
        return default if resource_id not in self and resource_id not in self._errors else self[resource_id]


def memories_from_rows(rows: Mapping[str, Row], memory: Callable[[str, Row], Memory]) -> Recalled:
    """The rows as memories; one that is garbled spoils no other. Every other error of `memory` goes through."""
    found: dict[str, Memory] = {}
    garbled: dict[str, CloudError] = {}
    for id, row in rows.items():
        try:
            found[id] = memory(id, row)
        except CloudError as error:
            if error.reason is not Reason.UNREADABLE:
                raise
            garbled[id] = error
    return Recalled(found, garbled)


class Ledger(Protocol):
    """What a ledger can do. Every operation raises CloudError when the store fails; none is safe to take for done unless it returns."""

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        """The memories of those ids that have one which is not forgotten at `now`, keyed by the ids as they were asked for.

        One that cannot be read is in `garbled` and raises when it is asked for; the others are there all the same.
        """
        ...

    def remember(
        self, resource_id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        """Write `memory` if the stored version is still `expected_version` (0: there is none); it is one higher afterwards.

        Only columns that this version knows are set or removed, and of these only the ones of `fields` where it is given. False when
        somebody else wrote first: nothing was written, recall and decide again. `memory.version` is not looked at.
        """
        ...

    def unfinished(self, target: Target, now: datetime) -> list[Unfinished]:
        """Every hint of an action that was begun there and not told of yet, oldest first."""
        ...

    def add_unfinished(self, entry: Unfinished) -> None:
        """Leave a hint before an action begins; a second one of the same target and id replaces the first."""
        ...

    def remove_unfinished(self, target: Target, resource_id: str) -> None:
        """Remove the hint; nothing happens where there is none."""
        ...

    def read_row(self, name: str) -> NamedRow:
        """The named row, empty where there is none. It is never forgotten."""
        ...

    def write_row(self, name: str, values: Mapping[str, str], expected_version: int, now: datetime) -> bool:
        """Replace the named row if its version is still `expected_version` (0: there is none); False when somebody else wrote first."""
        ...

    def take_lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        """Take the target until `now + ttl`, or prolong the holder's own lease. False while another holder's lease runs."""
        ...

    def give_back_lease(self, target: Target, holder: str) -> None:
        """Give the lease back; nothing happens where somebody else holds it by now."""
        ...

    def record_statistics(self, summary: RunStatistics) -> None:
        """Keep the summary; a second one of the same run, target and kind replaces the first."""
        ...

    def statistics(self, target: Target, kind: str, limit: int) -> list[RunStatistics]:
        """The last `limit` summaries of that target and kind, newest first."""
        ...

    def add_history(self, entry: HistoryEntry) -> None:
        """Append to the history. The very same entry twice is one, so that a repeated call does no harm."""
        ...

    def history(self, resource_id: str) -> list[HistoryEntry]:
        """Everything that was noted of the resource, oldest first."""
        ...

    def forget_before(self, moment: datetime) -> int:
        """Remove what was last written before `moment` and gives how much that was; a memory whose snooze ends later stays.

        To be called after every sweep: a store that forgets by itself does nothing, and one where it is dear does it once a day.
        """
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


def open_ledger(address: str | None, environ: Mapping[str, str], *, read_only: bool = False) -> Ledger:
    """The ledger at `address`, the user's own without one. Raises SettingsError for an address that cannot be used.

    `read_only` is for an audit: nothing is made, upgraded or written by opening it, and a file that is not there is an empty memory.
    """
    scheme, colon, place = (address or default_address(environ)).strip().partition(":")
    if not colon or scheme not in MODULE_BY_SCHEME:
        raise SettingsError(f"REAPER_LEDGER={address!r}: expected {EXPECTED_ADDRESS}")
    try:
        home = import_module(MODULE_BY_SCHEME[scheme])
    except ImportError as error:
        extra = EXTRA_BY_SCHEME.get(scheme, "cli")
        raise SettingsError(
            f"REAPER_LEDGER={address}: needs an extra: pip install 'ml-idle-reaper[{extra}]' ({error})"
        ) from error
    found: Ledger = home.open_ledger(place.removeprefix("//"), environ, read_only=read_only)
    return found


def update_memory(
    ledger: Ledger,
    resource_id: str,
    change: Callable[[Memory], Memory],
    now: datetime,
    known: Memory | None = None,
    fields: Collection[str] | None = None,
) -> Memory:
    """What is remembered of it after `change`, made on whatever version stands; what `change` leaves as it is is not written.

    `known`: the memory as it was read before, which saves reading it. `fields`: the only fields to write. Raises CloudError where the ledger fails, or others write first each time.
    """
    for _ in range(MAX_TRIES):
        memory: Memory = ledger.recall([resource_id], now).get(resource_id, Memory()) if known is None else known
        new, known = change(memory), None
        if new == memory or ledger.remember(resource_id, new, memory.version, now, fields):
            return new
    raise CloudError(Reason.REFUSED, "ledger", f"{resource_id}: somebody else wrote first, {MAX_TRIES} times")


def ensure_format(ledger: Ledger, now: datetime) -> None:
    """To be called before the first write: marks the ledger with the format that this version writes.

    Raises SettingsError for one that a newer version has written to, CloudError where that cannot be read.
    """
    for _ in range(3):
        held = require_known_format(ledger)
        if held.values.get("number") == str(FORMAT) or ledger.write_row(FORMAT_ROW, {"number": str(FORMAT)}, held.version, now):
            return
    raise CloudError(Reason.REFUSED, "ledger", "its format could not be written: somebody else wrote first, 3 times")


def require_known_format(ledger: Ledger) -> NamedRow:
    """The row that says which format the ledger has, for one that this version can write to.

    Raises SettingsError for one that a newer version has written to, CloudError where that cannot be read.
    """
    held = ledger.read_row(FORMAT_ROW)
    number = held.values.get("number", "1")
    if not number.isdecimal() or int(number) > FORMAT:
        raise SettingsError(
            f"the ledger has format {number}, and this version of ML Idle Reaper knows {FORMAT}: install a newer version"
        )
    return held


def default_address(environ: Mapping[str, str], platform: str = sys.platform) -> str:
    """The address of the user's own ledger. Raises SettingsError where the environment does not say where the user's files are."""
    if platform == "win32":
        home, below = environ.get("LOCALAPPDATA", ""), ("ml-idle-reaper", "ledger.db")
        found: PurePath = PureWindowsPath(home, *below)
    elif Path(environ.get("XDG_STATE_HOME", "")).is_absolute():
        home, found = environ["XDG_STATE_HOME"], Path(environ["XDG_STATE_HOME"], "ml-idle-reaper", "ledger.db")
    else:
        home = environ.get("HOME", "")
        found = Path(home, ".local", "state", "ml-idle-reaper", "ledger.db")
    if not home:
        raise SettingsError(
            "REAPER_LEDGER is not set and no home directory is known: set it, for example to sqlite:///var/lib/reaper.db"
        )
    return f"sqlite://{found}"
