"""Taking acts back: one resource from the manifest of its last act, or everything that one run did. Run by a person."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reaper import memory_updates, registry
from reaper.actions import intent, unfinished
from reaper.actions.contract import Acts, Manifest, Undone
from reaper.actions.manifest import Archive
from reaper.errors import ODD, CloudError, SettingsError, Trouble
from reaper.ledger.codec import same
from reaper.ledger.port import History, Ledger, update
from reaper.model import Memory, Move, Target

if TYPE_CHECKING:
    from reaper.observe import Cloud

RESTORED = "restored"
RUN = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What taking back needs. `cloud` opens a session of a target; `by` is who asks."""

    ledger: Ledger
    archive: Archive
    cloud: Callable[[Target], Cloud]
    clock: Callable[[], datetime]
    by: str
    acts: Callable[[str], Acts[Any]] = registry.acts


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What became of taking back one act: `undone`, or the `error` that kept it from coming back."""

    id: str
    undone: Undone | None = None
    error: CloudError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """An act of the run that is left as it is, and why."""

    id: str
    because: str


def one(id_: str, bench: Bench, address: str | None = None) -> Restored:
    """Take back the last act on a resource; `address` names another manifest than the ledger does. What is back already is left alone.

    Raises SettingsError where nothing is known to take back, CloudError where ledger or manifest cannot be read.
    """
    where = address or _memory(id_, bench).manifest
    if not where:
        return _back(id_, bench)
    manifest = bench.archive.at(where) if address else bench.archive.remembered(where)
    if same(manifest.id) != same(id_):
        raise SettingsError(f"{id_}: {where} is about {manifest.id}; nothing was done")
    return _restored(manifest, where, bench)


def _back(id_: str, bench: Bench) -> Restored:
    """What there is to say where no act stands. Raises SettingsError where none was ever taken back."""
    entries = bench.ledger.history(id_)
    restored, went = ([e for e in entries if e.what == what] for what in (RESTORED, unfinished.WENT))
    if went and not (restored and restored[-1].when > went[-1].when):
        raise SettingsError(
            f"{id_}: it went with {went[-1].because} in run {went[-1].by}: `reaper restore {went[-1].because}` brings both back"
        )
    if not restored:
        raise SettingsError(f"{id_}: the ledger knows of no act on it; name its manifest with --manifest")
    last = restored[-1]
    return Restored(id=id_, undone=Undone(because=f"it is back already, since {last.when:%Y-%m-%d %H:%M} UTC, by {last.by}"))


def run(run_id: str, bench: Bench, deletes: bool = False) -> Iterator[Restored | Left]:
    """Take back every stop of that run that still stands, one by one; with `deletes` its deletes too.

    An act still stands where the ledger names its manifest: it was made, nothing was done since, and nobody has taken it back. Raises
    SettingsError for what is no run, or one that left no manifest, and CloudError where manifests or ledger cannot be read.
    """
    if not RUN.fullmatch(run_id):
        raise SettingsError(f"--run {run_id!r} is no run: reports name theirs as run.id, such as 3f2a9c01b7de")
    manifests = bench.archive.of_run(run_id)
    if not manifests:
        raise SettingsError(f"run {run_id!r} left nothing to take back in {bench.archive.place}; reports name theirs as run.id")
    for address, manifest in manifests:
        if isinstance(manifest, CloudError):
            yield Restored(id=address, error=manifest)
        elif why := _why_left(address, manifest, run_id, bench, deletes):
            yield Left(id=manifest.id, because=why)
        else:
            yield _restored(manifest, address, bench)


def _why_left(address: str, manifest: Manifest, run_id: str, bench: Bench, deletes: bool) -> str | None:
    if manifest.run != run_id:
        return f"its manifest {address} is of run {manifest.run}"
    memory = _memory(manifest.id, bench)
    if memory.manifest != address or memory.last_act is not manifest.move:
        return "it was not made, is taken back already, or something was done since"
    if manifest.move is Move.DELETE and not deletes:
        return "it was deleted; `reaper restore` brings it back, or --deletes all of them"
    return None


def _memory(id_: str, bench: Bench) -> Memory:
    memory: Memory = bench.ledger.recall([id_], bench.clock()).get(id_, Memory())
    return memory


def _restored(manifest: Manifest, address: str, bench: Bench) -> Restored:
    try:
        _close(manifest.id, bench)
        undone = _undo(manifest, bench)
        _forget(manifest, address, undone, bench)
    except CloudError as error:
        return Restored(id=manifest.id, error=error)
    return Restored(id=manifest.id, undone=undone)


def _close(id_: str, bench: Bench) -> None:
    """An action that an earlier run left open is closed before it is undone, so that nobody takes it for going on."""
    memory = _memory(id_, bench)
    if memory_updates.is_open(memory):
        intent.close(bench.ledger, id_, memory, bench.clock())


def _undo(manifest: Manifest, bench: Bench) -> Undone:
    try:
        acts = bench.acts(manifest.kind)
    except KeyError as error:
        raise CloudError(Trouble.GARBLED, "restore", f"{manifest.kind} is no kind that this version can bring back") from error
    try:
        return acts.undo(bench.cloud(manifest.target).anew(), manifest)
    except ODD as error:
        raise CloudError(Trouble.GARBLED, "restore", f"the manifest or a reply could not be understood ({error!r})") from error


def _forget(manifest: Manifest, address: str, undone: Undone, bench: Bench) -> None:
    """Nothing is done to it again without a new notice. What can be gone on with keeps its manifest; so does a later act."""
    now = bench.clock()

    def forget(memory: Memory) -> Memory:
        over = memory.manifest == address and not undone.again
        return memory_updates.undone(memory) if over else memory_updates.moved(memory)

    try:
        update(bench.ledger, manifest.id, forget, now)
    except CloudError as error:
        raise error.retold(f"{error}; it is back all the same") from error
    bench.ledger.end(manifest.target, manifest.id)
    bench.ledger.note(History(id=manifest.id, when=now, what=RESTORED, by=bench.by, because=undone.because))
