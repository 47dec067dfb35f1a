"""Ledger, manifests, reports and runs: each is written and read with a marker of the doctor's own, and nothing else in it is touched.

The ledger's marker is the named row `doctor`; besides, a lease on a place that doesn't exist, and an update under a condition that never
holds. The markers of the other stores are under `doctor/`, where a lifecycle rule of the deployment deletes them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from reaper.doctor.check import Check, of_error, ok, to_fix, unknown
from reaper.doctor.context import DoctorContext, advice_for
from reaper.errors import CloudError, ReaperError, Reason
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger
from reaper.model import Target
from reaper.pending.stop_switch import paused_because, read_pause
from reaper.record import NO_RECORD
from reaper.settings import require_kept_memory
from reaper.stores.texts import open_texts

MARKER = "doctor"
NO_PLACE = Target(cloud="doctor", account="doctor")
"""The place of the lease: no sweep ever has it."""
LEASE = timedelta(minutes=1)
VERSION_THAT_NEVER_WAS = 2
"""The doctor has no record, so an update of its second version is refused by its condition and changes nothing."""
LEDGER_ADVICE = "Set REAPER_LEDGER to sqlite:///path, dynamodb://table or table://account/table of an existing table."
STORE_ADVICE = "Check the address, and whether this identity may write there."


def examine_ledger(context: DoctorContext) -> Iterator[Check]:
    """In audit mode read the ledger if one is named; else write and read as a sweep does."""
    settings = context.settings
    if not settings.mode.writes and not settings.ledger:
        yield ok("ledger", "mode audit needs none, and REAPER_LEDGER isn't set")
        return
    address = settings.ledger or opening.default_address(context.environ)
    try:
        require_kept_memory(settings)
        ledger = opening.open_ledger(address, context.environ, read_only=not settings.mode.writes)
        opening.require_known_format(ledger)
    except ReaperError as error:
        yield of_error("ledger", error, advice_for(error, address, LEDGER_ADVICE))
        return
    errors: dict[str, Check] = {}
    for operation in _operations(context, ledger):
        try:
            operation()
        except ReaperError as error:
            failed = of_error("ledger", error, advice_for(error, address, LEDGER_ADVICE))
            errors.setdefault(failed.missing or failed.because, failed)
            if isinstance(error, CloudError) and error.reason is Reason.UNREACHABLE:
                break
    yield from errors.values()
    if not errors:
        did = "written and read" if settings.mode.writes else "read"
        yield ok("ledger", f"{address} can be {did}{'' if settings.ledger else ' (your own: REAPER_LEDGER is not set)'}")


def _operations(context: DoctorContext, ledger: Ledger) -> list[Callable[[], object]]:
    """Everything that a sweep does with its ledger, each for itself. None of them changes what a sweep has stored."""
    now = context.clock()
    reading: list[Callable[[], object]] = [
        lambda: ledger.read_row(MARKER),
        lambda: ledger.recall([MARKER], now),
        lambda: ledger.recall_target(NO_PLACE, now),
    ]
    if not context.settings.mode.writes:
        return reading
    return [
        *reading,
        lambda: _write_and_read_row(context, ledger),
        lambda: ledger.write_record(MARKER, NO_RECORD, VERSION_THAT_NEVER_WAS, now),
        lambda: ledger.take_lease(NO_PLACE, MARKER, now, LEASE),
        lambda: ledger.give_back_lease(NO_PLACE, MARKER),
    ]


def _write_and_read_row(context: DoctorContext, ledger: Ledger) -> None:
    """Raises CloudError if the row can't be written, or isn't read back as it was written."""
    values = {"at": context.clock().isoformat(), "by": uuid4().hex}
    before = ledger.read_row(MARKER)
    if ledger.write_row(MARKER, values, before.version) and ledger.read_row(MARKER).values != values:
        raise CloudError(Reason.UNREADABLE, "ledger:Read", "the marker isn't read back as it was written")


def examine_pause(context: DoctorContext) -> Iterator[Check]:
    """Whether the stop switch is on. Below mode enforce it stops nothing, because nothing acts; `apply` respects it in every mode."""
    settings = context.settings
    if not settings.ledger:
        return
    try:
        ledger = opening.open_ledger(settings.ledger, context.environ, read_only=True)
    except ReaperError:
        return  # `examine_ledger` says so
    pause = read_pause(ledger, context.clock())
    if pause is None:
        yield ok("pause", "the stop switch is off")
    elif pause.unreadable_because:
        repair = "Repair the ledger first, then set the switch with reaper pause or reaper resume."
        yield to_fix("pause", paused_because(pause), repair)
    elif settings.mode.announces:
        yield to_fix("pause", f"{paused_because(pause)}, so nothing is stopped, deleted or started", "reaper resume")
    else:
        yield ok("pause", paused_because(pause))


def examine_manifests(context: DoctorContext) -> Iterator[Check]:
    """Mode enforce stores a manifest before each action, and each run lists the newest; restore and undo read it."""
    settings = context.settings
    if not settings.mode.acts and not (context.includes_undo and settings.manifests):
        yield ok("manifests", f"mode {settings.mode} stores none")
        return
    own = settings.manifests or str(Path(opening.default_address(context.environ).removeprefix("sqlite://")).parent)
    yield _store_check("manifests", own, must_read=context.includes_undo, must_list=settings.mode.acts)


def examine_reports(context: DoctorContext) -> Iterator[Check]:
    """The functions store every report."""
    if context.settings.reports:
        yield _store_check("reports", context.settings.reports, must_read=False)
    else:
        yield ok("reports", "REAPER_REPORTS isn't set; the command line has --output instead")


def examine_runs(context: DoctorContext) -> Iterator[Check]:
    """What the steps of a workflow hand over is written and read, if there is a workflow."""
    if context.settings.runs:
        yield _store_check("runs", context.settings.runs, must_read=True)


def _store_check(name: str, place: str, *, must_read: bool, must_list: bool = False) -> Check:
    if not place.startswith(("s3://", "https://")):
        return folder_check(name, place)
    shown = place.partition("?")[0].rstrip("/")
    address, text = "", f'{{"written by": "reaper doctor", "id": "{uuid4().hex}"}}'
    try:
        store = open_texts(place, f"{place} needs")
        written = store.write(place, f"doctor/{uuid4().hex}.json", text)
        if must_list:
            store.list_texts(f"{shown}/doctor")
        address = written
        read = store.read_text(address)
    except ReaperError as error:
        if address and not must_read and isinstance(error, CloudError) and error.reason is Reason.DENIED:
            because = f"{shown} can be written, but not read by this identity, which a sweep doesn't need: {error}"
            return unknown(name, because, missing=error.missing)
        return of_error(name, error, advice_for(error, f"{shown}/", STORE_ADVICE))
    if read == text:
        return ok(name, f"{shown} can be written and read")
    return to_fix(name, f"{address} isn't read back as it was written", STORE_ADVICE)


def folder_check(name: str, place: str) -> Check:
    """Write a file that deletes itself, in the folder or, if that doesn't exist yet, in the nearest one above it."""
    folder = next((path for path in (Path(place), *Path(place).absolute().parents) if path.exists()), Path(place))
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"reaper doctor")
    except (OSError, ValueError) as error:
        return to_fix(name, f"{place} can't be written: {error}", f"Let this user write to {folder}.")
    return ok(name, f"{place} can be written")
