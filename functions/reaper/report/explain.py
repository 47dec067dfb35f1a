"""All that is known of one resource, for the question: why was it, or was it not, called idle, and what comes next?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches
from math import isfinite

from reaper import plan
from reaper.duration import spell, text
from reaper.ledger.port import History
from reaper.model import Action, Bar, Confidence, Evidence, Finding, Memory, Move, Owner, Report, Role, State
from reaper.policy import office_hours, rules
from reaper.policy.schema import Policy
from reaper.policy.tags import PREFIX
from reaper.report.brief import clean, place
from reaper.report.json import stamp

NEAR = 3
LATEST = 10
"""Entries of the history that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What there is besides the report: the policy, the memories and histories by resource id, and the moment."""

    policy: Policy
    now: datetime
    memories: Mapping[str, Memory] = field(default_factory=dict)
    histories: Callable[[str], Sequence[History]] = lambda id_: ()


def render(report: Report, wanted: str, known: Known) -> str | None:
    """The explanation of every resource with that id or name; None when there is none. Ids match case-insensitively."""
    found = matching(report, wanted)
    return "\n".join("\n".join(_one(f, known)) + "\n" for f in found) if found else None


def near(wanted: str, names: Sequence[str]) -> list[str]:
    """The names that may have been meant: spelled alike, or with `wanted` in them, which a table may have cut short."""
    text = wanted.strip().rstrip("….").rpartition("/")[2].lower() if ":" in wanted or wanted.startswith("/") else wanted.lower()
    text = text.strip().rstrip("….")
    by_text = {name.lower(): name for name in names}
    alike = get_close_matches(text, by_text, n=max(1, len(by_text)), cutoff=0.7)
    holding = sorted(key for key in by_text if len(text) > 2 and text in key)
    return [whole(by_text[key]) for key in dict.fromkeys([*alike, *holding])]


def suggested(wanted: str, names: Sequence[str]) -> str:
    """`, did you mean a, b or c, or one of 4 more?`, naming three; empty where nothing comes near."""
    found = near(wanted, names)
    more = f", or one of {len(found) - NEAR} more" if len(found) > NEAR else ""
    return f", did you mean {' or '.join(found[:NEAR])}{more}?" if found else ""


def matching(report: Report, wanted: str) -> list[Finding]:
    """The findings of that id or name."""
    return [f for f in report.findings if wanted.lower() == f.case.resource.id.lower() or wanted == f.case.resource.name]


def _one(found: Finding, known: Known) -> Iterator[str]:
    resource, verdict = found.case.resource, found.case.verdict
    price = f"${found.price.usd_per_hour:.4f}/h ({found.price.source}, {found.price.as_of})" if found.price else "unknown"
    yield whole(resource.name)
    yield line("id", whole(resource.id))
    where = place(resource.target.account, resource.target.account_name, resource.region)
    yield line(
        "kind",
        f"{resource.kind} in {where}, {clean(resource.size) or 'size unknown'}, {clean(resource.status) or 'status unknown'}",
    )
    yield line("created", f"{stamp(resource.created) or 'unknown'}, changed {stamp(resource.changed) or 'unknown'}")
    yield line("price", price)
    yield from _tags(found)
    yield from _rules(found, known)
    for evidence in found.evidence:
        yield signal(evidence)
    sure = f" ({verdict.confidence})" if verdict.confidence else ""
    idle = f", idle for {text(verdict.idle_for)}" if verdict.idle_for else ""
    yield line("verdict", f"{verdict.state}{sure}{idle}: {whole(verdict.because)}")
    yield from _memory(resource.id, known)
    for move, bar in found.case.acts.items():
        yield line("kind can", f"{move}{_way(found, move, bar, known)}")
    yield line("next", f"{found.step.move}: {whole(found.step.because)}")
    yield from _dates(found, known)
    yield from owner(found.owner)


def _way(found: Finding, move: Move, bar: Bar | None, known: Known) -> str:
    """What is in the way of a move that its kind can make."""
    if bar:
        return f", but not now: {whole(bar.because)}"
    forbidden = _forbidden(found, move, known)
    return f", but not here: {forbidden}" if forbidden else ": nothing about it is in the way"


def _forbidden(found: Finding, move: Move, known: Known) -> str | None:
    """What policy, protection or evidence have against a move that could be made."""
    case, state = found.case, found.case.verdict.state
    needed = Action.DELETE if move is Move.DELETE else Action.STOP
    if case.rule.protected:
        return f"it is protected: {whole(case.rule.protected)}"
    if case.rule.action.rank < needed.rank:
        return f"the policy allows at most {case.rule.action}"
    if move is Move.START:
        return None if case.rule.hours else "no office hours start it"
    if plan.forced(case, known.now):
        return None
    if state is not State.IDLE:
        return f"it is {state}"
    likely = case.verdict.confidence is Confidence.LIKELY and case.rule.act_on is not Confidence.LIKELY
    return "the evidence is indirect, and no rule says act_on: likely" if likely else None


def _tags(found: Finding) -> Iterator[str]:
    tags = found.case.resource.tags
    if tags is None:
        yield line("tags", "could not be read, and a tag may protect it")
        return
    yield line("tags", "none" if not tags else f"{len(tags)} read")
    for key, value in sorted(tags.items(), key=lambda pair: (not pair[0].lower().startswith(PREFIX), pair[0])):
        yield line("", f"{whole(key)}={whole(value)}")


def _rules(found: Finding, known: Known) -> Iterator[str]:
    holds = found.case.rule
    for name, fits, lacking in rules.looked_at(known.policy, found.case.resource, found.case.usd_per_hour):
        why = {
            True: "matches",
            None: f"may match: {', '.join(lacking)} not known",
            False: f"does not match: {', '.join(lacking)}",
        }[fits]
        yield line("looked at", f"rule {clean(name)!r}: {why}")
        if fits:
            break
    yield line(
        "rule", f"{clean(holds.name)}: at most {holds.action}, idle after {spell(holds.idle_after)}, grace {spell(holds.grace)}"
    )
    for note in holds.notes:
        yield line("", whole(note))
    if holds.hours:
        yield line(
            "hours",
            f"{office_hours.written(holds.hours)} in {holds.hours.tz}, start: {holds.hours.restart}{', force' if holds.hours.force else ''}",
        )
    if holds.protected:
        yield line("protected", whole(holds.protected))


def owner(of: Owner) -> Iterator[str]:
    """Who is told, and who is said to own it where nobody may be told."""
    yield line("owner", f"{clean(of.address or 'nobody')} ({clean(of.source, 300)})")
    if of.claimed:
        yield line(
            "", f"{clean(of.claimed.address)} according to {clean(of.claimed.source)}, not in owners.domains: may not be mailed"
        )


def signal(seen: Evidence) -> str:
    """What one signal showed."""
    what = ", ".join(_seen(seen)) + ("" if seen.complete else ", INCOMPLETE")
    return line(seen.role, f"{whole(f'{seen.signal} {seen.subject}'.strip())}: {what}")


def _seen(seen: Evidence) -> Iterator[str]:
    """What came of a signal, from which level on it counts, the highest value, and for use the last of it."""
    yield "no points" if not seen.points else f"{seen.points} point{'' if seen.points == 1 else 's'}"
    counts = "busy" if seen.role is Role.ACTIVITY else "alive"
    yield f"{counts} above {seen.busy_above:g}" if isfinite(seen.busy_above) else f"{counts} at any value"
    if seen.peak is not None:
        yield f"peak {seen.peak:g}" if isfinite(seen.peak) else "peak not a number"
    if seen.role is Role.ACTIVITY:
        yield f"last busy {stamp(seen.last_busy)}" if seen.last_busy else "not seen busy"


def _memory(id_: str, known: Known) -> Iterator[str]:
    memory = known.memories.get(id_)
    if memory is None:
        yield line("memory", "the ledger knows nothing of it")
        return
    for name, value in (
        ("idle since", stamp(memory.idle_since)),
        ("warned", _told(memory)),
        ("reminded", stamp(memory.reminded_at)),
        ("kept until", f"{stamp(memory.snoozed_until)} by {clean(memory.snoozed_by or '')}" if memory.snoozed_until else None),
        ("held since", stamp(memory.held_at)),
        ("last act", f"{memory.last_act} on {stamp(memory.acted_at)}" if memory.last_act else None),
        ("manifest", whole(memory.manifest) if memory.manifest else None),
    ):
        if value:
            yield line("memory", f"{name} {value}")
    for entry in list(known.histories(id_))[-LATEST:]:
        yield line("history", f"{stamp(entry.when)} {clean(entry.what)} by {whole(entry.by)}: {whole(entry.because)}")


def _told(memory: Memory) -> str | None:
    if memory.warned_at is None:
        return None
    announced = f", announced {memory.announced} not before {stamp(memory.promised)}" if memory.announced else ""
    return f"{stamp(memory.warned_at)}, receipt {whole(memory.receipt or 'none')}{announced}"


def _dates(found: Finding, known: Known) -> Iterator[str]:
    memory = known.memories.get(found.case.resource.id, Memory())
    move = plan.act(found.case, known.now)
    if move is None:
        return
    due = plan.due_at(found.case, memory, known.now)
    if due is None:
        first = plan.promise(found.case, known.now)
        yield line("date", f"{move} not before {stamp(first)}, and only once its owner was told of it in mode enforce")
    else:
        wait = f"in {text(due - known.now)}" if due > known.now else "from now on"
        yield line("date", f"{move} not before {stamp(due)}, {wait}, if it is still idle and nobody keeps it")
    last = max((t for t in (memory.warned_at, memory.reminded_at) if t), default=None)
    if last and found.step.move is Move.NONE:
        yield line("date", f"the next reminder about {stamp(last + found.case.rule.remind_every)}, {_in(last, found, known)}")


def _in(last: datetime, found: Finding, known: Known) -> str:
    return f"in {text(max(timedelta(), last + found.case.rule.remind_every - known.now))}"


def whole(value: str) -> str:
    """The text as one harmless line, uncut: ids are for copying, and one that lacks its end names nothing or something else."""
    return clean(value, len(value))


def line(name: str, value: str) -> str:
    """A line of the explanation; without a name it goes on with the one before."""
    return f"  {name:<9} {value}"
