"""Explains one resource: why its verdict is idle or not, what happens next, and everything this is based on.

A live report is explained by the rows that are saved, as a saved one is. Only what no report has comes from the policy, the ledger and the finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches

from reaper.calendars import office_hours
from reaper.case import Evidence, frozen_because, wanted_actions
from reaper.duration import format_duration
from reaper.finding import Finding, FinishedRun, Report
from reaper.ledger.rows import HistoryEntry
from reaper.model import Ceiling, Confidence, NextAction, Role, State, StepName
from reaper.pending import lookup
from reaper.policy import rules
from reaper.policy.schema import Policy
from reaper.policy.tags import TAG_PREFIX
from reaper.record import NO_RECORD, NO_SNOOZES, Notice, Record, Snooze, last_notice_at
from reaper.report.coverage_map import place_text
from reaper.report.json import FindingRow, ReportDocument, RunRow, finding_row, utc_text
from reaper.text import Currency, clean_line, format_usd

Lines = Iterator[tuple[str, str]]
"""The names and values of lines."""
MAX_SUGGESTIONS = 3
MAX_FREEZES = 5
MAX_HISTORY = 10
"""Entries of the history that are shown."""
MEMORY_NAMES = {"idle_since": "idle since", "warned_at": "notified", "snoozed_until": "snoozed until"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainContext:
    """What is needed besides the report: the policy, the records, snoozes and histories by resource ID, and the time."""

    policy: Policy
    now: datetime
    records: Mapping[str, Record] = field(default_factory=dict)
    snoozes: Mapping[str, Snooze] = field(default_factory=dict)
    histories: Callable[[str], Sequence[HistoryEntry]] = lambda resource_id: ()


def render(report: Report, wanted: str, known: ExplainContext) -> str | None:
    """The explanation of every resource with that ID or name, or the only one with such a part; None if there is none."""
    now, findings = report.run.finished_at, matching_findings(report, wanted)
    return "\n".join(_text(finding_row(f, now), report.run, (f, known)) for f in findings) or None


def render_saved(report: ReportDocument, wanted: str) -> str | None:
    """The same from a saved report. What isn't in it (what the kind can do, the history) is left out."""
    ids = explained_ids(wanted, {row.id: row.name for row in report.findings})
    return "\n".join(_text(row, report.run) for row in report.findings if row.id in ids) or None


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


def _text(row: FindingRow, run: RunRow | FinishedRun, live: tuple[Finding, ExplainContext] | None = None) -> str:
    """Its name and the lines about it. A line without a name continues the one before. `live`: what isn't in a report about it."""
    lines = (f"  {name:<9} {clean_whole(value)}\n" for name, value in _lines(row, run, live))
    return "".join([f"{clean_whole(row.name)}\n", *lines])


def _lines(row: FindingRow, run: RunRow | FinishedRun, live: tuple[Finding, ExplainContext] | None) -> Lines:
    yield "id", row.id
    if live is None:
        yield "report", f"run {run.id} of {utc_text(run.started_at)}, mode {run.mode}"
    where = place_text(row.account, row.account_name, row.region)
    yield "kind", f"{row.kind} in {where}, {row.size or 'size unknown'}, {row.status or 'status unknown'}"
    yield "created", f"{utc_text(row.created) or 'unknown'}, changed {utc_text(row.changed) or 'unknown'}"
    yield "price", _price_text(row, run.currency)
    yield from _tag_lines(row.tags)
    if live:
        yield from _checked_lines(*live)
    yield from _rule_lines(row, run.started_at)
    if live and (protected := live[0].case.rule.protected_because):
        yield "protected", protected
    for signal in row.evidence:
        parts = ", ".join(_signal_parts(signal)) + ("" if signal.complete else ", INCOMPLETE")
        yield signal.role, f"{f'{signal.signal} {signal.subject}'.strip()}: {parts}"
    sure, idle_for = f" ({row.confidence})" if row.confidence else "", timedelta(seconds=row.idle_for_s or 0)
    idle = f", idle for {format_duration(idle_for)}" if idle_for else ""
    yield "verdict", f"{row.state}{sure}{idle}: {row.because}"
    if row.memory is None and not live:
        yield "memory", "no ledger record in the report"
    elif not live:
        known_dates = ((name, (row.memory or {}).get(key)) for key, name in MEMORY_NAMES.items())
        yield from (("memory", f"{name} {utc_text(when)}") for name, when in known_dates if when)
    else:
        yield from _record_lines(row.id, live[1])
        finding, known = live
        for action, blocked in finding.case.blocked.items():
            forbidden = _forbidden_because(finding, action, known)
            note = f"not allowed because {forbidden}" if forbidden else "possible now"
            yield "kind can", f"{action}, {f'blocked because {blocked.because}' if blocked else note}"
    if row.next:
        yield "next", _next_text(row.next, run.currency)
    yield "step", f"{row.step}: {row.step_because}"
    if live is None:
        yield "outcome", ": ".join(part for part in (row.outcome, row.outcome_because, row.error) if part)
    yield from _date_lines(*live) if live else ()
    yield "owner", f"{clean_line(row.owner.address or 'none')} ({clean_line(row.owner.source, 300)})"
    if claimed := row.owner.claimed:
        named = f"{clean_line(claimed.address)} according to {clean_line(claimed.source)}"
        yield "", f"{named}, not in owners.domains: may not be mailed"


