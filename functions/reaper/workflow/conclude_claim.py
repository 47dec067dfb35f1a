"""The claim to conclude a run: one process at a time sends its messages. A repeated step waits for the first one, then finds everything sent."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from reaper.errors import CloudError, Reason
from reaper.ledger.port import Ledger
from reaper.model import Run
from reaper.notices.context import ConcludeContext
from reaper.workflow import run_lease
from reaper.workflow.context import WorkflowContext
from reaper.workflow.run_lease import RunLease

WAIT_S = 5.0
"""Seconds between two looks at another process's claim."""
CLAIM = timedelta(minutes=30)
"""How long a claim lasts if the process has no deadline."""
GIVE_UP_BEFORE = timedelta(seconds=30)
"""The time before the deadline at which waiting ends."""


@contextmanager
def claimed(run: Run, opened: ConcludeContext, context: WorkflowContext) -> Iterator[None]:
    """Hold the claim while the messages are sent. Raises CloudError if the ledger fails, or if another process has the claim until the deadline.

    An audit sends nothing to owners and needs none.
    """
    ledger = opened.ledger
    if ledger is None or not run.mode.writes:
        yield
        return
    claim = _wait_for_claim(run, ledger, context)
    try:
        yield
    finally:
        run_lease.release_conclude(ledger, claim, context.clock())


def _wait_for_claim(run: Run, ledger: Ledger, context: WorkflowContext) -> RunLease:
    """The claim lasts until the process will be ended, so that no process waits for one that is gone."""
    holder = uuid.uuid4().hex
    while True:
        now = context.clock()
        claim = RunLease(run=run.id, holder=holder, until=context.deadline or now + CLAIM)
        if run_lease.claim_conclude(ledger, claim, now):
            return claim
        if context.deadline and now > context.deadline - GIVE_UP_BEFORE:
            raise CloudError(Reason.REFUSED, "conclude", "another process is concluding this run")
        context.wait(WAIT_S)
