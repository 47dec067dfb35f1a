"""The story in a terminal: a line for what happened, an indented one for what follows. Every line is read off a report, a mail or the ledger.

What office hours do every working day is told once and counted from then on; their mails, a first one and a weekly summary, are all told.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rich.console import Console
from rich.text import Text

from reaper.actions.recheck import PARTICIPLES as DONE
from reaper.model import Finding, Memory, StepName, Report, Result, State
from reaper.report.totals import is_complete, report_totals
from reaper_sandbox.demo.mail_text import mail_items
from reaper_sandbox.demo.story_world import Mail

MARGIN, WIDEST = 20, 118
MAX_ITEMS_PER_MAIL = 3
"""So many resources of one mail are told one by one."""
HELD_PREFIX = re.compile(r"^would \w+, but is on hold since \S+ \S+ UTC: ")
WAITING_ITEM = re.compile(r"^- .*\. Would (?:stop|delete), but is on hold", re.MULTILINE)
STYLES = {
    "": "",
    "mail": "cyan",
    "stopped": "green",
    "started": "green",
    "deleted": "magenta",
    "held": "bold yellow",
    "refused": "bold yellow",
    "failed": "bold red",
    "active": "blue",
    "exempt": "blue",
    "sweep": "dim",
}


@dataclass(slots=True, kw_only=True)
class StoryPrinter:
    """Where it is told, and what was told already. `counted` has how often each office-hours machine was stopped and started."""

    out: Console
    day: str = ""
    states: dict[str, State] = field(default_factory=dict)
    memories: dict[str, Memory] = field(default_factory=dict)
    already_told: set[str] = field(default_factory=set)
    office_hours_counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def print_event(self, when: datetime, who: str, said: str) -> None:
        """What somebody did."""
        self._print_labelled(when, who, said, "bold")

    def print_sweep(self, report: Report, mails: Sequence[Mail], memories: dict[str, Memory], *, daily: bool) -> None:
        """What one sweep found and did; one in between is told only where something happened."""
        when = report.run.started_at
        lines = [*self._notice_lines(mails), *self._action_lines(report), *self._held_lines(report, mails), *self._no_longer_idle_lines(report, memories)]
        if daily or lines:
            self._print_labelled(when, "sweep", _sweep_summary(report), STYLES["sweep"])
        for label, text in lines:
            self._print_labelled(None, label, text, STYLES[label])
        self.states = {f.case.resource.name: f.case.verdict.state for f in report.findings}
        self.memories = memories

    def print_line(self, text: str = "", style: str = "") -> None:
        """A line as it is."""
        self.out.print(Text(text, style=style), soft_wrap=True)

    def _print_labelled(self, when: datetime | None, label: str, text: str, style: str) -> None:
        if when and f"{when:%d}" != self.day:
            self.day = f"{when:%d}"
            self.print_line()
            self.print_line(f"{when:%A} {when.day} {when:%B %Y}", "bold underline")
        width = max(60, min(self.out.width, WIDEST) if self.out.is_terminal else WIDEST)
        first, *rest = textwrap.wrap(text, width - MARGIN, break_long_words=False, break_on_hyphens=False) or [""]
        head = Text(f"  {f'{when:%H:%M}' if when else '':<7}{label:<11}")
        head.stylize(style, 9)
        self.out.print(head.append(first), soft_wrap=True)
        for line in rest:
            self.print_line(" " * MARGIN + line)

    def _notice_lines(self, mails: Sequence[Mail]) -> Iterator[tuple[str, str]]:
        """The notices in owners' mails, with the money and the date that they name."""
        for mail in mails:
            found = list(mail_items(mail.text))
            if not found:
                continue
            yield "mail", f"{mail.to}: {mail.subject}"
            shown = found if len(found) <= MAX_ITEMS_PER_MAIL else found[:1]
            for name, cost, following in shown:
                yield "", f"- {name}: {cost}. {_next_step_clause(following)}"
            if len(found) > len(shown):
                yield "", f"- and {len(found) - len(shown)} more: {', '.join(name for name, *_ in found[1:])}"

    def _action_lines(self, report: Report) -> Iterator[tuple[str, str]]:
        for found in report.findings:
            if found.step.name not in DONE or found.outcome.result is Result.PLANNED:
                continue
            label = DONE[found.step.name] if found.outcome.result is Result.DONE else found.outcome.result.value
            name, why = found.case.resource.name, found.outcome.because or found.outcome.error or found.step.because
            if found.case.rule.hours:
                self.office_hours_counts[name, label] += 1
            if not found.case.rule.hours or self._is_first_time(f"{name} {label}"):
                yield label, f"{name}: {why}"

    def _held_lines(self, report: Report, mails: Sequence[Mail]) -> Iterator[tuple[str, str]]:
        held = [f for f in report.findings if f.step.name is StepName.HOLD]
        names = ", ".join(f.case.resource.name for f in held)
        if not held or not self._is_first_time(f"held {names}"):
            return
        yield "held", f"{names}: {HELD_PREFIX.sub('because ', held[0].step.because)}"
        for mail in mails:
            if WAITING_ITEM.search(mail.text):
                yield "mail", f"{mail.to}: {mail.subject}"

    def _no_longer_idle_lines(self, report: Report, memories: dict[str, Memory]) -> Iterator[tuple[str, str]]:
        """What was idle and is not any more; what is so for the same reason in one line."""
        alike: dict[tuple[State, str], list[Finding]] = {}
        for found in report.findings:
            if self._is_no_longer_idle(found):
                alike.setdefault((found.case.verdict.state, found.case.verdict.because), []).append(found)
        for (state, because), some in sorted(alike.items()):
            names = ", ".join(f.case.resource.name for f in some)
            yield state.value, f"{names}: {because}{_expired_notices_clause(sum(self._notice_expired(f, memories) for f in some))}"

    def _is_no_longer_idle(self, found: Finding) -> bool:
        was = self.states.get(found.case.resource.name)
        stays = found.case.rule.hours is None and found.step.name not in DONE
        return stays and was is State.IDLE and found.case.verdict.state in {State.ACTIVE, State.EXEMPT}

    def _notice_expired(self, found: Finding, memories: dict[str, Memory]) -> bool:
        """Whether the notice that it had is gone from the ledger."""
        name = found.case.resource.name
        return bool(self.memories.get(name, Memory()).warned_at) and memories.get(name, Memory()).warned_at is None

    def _is_first_time(self, what: str) -> bool:
        """Whether this was not told before."""
        new = what not in self.already_told
        self.already_told.add(what)
        return new


def _sweep_summary(report: Report) -> str:
    sums = report_totals(report)
    states = ", ".join(f"{count} {state}" for state, count in sums.by_state.items() if count)
    price = f", {sums.unpriced_idle} without a known price" if sums.unpriced_idle else ""
    gaps = "" if is_complete(report) else "; not everything could be seen"
    return f"{sums.resources} resources: {states}; idle costs ${sums.idle_usd_per_hour:,.2f} an hour{price}{gaps}"


def _expired_notices_clause(count: int) -> str:
    return {0: "", 1: "; its notice is void"}.get(count, f"; {count} notices are void")


def _next_step_clause(following: str) -> str:
    """What a mail says comes next, without what is the same in all of them."""
    return re.split(r" unless it is used|\. It keeps costing", following)[0]
