"""The workflow of one run: which activity follows which. Durable Functions replays this code from its history again and again, so it has no
clock, no random numbers and no I/O of its own, and what it does for one version never changes.

https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-code-constraints
A run keeps the version that it began with, `defaultVersion` in host.json. To change the order of activities, their names, or what they are
given, add a function to VERSIONS under a new number and make that the default. Runs that are under way then end under the old one.
https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-orchestration-versioning
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from datetime import timedelta
from typing import Any

import azure.durable_functions as df

WIDTH = 8
"""Activities under way at once; host.json lets one instance of the app run as many."""
ACTIVITY_TIMER = timedelta(minutes=35)
"""When the run stops waiting for an activity. An activity stops in good order before that, and the host ends it (`functionTimeout`) before that,
but a worker that dies may leave one that never ends."""
TIMED_OUT = f"its activity didn't end within {ACTIVITY_TIMER // timedelta(minutes=1)} minutes"
LIST_TARGETS, OBSERVE_ITEM, DECIDE_RUN = "list_targets", "observe_item", "decide_run"
ACT_ON_ITEM, CONCLUDE_RUN = "act_on_item", "conclude_run"
CARRIED = ("execution", "policy_sha256", "listed_sha256")
"""What listing the targets returns for every later activity."""
CONCLUDE_TRIES = 2
"""A conclude that dies or has too little time is repeated: the next one sends what is left to send."""
MAX_REASON_CHARS = 300

Call = dict[str, Any]
"""What a run was started with: `run`, its ID; `options`, those of the call; `scheduled`, whether the timer started it."""
Steps = Generator[Any, Any, Any]
Started = tuple[Any, Any]
"""The task of an activity that is under way, and the timer that ends the wait for it."""
Version = Callable[[df.DurableOrchestrationContext], Steps]


class ActivityFailed(Exception):
    """An activity without which the run can't go on has failed, so the run fails, too."""


def orchestrate(context: df.DurableOrchestrationContext, versions: Mapping[str, Version] | None = None) -> Steps:
    """One run, by the steps of the version that it began with. Raises ActivityFailed, and ValueError for an unknown version."""
    version, known = context.version or FIRST_VERSION, versions or VERSIONS
    if version not in known:
        raise ValueError(f"this app knows no version {version!r} of a run, only {', '.join(known)}")
    return (yield from known[version](context))


def run_phases_2(context: df.DurableOrchestrationContext) -> Steps:
    """The four phases, with observe and act mapped over items. Returns its result.

    From the first activity on, each gets the hashes of the run's policy and of what was listed, so that no later one believes another store's word.
    """
    call: Call = context.get_input()
    listed = yield from _require(context, LIST_TARGETS, call)
    if listed["status"] != "listed":
        return {"run": call["run"], "status": listed["status"], "because": listed["because"]}
    call = {**call, **{name: listed[name] for name in CARRIED}}
    unread = yield from _map(context, OBSERVE_ITEM, call, int(listed["items"]))
    decided = yield from _require(context, DECIDE_RUN, {**call, "failures": unread})
    unacted = yield from _map(context, ACT_ON_ITEM, call, int(decided["actions"]))
    return (yield from _require(context, CONCLUDE_RUN, {**call, "failures": unacted}, CONCLUDE_TRIES))


FIRST_VERSION = "2"
"""Runs of version 1 carried nothing that a store could be compared with; none is carried on."""
VERSIONS: Mapping[str, Version] = {FIRST_VERSION: run_phases_2}


def _require(context: df.DurableOrchestrationContext, activity: str, given: Call, tries: int = 1) -> Steps:
    """The result of one activity, which may be tried again. Raises ActivityFailed."""
    context.set_custom_status(activity)
    because: str | None = None
    for _ in range(tries):
        started = _start(context, activity, given)
        yield context.task_any([*started])
        result, because = _result_of(*started)
        if because is None:
            return result
    raise ActivityFailed(f"{activity}: {because}")


def _map(context: df.DurableOrchestrationContext, activity: str, given: Call, count: int) -> Steps:
    """The activity for each of `count` items, WIDTH at a time. Returns why items failed, by item: one never ends the others."""
    context.set_custom_status(activity)
    failures: dict[str, str] = {}
    waiting, running = iter(range(count)), dict[int, Started]()
    while True:
        while len(running) < WIDTH and (item := next(waiting, None)) is not None:
            running[item] = _start(context, activity, {**given, "item": item})
        if not running:
            return failures
        # Never with an empty list: that task would end with None, at once. What was prepared starts now.
        yield context.task_any([each for started in running.values() for each in started])
        for item in [item for item, started in running.items() if any(each.is_completed for each in started)]:
            result, because = _result_of(*running.pop(item))
            if because is None:
                because = result.get("failed")
            if because is not None:
                failures[str(item)] = because


def _start(context: df.DurableOrchestrationContext, activity: str, given: Call) -> Started:
    task = context.call_activity(activity, given)
    return task, context.create_timer(context.current_utc_datetime + ACTIVITY_TIMER)


def _result_of(task: Any, timer: Any) -> tuple[Any, str | None]:
    """The result of an activity, or why there is none. A timer that was not needed would keep the run waiting, so it is canceled."""
    if not task.is_completed:
        return None, TIMED_OUT
    if not timer.is_completed:
        timer.cancel()
    result = task.result
    if isinstance(result, Exception):
        return None, (" ".join(str(result).split()) or type(result).__name__)[:MAX_REASON_CHARS]
    return result, None
