"""Long-running operations: 202 with Azure-AsyncOperation, then `InProgress` until enough polls were made or enough time went by.

https://learn.microsoft.com/azure/azure-resource-manager/management/async-operations
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import NAMESPACE_URL, uuid5

from reaper_sandbox.azure.moment import zulu
from reaper_sandbox.azure.request import Json

SIGNATURE = "c=" + "MIIHhzCCBm-gAwIBAgITfAlyuD" * 140 + "&s=" + "kQ3v7Xw" * 48 + "&h=4QzR1v"
"""The real URL carries a certificate and is about 4 kB long."""


@dataclass(slots=True, kw_only=True)
class Operation:
    """One operation under way. `finish` is what it changes in the end, `fail` what becomes of the resource when it fails."""

    id: str
    due: datetime
    polls: int
    finish: Callable[[datetime], None]
    fail: Callable[[], None]
    error: Json | None = None
    status: str = "InProgress"


@dataclass(slots=True, kw_only=True)
class Operations:
    """`takes` is how long an operation lasts on the sandbox's clock, `polls` after how many polls it is over at the latest.

    `failures` are the errors of the operations to come, first in first out; such an operation ends as Failed.
    """

    takes: timedelta = timedelta(seconds=90)
    polls: int = 2
    failures: list[Json] = field(default_factory=list)
    _known: dict[str, Operation] = field(default_factory=dict)

    def start(self, now: datetime, finish: Callable[[datetime], None], fail: Callable[[], None]) -> str:
        """Begins an operation and gives its id."""
        one = Operation(
            id=str(uuid5(NAMESPACE_URL, f"operation/{len(self._known)}")),
            due=now + self.takes,
            polls=self.polls,
            finish=finish,
            fail=fail,
            error=self.failures.pop(0) if self.failures else None,
        )
        self._known[one.id] = one
        return one.id

    def settle(self, now: datetime) -> None:
        """Ends every operation whose time has come."""
        for one in self._known.values():
            if one.status == "InProgress" and now >= one.due:
                _end(one, one.due)

    def poll(self, operation_id: str, now: datetime) -> Json | None:
        """The status document, None for an unknown id."""
        one = self._known.get(operation_id)
        if one is None:
            return None
        if one.status == "InProgress":
            if one.polls <= 0:
                _end(one, now)
            one.polls -= 1
        return _document(one)


def _end(one: Operation, at: datetime) -> None:
    one.status = "Failed" if one.error else "Succeeded"
    if one.error:
        one.fail()
    else:
        one.finish(at)


def _document(one: Operation) -> Json:
    if one.status == "InProgress":
        return {"status": one.status}
    if one.error:
        return {"status": one.status, "error": one.error, "endTime": zulu(one.due)}
    return {"status": one.status, "percentComplete": 100.0}
