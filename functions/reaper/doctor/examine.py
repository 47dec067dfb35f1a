"""The whole examination, in two rounds: the first opens what the second asks with.

The subjects of a round run side by side, each for a limited time, so that one that hangs or fails hides no other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from reaper.doctor import access, channels, policies, stores
from reaper.doctor.check import AGAIN, Check, DoctorContext, Opened, is_sign_in, unknown
from reaper.errors import ODD_REPLY_ERRORS, ReaperError

LIMIT_S = 45.0
"""Seconds that all subjects of one round have together."""
Subject = Callable[[], Iterable[Check]]
"""Yields its checks one by one: those before a failure count."""


def examine(context: DoctorContext, limit_s: float = LIMIT_S) -> list[Check]:
    """Every check. Takes at most twice `limit_s` seconds, whatever hangs."""
    opened = Opened()
    clouds, checks = access.clouds_in_use(context)
    first: dict[str, Subject] = {
        **{f"credentials.{cloud}": partial(access.examine_credentials, context, cloud, opened) for cloud in clouds},
        "policy": partial(policies.open_policy, context, opened),
        "report": partial(policies.open_report, context, opened),
    }
    checks += run_subjects(first, limit_s)
    return led_by_credentials(checks + run_subjects(_second_round(context, clouds, opened), limit_s))


def led_by_credentials(checks: Sequence[Check]) -> list[Check]:
    """The checks without those that only need the same sign-in as a check of credentials, which names them instead."""
    to_sign_in = [check for check in checks if is_sign_in(check)]
    if any(check.check == "ledger" for check in to_sign_in):
        to_sign_in += [check for check in checks if check.check == "pause"]  # the stop switch is in the ledger
    credentials = [check for check in to_sign_in if check.check.startswith("credentials")]
    waiting = dict.fromkeys(check.check for check in to_sign_in if check not in credentials)
    if not credentials or not waiting:
        return list(checks)
    first = credentials[0]
    named = replace(first, because=f"{first.because}. Until you sign in, these can't be checked: {', '.join(waiting)}")
    return [named if check is first else check for check in checks if check not in to_sign_in or check in credentials]


def _second_round(context: DoctorContext, clouds: list[str], opened: Opened) -> dict[str, Subject]:
    subjects: dict[str, Subject] = {}
    for cloud in clouds:
        if opened.sessions.get(cloud):
            subjects[f"reading.{cloud}"] = partial(access.examine_reading, context, cloud, opened)
            subjects[f"metrics.{cloud}"] = partial(access.examine_metrics, context, cloud, opened)
            subjects[f"acting.{cloud}"] = partial(access.examine_acting, context, cloud, opened)
            if context.includes_undo:
                subjects[f"undoing.{cloud}"] = partial(access.examine_undoing, context, cloud, opened)
        subjects[f"clock.{cloud}"] = partial(access.examine_clock, context, cloud)
    return subjects | {
        "ledger": partial(stores.examine_ledger, context),
        "manifests": partial(stores.examine_manifests, context),
        "reports": partial(stores.examine_reports, context),
        "runs": partial(stores.examine_runs, context),
        "workflow": partial(access.examine_workflow, context),
        "pause": partial(stores.examine_pause, context),
        "channels": partial(channels.examine_channels, context, opened),
        "links": partial(channels.examine_links, context),
        "schedule": partial(policies.examine_schedule, context, opened),
        "notices": partial(policies.examine_sending, context, opened),
        "cost": partial(policies.examine_cost, context, opened),
        "calendars": partial(policies.examine_calendars, context, opened),
        "policy.rules": partial(policies.examine_rules, context, opened),
        "owners": partial(policies.examine_owners, context, opened),
    }


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
            checks.append(unknown(name, f"no answer within {limit_s:g} seconds", AGAIN))
    return checks


def _run(name: str, subject: Subject, checks: list[Check]) -> None:
    try:
        for check in subject():
            checks.append(check)  # noqa: PERF402 - one by one, so that those before a failure or the end of the time are kept
    except (ReaperError, *ODD_REPLY_ERRORS) as error:
        text = str(error) if isinstance(error, ReaperError) else repr(error)
        checks.append(unknown(name, f"this check failed: {text}", AGAIN))
