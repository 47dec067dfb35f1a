"""Taking acts back: one resource from the manifest of its last act, or everything that one run did. Run by a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from reaper import plan, registry
from reaper.acts import Manifest, Undone
from reaper.errors import CloudError, SettingsError, Trouble
from reaper.ledger import History, Ledger
from reaper.manifest import Archive
from reaper.model import Memory, Move, Target
from reaper.sweep import Cloud

TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What taking back needs. `cloud` opens a session of a target; `by` is who asks."""

    ledger: Ledger
    archive: Archive
    cloud: Callable[[Target], Cloud]
    clock: Callable[[], datetime]
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What became of taking back one act: `undone`, or the `error` that kept it from coming back."""

    id: str
    undone: Undone | None = None
    error: CloudError | None = None


def one(id_: str, bench: Bench, address: str | None = None) -> Restored:
    """Take back the last act on a resource; `address` names another manifest than the ledger does.

    Raises SettingsError where nothing is known to take back, CloudError where ledger or manifest cannot be read.
    """
    where = address or bench.ledger.recall([id_], bench.clock()).get(id_, Memory()).manifest
    if not where:
        raise SettingsError(f"{id_}: the ledger knows of no act on it; name its manifest with --manifest")
    manifest = bench.archive.at(where)
    if address is None and manifest.id.lower() != id_.lower():
        raise SettingsError(f"{id_}: the ledger names {where}, which is about {manifest.id}; nothing was done")
    return _restored(manifest, bench)


def run(run_id: str, bench: Bench, deletes: bool = False) -> Iterator[Restored | Manifest]:
    """Take back every stop of that run, one by one; with `deletes` its deletes too, which are otherwise given as they are.

    Raises SettingsError where the run left no manifest, CloudError where manifests cannot be read.
    """
    manifests = bench.archive.of_run(run_id)
    if not manifests:
        raise SettingsError(
            f"run {run_id!r} left nothing to take back in {bench.archive.place}; reports name their run as run.id"
        )
    for _, manifest in manifests:
        yield _restored(manifest, bench) if manifest.move is Move.STOP or deletes else manifest


def _restored(manifest: Manifest, bench: Bench) -> Restored:
    try:
        undone = _undo(manifest, bench)
        _forget(manifest, undone, bench)
    except CloudError as error:
        return Restored(id=manifest.id, error=error)
    return Restored(id=manifest.id, undone=undone)


def _undo(manifest: Manifest, bench: Bench) -> Undone:
    try:
        acts = registry.acts(manifest.kind)
    except KeyError as error:
        raise CloudError(Trouble.GARBLED, "restore", f"{manifest.kind} is no kind that this version can bring back") from error
    try:
        return acts.undo(bench.cloud(manifest.target).anew(), manifest)
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise CloudError(Trouble.GARBLED, "restore", f"the manifest or a reply could not be understood ({error!r})") from error


def _forget(manifest: Manifest, undone: Undone, bench: Bench) -> None:
    """Nothing is done to it again without a new notice. What is not all back keeps its manifest, so that it can be run again."""
    now = bench.clock()
    for _ in range(TRIES):
        memory = bench.ledger.recall([manifest.id], now).get(manifest.id, Memory())
        new = plan.moved(memory) if undone.lost else plan.undone(memory)
        if new == memory or bench.ledger.remember(manifest.id, new, memory.version, now):
            break
    else:
        raise CloudError(
            Trouble.REFUSED, "ledger", f"{manifest.id}: somebody else wrote first, {TRIES} times; it is back all the same"
        )
    bench.ledger.note(History(id=manifest.id, when=now, what="restored", by=bench.by, because=undone.because))
