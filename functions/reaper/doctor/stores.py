"""Ledger, manifests, reports and runs: read in places that nothing uses. The right to write there is looked up; nothing is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from shlex import quote

from reaper.doctor.check import Check, CheckStatus, DoctorContext, advice_for, doctor_of, of_error, ok, rights_checks, to_fix
from reaper.errors import CloudError, ReaperError, Reason
from reaper.ledger import opening, sqlite
from reaper.model import Target
from reaper.pending.stop_switch import paused_because, read_pause
from reaper.settings import require_kept_memory
from reaper.stores.texts import TextStore, cloud_of, open_texts

MARKER = "doctor"
NO_PLACE = Target(cloud="doctor", account="doctor")
"""A resource and a place that no ledger has."""
LEDGER_ADVICE = "Set REAPER_LEDGER to sqlite:///path, dynamodb://table or table://account/table of an existing table."
STORE_ADVICE = "Check the address, and whether this identity may write there."


def examine_ledger(context: DoctorContext) -> Iterator[Check]:
    """In audit mode read the ledger if one is named; else read it as a sweep does, and look up whether it can be written."""
    settings, now = context.settings, context.clock()
    if not settings.mode.writes and not settings.ledger:
        yield ok("ledger", "mode audit needs none, and REAPER_LEDGER isn't set")
        return
    address = settings.ledger or opening.default_address(context.environ)
    file = None
    try:
        require_kept_memory(settings)
        if address.startswith("sqlite:"):
            file = sqlite.file_path(address.removeprefix("sqlite:").removeprefix("//"))
        opening.require_existing(address)
        ledger = opening.open_ledger(address, context.environ, read_only=True)
    except ReaperError as error:
        line = f"mkdir -p {quote(str(file.parent))} && touch {quote(str(file))}" if file and not file.exists() else None
        yield of_error("ledger", error, line or advice_for(error, address, LEDGER_ADVICE))
        return
    reads = (
        lambda: opening.require_known_format(ledger),
        lambda: ledger.recall([MARKER], now),
        lambda: ledger.recall_target(NO_PLACE, now),
    )
    failed = _failures("ledger", address, LEDGER_ADVICE, reads)
    own = "" if settings.ledger else " (your own: REAPER_LEDGER is not set)"
    if not settings.mode.writes:
        yield from failed or [ok("ledger", f"{address} can be read")]
    elif file:
        closed = [path for path in (file, file.parent) if not os.access(path, os.W_OK)]
        advice = [to_fix("ledger", f"{path} can't be written by this user", f"Let this user write to {path}.") for path in closed]
        yield from failed or advice or [ok("ledger", f"{address} can be written and read{own}")]
    else:
        yield from _with_writing("ledger", address, failed)


def _failures(name: str, address: str, otherwise: str, reads: Iterable[Callable[[], object]]) -> list[Check]:
    """A line for each of these reads that fails for a reason of its own. Nothing more is read of what can't be reached."""
    failed: dict[str, Check] = {}
    for read in reads:
        try:
            read()
        except ReaperError as error:
            check = of_error(name, error, advice_for(error, address, otherwise))
            failed.setdefault(check.missing or check.because, check)
            if isinstance(error, CloudError) and error.reason is Reason.UNREACHABLE:
                break
    return list(failed.values())


def _with_writing(name: str, address: str, failed: list[Check]) -> list[Check]:
    """What failed, and what the cloud says of the right to write there, unless there is no such place."""
    if all(check.missing for check in failed):
        cloud = "aws" if address.startswith(("s3:", "dynamodb:")) else "azure"
        try:
            rights = doctor_of(cloud).writing_rights(address)
        except ReaperError as error:
            return [*failed, of_error(name, error, advice_for(error, address, STORE_ADVICE))]
        failed += rights_checks(name, [right for right in rights if right.status is not CheckStatus.OK], "writing")
    return failed or [ok(name, f"{address.rstrip('/')} can be written and read")]


def examine_pause(context: DoctorContext) -> Iterator[Check]:
    """Whether the stop switch is on. Below mode enforce nothing acts, but `apply` respects it in every mode."""
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
    settings, undo = context.settings, context.includes_undo
    if settings.mode.acts or (undo and settings.manifests):
        own = settings.manifests or str(Path(opening.default_address(context.environ).removeprefix("sqlite://")).parent)
        yield from _store_checks("manifests", own, must_read=undo, must_list=settings.mode.acts)
    else:
        yield ok("manifests", f"mode {settings.mode} stores none")


def examine_reports(context: DoctorContext) -> Iterator[Check]:
    """The functions store every report."""
    if place := context.settings.reports:
        yield from _store_checks("reports", place)
    else:
        yield ok("reports", "REAPER_REPORTS isn't set; the command line has --output instead")


def examine_runs(context: DoctorContext) -> Iterator[Check]:
    """What the steps of a workflow hand over is written and read, if there is a workflow."""
    if place := context.settings.runs:
        yield from _store_checks("runs", place, must_read=True)


def _store_checks(name: str, place: str, *, must_read: bool = False, must_list: bool = False) -> list[Check]:
    """What a sweep, or with --undo a person, does there."""
    if not cloud_of(place):
        return [folder_check(name, place)]
    shown = place.partition("?")[0].rstrip("/")
    try:
        store = open_texts(place, f"{place} needs")
    except ReaperError as error:
        return [of_error(name, error, STORE_ADVICE)]
    reads: list[Callable[[], object]] = [partial(store.list_texts, f"{shown}/{MARKER}")] if must_list else []
    reads += [partial(_read_nothing, store, f"{shown}/{MARKER}/none.json")] if must_read else []
    return _with_writing(name, f"{shown}/", _failures(name, f"{shown}/", STORE_ADVICE, reads))


def _read_nothing(store: TextStore, address: str) -> None:
    """Read an object that doesn't exist. To an identity that may read, but not list, S3 refuses that as a list. Raises CloudError."""
    try:
        store.read_text(address)
    except CloudError as error:
        if error.code not in store.MISSING_CODES and error.missing != "s3:ListBucket":
            raise


def folder_check(name: str, place: str) -> Check:
    """Whether this user may write to the folder or, if that doesn't exist yet, to the nearest one above it."""
    try:
        nearest = next(path for path in (Path(place), *Path(place).absolute().parents) if path.exists())
        if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
            return ok(name, f"{place} can be written")
    except (OSError, ValueError) as error:
        return to_fix(name, f"{place} can't be written: {error}", "Correct the path.")
    because = f"{place} can't be written: {nearest} isn't a folder that this user may write to"
    return to_fix(name, because, f"Let this user write to {nearest}.")
