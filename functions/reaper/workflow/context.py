"""What each step of a workflow needs besides its data, made by the entry point of a cloud."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from reaper import handover
from reaper.calendars.calendar import Calendar
from reaper.errors import ReaperError
from reaper.policy.file import POLICY_CHANGED, load_policy
from reaper.policy.schema import Policy
from reaper.run import RunSetup, no_progress, open_ledger
from reaper.settings import Settings
from reaper.workflow.store import RunStore
from reaper.workflow.stored_run import StoredRun


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowContext:
    """The deployment's settings, of one cloud; the store of the run; and when the process will be ended.

    `list_targets` takes the settings as a call narrowed them. The later steps take mode and kinds from the stored run.
    """

    settings: Settings
    store: RunStore
    clock: Callable[[], datetime]
    deadline: datetime | None = None
    progress: Callable[[str], None] = no_progress
    wait: Callable[[float], None] = time.sleep


def current_policy(context: WorkflowContext, policy_sha256: str, calendars: Iterable[Calendar] = ()) -> tuple[Policy, str | None]:
    """The policy as it is now, with the calendars as the run read them, and why the run can't go by it: it has changed, or it can't be read. Then it is the built-in one."""
    try:
        source = load_policy(context.settings.policy)
    except ReaperError as error:
        return load_policy(None).policy, f"the policy can't be read: {error}"
    return source.policy.with_calendars(
        {each.name: each for each in calendars}
    ), None if source.sha256 == policy_sha256 else POLICY_CHANGED


def run_settings(stored: StoredRun, context: WorkflowContext) -> Settings:
    """The deployment's settings, with the mode and the kinds of this run."""
    return replace(context.settings, mode=stored.run.mode, kinds=stored.kinds)


def setup_of(stored: StoredRun, context: WorkflowContext, policy: Policy) -> RunSetup:
    """What the contexts of the phases share."""
    settings = run_settings(stored, context)
    return RunSetup(
        run=stored.run,
        settings=settings,
        policy=policy,
        ledger=open_ledger(settings),
        clock=context.clock,
        progress=context.progress,
        deadline=context.deadline,
        observe_share=handover.SHARE_OF_STEP,
    )
