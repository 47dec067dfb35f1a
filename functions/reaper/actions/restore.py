"""Undoes actions: one resource from the manifest of its last action, or everything that one run did. Run by a person."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reaper import memory_updates, registry
from reaper.actions import intent, unfinished
from reaper.actions.contract import ActionFunctions, Manifest, UndoResult
from reaper.actions.manifest import Archive
from reaper.errors import ODD_REPLY_ERRORS, CloudError, Reason, SettingsError
from reaper.ledger.port import HistoryEntry, Ledger
from reaper.ledger.stored_text import comparable_id
from reaper.ledger.update import update_memory
from reaper.model import Memory, StepName, Target

if TYPE_CHECKING:
    from reaper.sessions import CloudSession

RESTORED = "restored"
RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreContext:
    """The context of restoring. `by`: the person who runs it."""

    ledger: Ledger
    archive: Archive
    open_session: Callable[[Target], CloudSession]
    clock: Callable[[], datetime]
    by: str
    action_functions: Callable[[str], ActionFunctions[Any]] = registry.action_functions


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """The result of undoing one action: `undone`, or the `error` that prevented it."""

    id: str
    undone: UndoResult | None = None
    error: CloudError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotUndone:
    """An action of the run that isn't undone, and why."""

    id: str
    because: str


def restore_resource(resource_id: str, context: RestoreContext, address: str | None = None) -> RestoreResult:
    """Undo the last action on a resource. `address`: a manifest to use instead of the ledger's. If it was undone already, nothing is changed.

    Raises SettingsError if there is no action to undo, CloudError if the ledger or the manifest can't be read.
    """
    manifest_address = address or _read_memory(resource_id, context).manifest_address
    if not manifest_address:
        return _already_restored(resource_id, context)
    manifest = context.archive.read_manifest(manifest_address) if address else context.archive.read_own_manifest(manifest_address)
    if comparable_id(manifest.id) != comparable_id(resource_id):
        raise SettingsError(f"{resource_id}: the manifest {manifest_address} is for {manifest.id}; nothing was changed")
    return _restore(manifest, manifest_address, context)


def _already_restored(resource_id: str, context: RestoreContext) -> RestoreResult:
    """The result if there is no action left to undo. Raises SettingsError if none was ever undone."""
    entries = context.ledger.history(resource_id)
    restored, went = ([e for e in entries if e.what == what] for what in (RESTORED, unfinished.WENT_ENTRY))
    if went and not (restored and restored[-1].when > went[-1].when):
        raise SettingsError(
            f"{resource_id}: it was stopped or deleted with its host {went[-1].because} in run {went[-1].by}; `reaper restore {went[-1].because}` restores both"
        )
    if not restored:
        raise SettingsError(f"{resource_id}: the ledger has no action on this resource; pass --manifest")
    last = restored[-1]
    return RestoreResult(
        id=resource_id, undone=UndoResult(because=f"already restored on {last.when:%Y-%m-%d %H:%M} UTC, by {last.by}")
    )


def undo_run(run_id: str, context: RestoreContext, deletes: bool = False) -> Iterator[RestoreResult | NotUndone]:
    """Undo every stop of that run that can be undone, one by one; with `deletes` its deletes too.

    An action can be undone if the ledger names its manifest: it was carried out, nothing was done since, and it hasn't been undone. Raises
    SettingsError for an invalid run ID or a run without manifests, and CloudError if manifests or ledger can't be read.
    """
    if not RUN_ID.fullmatch(run_id):
        raise SettingsError(f"--run {run_id!r}: not a run ID; find it in a report as run.id, such as 3f2a9c01b7de")
    manifests = context.archive.manifests_of_run(run_id)
    if not manifests:
        raise SettingsError(
            f"run {run_id!r} stored nothing to undo in {context.archive.place}; its report has the run ID as run.id"
        )
    for address, manifest in manifests:
        if isinstance(manifest, CloudError):
            yield RestoreResult(id=address, error=manifest)
        elif because := _left_because(address, manifest, run_id, context, deletes):
            yield NotUndone(id=manifest.id, because=because)
        else:
            yield _restore(manifest, address, context)


def _left_because(address: str, manifest: Manifest, run_id: str, context: RestoreContext, deletes: bool) -> str | None:
    if manifest.run != run_id:
        return f"its manifest {address} belongs to run {manifest.run}"
    memory = _read_memory(manifest.id, context)
    if memory.manifest_address != address or memory.last_action is not manifest.action:
        return "not carried out, already undone, or followed by a later action"
    if manifest.action is StepName.DELETE and not deletes:
        return "it was deleted; recreate it with `reaper restore`, or everything the run deleted with --deletes"
    return None


def _read_memory(resource_id: str, context: RestoreContext) -> Memory:
    memory: Memory = context.ledger.recall([resource_id], context.clock()).get(resource_id, Memory())
    return memory


def _restore(manifest: Manifest, address: str, context: RestoreContext) -> RestoreResult:
    try:
        _close_unfinished(manifest.id, context)
        undone = _undo_action(manifest, context)
        _record_undo(manifest, address, undone, context)
    except CloudError as error:
        return RestoreResult(id=manifest.id, error=error)
    return RestoreResult(id=manifest.id, undone=undone)


def _close_unfinished(resource_id: str, context: RestoreContext) -> None:
    """Close an action that an earlier run left open before it is undone, so that it doesn't count as unfinished."""
    memory = _read_memory(resource_id, context)
    if memory_updates.is_unfinished(memory):
        intent.close_unfinished(context.ledger, resource_id, memory, context.clock())


def _undo_action(manifest: Manifest, context: RestoreContext) -> UndoResult:
    try:
        functions = context.action_functions(manifest.kind)
    except KeyError as error:
        raise CloudError(Reason.UNREADABLE, "restore", f"this version can't restore the kind {manifest.kind}") from error
    try:
        return functions.undo(context.open_session(manifest.target).without_cache(), manifest)
    except ODD_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, "restore", f"the manifest or a reply couldn't be understood ({error!r})") from error


def _record_undo(manifest: Manifest, address: str, undone: UndoResult, context: RestoreContext) -> None:
    """Record the undo, so that no action follows without a new notice. An undo to run again, and a later action, keep their manifest."""
    now = context.clock()

    def forget(memory: Memory) -> Memory:
        is_final = memory.manifest_address == address and not undone.run_again
        return memory_updates.after_undo(memory) if is_final else memory_updates.after_action(memory)

    try:
        update_memory(context.ledger, manifest.id, forget, now)
    except CloudError as error:
        raise error.reworded(f"{error}; the resource was restored anyway") from error
    context.ledger.remove_unfinished(manifest.target, manifest.id)
    context.ledger.add_history(HistoryEntry(id=manifest.id, when=now, what=RESTORED, by=context.by, because=undone.because))
