"""One mail about several things at once: each is said in the subject as it is, and none hides another."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fakes import mails
from fakes.builders import DAY, NOW, resource, rule
from fakes.sample_findings import finding, occasion, only, report
from reaper.calendars import office_hours
from reaper.case import Coverage
from reaper.finding import Finding, Outcome, Report
from reaper.model import AnnouncedAction, Mode, Result, State, Status, StepName
from reaper.notices import admin_summary
from reaper.notices.message import MAX_SHORT_SUBJECT
from reaper.planning import dates
from reaper.record import Notice

OFFICE = replace(office_hours.parse_hours("mon-fri 07:00-17:00", "UTC"), by_rule=True)
EVENING = NOW.replace(hour=20)
"""Of a Saturday."""
DONE = Outcome(result=Result.DONE)
BEGUN = Outcome(result=Result.FAILED, begun=True)
STOPPED = finding("stopped", move=StepName.STOP, outcome=DONE)
"""Was idle, and is scaled in."""


def _in_hours(name: str, *, force: bool = False, **fields: Any) -> Finding:
    return finding(
        name,
        resource=resource(kind="sagemaker-notebook", id=name, name=name),
        rule=rule(hours=replace(OFFICE, force=force), grace=timedelta(hours=1)),
        acts={StepName.STOP: None, StepName.START: None},
        **{"state": State.ACTIVE, "move": StepName.REMIND, **fields},
    )


def _subject(*findings: Finding) -> str:
    """Of the one mail about them, to an owner who has known of the office hours for three days."""
    enrolled = [
        replace(
            f,
            notice=Notice(
                warned_at=EVENING - 3 * DAY,
                action=AnnouncedAction.HOURS,
                hours=dates.hours_digest(f.case.rule.hours),
                to=f.case.owner.address,
                receipt="r",
            ),
        )
        if f.case.rule.hours and f.step.name is StepName.REMIND
        else f
        for f in findings
    ]
    return only(mails.owner_notices(enrolled, occasion(now=EVENING))).subject


def test_a_stop_in_use_is_not_hidden_by_a_past_stop():
    subject = _subject(STOPPED, _in_hours("lab", force=True))

    assert subject.startswith("1 ML resource will be stopped today from 21:17 UTC, ")
    assert subject.endswith(", even while used; 1 idle ML resource was scaled in, saving $24.00 a day")


def test_a_summary_of_office_hours_is_no_uncertain_action():
    subject = _subject(STOPPED, _in_hours("lab"))

    assert subject == (
        "1 idle ML resource was scaled in, saving $24.00 a day; weekly summary: office hours apply to 1 ML resource"
    )


def test_new_office_hours_precede_what_was_done():
    subject = _subject(STOPPED, _in_hours("lab", force=True, move=StepName.WARN))

    assert subject.startswith("1 ML resource will be stopped outside office hours from ")
    assert subject.endswith("; 1 idle ML resource was scaled in, saving $24.00 a day")


def test_only_an_action_that_began_may_have_been_made():
    begun = finding("begun", move=StepName.STOP, outcome=BEGUN)

    assert _subject(begun, _in_hours("lab")).startswith("1 ML resource may have been scaled in; please check; ")


def test_office_hours_subjects_do_not_say_until_you_stop_it():
    barred = finding("barred", acts={})

    assert _subject(barred, _in_hours("lab", state=State.IDLE)) == (
        "2 idle ML resources cost $96.00 a day; office hours apply to 1"
    )


@pytest.mark.parametrize(
    ("outcome", "ending"),
    [
        pytest.param(DONE, "; 1 was deleted, saving $48.00 a day", id="made"),
        pytest.param(BEGUN, "; 1 may have been deleted, please check", id="perhaps made"),
    ],
)
def test_deletions_are_named_beside_idle_resources(outcome: Outcome, ending: str):
    subject = _subject(finding("idle"), finding("gone", move=StepName.DELETE, outcome=outcome))

    assert subject.startswith("1 idle ML resource costs $48.00 a day; 1 will be scaled in from ")
    assert subject.endswith(ending)


def test_next_to_no_money_makes_a_whole_sentence():
    findings = [finding("a", usd=0.00001), finding("b", usd=None), _in_hours("lab")]

    assert "2 of 3 ML resources are idle, price unknown for 1" in _subject(*findings)


def _enforced(*findings: Finding, coverage: tuple[Coverage, ...] = ()) -> Report:
    plain = report(*findings, coverage=coverage)
    return replace(plain, run=replace(plain.run, mode=Mode.ENFORCE))


def test_failures_are_in_the_part_no_channel_cuts():
    idle = [finding(f"idle-{n}", usd=2.415) for n in range(6)]
    failed = finding("failed", usd=0.5, move=StepName.STOP, outcome=BEGUN)
    listed = Coverage(cloud="aws", account="1", region="us-east-1", kind="sagemaker-notebook", status=Status.OK)
    holes = (listed, replace(listed, kind="sagemaker-endpoint", status=Status.DENIED, error="not allowed"))

    mail = admin_summary.admin_summary(
        replace(report(*idle, failed, coverage=holes), run=replace(report().run, mode=Mode.ENFORCE)), occasion()
    )

    assert mail is not None
    assert "1 failed or unknown; coverage 1 of 2" in mail.subject[:MAX_SHORT_SUBJECT]


def test_a_partly_deleted_resource_counts_as_idle_only():
    part = finding("part", move=StepName.DELETE, outcome=replace(DONE, part_done="1 of 2 variants"))

    mail = admin_summary.admin_summary(_enforced(part), occasion())

    assert mail is not None
    assert "1 resource checked: 1 idle.\n" in mail.text
