"""Explains one resource: why its verdict is idle or not, what happens next, and everything this is based on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches
from math import isfinite
from typing import Any

from reaper import lookup
from reaper.case import Blocked, Evidence, Finding, Owner, Price, Report
from reaper.duration import format_duration, policy_duration
from reaper.ledger.rows import HistoryEntry
from reaper.model import Ceiling, Confidence, Memory, Role, State, StepName
from reaper.planning import dates, possible_actions
from reaper.policy import office_hours, rules
from reaper.policy.schema import Policy
from reaper.policy.tags import TAG_PREFIX
from reaper.report.coverage_map import place_text
from reaper.report.json import utc_text
from reaper.text import DOLLARS, Currency, clean_line, format_usd

MAX_SUGGESTIONS = 3
MAX_HISTORY = 10
"""Entries of the history that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainContext:
    """What is needed besides the report: the policy, the memories and histories by resource ID, and the time."""

    policy: Policy
    now: datetime
    memories: Mapping[str, Memory] = field(default_factory=dict)
    histories: Callable[[str], Sequence[HistoryEntry]] = lambda resource_id: ()


def render(report: Report, wanted: str, known: ExplainContext) -> str | None:
    """The explanation of every resource with that ID or name, or the only one with such a part; None if there is none."""
    findings = matching_findings(report, wanted)
    return "\n".join("\n".join(_explain_finding(f, known)) + "\n" for f in findings) if findings else None


def near_names(wanted: str, names: Sequence[str]) -> list[str]:
    """The names that may have been meant: similar ones, and those that contain `wanted`, since a table may have cut it."""
    text = wanted.lower().strip().rstrip("….")
    text = (text.rpartition("/")[2] if ":" in wanted or wanted.startswith("/") else text).strip()
    by_text = {name.lower(): name for name in names}
    similar = get_close_matches(text, by_text, n=max(1, len(by_text)), cutoff=0.7)
    containing = sorted(key for key in by_text if len(text) > 2 and text in key)
    return [clean_whole(by_text[key]) for key in dict.fromkeys([*similar, *containing])]


def suggestion_text(wanted: str, names: Sequence[str]) -> str:
    """`; did you mean a or b or c, or one of 4 more?`; empty if no name is similar."""
    near = near_names(wanted, names)
    more = f", or one of {len(near) - MAX_SUGGESTIONS} more" if len(near) > MAX_SUGGESTIONS else ""
    return f"; did you mean {' or '.join(near[:MAX_SUGGESTIONS])}{more}?" if near else ""


def matching_findings(report: Report, wanted: str) -> list[Finding]:
    """The findings with that ID or name, or the only one with such a part."""
    ids = explained_ids(wanted, {f.case.resource.id: f.case.resource.name for f in report.findings})
    return [f for f in report.findings if f.case.resource.id in ids]


def explained_ids(wanted: str, names: Mapping[str, str]) -> list[str]:
    """The IDs with that ID or name; of those that only contain it, the one if there is one. `names`: by ID."""
    ids = lookup.find_ids(wanted, names)
    is_whole = lookup.is_id(wanted) or any(names[known] == wanted for known in ids)
    return ids if is_whole or len(ids) == 1 else []


def _explain_finding(finding: Finding, known: ExplainContext) -> Iterator[str]:
    resource, verdict = finding.case.resource, finding.case.verdict
    yield clean_whole(resource.name)
    yield explain_line("id", clean_whole(resource.id))
    where = place_text(resource.target.account, resource.target.account_name, resource.region)
    size, status = clean_line(resource.size) or "size unknown", clean_line(resource.status) or "status unknown"
    yield explain_line("kind", f"{resource.kind} in {where}, {size}, {status}")
    yield from origin_lines(resource.created, resource.changed, finding.price or finding.host_share, known.policy.prices.shown_in)
    yield from tag_lines(resource.tags, lambda key: (not key.lower().startswith(TAG_PREFIX), key))
    yield from _rule_lines(finding, known)
    yield from map(signal_line, finding.evidence)
    yield verdict_line(verdict.state, verdict.confidence, verdict.idle_for, verdict.because)
    yield from _memory_lines(resource.id, known)
    for action, blocked in finding.case.blocked.items():
        yield explain_line("kind can", f"{action}{_action_note(finding, action, blocked, known)}")
    yield explain_line("next", f"{finding.step.name}: {clean_whole(finding.step.because)}")
    yield from _date_lines(finding, known)
    yield from owner_lines(finding.owner)


