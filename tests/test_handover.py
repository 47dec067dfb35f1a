from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from fakes.builders import DAY, HOUR, NOW, TARGET, resource, rule
from fakes.records import an_act
from reaper import handover, registry
from reaper.aws.kinds.sagemaker_endpoint.description import EndpointDetails, ScaleInPlan
from reaper.calendars.office_hours import Hours
from reaper.case import Blocked, Case, Coverage, Evidence, Owner, Price
from reaper.errors import CloudError
from reaper.evidence import summarize
from reaper.finding import Finding, Outcome, Step
from reaper.handover import Acted, Decided, Observed
from reaper.model import BilledPart, Confidence, Mode, Resource, Result, Role, Run, State, Status, StepName, Verdict
from reaper.observation import Reading, Series
from reaper.pending.unfinished import Unfinished
from reaper.record import Notice, SideChange, Snooze, Snoozes

RUN = Run(id="run-1", started_at=NOW, mode=Mode.ENFORCE, version="1", policy_sha256="0" * 64)
VERDICT = Verdict(
    state=State.IDLE, because="silent", idle_for=9 * DAY + timedelta(microseconds=7), last_busy=NOW - 9 * DAY, confidence=Confidence.PROVEN
)  # fmt: skip
EVIDENCE = Evidence(
    signal="Busy heartbeat", subject="", role=Role.HEARTBEAT, points=3, last_busy=None, peak=0.1, complete=True, slots=(0, 1), busy_above=None,
    seen_at=NOW - DAY,
)  # fmt: skip
ACT = an_act(at=NOW, run="r0", result=Result.FAILED, because="unknown", changes=(SideChange(what="m", before=2, ours=0),))


def full_case() -> Case:
    """A case with a value in every field."""
    hours = Hours(days=frozenset({0, 4}), start=420, end=1260, tz="Europe/Berlin", force=True)
    return Case(
        resource=resource(
            changed=NOW - DAY,
            size="ml.g5.xlarge x2",
            parts=(BilledPart(component="Hosting", instance="ml.g5.xlarge", count=0.1),),
            tags={"team": "web"},
            details=EndpointDetails(
                copies={"inner": 2, "other": None},
                scale_in=ScaleInPlan(instances_by_variant={"main": 1}),
                parts_after_stop=(BilledPart(component="Hosting", instance="ml.g5.xlarge", count=0.1),),
                unrestorable=Blocked(because="its model is gone"),
            ),
        ),
        rule=rule(hours=hours, notes=("a note",)),
        verdict=VERDICT,
        usd_per_hour=0.1 + 0.2,
        owner=Owner(address="jo@example.com", source="tag owner"),
        price=Price(usd_per_hour=0.1 + 0.2, source="snapshot", as_of="2026-09-24"),
        evidence=(EVIDENCE,),
        blocked={StepName.STOP: None, StepName.DELETE: Blocked(because="it is updating")},
        saves_usd_per_hour={StepName.STOP: 0.3},
    )


ROW = Coverage(cloud="aws", account="1", region=None, kind="k", status=Status.PARTIAL, calls={"a:B": 2}, error="late")


def test_observed_reads_back_as_it_was_dumped():
    observed = Observed(run=RUN, targets=(TARGET,), coverage=(ROW,), cases=(full_case(),))
    assert handover.load_observed(handover.dump(observed)) == observed


def test_decided_reads_back_as_it_was_dumped():
    finding = Finding(
        case=full_case(),
        judged=Verdict(state=State.EXEMPT, because="snoozed"),
        idle_since=NOW - 9 * DAY,
        idle_for=9 * DAY,
        wasted_usd=12.34,
        notice=Notice(warned_at=NOW - DAY, to="jo@example.com"),
        due_at=NOW + DAY,
        step=Step(name=StepName.HOLD, because="too many"),
        record_version=3,
        snoozes=Snoozes(own=Snooze(until=NOW, at=NOW)).protections,
        needs_summary=True,
        on_hold_since=(NOW - DAY, NOW),
    )
    unreported = Unfinished(target=TARGET, act=ACT)
    decided = Decided(
        run=RUN,
        decided_at=NOW,
        leased=(TARGET,),
        findings=(finding,),
        unreported=(unreported,),
        unusual=(("aws/1/us-east-1", "k"),),
        coverage=(ROW,),
    )
    assert handover.load_decided(handover.dump(decided)) == decided


