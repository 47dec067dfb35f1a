"""The coming actions of a whole report, as the terminal, the page and the admins' summary show them: what comes by date, and what is blocked. Pure.

All of it is before limits: an action that exceeds one is put on hold only when it is due.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from reaper.case import Finding, NextAction
from reaper.model import Mode, StepName
from reaper.notices.item import kind_title, shown_name, shown_place
from reaper.text import UTC, clean_line, count_noun, format_day

MAX_DATED, MAX_BLOCKED = 20, 6
"""How many rows of each sort are shown; the others are counted."""
ONE_OF_MANY = re.compile(r"; delete would save \S+ an hour$")
"""What a reason says of a single resource; without it, those that are blocked alike are one group."""
ON_HOLD = "on hold until a person releases it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingAction:
    """One action with a date, which assumes continued silence. `because`: what has to come first, a notice or the release of a hold."""

    finding: Finding
    action: StepName
    at: datetime
    saves_usd_per_hour: float | None
    because: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedGroup:
    """Idle resources whose action the same reason blocks. `could_usd_per_hour`: what the best possible action on each would save."""

    because: str
    findings: tuple[Finding, ...]
    could_usd_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """What the policy leads to: `dated` by date, `blocked` by number. `unpriced` of the dated are not in `saves_usd_per_hour`."""

    dated: tuple[ComingAction, ...]
    blocked: tuple[BlockedGroup, ...]
    saves_usd_per_hour: float
    unpriced: int

    @property
    def more_dated(self) -> int:
        """How many dated actions aren't shown."""
        return max(0, len(self.dated) - MAX_DATED)

    @property
    def more_blocked(self) -> int:
        """How many resources are in groups that aren't shown."""
        return sum(len(group.findings) for group in self.blocked[MAX_BLOCKED:])


def coming_actions(findings: Iterable[Finding]) -> Coming:
    """The coming actions of these findings; of the same date, what saves most comes first."""
    dated: list[ComingAction] = []
    blocked: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.next and finding.next.at:
            dated.append(_dated(finding, finding.next, finding.next.at))
        elif finding.next:
            blocked[_group_reason(finding.next)].append(finding)
    dated.sort(key=lambda each: (each.at, -(each.saves_usd_per_hour or 0), each.finding.case.resource.name))
    groups = [_blocked_group(because, same) for because, same in blocked.items()]
    return Coming(
        dated=tuple(dated),
        blocked=tuple(sorted(groups, key=lambda group: (-len(group.findings), group.because))),
        saves_usd_per_hour=sum(each.saves_usd_per_hour or 0 for each in dated),
        unpriced=sum(each.saves_usd_per_hour is None for each in dated),
    )


def coming_sentence(coming: Coming, mode: Mode, rate: Callable[[float], str], tz: str = UTC) -> str:
    """`If enforced from today: 14 actions by Thu 5 Nov, saving $61.20 an hour`. `rate`: dollars an hour in the reader's unit."""
    if not coming.dated:
        return "No action is coming"
    begin = "" if mode.acts else "If enforced from today: "
    last = format_day(coming.dated[-1].at, tz)
    saving = f", saving {rate(coming.saves_usd_per_hour)}" if coming.saves_usd_per_hour else ""
    unpriced = f" (unknown for {coming.unpriced:,})" if coming.unpriced and saving else ""
    return f"{begin}{count_noun(len(coming.dated), 'action')} by {last}{saving}{unpriced}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingRow:
    """One coming action in words. `saves`: empty if its price is unknown. `because`: what has to come first, or empty."""

    day: str
    action: str
    name: str
    kind: str
    where: str
    saves: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedRow:
    """One group of blocked actions in words; `could`: what the best possible actions would save, or empty."""

    count: int
    because: str
    could: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingTable:
    """The coming actions in words. `more`: how many actions, and how many blocked resources, have no row of their own."""

    sentence: str
    rows: tuple[ComingRow, ...]
    blocked: tuple[BlockedRow, ...]
    more: tuple[int, int]


def coming_table(findings: Iterable[Finding], mode: Mode, rate: Callable[[float], str], tz: str = UTC) -> ComingTable | None:
    """What a page or a mail shows of these findings; None if their policy allows no stop or delete."""
    coming = coming_actions(findings)
    if not (coming.dated or coming.blocked):
        return None
    dated, blocked = shown(coming)
    return ComingTable(
        sentence=coming_sentence(coming, mode, rate, tz),
        rows=tuple(_row(each, rate, tz) for each in dated),
        blocked=tuple(
            BlockedRow(
                count=len(group.findings),
                because=group.because,
                could=rate(group.could_usd_per_hour) if group.could_usd_per_hour else "",
            )
            for group in blocked
        ),
        more=(coming.more_dated, coming.more_blocked),
    )


def shown(coming: Coming) -> tuple[Sequence[ComingAction], Sequence[BlockedGroup]]:
    """The first rows of each sort."""
    return coming.dated[:MAX_DATED], coming.blocked[:MAX_BLOCKED]


def _row(coming: ComingAction, rate: Callable[[float], str], tz: str) -> ComingRow:
    resource, saves = coming.finding.case.resource, coming.saves_usd_per_hour
    return ComingRow(
        day=format_day(coming.at, tz),
        action=coming.action.value,
        name=shown_name(resource),
        kind=kind_title(resource.kind),
        where=shown_place(resource),
        saves="" if saves is None else rate(saves),
        because=coming.because or "",
    )


def _dated(finding: Finding, action: NextAction, at: datetime) -> ComingAction:
    return ComingAction(
        finding=finding,
        action=action.step,
        at=at,
        saves_usd_per_hour=action.saves_usd_per_hour,
        because=ON_HOLD if finding.step.name is StepName.HOLD else action.blocked_because,
    )


def _group_reason(action: NextAction) -> str:
    return ONE_OF_MANY.sub("; delete is possible", action.blocked_because or "")


def _blocked_group(because: str, findings: Sequence[Finding]) -> BlockedGroup:
    possible = [f.could.saves_usd_per_hour or 0 for f in findings if f.could and f.could.at]
    return BlockedGroup(because=clean_line(because, 300), findings=tuple(findings), could_usd_per_hour=sum(possible))
