"""All that is known of one resource, for the question: why was it, or was it not, called idle, and what comes next?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches
from math import isfinite

from reaper import plan
from reaper.duration import format_duration, policy_duration
from reaper.ledger.port import HistoryEntry
from reaper.model import Blocked, Ceiling, Confidence, Evidence, Finding, Memory, Owner, Report, Role, State, StepName
from reaper.policy import office_hours, rules
from reaper.policy.schema import Policy
from reaper.policy.tags import TAG_PREFIX
from reaper.report.brief import clean_line, place_text
from reaper.report.json import utc_text

MAX_SUGGESTIONS = 3
MAX_HISTORY = 10
"""Entries of the history that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainContext:
    """What there is besides the report: the policy, the memories and histories by resource id, and the moment."""

    policy: Policy
    now: datetime
    memories: Mapping[str, Memory] = field(default_factory=dict)
    histories: Callable[[str], Sequence[HistoryEntry]] = lambda id_: ()


def render(report: Report, wanted: str, known: ExplainContext) -> str | None:
    """The explanation of every resource with that id or name; None when there is none. Ids match case-insensitively."""
    found = matching_findings(report, wanted)
    return "\n".join("\n".join(_explain_finding(f, known)) + "\n" for f in found) if found else None


def near_names(wanted: str, names: Sequence[str]) -> list[str]:
    """The names that may have been meant: spelled alike, or with `wanted` in them, which a table may have cut short."""
    text = wanted.strip().rstrip("….").rpartition("/")[2].lower() if ":" in wanted or wanted.startswith("/") else wanted.lower()
    text = text.strip().rstrip("….")
    by_text = {name.lower(): name for name in names}
    alike = get_close_matches(text, by_text, n=max(1, len(by_text)), cutoff=0.7)
    holding = sorted(key for key in by_text if len(text) > 2 and text in key)
    return [clean_whole(by_text[key]) for key in dict.fromkeys([*alike, *holding])]


def suggestion_text(wanted: str, names: Sequence[str]) -> str:
    """`, did you mean a, b or c, or one of 4 more?`, naming three; empty where nothing comes near."""
    found = near_names(wanted, names)
    more = f", or one of {len(found) - MAX_SUGGESTIONS} more" if len(found) > MAX_SUGGESTIONS else ""
    return f", did you mean {' or '.join(found[:MAX_SUGGESTIONS])}{more}?" if found else ""


def matching_findings(report: Report, wanted: str) -> list[Finding]:
    """The findings of that id or name."""
    return [f for f in report.findings if wanted.lower() == f.case.resource.id.lower() or wanted == f.case.resource.name]


def _explain_finding(finding: Finding, known: ExplainContext) -> Iterator[str]:
    resource, verdict = finding.case.resource, finding.case.verdict
    price = f"${finding.price.usd_per_hour:.4f}/h ({finding.price.source}, {finding.price.as_of})" if finding.price else "unknown"
    yield clean_whole(resource.name)
    yield explain_line("id", clean_whole(resource.id))
    where = place_text(resource.target.account, resource.target.account_name, resource.region)
    yield explain_line(
        "kind",
        f"{resource.kind} in {where}, {clean_line(resource.size) or 'size unknown'}, {clean_line(resource.status) or 'status unknown'}",
    )
    yield explain_line("created", f"{utc_text(resource.created) or 'unknown'}, changed {utc_text(resource.changed) or 'unknown'}")
    yield explain_line("price", price)
    yield from _tag_lines(finding)
    yield from _rule_lines(finding, known)
    for evidence in finding.evidence:
        yield signal_line(evidence)
    sure = f" ({verdict.confidence})" if verdict.confidence else ""
    idle = f", idle for {format_duration(verdict.idle_for)}" if verdict.idle_for else ""
    yield explain_line("verdict", f"{verdict.state}{sure}{idle}: {clean_whole(verdict.because)}")
    yield from _memory_lines(resource.id, known)
    for move, bar in finding.case.blocked.items():
        yield explain_line("kind can", f"{move}{_action_note(finding, move, bar, known)}")
    yield explain_line("next", f"{finding.step.name}: {clean_whole(finding.step.because)}")
    yield from _date_lines(finding, known)
    yield from owner_lines(finding.owner)


def _action_note(finding: Finding, move: StepName, bar: Blocked | None, known: ExplainContext) -> str:
    """What is in the way of a move that its kind can make."""
    if bar:
        return f", but not now: {clean_whole(bar.because)}"
    forbidden = _forbidden_because(finding, move, known)
    return f", but not here: {forbidden}" if forbidden else ": nothing about it is in the way"


def _forbidden_because(finding: Finding, move: StepName, known: ExplainContext) -> str | None:
    """What policy, protection or evidence have against a move that could be made."""
    case, state = finding.case, finding.case.verdict.state
    needed = Ceiling.DELETE if move is StepName.DELETE else Ceiling.STOP
    if case.rule.protected_because:
        return f"it is protected: {clean_whole(case.rule.protected_because)}"
    if case.rule.action.rank < needed.rank:
        return f"the policy allows at most {case.rule.action}"
    if move is StepName.START:
        return None if case.rule.hours else "no office hours start it"
    if plan.is_forced(case, known.now):
        return None
    if state is not State.IDLE:
        return f"it is {state}"
    likely = case.verdict.confidence is Confidence.LIKELY and case.rule.act_on is not Confidence.LIKELY
    return "the evidence is indirect, and no rule says act_on: likely" if likely else None


def _tag_lines(finding: Finding) -> Iterator[str]:
    tags = finding.case.resource.tags
    if tags is None:
        yield explain_line("tags", "could not be read, and a tag may protect it")
        return
    yield explain_line("tags", "none" if not tags else f"{len(tags)} read")
    for key, value in sorted(tags.items(), key=lambda pair: (not pair[0].lower().startswith(TAG_PREFIX), pair[0])):
        yield explain_line("", f"{clean_whole(key)}={clean_whole(value)}")