def _next_text(following: NextAction, currency: Currency) -> str:
    if following.at is None:
        return f"{following.step}, blocked because {following.blocked_because}"
    usd, first = following.saves_usd_per_hour, f" ({following.blocked_because})" if following.blocked_because else ""
    saves = "saving unknown" if usd is None else f"saves {format_usd(usd, 2, currency)} an hour"
    return f"{following.step} on or after {utc_text(following.at)}, {saves}{first}"


def _price_text(row: FindingRow, currency: Currency) -> str:
    """Its price, or its share of its host's, with the source."""
    share = row.host_share
    for usd, price in ((row.usd_per_hour, row.price), (share.usd_per_hour if share else None, share)):
        if price and usd is not None:
            return f"{format_usd(usd, 4, currency)}/hour ({price.source}, {price.as_of})"
    return "unknown"


def _forbidden_because(finding: Finding, action: StepName, known: ExplainContext) -> str | None:
    """Why policy, protection or evidence don't allow an action that would be possible; None if they do."""
    case, state = finding.case, finding.case.verdict.state
    needed = Ceiling.DELETE if action is StepName.DELETE else Ceiling.STOP
    if case.rule.protected_because:
        return f"it is protected: {case.rule.protected_because}"
    by_then = action is StepName.DELETE and case.rule.delete_after is not None
    if by_then and action not in wanted_actions(case):
        return "its rule's then deletes only what still costs money after a stop"
    if case.rule.action.rank < needed.rank and not by_then:
        return f"the policy allows at most {case.rule.action}"
    if action is StepName.START:
        return None if case.rule.hours else "it has no office hours that start it"
    if frozen := frozen_because(case.rule, known.now):
        return frozen
    if (hours := case.rule.hours) and hours.force and not office_hours.is_open(hours, known.now):
        return None
    if state is not State.IDLE:
        return f"it is {state}"
    likely = case.verdict.confidence is Confidence.LIKELY and case.rule.act_on is not Confidence.LIKELY
    return "the evidence is indirect and its rule doesn't set act_on: likely" if likely else None


def _checked_lines(finding: Finding, known: ExplainContext) -> Lines:
    """The policy's rules up to the first that matches."""
    for name, fits, lacking in rules.explain_matches(known.policy, finding.case.resource, finding.case.usd_per_hour):
        names = ", ".join(lacking)
        why = {True: "matches", None: f"may match: {names} unknown", False: f"doesn't match: {names}"}[fits]
        yield "checked", f"rule {clean_line(name)!r}: {why}"
        if fits:
            break


def _rule_lines(row: FindingRow, now: datetime) -> Lines:
    """The rule that applies, with its terms, the notes on it, its office hours and its freezes."""
    rule = row.rule_detail
    then = f", then {rule.then.action} after {rule.then.after}" if rule.then else ""
    terms = f"at most {rule.action}, idle after {rule.idle_after}, grace {rule.grace}{then}"
    yield "rule", f"{row.rule}: {terms}"
    yield from (("", note) for note in row.rule_notes)
    if hours := rule.hours:
        off = f", except on days off in {' and '.join(hours.except_)}" if hours.except_ else ""
        yield "hours", f"{hours.on} in {hours.tz}{off}, start: {hours.start}{', force' if hours.force else ''}"
    if rule.waits_because:
        yield "frozen", rule.waits_because
    for each in [freeze for freeze in rule.freezes if freeze.end > now][:MAX_FREEZES]:
        yield "frozen", f"from {utc_text(each.start)} until {utc_text(each.end)} by {each.calendar}"


