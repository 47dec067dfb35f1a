"""The whole examination, in two rounds: the first opens what the second asks with.

The subjects of a round run side by side, each for a limited time, so that one that hangs or fails hides no other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from reaper.doctor import access, channels, deployment
from reaper.doctor.check import AGAIN, SIGN_INS, Check, DoctorContext, unknown
from reaper.errors import ODD_REPLY_ERRORS, ReaperError

LIMIT_S = 45.0
"""Seconds that all subjects of one round have together."""
Subject = Callable[[], Iterable[Check]]
"""Yields its checks one by one: those before a failure count."""


IN_EACH_CLOUD = {
    "reading": access.examine_reading,
    "metrics": access.examine_metrics,
    "acting": access.examine_acting,
    "undoing": access.examine_undoing,
    "clock": access.examine_clock,
}
SUBJECTS = {
    "ledger": deployment.examine_ledger,
    "manifests": deployment.examine_manifests,
    "reports": deployment.examine_reports,
    "runs": deployment.examine_runs,
    "workflow": access.examine_workflow,
    "pause": deployment.examine_pause,
    "channels": channels.examine_channels,
    "links": channels.examine_links,
    "schedule": deployment.examine_schedule,
    "notices": deployment.examine_sending,
    "cost": deployment.examine_cost,
    "calendars": deployment.examine_calendars,
    "policy.rules": deployment.examine_rules,
    "owners": deployment.examine_owners,
}


def examine(context: DoctorContext, limit_s: float = LIMIT_S) -> list[Check]:
    """Every check. Takes at most twice `limit_s` seconds, whatever hangs."""
    clouds, checks = access.clouds_in_use(context)
    first: dict[str, Subject] = {f"credentials.{cloud}": partial(access.examine_credentials, context, cloud) for cloud in clouds}
    opening = {"policy": deployment.open_policy, "report": deployment.open_report}
    checks += run_subjects(first | {name: partial(subject, context) for name, subject in opening.items()}, limit_s)
    second: dict[str, Subject] = {
        f"{name}.{cloud}": partial(subject, context, cloud)
        for cloud in clouds
        for name, subject in IN_EACH_CLOUD.items()
        if context.opened.sessions.get(cloud) or name == "clock"
    }
    second |= {name: partial(subject, context) for name, subject in SUBJECTS.items()}
    return led_by_credentials(checks + run_subjects(second, limit_s))


def led_by_credentials(checks: Sequence[Check]) -> list[Check]:
    """The checks without those that only need the same sign-in as a check of credentials, which names them instead."""
    to_sign_in = [check for check in checks if check.fix and check.fix.startswith(SIGN_INS)]
    if any(check.check == "ledger" for check in to_sign_in):
        to_sign_in += [check for check in checks if check.check == "pause"]  # the stop switch is in the ledger
    credentials = [check for check in to_sign_in if check.check.startswith("credentials")]
    waiting = dict.fromkeys(check.check for check in to_sign_in if check not in credentials)
    if not credentials or not waiting:
        return list(checks)
    first = credentials[0]
    named = replace(first, because=f"{first.because}. Until you sign in, these can't be checked: {', '.join(waiting)}")
    return [named if check is first else check for check in checks if check not in to_sign_in or check in credentials]


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
            checks.append(check)  # noqa: PERF402 - so that those before a failure or the end are kept
    except (ReaperError, *ODD_REPLY_ERRORS) as error:
        text = str(error) if isinstance(error, ReaperError) else repr(error)
        checks.append(unknown(name, f"this check failed: {text}", AGAIN))