def _action_note(finding: Finding, action: StepName, blocked: Blocked | None, known: ExplainContext) -> str:
    """What prevents an action that the kind supports."""
    if blocked:
        return f", blocked because {clean_whole(blocked.because)}"
    forbidden = _forbidden_because(finding, action, known)
    return f", not allowed because {forbidden}" if forbidden else ", possible now"


def _forbidden_because(finding: Finding, action: StepName, known: ExplainContext) -> str | None:
    """Why policy, protection or evidence don't allow an action that would be possible; None if they do."""
    case, state = finding.case, finding.case.verdict.state
    needed = Ceiling.DELETE if action is StepName.DELETE else Ceiling.STOP
    if case.rule.protected_because:
        return f"it is protected: {clean_whole(case.rule.protected_because)}"
    if case.rule.action.rank < needed.rank:
        return f"the policy allows at most {case.rule.action}"
    if action is StepName.START:
        return None if case.rule.hours else "it has no office hours that start it"
    if possible_actions.is_forced(case, known.now):
        return None
    if state is not State.IDLE:
        return f"it is {state}"
    likely = case.verdict.confidence is Confidence.LIKELY and case.rule.act_on is not Confidence.LIKELY
    return "the evidence is indirect and its rule doesn't set act_on: likely" if likely else None


def _rule_lines(finding: Finding, known: ExplainContext) -> Iterator[str]:
    rule = finding.case.rule
    for name, fits, lacking in rules.explain_matches(known.policy, finding.case.resource, finding.case.usd_per_hour):
        names = ", ".join(lacking)
        why = {True: "matches", None: f"may match: {names} unknown", False: f"doesn't match: {names}"}[fits]
        yield explain_line("checked", f"rule {clean_line(name)!r}: {why}")
        if fits:
            break
    terms = f"at most {rule.action}, idle after {policy_duration(rule.idle_after)}, grace {policy_duration(rule.grace)}"
    yield from rule_lines(clean_line(rule.name), terms, rule.notes)
    if rule.hours:
        yield hours_line(office_hours.hours_text(rule.hours), rule.hours.tz, rule.hours.restart, force=rule.hours.force)
    if rule.protected_because:
        yield explain_line("protected", clean_whole(rule.protected_because))


def rule_lines(name: str, terms: str | None, notes: Iterable[str]) -> Iterator[str]:
    """The rule that applies, with its terms if they are known, and the notes on it."""
    yield explain_line("rule", f"{name}: {clean_whole(terms)}" if terms else name)
    yield from (explain_line("", clean_whole(note)) for note in notes)


def hours_line(on: str, tz: str, restart: str, *, force: bool) -> str:
    """Its office hours."""
    return explain_line("hours", clean_whole(f"{on} in {tz}, start: {restart}{', force' if force else ''}"))


def origin_lines(
    created: datetime | None, changed: datetime | None, price: Price | None, currency: Currency = DOLLARS
) -> Iterator[str]:
    """When it was created and changed, and its price, or its share of its host's, with the source."""
    yield explain_line("created", f"{utc_text(created) or 'unknown'}, changed {utc_text(changed) or 'unknown'}")
    source = f"{clean_whole(price.source)}, {clean_whole(price.as_of)}" if price else ""
    yield explain_line("price", f"{format_usd(price.usd_per_hour, 4, currency)}/hour ({source})" if price else "unknown")


def tag_lines(tags: Mapping[str, str] | None, order: Callable[[str], Any]) -> Iterator[str]:
    """The tags, or that they couldn't be read."""
    if tags is None:
        yield explain_line("tags", "couldn't be read; a tag may protect it")
        return
    yield explain_line("tags", f"{len(tags)} read" if tags else "none")
    yield from (explain_line("", f"{clean_whole(key)}={clean_whole(tags[key])}") for key in sorted(tags, key=order))


def verdict_line(state: str, confidence: str | None, idle_for: timedelta | None, because: str) -> str:
    """The verdict and its reason."""
    sure = f" ({clean_whole(confidence)})" if confidence else ""
    idle = f", idle for {format_duration(idle_for)}" if idle_for else ""
    return explain_line("verdict", f"{clean_whole(state)}{sure}{idle}: {clean_whole(because)}")