def test_acted_reads_back_as_it_was_dumped():
    outcome = Outcome(result=Result.DONE, because="done", begun=True, part_done="1 of 2 variants")
    acted = Acted(run=RUN, target=TARGET, outcomes={"a": outcome}, calls={"k": {"a:B": 1}}, coverage=(ROW,))
    assert handover.load_acted(handover.dump(acted)) == acted


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What only one kind needs, with another resource in it."""

    copies: int
    siblings: tuple[Resource, ...] = ()


def test_details_are_read_as_their_kinds_own_type(monkeypatch: pytest.MonkeyPatch):
    known = registry.kind("sagemaker-endpoint")
    monkeypatch.setattr(registry, "find_kind", lambda name: replace(known, details=Details))
    sibling = resource(name="sibling", details=Details(copies=1))
    detailed = resource(details=Details(copies=2, siblings=(sibling,)))
    case = replace(full_case(), resource=detailed)
    observed = Observed(run=RUN, targets=(), coverage=(), cases=(case,))
    assert handover.load_observed(handover.dump(observed)) == observed


def test_a_level_that_counts_any_value_crosses_as_null():
    reading = Reading(
        signal="Busy heartbeat",
        role=Role.HEARTBEAT,
        series=Series(start=NOW - HOUR, step=HOUR, values=[1.0]),
        busy_above=-math.inf,
    )
    case = replace(full_case(), evidence=(summarize(reading),))
    text = handover.dump(Observed(run=RUN, targets=(), coverage=(), cases=(case,)))
    [evidence] = json.loads(text)["cases"][0]["evidence"]
    assert evidence["busy_above"] is None
    assert "Infinity" not in text


def test_for_target_keeps_only_the_decisions_of_that_target():
    first, second = full_case(), replace(full_case(), resource=resource(target=replace(TARGET, region="eu-west-1")))
    step = Step(name=StepName.STOP, because="due")
    findings = tuple(Finding(case=case, step=step) for case in (first, second))
    decided = Decided(run=RUN, decided_at=NOW, leased=(TARGET,), findings=findings)
    assert decided.for_target(TARGET).findings == findings[:1]
    other = decided.for_target(second.resource.target)
    assert (other.findings, other.leased) == (findings[1:], ())


@pytest.mark.parametrize("text", ["", "[]", '{"run": 1}', "[" * 99_999])
def test_a_text_that_is_no_observed_part_is_refused(text: str):
    with pytest.raises(CloudError, match=r"^workflow: the part can't be read"):
        handover.load_observed(text)


@pytest.mark.parametrize(
    ("written", "forged"),
    [
        pytest.param('"run":{', '"mood":"good","run":{', id="an unknown key"),
        pytest.param('"run":{', '"run":{"mood":"good",', id="an unknown key inside"),
        pytest.param('"started_at":"2026-11-21T10:17:00Z"', '"started_at":"2026-11-21T10:17:00"', id="a time without a zone"),
        pytest.param('"started_at":"2026-11-21T10:17:00Z"', '"started_at":1764000000', id="a number for a time"),
        pytest.param('"usd_per_hour":0.30000000000000004,"owner"', '"usd_per_hour":"0.3","owner"', id="a text for a number"),
        pytest.param('"metrics":0', '"metrics":"0"', id="a text for a count"),
        pytest.param('"metrics":0', '"metrics":true', id="a truth for a count"),
        pytest.param('"notes":["a note"]', '"notes":"a note"', id="a text for a list"),
        pytest.param('"copies":{', '"copies":[],"other":{', id="details of another kind"),
    ],
)
def test_a_part_with_an_odd_value_is_refused(written: str, forged: str):
    text = handover.dump(Observed(run=RUN, targets=(TARGET,), coverage=(ROW,), cases=(full_case(),)))
    assert written in text
    with pytest.raises(CloudError, match=r"^workflow: the part can't be read"):
        handover.load_observed(text.replace(written, forged, 1))