def _rule_lines(finding: Finding, known: ExplainContext) -> Iterator[str]:
    holds = finding.case.rule
    for name, fits, lacking in rules.explain_matches(known.policy, finding.case.resource, finding.case.usd_per_hour):
        why = {
            True: "matches",
            None: f"may match: {', '.join(lacking)} not known",
            False: f"does not match: {', '.join(lacking)}",
        }[fits]
        yield explain_line("looked at", f"rule {clean_line(name)!r}: {why}")
        if fits:
            break
    yield explain_line(
        "rule",
        f"{clean_line(holds.name)}: at most {holds.action}, idle after {policy_duration(holds.idle_after)}, grace {policy_duration(holds.grace)}",
    )
    for note in holds.notes:
        yield explain_line("", clean_whole(note))
    if holds.hours:
        yield explain_line(
            "hours",
            f"{office_hours.hours_text(holds.hours)} in {holds.hours.tz}, start: {holds.hours.restart}{', force' if holds.hours.force else ''}",
        )
    if holds.protected_because:
        yield explain_line("protected", clean_whole(holds.protected_because))


def owner_lines(of: Owner) -> Iterator[str]:
    """Who is told, and who is said to own it where nobody may be told."""
    yield explain_line("owner", f"{clean_line(of.address or 'nobody')} ({clean_line(of.source, 300)})")
    if of.claimed:
        yield explain_line(
            "",
            f"{clean_line(of.claimed.address)} according to {clean_line(of.claimed.source)}, not in owners.domains: may not be mailed",
        )


def signal_line(seen: Evidence) -> str:
    """What one signal showed."""
    what = ", ".join(_signal_parts(seen)) + ("" if seen.complete else ", INCOMPLETE")
    return explain_line(seen.role, f"{clean_whole(f'{seen.signal} {seen.subject}'.strip())}: {what}")


def _signal_parts(seen: Evidence) -> Iterator[str]:
    """What came of a signal, from which level on it counts, the highest value, and for use the last of it."""
    yield "no points" if not seen.points else f"{seen.points} point{'' if seen.points == 1 else 's'}"
    counts = "busy" if seen.role is Role.ACTIVITY else "alive"
    yield f"{counts} at any value" if seen.busy_above is None else f"{counts} above {seen.busy_above:g}"
    if seen.peak is not None:
        yield f"peak {seen.peak:g}" if isfinite(seen.peak) else "peak not a number"
    if seen.role is Role.ACTIVITY:
        yield f"last busy {utc_text(seen.last_busy)}" if seen.last_busy else "not seen busy"


def _memory_lines(resource_id: str, known: ExplainContext) -> Iterator[str]:
    memory = known.memories.get(resource_id)
    if memory is None:
        yield explain_line("memory", "the ledger knows nothing of it")
        return
    for name, value in (
        ("idle since", utc_text(memory.idle_since)),
        ("warned", _notice_text(memory)),
        ("reminded", utc_text(memory.reminded_at)),
        (
            "kept until",
            f"{utc_text(memory.snoozed_until)} by {clean_line(memory.snoozed_by or '')}" if memory.snoozed_until else None,
        ),
        ("held since", utc_text(memory.held_at)),
        ("last act", f"{memory.last_action} on {utc_text(memory.last_action_at)}" if memory.last_action else None),
        ("manifest", clean_whole(memory.manifest_address) if memory.manifest_address else None),
    ):
        if value:
            yield explain_line("memory", f"{name} {value}")
    for entry in list(known.histories(resource_id))[-MAX_HISTORY:]:
        yield explain_line(
            "history", f"{utc_text(entry.when)} {clean_line(entry.what)} by {clean_whole(entry.by)}: {clean_whole(entry.because)}"
        )


def _notice_text(memory: Memory) -> str | None:
    if memory.warned_at is None:
        return None
    announced = (
        f", announced {memory.announced_action} not before {utc_text(memory.act_not_before)}" if memory.announced_action else ""
    )
    return f"{utc_text(memory.warned_at)}, receipt {clean_whole(memory.notice_receipt or 'none')}{announced}"


def _date_lines(finding: Finding, known: ExplainContext) -> Iterator[str]:
    memory = known.memories.get(finding.case.resource.id, Memory())
    move = plan.strongest_action(finding.case, known.now)
    if move is None:
        return
    due = plan.action_due_at(finding.case, memory, known.now)
    if due is None:
        first = plan.earliest_action_at(finding.case, known.now)
        yield explain_line("date", f"{move} not before {utc_text(first)}, and only once its owner was told of it in mode enforce")
    else:
        wait = f"in {format_duration(due - known.now)}" if due > known.now else "from now on"
        yield explain_line("date", f"{move} not before {utc_text(due)}, {wait}, if it is still idle and nobody keeps it")
    last = max((t for t in (memory.warned_at, memory.reminded_at) if t), default=None)
    if last and finding.step.name is StepName.NONE:
        yield explain_line(
            "date",
            f"the next reminder about {utc_text(last + finding.case.rule.remind_every)}, {_time_left(last, finding, known)}",
        )


def _time_left(last: datetime, finding: Finding, known: ExplainContext) -> str:
    return f"in {format_duration(max(timedelta(), last + finding.case.rule.remind_every - known.now))}"


def clean_whole(value: str) -> str:
    """The text as one harmless line, uncut: ids are for copying, and one that lacks its end names nothing or something else."""
    return clean_line(value, len(value))


def explain_line(name: str, value: str) -> str:
    """A line of the explanation; without a name it goes on with the one before."""
    return f"  {name:<9} {value}"
