"""Subjects side by side: one that hangs, fails or is slow hides no other, and what it found before that counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from reaper.doctor.check import Check, CheckStatus, ok
from reaper.doctor.examine import run_subjects
from reaper.errors import CloudError, Reason, SettingsError


def fine() -> Iterator[Check]:
    yield ok("fine", "it works")


def results(checks: list[Check]) -> list[tuple[str, CheckStatus]]:
    return [(check.check, check.status) for check in checks]


def test_a_subject_that_hangs_keeps_what_it_found_and_hides_no_other():
    released = threading.Event()

    def hangs() -> Iterator[Check]:
        yield ok("hangs", "the first part")
        released.wait(60)
        yield ok("hangs", "too late")

    checks = run_subjects({"hangs": hangs, "fine": fine}, limit_s=0.3)
    released.set()
    assert results(checks) == [("hangs", CheckStatus.OK), ("hangs", CheckStatus.UNKNOWN), ("fine", CheckStatus.OK)]
    assert "0.3 seconds" in checks[1].because


def test_all_subjects_share_one_limit():
    together, released = threading.Barrier(10), threading.Event()

    def hangs() -> Iterator[Check]:
        together.wait(60)
        released.wait(60)
        yield ok("hangs", "too late")

    checks = run_subjects({f"hangs {n}": hangs for n in range(10)}, limit_s=1)
    assert (together.n_waiting, together.broken) == (0, False), "none waits for another to end"
    released.set()
    assert [check.status for check in checks] == [CheckStatus.UNKNOWN] * 10


def test_a_subject_that_fails_keeps_what_it_found_and_hides_no_other():
    def fails(error: Exception) -> Iterator[Check]:
        yield ok("fails", "the first part")
        raise error

    for error in (CloudError(Reason.REFUSED, "x", "no"), SettingsError("odd"), KeyError("Arn"), RuntimeError("?")):
        checks = run_subjects({"fails": lambda error=error: fails(error), "fine": fine})
        assert results(checks) == [("fails", CheckStatus.OK), ("fails", CheckStatus.UNKNOWN), ("fine", CheckStatus.OK)]


def test_checks_come_in_the_order_of_the_subjects():
    def slow() -> Iterator[Check]:
        time.sleep(0.05)
        yield ok("slow", "it works")

    assert [check.check for check in run_subjects({"slow": slow, "fine": fine})] == ["slow", "fine"]
