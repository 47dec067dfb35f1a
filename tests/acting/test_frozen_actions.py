"""A freeze that begins after an action was decided prevents it at the last look: idle or in use, by hours, or in part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.fake_cloud import ACTS, STARTABLE, FakeResource, FakeSession
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, policy
from reaper.acting.contract import Manifest, Permit
from reaper.calendars.calendar import Calendar
from reaper.calendars.resolve import FreshFreezes, with_calendars
from reaper.finding import Outcome
from reaper.model import Resource, Result, StepName
from reaper.report import summary

CALENDARS = "calendars: {year-end: {dates: [2026-12-24]}}\n"
FROZEN = POLICY.replace("action: stop", "action: stop, freeze: year-end") + CALENDARS
OFFICE = "rules: [{name: office, grace: 1h, hours: {on: 'mon-fri 07:00-19:00', tz: UTC}}]\n"
MONDAY = datetime(2026, 11, 16, 19, 30, tzinfo=UTC)


def frozen_from(deployment: FakeDeployment, start: datetime) -> None:
    """The calendar as the run has read it: a freeze of a month from then on."""
    frozen = Calendar(name="year-end", tz="UTC", stretches=((start, start + 30 * DAY),))
    deployment.policy = deployment.policy.with_calendars({"year-end": frozen})


def idle(text: str = FROZEN, **fields: int) -> FakeDeployment:
    """It was announced three days ago."""
    deployment = FakeDeployment(policy=policy(text))
    frozen_from(deployment, deployment.now + 300 * DAY)
    deployment.cloud.add("churn", **fields)
    deployment.sweep()
    deployment.now += 3 * DAY
    return deployment


def rest() -> FakeDeployment:
    """One of two variants was stopped three days ago."""
    deployment = idle(variants=2)
    deployment.sweep()
    deployment.cloud.log.clear()
    deployment.now += 3 * DAY
    return deployment


def by_hours(force: bool = False) -> FakeDeployment:
    """Its office hours are over, and so is the grace of its enrolment."""
    text = FROZEN + (OFFICE.replace("tz: UTC", "tz: UTC, force: true") if force else OFFICE)
    deployment = FakeDeployment(policy=policy(text), now=MONDAY)
    frozen_from(deployment, MONDAY + 300 * DAY)
    deployment.cloud.kind_name = STARTABLE
    deployment.cloud.add("churn")
    used = lambda: deployment.cloud.things["churn"].uses.append(deployment.now - timedelta(minutes=10)) if force else None  # noqa: E731
    used()
    deployment.sweep()
    deployment.now += HOUR + timedelta(minutes=5)
    used()
    return deployment


@pytest.mark.parametrize(
    "ready",
    [
        pytest.param(idle, id="idle"),
        pytest.param(lambda: idle(FROZEN.replace("action: stop", "action: delete")), id="deleted"),
        pytest.param(rest, id="rest of a stop"),
        pytest.param(by_hours, id="by office hours"),
        pytest.param(lambda: by_hours(force=True), id="in use"),
    ],
)
def test_a_freeze_that_begins_before_the_last_look_prevents_the_action(ready: Callable[[], FakeDeployment]):
    control = ready()
    assert finding_of(control.sweep(), "churn").outcome.result is Result.DONE
    deployment = ready()
    frozen_from(deployment, deployment.now + timedelta(minutes=2))

    def look(call: str, name: str) -> None:
        if call == "look":
            deployment.now = max(deployment.now, control.now + timedelta(minutes=3))

    deployment.cloud.before_call = look
    finding = finding_of(deployment.sweep(), "churn")
    assert finding.step.name in {StepName.STOP, StepName.DELETE}
    assert finding.outcome.result is Result.REFUSED
    assert (finding.outcome.because or "").startswith("frozen by year-end until 2026-12-")
    assert deployment.cloud.log == []


def test_a_stop_that_waited_for_a_freeze_is_carried_out_once_it_is_over():
    deployment = idle()
    frozen_from(deployment, deployment.now - HOUR)
    steps = []
    for _ in range(4):
        steps.append(finding_of(deployment.sweep(), "churn").step.name)
        deployment.now += 7 * DAY
    assert (steps, deployment.cloud.log) == ([StepName.NONE, *[StepName.REMIND] * 3], [])
    deployment.now += 3 * DAY
    assert finding_of(deployment.sweep(), "churn").outcome.result is Result.DONE


def test_nothing_is_carried_out_while_no_run_has_read_the_calendar():
    deployment = idle()
    deployment.policy = deployment.policy.with_calendars({})
    finding = finding_of(deployment.sweep(), "churn")
    assert (finding.step.name, deployment.cloud.log) == (StepName.NONE, [])
    assert finding.step.because == (
        "nothing is stopped or deleted because the freeze calendar 'year-end' can't be read: this run hasn't read it"
    )


def test_a_stop_of_what_is_in_use_counts_among_those_that_wait():
    deployment = by_hours(force=True)
    frozen_from(deployment, deployment.now - timedelta(minutes=1))
    [line] = summary.frozen_lines(deployment.sweep()).values()
    assert line == "Frozen by year-end until 2026-12-16 20:34 UTC. 1 action waits for that."


def due_under_a_file(tmp_path: Path, *names: str) -> FakeDeployment:
    """Things that are due under a policy whose freeze is a file, which has a day in spring."""
    write_freeze(tmp_path, NOW + 150 * DAY)
    text = FROZEN.replace("{dates: [2026-12-24]}", "{ics: year-end.ics, tz: UTC}").replace("max_acts: 1", "max_acts: 9")
    deployment, where = FakeDeployment(policy=policy(text)), str(tmp_path / "policy.yaml")
    deployment.policy = with_calendars(deployment.policy, where, deployment.now)
    deployment.freezes = FreshFreezes(policy=deployment.policy, where=where)
    for name in names:
        deployment.cloud.add(name)
    deployment.sweep()
    deployment.now += 3 * DAY
    return deployment


def write_freeze(tmp_path: Path, day: datetime) -> None:
    start = f"DTSTART;VALUE=DATE:{day:%Y%m%d}"
    (tmp_path / "year-end.ics").write_text(f"BEGIN:VCALENDAR\nBEGIN:VEVENT\n{start}\nEND:VEVENT\nEND:VCALENDAR\n")


@pytest.mark.parametrize(("seconds", "stopped"), [(59, 2), (61, 1)])
def test_freezes_are_read_again_once_they_are_a_minute_old(tmp_path: Path, seconds: int, stopped: int):
    deployment = due_under_a_file(tmp_path, "churn", "fraud")

    def at_work(manifest: Manifest, thing: FakeResource) -> None:
        if not deployment.cloud.log:
            deployment.now += timedelta(seconds=seconds)
            write_freeze(tmp_path, deployment.now)

    deployment.cloud.on_action = at_work
    report = deployment.sweep()
    assert len(deployment.cloud.log) == stopped
    because = [f.outcome.because or "" for f in report.findings if f.outcome.result is Result.REFUSED]
    assert [text[:20] for text in because] == ["frozen by year-end u"] * (2 - stopped)


def test_freezes_are_read_again_after_a_wait(tmp_path: Path):
    deployment = due_under_a_file(tmp_path, "churn")

    def waiting(session: FakeSession, resource: Resource, manifest: Manifest, permit: Permit) -> Outcome:
        deployment.now += timedelta(seconds=30)
        write_freeze(tmp_path, deployment.now)
        permit.after_wait()
        return ACTS.perform(session, resource, manifest, permit)

    deployment.acts = replace(ACTS, perform=waiting)
    finding = finding_of(deployment.sweep(), "churn")
    assert (finding.outcome.result, (finding.outcome.because or "")[:17]) == (Result.REFUSED, "frozen by year-en")
    assert deployment.cloud.log == []