def _tag_lines(tags: Mapping[str, str] | None) -> Lines:
    """The tags, the reaper's own first, or that they couldn't be read."""
    if tags is None:
        yield "tags", "couldn't be read; a tag may protect it"
        return
    yield "tags", f"{len(tags)} read" if tags else "none"
    order = sorted(tags, key=lambda key: (not key.lower().startswith(TAG_PREFIX), key))
    yield from (("", f"{key}={tags[key]}") for key in order)


def _signal_parts(evidence: Evidence) -> Iterator[str]:
    """Its points, the level above which they count, the peak, and for an activity signal when it was last busy. Of an earlier sweep's, only that."""
    if evidence.seen_at:
        yield f"last busy {utc_text(evidence.last_busy)}, seen {utc_text(evidence.seen_at)}"
        return
    yield "no points" if not evidence.points else f"{evidence.points} point{'' if evidence.points == 1 else 's'}"
    counts = "busy" if evidence.role is Role.ACTIVITY else "alive"
    yield f"{counts} at any value" if evidence.busy_above is None else f"{counts} above {evidence.busy_above:g}"
    if evidence.peak is not None:
        yield f"peak {evidence.peak:g}"
    if evidence.role is Role.ACTIVITY:
        yield f"last busy {utc_text(evidence.last_busy)}" if evidence.last_busy else "never busy in the window"


def _record_lines(resource_id: str, known: ExplainContext) -> Lines:
    record, snooze = known.records.get(resource_id), known.snoozes.get(resource_id)
    if record is None and snooze is None:
        yield "memory", "no ledger record"
        return
    record, snooze = record or NO_RECORD, snooze or NO_SNOOZES.own
    notice, act = record.notice or Notice(), record.act
    is_snoozed = snooze.until is not None and snooze.until > known.now
    for name, value in (
        ("idle since", utc_text(record.idle_since)),
        ("notified", _notice_text(notice)),
        ("reminded", utc_text(notice.reminded_at)),
        ("reminders since the notice:", notice.reminders),
        ("escalated", f"{utc_text(notice.escalated_at)} to {' '.join(notice.escalated_to)}" if notice.escalated_at else None),
        ("snoozed until", f"{utc_text(snooze.until)} by {clean_line(snooze.by or '')}" if is_snoozed else None),
        ("not theirs,", f"says {clean_line(snooze.disowned_by)}, {utc_text(snooze.disowned_at)}" if snooze.disowned_by else None),
        ("last action", f"{act.action} on {utc_text(act.at)}" if act else None),
        ("manifest", act.manifest.address if act and act.manifest else None),
    ):
        if value:
            yield "memory", f"{name} {value}"
    for entry in known.histories(resource_id):
        what = f"{clean_line(entry.what)} by {entry.by}: {entry.because}"
        yield "history", f"{utc_text(entry.when)} {what}"


def _notice_text(notice: Notice) -> str | None:
    if notice.warned_at is None:
        return None
    sent = f"{utc_text(notice.warned_at)}, receipt {notice.receipt or 'none'}"
    return f"{sent}, announced {notice.action} on or after {utc_text(notice.not_before)}" if notice.action else sent


def _date_lines(finding: Finding, known: ExplainContext) -> Lines:
    last = last_notice_at(known.records.get(finding.case.resource.id, NO_RECORD).notice)
    if last and finding.step.name is StepName.NONE and finding.next:
        reminder = last + finding.case.rule.remind_every
        wait = format_duration(max(timedelta(), reminder - known.now))
        yield "date", f"next reminder around {utc_text(reminder)}, in {wait}"


def clean_whole(value: str) -> str:
    """The text as one harmless line, uncut: IDs are for copying, and one that lacks its end names nothing or something else."""
    return clean_line(value, len(value))
