"""The coming actions of a whole report, as the terminal, the page and the admins' summary show them: what comes by date, and what is blocked. Pure.

All of it is before limits: an action that exceeds one is put on hold only when it is due.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from reaper import registry
from reaper.finding import Finding
from reaper.model import Mode, StepName
from reaper.notices.item import kind_title, shown_name, shown_place
from reaper.text import UTC, clean_line, count_noun, format_day

ONE_OF_MANY = re.compile(r"; delete would save [^;]+ an hour$")
"""What a reason says of a single resource. It is left out, so that those that are blocked alike are one group."""
ON_HOLD = "on hold until a person releases it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingAction:
    """One action with a date, which assumes continued silence. `because`: what has to come first, a notice or the release of a hold."""

    finding: Finding
    action: StepName
    at: datetime
    saves_usd_per_hour: float | None
    because: str | None

    @property
    def noun(self) -> str:
        """The action in the words of the resource's kind."""
        return registry.action_noun(self.finding.case.resource.kind, self.action, self.finding.case.resource.stop_by)

    @property
    def name(self) -> str:
        """The resource's name as one harmless line."""
        return shown_name(self.finding.case.resource)

    @property
    def place(self) -> str:
        """`SageMaker endpoint, us-east-1, account 123456789012`."""
        resource = self.finding.case.resource
        return f"{kind_title(resource.kind)}, {shown_place(resource)}"


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


def coming_actions(findings: Iterable[Finding]) -> Coming:
    """The coming actions of these findings; of the same date, what saves most comes first."""
    dated: list[ComingAction] = []
    blocked: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        action = finding.next
        if action and action.at:
            row = ComingAction(
                finding=finding,
                action=action.step,
                at=action.at,
                saves_usd_per_hour=action.saves_usd_per_hour,
                because=ON_HOLD if finding.step.name is StepName.HOLD else action.blocked_because,
            )
            dated.append(row)
        elif action:
            blocked[ONE_OF_MANY.sub("; delete is possible", action.blocked_because or "")].append(finding)
    dated.sort(key=lambda each: (each.at, -(each.saves_usd_per_hour or 0), each.finding.case.resource.name))
    could = {because: [f.could for f in same if f.could and f.could.at] for because, same in blocked.items()}
    groups = [
        BlockedGroup(
            because=clean_line(because, 300),
            findings=tuple(same),
            could_usd_per_hour=sum(action.saves_usd_per_hour or 0 for action in could[because]),
        )
        for because, same in blocked.items()
    ]
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
