"""Undoes actions: one resource from the manifest of its last action, or everything that one run did. Run by a person."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reaper import registry
from reaper.acting.contract import ActionFunctions, Manifest, UndoResult
from reaper.acting.manifest import Archive, changed_error, is_same_address, name_in, previous_manifest, require_own_form
from reaper.errors import LEFT_ALONE, CloudError, Reason, SettingsError, odd_replies_as_errors
from reaper.ledger.ledger import Ledger, update_record
from reaper.ledger.rows import RESTORED, RETENTION, HistoryEntry, comparable_id
from reaper.model import StepName, Target
from reaper.pending import lookup
from reaper.pending.unfinished import record_known, run_and_digest
from reaper.record import ManifestReference, Record, after_action, after_undo, closed_unknown, is_interrupted
from reaper.text import did_you_mean

if TYPE_CHECKING:
    from reaper.sessions import CloudSession
RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreContext:
    """The context of restoring. `by`: the person who runs it. `show`: called with each manifest right before it is undone."""

    ledger: Ledger
    archive: Archive
    open_session: Callable[[Target], CloudSession]
    clock: Callable[[], datetime]
    by: str
    show: Callable[[Manifest], None] = lambda manifest: None
    action_functions: Callable[[str], ActionFunctions[Any]] = registry.action_functions


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """The result of undoing one action: `undone`, the `error` that prevented it, or why one of a run is left alone."""

    id: str
    undone: UndoResult | None = None
    error: CloudError | None = None
    left_because: str | None = None


def resource_id_of(wanted: str, context: RestoreContext) -> str:
    """The ID of the resource that is named by its ID, its name, or a part that only one has. Nothing is restored by a guess.

    Names and parts are looked up among what the ledger says was acted on. Raises SettingsError if they fit none of it or several.
    """
    if lookup.is_id(wanted):
        return wanted
    names: dict[str, str] = {}
    patterns = [context.action_functions(kind.name).id_pattern for kind in registry.kinds() if kind.actions]
    try:
        for known in context.ledger.acted_on(context.clock()):
            match = next(filter(None, (pattern.fullmatch(known) for pattern in patterns)), None)
            names[known] = name_in(match.groupdict()) if match else re.split("[:/]", known)[-1]
    except CloudError as error:
        raise error.reworded(f"{error}; to name it, the ledger has to be searched, so pass the whole ID instead") from error
    found = lookup.find_ids(wanted, names)
    if not found:
        hint = did_you_mean(wanted, names.values())
        raise SettingsError(f"{wanted!r}: the ledger has no action on a resource of that name{hint or '; pass its ID'}")
    if len(found) > 1:
        commands = lookup.candidate_lines("reaper restore", found)
        raise SettingsError(f"{wanted!r} fits {len(found)} resources, and nothing was restored. Choose one:\n{commands}")
    return found[0]


def restore_resource(
    resource_id: str, context: RestoreContext, address: str | None = None, *, is_trusted: bool = False
) -> RestoreResult:
    """Undo the last action on a resource. If it was undone already, nothing is changed.

    `address`: a manifest to use instead of the ledger's. The ledger has no hash of it, so it must be `is_trusted` by the person who restores.
    Raises SettingsError if there is no action to undo, CloudError if the ledger or the manifest can't be read.
    """
    record = context.ledger.record(resource_id, context.clock())
    own = record.act.manifest if record.act else None
    named = address or record.lost_manifest or (own.address if own else None)
    if named is None:
        entries = context.ledger.history(resource_id, context.clock() - RETENTION)
        last = next((entry for entry in reversed(entries) if entry.what == RESTORED), None)
        if not last:
            raise SettingsError(f"{resource_id}: the ledger has no action on this resource; pass --manifest")
        because = f"already restored on {last.when:%Y-%m-%d %H:%M} UTC, by {last.by}"
        return RestoreResult(id=resource_id, undone=UndoResult(because=because))
    try:
        found, manifest = context.archive.read_unproven(named)
    except CloudError as error:
        if address or not is_trusted:
            raise
        return RestoreResult(id=resource_id, error=_settled_if_lost(resource_id, named, error, context))
    if comparable_id(manifest.id) != comparable_id(resource_id):
        raise SettingsError(f"{resource_id}: the manifest {named} is for {manifest.id}; nothing was changed")
    is_own = own is not None and is_same_address(own.address, named)
    if own and is_own and found.sha256 != own.sha256:
        raise changed_error(named)
    if not (is_own or is_trusted):
        raise SettingsError(
            f"{resource_id}: the ledger doesn't name the manifest {named} (any more), so nothing proves that it is unchanged; read it, and "
            "if it is right, pass --trust-manifest"
        )
    return _restore(manifest, own.address if own and is_own else named, context)


def run_id_of(wanted: str, context: RestoreContext) -> str:
    """The run that is named by its ID, or by a beginning that only one has. Raises SettingsError for an invalid ID, and if it fits several."""
    if not RUN_ID.fullmatch(wanted):
        raise SettingsError(f"--run {wanted!r}: not a run ID; find it in a report as run.id, such as 3f2a9c01b7de")
    like = [] if context.archive.addresses_of_run(wanted) else context.ledger.runs_like(wanted)
    if len(like) > 1:
        raise SettingsError(
            f"--run {wanted!r} fits {len(like)} runs, and nothing was undone: {', '.join(like[: lookup.MAX_CANDIDATES])}"
        )
    return like[0] if like else wanted


def undo_run(run_id: str, context: RestoreContext, deletes: bool = False) -> Iterator[RestoreResult]:
    """Undo every stop of that run that can be undone, one by one; with `deletes` its deletes too. `run_id`: see `run_id_of`.

    An action can be undone if the ledger names its manifest: it was carried out, nothing was done since, and it hasn't been undone. Raises
    SettingsError for an invalid run ID or a run without manifests, and CloudError if manifests or ledger can't be read.
    """
    manifests = context.archive.manifests_of_run(run_id_of(run_id, context))
    if not manifests:
        raise SettingsError(
            f"run {run_id!r} stored nothing to undo in {context.archive.place}; its report has the run ID as run.id"
        )
    for found, manifest in manifests:
        if isinstance(manifest, CloudError):
            yield RestoreResult(id=found.address, error=manifest)
        else:
            yield _undo_of_run(found, manifest, context, deletes)


def _undo_of_run(found: ManifestReference, manifest: Manifest, context: RestoreContext, deletes: bool) -> RestoreResult:
    act = context.ledger.record(manifest.id, context.clock()).act
    own = act.manifest if act else None
    if act is None or own is None or own.address != found.address or act.action is not manifest.action:
        return RestoreResult(id=manifest.id, left_because="not carried out, already undone, or followed by a later action")
    if found != own:
        return RestoreResult(id=manifest.id, error=changed_error(found.address))
    if manifest.action is StepName.DELETE and not deletes:
        because = "it was deleted; recreate it with `reaper restore`, or everything the run deleted with --deletes"
        return RestoreResult(id=manifest.id, left_because=because)
    return _restore(manifest, found.address, context)


def _restore(manifest: Manifest, address: str, context: RestoreContext) -> RestoreResult:
    try:
        with odd_replies_as_errors("restore"):
            undone = _undo_action(manifest, context)
        _record_undo(manifest, address, undone, context)
    except CloudError as error:
        return RestoreResult(id=manifest.id, error=_settled_if_lost(manifest.id, address, error, context))
    return RestoreResult(id=manifest.id, undone=undone)


def _settled_if_lost(resource_id: str, address: str, error: CloudError, context: RestoreContext) -> CloudError:
    """The error. If it is about a lost action that no other try would undo, that action is settled, and the error says so."""
    now, is_final = context.clock(), error.reason is Reason.GONE or error.code == LEFT_ALONE
    if not is_final or context.ledger.record(resource_id, now).lost_manifest != address:
        return error
    record_known(context.ledger, resource_id, run_and_digest(address)[0], now, f"settled by {context.by}: {error}")
    update_record(context.ledger, resource_id, lambda record: replace(record, lost_manifest=None), now)
    text = str(error).removeprefix(f"{error.operation}: ")
    return error.reworded(f"{text}; what {address} says wasn't restored, and it no longer blocks later actions")


def _end_unfinished(resource_id: str, context: RestoreContext) -> None:
    """Change the record of an action that a run left open, before it is undone: if that run still goes on, it makes no further call.

    What may be half done stays open until it is undone. If that fails, it still blocks every action, and the next run puts it back.
    """
    now = context.clock()

    def end(record: Record) -> Record:
        is_open = is_interrupted(record)
        return replace(record, called_at=now) if is_open else closed_unknown(record)

    update_record(context.ledger, resource_id, end, now)


def _undo_action(manifest: Manifest, context: RestoreContext) -> UndoResult:
    try:
        functions = context.action_functions(manifest.kind)
    except KeyError as error:
        raise CloudError(Reason.UNREADABLE, "restore", f"this version can't restore the kind {manifest.kind}") from error
    unread: CloudError | None = None
    try:
        manifest = context.archive.with_continued(manifest)
    except CloudError as error:
        unread = error
    for one in (manifest, *manifest.continued):
        require_own_form(one, functions)
        context.show(one)
    _end_unfinished(manifest.id, context)
    undone = functions.undo(context.open_session(manifest.target).without_cache(), manifest)
    if unread:
        missing = f"Not restored: what the previous action removed ({unread})."
        return replace(undone, not_restored=(*undone.not_restored, missing), run_again=True)
    earlier = () if undone.run_again else _earlier_action_hint(manifest, context.archive)
    return replace(undone, not_restored=(*undone.not_restored, *earlier))


def _earlier_action_hint(manifest: Manifest, archive: Archive) -> tuple[str, ...]:
    """The sentence about an action from before a deletion, which a manifest of its own undoes. One elsewhere isn't named."""
    previous = previous_manifest((manifest, *manifest.continued)[-1])
    if manifest.action is not StepName.DELETE or previous is None:
        return ()
    if not archive.contains(previous.address):
        return ("An earlier action changed it too; its manifest isn't in REAPER_MANIFESTS.",)
    command = shlex.join(["reaper", "restore", manifest.id, "--manifest", previous.address, "--trust-manifest"])
    return (f"An earlier action changed it too; `{command}` undoes that action.",)


def _record_undo(manifest: Manifest, address: str, undone: UndoResult, context: RestoreContext) -> None:
    """Record the undo, so that no action follows without a new notice. An undo to run again, and a later action, keep their manifest."""
    now = context.clock()

    def forget(record: Record) -> Record:
        record = record if undone.run_again else replace(record, lost_manifest=None)
        named = record.act.manifest if record.act else None
        if named and named.address == address and not undone.run_again:
            return after_undo(record, now)
        if is_interrupted(record):
            record = closed_unknown(record)
        ended = after_action(record)
        return replace(ended, called_at=now, act=ended.act and replace(ended.act, notified_at=ended.act.notified_at or now))

    try:
        record_known(context.ledger, manifest.id, manifest.run, now, f"restored by {context.by}")
        update_record(context.ledger, manifest.id, forget, now)
    except CloudError as error:
        raise error.reworded(f"{error}; the resource was restored anyway") from error
    context.ledger.add_history(HistoryEntry(id=manifest.id, when=now, what=RESTORED, by=context.by, because=undone.because))
