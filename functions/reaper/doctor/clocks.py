"""This machine's clock against the clouds': https://docs.aws.amazon.com/IAM/latest/UserGuide/signing-troubleshooting.html

AWS refuses requests that are signed more than 15 minutes off; idle periods and dates of actions are computed from this clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from reaper.doctor.check import Check, ok, to_fix, unknown, unreachable_advice
from reaper.doctor.context import DoctorContext, doctor_of
from reaper.duration import format_duration
from reaper.errors import CloudError

MAX_SKEW = timedelta(minutes=5)
SET_CLOCK = "sudo timedatectl set-ntp true"


def examine_clock(context: DoctorContext, cloud: str) -> Iterator[Check]:
    """Compare the clocks. Replies are dated to the second and take time, so a few seconds mean nothing."""
    name = f"clock.{cloud}"
    try:
        theirs = doctor_of(cloud).reply_time()
    except CloudError as error:
        yield unknown(name, str(error), unreachable_advice(error))
        return
    if theirs is None:
        yield unknown(name, "the reply had no date")
        return
    skew = context.clock() - theirs
    if abs(skew) <= MAX_SKEW:
        yield ok(name, "this clock and the cloud's agree")
        return
    side = "ahead of" if skew > timedelta(0) else "behind"
    yield to_fix(name, f"this clock is {format_duration(abs(skew))} {side} the cloud's", SET_CLOCK)
