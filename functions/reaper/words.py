"""Words for actions and times that plans, mails and reports share: lower case, without a full stop. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from reaper.calendars.freezes import freeze_at
from reaper.case import Case
from reaper.duration import format_duration
from reaper.model import Resource, Rule, StepName, is_native
from reaper.text import count_noun

PARTICIPLES = {StepName.STOP: "stopped", StepName.DELETE: "deleted", StepName.START: "started"}
"""The participle of an action if the kind has none of its own."""


def plain_participle(resource: Resource, action: StepName) -> str:
    """Completes `it was ...`, without the words of its kind."""
    return "switched to its own idle shutdown" if is_native(resource, action) else PARTICIPLES.get(action, action.value)


def notice_length(case: Case, action: StepName) -> timedelta:
    """How long before the action its owner is notified: the grace, or of a delete by `then` its `after`."""
    return (action is StepName.DELETE and case.rule.delete_after) or case.rule.grace


def grace_words(rule: Rule) -> str:
    """`3 days`, or `2 business days (germany)`."""
    days = rule.business_days
    return f"{count_noun(days.count, 'business day')} ({days.calendar})" if days else format_duration(rule.grace)


def frozen_because(rule: Rule, now: datetime) -> str | None:
    """Why nothing is stopped or deleted under the rule now: a freeze, or a calendar that can't be read."""
    if rule.waits_because:
        return f"nothing is stopped or deleted because {rule.waits_because}"
    freeze = freeze_at(rule.freezes, now)
    return f"frozen by {freeze.calendar} until {freeze.end.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if freeze else None


def ago_text(when: datetime, now: datetime) -> str:
    """`2 days ago`."""
    length = max(now - when, timedelta())  # the other clock may be a little ahead
    return f"{format_duration(length)} ago"
