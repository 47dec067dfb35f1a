"""All that is known of one resource, for the question: why was it, or was it not, called idle, and what comes next?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from reaper import plan, rule
from reaper.duration import spell, text
from reaper.ledger import History
from reaper.model import Evidence, Finding, Memory, Move, Report, Role
from reaper.policy import Policy
from reaper.report.json import stamp
from reaper.report.summary import clean
from reaper.tags import PREFIX

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


def matching(report: Report, wanted: str) -> list[Finding]:
    """The findings of that id or name."""
    return [f for f in report.findings if wanted.lower() == f.case.resource.id.lower() or wanted == f.case.resource.name]


def _one(found: Finding, known: Known) -> Iterator[str]:
    resource, verdict = found.case.resource, found.case.verdict
    price = f"${found.price.usd_per_hour:.4f}/h ({found.price.source}, {found.price.as_of})" if found.price else "unknown"
    yield clean(resource.name)
    yield _line("id", clean(resource.id))
    where = f"{resource.target.account} {resource.region}"
    yield _line(
        "kind",
        f"{resource.kind} in {where}, {clean(resource.size) or 'size unknown'}, {clean(resource.status) or 'status unknown'}",
    )
    yield _line("created", f"{stamp(resource.created) or 'unknown'}, changed {stamp(resource.changed) or 'unknown'}")
    yield _line("price", price)
    yield from _tags(found)
    yield from _rules(found, known)
    for evidence in found.evidence:
        yield _signal(evidence)
    sure = f" ({verdict.confidence})" if verdict.confidence else ""
    idle = f", idle for {text(verdict.idle_for)}" if verdict.idle_for else ""
    yield _line("verdict", f"{verdict.state}{sure}{idle}: {clean(verdict.because)}")
    yield from _memory(resource.id, known)
    for move, bar in found.case.acts.items():
        yield _line("may", f"{move}: {bar.because if bar else 'nothing is in the way of it'}")
    yield _line("next", f"{found.step.move}: {clean(found.step.because)}")
    yield from _dates(found, known)
    yield _line("owner", f"{clean(found.owner.address or 'nobody')} ({clean(found.owner.source)})")


def _tags(found: Finding) -> Iterator[str]:
    tags = found.case.resource.tags
    if tags is None:
        yield _line("tags", "could not be read, and a tag may protect it")
        return
    yield _line("tags", "none" if not tags else f"{len(tags)} read")
    for key, value in sorted(tags.items(), key=lambda pair: (not pair[0].lower().startswith(PREFIX), pair[0])):
        yield _line("", f"{clean(key)}={clean(value)}")


def _rules(found: Finding, known: Known) -> Iterator[str]:
    holds = found.case.rule
    for name, fits, lacking in rule.looked_at(known.policy, found.case.resource, found.case.usd_per_hour):
        why = {
            True: "matches",
            None: f"may match: {', '.join(lacking)} not known",
            False: f"does not match: {', '.join(lacking)}",
        }[fits]
        yield _line("looked at", f"rule {clean(name)!r}: {why}")
        if fits:
            break
    yield _line(
        "rule", f"{clean(holds.name)}: at most {holds.action}, idle after {spell(holds.idle_after)}, grace {spell(holds.grace)}"
    )
    for note in holds.notes:
        yield _line("", clean(note))
    if holds.hours:
        yield _line("hours", f"in {holds.hours.tz}, start: {holds.hours.restart}{', force' if holds.hours.force else ''}")
    if holds.protected:
        yield _line("protected", clean(holds.protected))


def _signal(seen: Evidence) -> str:
    counts = "busy" if seen.role is Role.ACTIVITY else "alive"
    what = f"{seen.points} points, {counts} above {seen.busy_above:g}, peak {seen.peak}, last busy {stamp(seen.last_busy)}"
    return _line(seen.role, f"{clean(f'{seen.signal} {seen.subject}'.strip())}: {what}{'' if seen.complete else ', INCOMPLETE'}")


def _memory(id_: str, known: Known) -> Iterator[str]:
    memory = known.memories.get(id_)
    if memory is None:
        yield _line("memory", "the ledger knows nothing of it")
        return
    for name, value in (
        ("idle since", stamp(memory.idle_since)),
        ("warned", _told(memory)),
        ("reminded", stamp(memory.reminded_at)),
        ("kept until", f"{stamp(memory.snoozed_until)} by {clean(memory.snoozed_by or '')}" if memory.snoozed_until else None),
        ("held since", stamp(memory.held_at)),
        ("last act", f"{memory.last_act} on {stamp(memory.acted_at)}" if memory.last_act else None),
        ("manifest", clean(memory.manifest) if memory.manifest else None),
    ):
        if value:
            yield _line("memory", f"{name} {value}")
    for entry in list(known.histories(id_))[-LATEST:]:
        yield _line("history", f"{stamp(entry.when)} {clean(entry.what)} by {clean(entry.by)}: {clean(entry.because)}")


def _told(memory: Memory) -> str | None:
    if memory.warned_at is None:
        return None
    announced = f", announced {memory.announced} not before {stamp(memory.promised)}" if memory.announced else ""
    return f"{stamp(memory.warned_at)}, receipt {clean(memory.receipt or 'none')}{announced}"


def _dates(found: Finding, known: Known) -> Iterator[str]:
    memory = known.memories.get(found.case.resource.id, Memory())
    move = plan.act(found.case, known.now)
    if move is None:
        return
    due = plan.due_at(found.case, memory, known.now)
    if due is None:
        first = plan.promise(found.case, known.now)
        yield _line("date", f"{move} not before {stamp(first)}, and only once its owner was told of it in mode enforce")
    else:
        yield _line("date", f"{move} not before {stamp(due)}, if it is still idle and nobody keeps it")
    last = max((t for t in (memory.warned_at, memory.reminded_at) if t), default=None)
    if last and found.step.move is Move.NONE:
        yield _line("date", f"the next reminder about {stamp(last + found.case.rule.remind_every)}, {_in(last, found, known)}")


def _in(last: datetime, found: Finding, known: Known) -> str:
    return f"in {text(max(timedelta(), last + found.case.rule.remind_every - known.now))}"


def _line(name: str, value: str) -> str:
    return f"  {name:<9} {value}"
