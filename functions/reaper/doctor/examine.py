"""The whole examination, in two rounds: the first opens what the second asks with."""

from __future__ import annotations

from functools import partial

from reaper.doctor import channels, clocks, credentials, links, pauses, policies, rights, schedule, stores
from reaper.doctor.check import Check
from reaper.doctor.context import DoctorContext, Opened
from reaper.doctor.subjects import LIMIT_S, Subject, run_subjects


def examine(context: DoctorContext, limit_s: float = LIMIT_S) -> list[Check]:
    """Every check. Takes at most twice `limit_s` seconds, whatever hangs."""
    opened = Opened()
    clouds, checks = credentials.clouds_in_use(context)
    checks += run_subjects(_first_round(context, clouds, opened), limit_s)
    return checks + run_subjects(_second_round(context, clouds, opened), limit_s)


def _first_round(context: DoctorContext, clouds: list[str], opened: Opened) -> dict[str, Subject]:
    subjects: dict[str, Subject] = {
        f"credentials.{cloud}": partial(credentials.examine_credentials, context, cloud, opened) for cloud in clouds
    }
    subjects["policy"] = partial(policies.open_policy, context, opened)
    subjects["report"] = partial(schedule.open_report, context, opened)
    return subjects


def _second_round(context: DoctorContext, clouds: list[str], opened: Opened) -> dict[str, Subject]:
    subjects: dict[str, Subject] = {}
    for cloud in clouds:
        if opened.sessions.get(cloud):
            subjects[f"reading.{cloud}"] = partial(rights.examine_reading, context, cloud, opened)
            subjects[f"metrics.{cloud}"] = partial(rights.examine_metrics, context, cloud, opened)
            subjects[f"acting.{cloud}"] = partial(rights.examine_acting, context, cloud, opened)
            if context.includes_undo:
                subjects[f"undoing.{cloud}"] = partial(rights.examine_undoing, context, cloud, opened)
        subjects[f"clock.{cloud}"] = partial(clocks.examine_clock, context, cloud)
    return subjects | {
        "ledger": partial(stores.examine_ledger, context),
        "manifests": partial(stores.examine_manifests, context),
        "reports": partial(stores.examine_reports, context),
        "runs": partial(stores.examine_runs, context),
        "workflow": partial(rights.examine_workflow, context),
        "pause": partial(pauses.examine_pause, context),
        "channels": partial(channels.examine_channels, context, opened),
        "links": partial(links.examine_links, context),
        "schedule": partial(schedule.examine_schedule, context, opened),
        "policy.rules": partial(policies.examine_rules, context, opened),
        "owners": partial(policies.examine_owners, context, opened),
    }
