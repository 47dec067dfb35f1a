"""Putting back what an interrupted action left half done, for every kind: a number that is still exactly as the action set it.

A kind says what a fresh look shows, and writes the number. Everything else is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reaper.acting.contract import HalfDone, PutBackResult
from reaper.errors import CloudError, Reason

MAX_TRIES = 4
"""An action has two minutes in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """What a look at an interrupted action shows.

    `settled`: how it ended, if nothing has to be put back. Otherwise `is_back` says whether the number is what it was before, `left_because` why
    it has to stay as it is, and `busy_because` that the cloud is still at work on the resource, or can't be read for now. The last field says what has been put back.
    """

    settled: PutBackResult | None = None
    is_back: bool = False
    left_because: str | None = None
    busy_because: CloudError | None = None
    told: str = ""


def put_back(look: Callable[[], LeftBehind], write: Callable[[], None], pause: Callable[[int], None]) -> PutBackResult:
    """Look, and write what was before if it is still ours; again after a pause if the cloud was at work, or the call may have worked although it
    failed. `pause(tries)` waits. Raises CloudError if that can't be known or done now.
    """
    tries, may_be_back = 0, False
    while True:
        left = look()
        if left.settled:
            return left.settled
        if left.is_back and not left.busy_because:
            state = HalfDone.PUT_BACK if may_be_back else HalfDone.UNCHANGED
            return PutBackResult(state=state, because=left.told if may_be_back else "nothing had changed")
        if left.left_because:
            return PutBackResult(state=HalfDone.LEFT, because=left.left_because)
        refusal = left.busy_because
        if refusal is None:
            try:
                write()
                return PutBackResult(state=HalfDone.PUT_BACK, because=left.told)
            except CloudError as error:
                is_throttled = error.reason is Reason.THROTTLED or error.code.startswith("409")
                if not (is_throttled or error.may_have_been_made):
                    raise
                refusal = error
        tries, may_be_back = tries + 1, may_be_back or (refusal.may_have_been_made and not left.busy_because)
        if tries == MAX_TRIES:
            raise refusal
        pause(tries)
