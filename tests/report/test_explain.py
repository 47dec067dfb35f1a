"""`reaper explain` in words a person can act on: whole ids, no half-true permissions, no numbers that are none."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from math import inf
from typing import Any

import pytest

from fakes.builders import DAY, NOW, resource, rule
from fakes.records import a_record
from fakes.sample_findings import finding, report
from reaper import registry
from reaper.calendars import office_hours
from reaper.case import Blocked, Evidence
from reaper.finding import Finding, Step
from reaper.model import Ceiling, Confidence, NextAction, Role, State, StepName
from reaper.policy.parse import parse_policy
from reaper.record import ManifestReference, Record
from reaper.report import json as plain
from reaper.report.explain import ExplainContext, render, render_saved

POLICY = parse_policy("version: 1", "policy.yaml", registry.kind_names())


def explained(findings: Finding, record: Record | None = None) -> str:
    id_ = findings.case.resource.id
    explanation = render(report(findings), id_, ExplainContext(policy=POLICY, now=NOW, records={id_: record} if record else {}))
    assert explanation is not None
    return explanation


def signal(**overrides: Any) -> Evidence:
    fields = {"signal": "Invocations", "subject": "", "role": Role.ACTIVITY, "points": 0, "last_busy": None, "peak": None}
    return Evidence(**{**fields, "complete": True, **overrides})


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (signal(), "activity  Invocations: no points, busy above 0, never busy in the window"),
        (signal(points=1, peak=0.5, last_busy=NOW), "1 point, busy above 0, peak 0.5, last busy 2026-"),
        (signal(role=Role.HEARTBEAT, points=9, peak=3.0, busy_above=None), "9 points, alive at any value, peak 3\n"),
        (signal(points=2, peak=inf, complete=False), "2 points, busy above 0, never busy in the window, INCOMPLETE"),
    ],
)
def test_a_signal_is_explained_without_none_or_inf(observation: Evidence, message: str):
    explanation = explained(finding(evidence=(observation,)))
    assert message in explanation
    assert "None" not in explanation
    assert "inf" not in explanation.lower().replace("inference", "")


def test_ids_reasons_and_manifests_are_never_cut():
    id_, end = f"/subscriptions/{'x' * 300}/deployments/blue", "w" * 300 + " the end"
    item = finding(resource=resource(id=id_, name="n" * 200), because=end, step=Step(name=StepName.NONE, because=end))
    explanation = explained(
        item, a_record(idle_since=NOW, acted=StepName.STOP, manifest=ManifestReference(address=f"{'m' * 300}.json", sha256="0"))
    )
    assert f"id        {id_}\n" in explanation
    assert explanation.startswith("n" * 200 + "\n")
    assert explanation.count(end) == 2
    assert f"{'m' * 300}.json" in explanation
    assert "..." not in explanation
    assert "…" not in explanation


def test_an_id_with_control_marks_is_one_harmless_line():
    explanation = explained(finding(resource=resource(id="arn:a\nb\u202ec", name="n")))
    assert "id        arn:a b c\n" in explanation


HOURS = office_hours.parse_hours("mon-fri 07:00-21:00", "Europe/Berlin")


@pytest.mark.parametrize(
    ("fields", "stop", "delete"),
    [
        pytest.param({"rule": rule(action=Ceiling.DELETE)}, ", possible now", ", possible now", id="both"),
        pytest.param(
            {"rule": rule(action=Ceiling.STOP)},
            ", possible now",
            ", not allowed because the policy allows at most stop",
            id="stop",
        ),
        pytest.param(
            {"rule": rule(action=Ceiling.NOTIFY)},
            ", not allowed because the policy allows at most notify",
            ", not allowed because the policy allows at most notify",
            id="notify",
        ),
        pytest.param(
            {"rule": rule(action=Ceiling.DELETE, protected_because="kept by tag reaper:keep='true'"), "state": State.EXEMPT},
            ", not allowed because it is protected: kept by tag",
            ", not allowed because it is protected: kept by tag",
            id="kept",
        ),
        pytest.param(
            {"rule": rule(action=Ceiling.DELETE), "state": State.UNKNOWN},
            ", not allowed because it is unknown",
            ", not allowed because it is unknown",
            id="unknown",
        ),
        pytest.param(
            {"rule": rule(action=Ceiling.STOP), "confidence": Confidence.LIKELY},
            ", not allowed because the evidence is indirect",
            ", not allowed because the policy allows at most stop",
            id="likely",
        ),
        pytest.param(
            {
                "rule": rule(action=Ceiling.DELETE),
                "acts": {StepName.STOP: Blocked(because="its status is Updating"), StepName.DELETE: None},
            },
            ", blocked because its status is Updating",
            ", possible now",
            id="barred",
        ),
        pytest.param(
            {"rule": rule(action=Ceiling.DELETE, waits_because="the freeze calendar 'c' can't be read: no such file")},
            ", not allowed because nothing is stopped or deleted because the freeze calendar 'c' can't be read",
            ", not allowed because nothing is stopped or deleted because the freeze calendar 'c' can't be read",
            id="frozen",
        ),
    ],
)
def test_a_forbidden_action_is_not_called_possible(fields: dict[str, Any], stop: str, delete: str):
    explanation = explained(finding(**fields))
    assert f"kind can  stop{stop}" in explanation
    assert f"kind can  delete{delete}" in explanation


def test_a_rule_with_then_explains_when_it_deletes():
    done = Blocked(because="it already runs no more than one instance per variant", already_done=True)

    def text(stop: Blocked | None) -> str:
        item = finding(rule=rule(delete_after=14 * DAY), acts={StepName.STOP: stop, StepName.DELETE: None})
        return explained(replace(item, case=replace(item.case, stop_leaves_cost=True)))

    assert "rule      test: at most stop, idle after 1d, grace 3d, then delete after 2w\n" in text(None)
    assert "delete, not allowed because its rule's then deletes only what still costs money after a stop\n" in text(None)
    assert "kind can  delete, possible now\n" in text(done)


def test_a_start_needs_office_hours():
    acts = {StepName.START: None}
    assert "kind can  start, not allowed because it has no office hours that start it" in explained(finding(acts=acts))
    with_hours = rule(action=Ceiling.STOP, hours=HOURS)
    assert "kind can  start, possible now" in explained(finding(acts=acts, rule=with_hours))


@pytest.mark.parametrize(
    ("at", "because", "line"),
    [
        (
            NOW + DAY,
            "notice first, grace 1 day",
            "stop on or after 2026-11-22T10:17:00Z, saves $1.00 an hour (notice first, grace 1 day)",
        ),
        (None, "its status is Updating", "stop, blocked because its status is Updating"),
    ],
)
def test_live_and_saved_explanations_say_the_same_of_what_comes_next(at: datetime | None, because: str, line: str):
    coming = NextAction(step=StepName.STOP, at=at, saves_usd_per_hour=1.0, blocked_because=because)
    one = report(finding(next=coming))
    saved = plain.parse_report(plain.render(one), "it")
    assert f"next      {line}\n" in explained(one.findings[0])
    assert f"next      {line}\n" in (render_saved(saved, "churn") or "")


def test_the_coming_stop_precedes_the_reminder():
    record = a_record(
        idle_since=NOW - 9 * DAY,
        seen_idle_at=NOW,
        warned_at=NOW - DAY / 12,
        announced=StepName.STOP,
        not_before=NOW + 3 * DAY,
        receipt="r",
    )
    coming = NextAction(step=StepName.STOP, at=NOW + 3 * DAY, saves_usd_per_hour=1.0, blocked_because=None)
    explanation = explained(finding(move=StepName.NONE, rule=rule(action=Ceiling.STOP), next=coming), record)
    assert "next      stop on or after 2026-11-24T10:17:00Z, saves $1.00 an hour\n" in explanation
    assert explanation.index("stop on or after 2026-11-24T10:17:00Z") < explanation.index("next reminder around")


def test_reminders_and_their_escalation_are_explained():
    record = a_record(
        warned_at=NOW - 14 * DAY, reminded_at=NOW, reminders=2, escalated_at=NOW, escalated_to=("admins", "lee@example.com")
    )
    explanation = explained(finding(), record)
    assert "memory    reminded 2026-11-21T10:17:00Z\n" in explanation
    assert "memory    reminders since the notice: 2\n" in explanation
    assert "memory    escalated 2026-11-21T10:17:00Z to admins lee@example.com\n" in explanation
