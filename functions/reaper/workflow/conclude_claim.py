"""The claim to conclude a run: one process at a time sends its messages.

The engine repeats a step once it gave up on a process, so the latest process has the claim. An earlier one that still runs stops at its next
message; what it has sent, the latest one finds in the ledger.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from reaper import contexts
from reaper.coverage import failure_row
from reaper.errors import ConcludeTakenOver, SettingsError
from reaper.notices.context import ConcludeContext
from reaper.policy.schema import Policy
from reaper.workflow import run_lease
from reaper.workflow.context import WorkflowContext, run_settings
from reaper.workflow.run_lease import RunLease
from reaper.workflow.stored_run import StoredRun

CLAIM = timedelta(minutes=30)
"""How long a claim lasts if the process has no deadline."""


def open_context(stored: StoredRun, context: WorkflowContext, policy: Policy, because: str | None) -> ConcludeContext:
    """The context of concluding. `because`: why only outcomes may be reported. Raises SettingsError if no channel can notify owners.

    If only outcomes may be reported, a policy without a channel is a failure in the report: the next run sends the mails.
    """
    settings = run_settings(stored, context)
    try:
        opened = contexts.conclude_context(settings, policy, context.clock, context.deadline)
    except SettingsError as error:
        if because is None:
            raise
        failures = (failure_row("policy", error),)
        opened = ConcludeContext(policy=policy, ledger=contexts.open_ledger(settings), clock=context.clock, failures=failures)
    return replace(opened, outcomes_only=because)


@contextmanager
def claimed(stored: StoredRun, context: WorkflowContext, opened: ConcludeContext) -> Iterator[ConcludeContext]:
    """Hold the claim while the messages are sent. Before each, the context raises ConcludeTakenOver if the claim is lost, and CloudError if the
    time for messages to owners is over. An audit sends nothing to owners and needs none. Raises CloudError if the ledger fails.
    """
    ledger = opened.ledger
    if ledger is None or not stored.run.mode.writes:
        yield opened
        return
    now = context.clock()
    claim = RunLease(run=stored.run.id, holder=uuid.uuid4().hex, until=context.deadline or now + CLAIM)
    run_lease.claim_conclude(ledger, claim, now)

    def require_claim() -> None:
        if not run_lease.has_claim(ledger, claim):
            raise ConcludeTakenOver("another process is concluding this run by now")

    try:
        yield replace(opened, before_message=require_claim, is_repeated=True)
    finally:
        run_lease.release_conclude(ledger, claim, context.clock())
