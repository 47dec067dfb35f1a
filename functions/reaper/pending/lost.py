"""Actions that this ledger doesn't know although their manifests are new: it was emptied, replaced or restored from a backup since.

Such an action may be half done, and the row that said what it had changed is gone. Its resource is left alone until a person restores it. Nothing
is put back from a manifest that the ledger doesn't name, because nothing proves what is in a store. Its address says enough to find it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256

from reaper.case import Case
from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import Ledger, update_record
from reaper.ledger.rows import HistoryEntry, Recalled, comparable_id
from reaper.pending import unfinished
from reaper.record import Record, is_interrupted

BEGAN = "began"
"""In the history: a run was about to store the manifest of an action. It is written before that, and so is never missing by a crash."""
LISTED_FOR = timedelta(days=5)
"""No listed manifest is older: they are those of today and the three days before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredManifest:
    """What the address of a manifest says: the digest of its resource's ID, and the run that stored it."""

    address: str
    digest: str
    run: str


def digest_of(resource_id: str) -> str:
    """The digest of an ID in the names of its manifests."""
    return sha256(comparable_id(resource_id).encode()).hexdigest()[:24]


def record_known(ledger: Ledger, resource_id: str, run: str, now: datetime, because: str) -> None:
    """Record that the ledger knows of the action of that run. Raises CloudError."""
    ledger.add_history(HistoryEntry(id=resource_id, when=now, what=BEGAN, by=run, because=because))


def note_lost_actions(
    cases: Iterable[Case], recalled: Recalled, stored: Sequence[StoredManifest], ledger: Ledger, now: datetime
) -> Recalled:
    """The records, with the address of its manifest in that of each case with an action that the ledger doesn't know. Raises CloudError."""
    by_digest: dict[str, list[StoredManifest]] = defaultdict(list)
    for each in stored:
        by_digest[each.digest].append(each)
    ids = [case.resource.id for case in cases] if stored else []
    lost = [id_ for id_ in ids if (found := by_digest.get(digest_of(id_))) and _note_lost(id_, found, recalled, ledger, now)]
    return recalled.with_newer(ledger.recall(lost, now)) if lost else recalled


def _note_lost(resource_id: str, found: Sequence[StoredManifest], recalled: Recalled, ledger: Ledger, now: datetime) -> bool:
    """Whether an action of one of these manifests is unknown; then its address is in the record."""
    if recalled.is_unreadable(resource_id):
        return False
    record = recalled.record(resource_id)
    others = [each for each in found if record.act is None or each.run != record.act.run]
    if not others or record.lost_manifest:
        return False
    runs = {entry.by for entry in ledger.history(resource_id, now - LISTED_FOR)}
    unknown = next((each.address for each in reversed(others) if each.run not in runs), None)
    if unknown:
        update_record(ledger, resource_id, lambda record: replace(record, lost_manifest=unknown), now)
    return unknown is not None


def half_done_because(record: Record, run_id: str | None = None) -> str | None:
    """Why a resource with this record may only be started: an action may be half done, one of another run or one that the ledger doesn't know."""
    if record.act and record.lost_manifest is None and is_interrupted(record, run_id):
        return unfinished.interrupted_because(record.act)
    return (
        record.lost_manifest
        and f"the ledger doesn't know of an action on it that may be half done; its manifest is {record.lost_manifest}"
    )


def lost_actions_error(ids: Sequence[str], recalled: Recalled) -> CloudError | None:
    """The error in the report about those resources with such an action; None if there are none."""
    records = {id_: recalled.readable.get(same) for same, id_ in {comparable_id(id_): id_ for id_ in reversed(ids)}.items()}
    lost = [(id_, record) for id_, record in records.items() if record and record.lost_manifest]
    if not lost:
        return None
    (resource_id, record), more = lost[-1], f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
    fix = f"read it, then `reaper restore {resource_id} --trust-manifest` settles it"
    return CloudError(Reason.PARTIAL, "act", f"{resource_id}: {half_done_because(record)}; {fix}{more}")
