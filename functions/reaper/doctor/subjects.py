"""Runs the subjects of an examination side by side, each for a limited time, so that one that hangs or fails hides no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from reaper.doctor.check import Check, unknown
from reaper.errors import ODD_REPLY_ERRORS, ReaperError

LIMIT_S = 45.0
"""Seconds that all subjects of one round have together."""
Subject = Callable[[], Iterable[Check]]
"""Yields its checks one by one: those before a failure count."""


def run_subjects(subjects: Mapping[str, Subject], limit_s: float = LIMIT_S) -> list[Check]:
    """The checks of all subjects, in the order of the subjects.

    A subject that isn't done in time, or that fails, adds one unknown check under its name to those that it has yielded. Its thread is left
    behind: it can't be stopped, and ends with the process at the latest.
    """
    found: dict[str, list[Check]] = {name: [] for name in subjects}
    threads = {
        name: threading.Thread(target=_run, args=(name, subject, found[name]), daemon=True) for name, subject in subjects.items()
    }
    for thread in threads.values():
        thread.start()
    end = time.monotonic() + limit_s
    checks: list[Check] = []
    for name, thread in threads.items():
        thread.join(max(0.0, end - time.monotonic()))
        checks += list(found[name])
        if thread.is_alive():
            checks.append(unknown(name, f"no answer within {limit_s:g} seconds", "Run reaper doctor again."))
    return checks


def _run(name: str, subject: Subject, checks: list[Check]) -> None:
    try:
        for check in subject():
            checks.append(check)  # noqa: PERF402 - one by one, so that those before a failure or the end of the time are kept
    except (ReaperError, *ODD_REPLY_ERRORS) as error:
        text = str(error) if isinstance(error, ReaperError) else repr(error)
        checks.append(unknown(name, f"this check failed: {text}", "Run reaper doctor again."))