def owner_lines(owner: Owner) -> Iterator[str]:
    """The address for notices, and an owner that a tag claims but that may not be mailed."""
    yield explain_line("owner", f"{clean_line(owner.address or 'none')} ({clean_line(owner.source, 300)})")
    if owner.claimed:
        claimed = f"{clean_line(owner.claimed.address)} according to {clean_line(owner.claimed.source)}"
        yield explain_line("", f"{claimed}, not in owners.domains: may not be mailed")


def signal_line(evidence: Evidence) -> str:
    """One signal."""
    parts = ", ".join(_signal_parts(evidence)) + ("" if evidence.complete else ", INCOMPLETE")
    return explain_line(evidence.role, f"{clean_whole(f'{evidence.signal} {evidence.subject}'.strip())}: {parts}")


def _signal_parts(evidence: Evidence) -> Iterator[str]:
    """Its points, the level above which they count, the peak, and for an activity signal when it was last busy."""
    yield "no points" if not evidence.points else f"{evidence.points} point{'' if evidence.points == 1 else 's'}"
    counts = "busy" if evidence.role is Role.ACTIVITY else "alive"
    yield f"{counts} at any value" if evidence.busy_above is None else f"{counts} above {evidence.busy_above:g}"
    if evidence.peak is not None:
        yield f"peak {evidence.peak:g}" if isfinite(evidence.peak) else "peak not a number"
    if evidence.role is Role.ACTIVITY:
        yield f"last busy {utc_text(evidence.last_busy)}" if evidence.last_busy else "never busy in the window"


def _memory_lines(resource_id: str, known: ExplainContext) -> Iterator[str]:
    memory = known.memories.get(resource_id)
    if memory is None:
        yield explain_line("memory", "no ledger record")
        return
    snoozed = f"{utc_text(memory.snoozed_until)} by {clean_line(memory.snoozed_by or '')}" if memory.snoozed_until else None
    for name, value in (
        ("idle since", utc_text(memory.idle_since)),
        ("notified", _notice_text(memory)),
        ("reminded", utc_text(memory.reminded_at)),
        ("snoozed until", snoozed),
        ("not theirs,", f"says {clean_line(memory.disowned_by)}, {utc_text(memory.disowned_at)}" if memory.disowned_by else None),
        ("last action", f"{memory.last_action} on {utc_text(memory.last_action_at)}" if memory.last_action else None),
        ("manifest", clean_whole(memory.manifest_address) if memory.manifest_address else None),
    ):
        if value:
            yield explain_line("memory", f"{name} {value}")
    for entry in known.histories(resource_id):
        what = f"{clean_line(entry.what)} by {clean_whole(entry.by)}: {clean_whole(entry.because)}"
        yield explain_line("history", f"{utc_text(entry.when)} {what}")


def _notice_text(memory: Memory) -> str | None:
    if memory.warned_at is None:
        return None
    sent = f"{utc_text(memory.warned_at)}, receipt {clean_whole(memory.notice_receipt or 'none')}"
    date = f"{memory.announced_action} on or after {utc_text(memory.act_not_before)}"
    return f"{sent}, announced {date}" if memory.announced_action else sent


def _date_lines(finding: Finding, known: ExplainContext) -> Iterator[str]:
    memory = known.memories.get(finding.case.resource.id, Memory())
    action = possible_actions.strongest_action(finding.case, known.now)
    if action is None:
        return
    due = dates.action_due_at(finding.case, memory, known.now)
    if due is None:
        first = dates.earliest_action_at(finding.case, known.now)
        yield explain_line("date", f"{action} on or after {utc_text(first)}, only after a notice in enforce mode")
    else:
        wait = f"in {format_duration(due - known.now)}" if due > known.now else "from now on"
        yield explain_line("date", f"{action} on or after {utc_text(due)}, {wait}, if it is still idle and not kept")
    last = max((t for t in (memory.warned_at, memory.reminded_at) if t), default=None)
    if last and finding.step.name is StepName.NONE:
        reminder = last + finding.case.rule.remind_every
        wait = format_duration(max(timedelta(), reminder - known.now))
        yield explain_line("date", f"next reminder around {utc_text(reminder)}, in {wait}")


def clean_whole(value: str) -> str:
    """The text as one harmless line, uncut: IDs are for copying, and one that lacks its end names nothing or something else."""
    return clean_line(value, len(value))


def explain_line(name: str, value: str) -> str:
    """A line of the explanation; without a name it continues the one before."""
    return f"  {name:<9} {value}"
