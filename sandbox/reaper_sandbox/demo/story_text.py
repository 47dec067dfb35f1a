"""Prints the story: a line for each event, and indented lines for what follows. Every line comes from a report, a mail or the ledger.

Stops and starts by office hours are printed the first time and only counted from then on; their mails are all printed.
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

from reaper.case import PARTICIPLES as DONE
from reaper.finding import Finding, Report
from reaper.model import Result, State, StepName
from reaper.policy.accepted import ACCEPTED
from reaper.record import Record
from reaper_sandbox.demo.mail_text import mail_items
from reaper_sandbox.demo.story_world import Mail

MARGIN, WIDEST = 20, 118
MAX_ITEMS_PER_MAIL = 3
"""How many resources of one mail are printed one by one."""
HOLD_PREFIX = re.compile(r"^would \w+, but is on hold since \S+ \S+ UTC: ")
ADMINS_SUBJECT, ESCALATION = "[ML Idle Reaper]", "Escalation: "
STYLES = {
    "": "",
    "mail": "cyan",
    "no mail": "dim",
    "slack": "cyan",
    "stopped": "green",
    "started": "green",
    "deleted": "magenta",
    "on hold": "bold yellow",
    "refused": "bold yellow",
    "failed": "bold red",
    "active": "blue",
    "exempt": "blue",
    "sweep": "dim",
}


@dataclass(slots=True, kw_only=True)
class StoryPrinter:
    """The console, and what was already printed. `office_hours_counts` has the stops and starts of each machine on office hours."""

    out: Console
    day: str = ""
    states: dict[str, State] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    already_printed: set[str] = field(default_factory=set)
    office_hours_counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def print_event(self, when: datetime, who: str, text: str) -> None:
        """Print what a person or a cloud did."""
        self._print_labelled(when, who, text, "bold")

    def print_sweep(
        self, report: Report, mails: Sequence[Mail], cards: Sequence[str], records: dict[str, Record], *, daily: bool
    ) -> None:
        """Print what a sweep found and did. A sweep that isn't the `daily` one is printed only if something happened.

        `cards`: the titles of those in the admins' room, which are printed only if something is on hold.
        """
        when = report.run.started_at
        lines = [
            *self._notice_lines(mails),
            *self._unsent_lines(report),
            *self._action_lines(report),
            *self._hold_lines(report, mails, cards),
            *self._no_longer_idle_lines(report, records),
        ]
        if daily or lines:
            self._print_labelled(when, "sweep", _sweep_summary(report), STYLES["sweep"])
        for label, text in lines:
            self._print_labelled(None, label, text, STYLES[label])
        self.states = {f.case.resource.name: f.case.verdict.state for f in report.findings}
        self.records = records

    def print_line(self, text: str = "", style: str = "") -> None:
        """Print one line."""
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
        """The notices in owners' mails, with their costs and dates."""
        for mail in mails:
            items = list(mail_items(mail.text))
            if mail.subject.startswith(ESCALATION):
                yield "mail", f"{mail.to}: {mail.subject}"
            if not items or mail.subject.startswith(ADMINS_SUBJECT):
                continue
            yield "mail", f"{mail.to}: {mail.subject}"
            shown = items if len(items) <= MAX_ITEMS_PER_MAIL else items[:1]
            for name, cost, following in shown:
                yield "", f"- {name}: {cost}. {_next_step_clause(following)}"
            if len(items) > len(shown):
                yield "", f"- and {len(items) - len(shown)} more: {', '.join(name for name, *_ in items[1:])}"

    def _unsent_lines(self, report: Report) -> Iterator[tuple[str, str]]:
        """First notices that aren't sent, and what is accepted, each once."""
        for finding in report.findings:
            step, name, accepted = finding.step, finding.case.resource.name, finding.case.rule.protected_because or ""
            if step.name is StepName.NONE and step.held is StepName.WARN and self._is_first_time(f"{name} unsent"):
                yield "no mail", f"{name}: {step.because}"
            elif accepted.startswith(ACCEPTED) and self._is_first_time(f"{name} accepted"):
                yield "exempt", f"{name}: {accepted}"

    def _action_lines(self, report: Report) -> Iterator[tuple[str, str]]:
        for finding in report.findings:
            if finding.step.name not in DONE or finding.outcome.result is Result.PLANNED:
                continue
            label = DONE[finding.step.name] if finding.outcome.result is Result.DONE else finding.outcome.result.value
            name, why = finding.case.resource.name, finding.outcome.because or finding.outcome.error or finding.step.because
            if finding.case.rule.hours:
                self.office_hours_counts[name, label] += 1
            if not finding.case.rule.hours or self._is_first_time(f"{name} {label}"):
                yield label, f"{name}: {why}"

    def _hold_lines(self, report: Report, mails: Sequence[Mail], cards: Sequence[str]) -> Iterator[tuple[str, str]]:
        on_hold = [f for f in report.findings if f.step.name is StepName.HOLD]
        names = ", ".join(f.case.resource.name for f in on_hold)
        if not on_hold or not self._is_first_time(f"on hold {names}"):
            return
        yield "on hold", f"{names}: {HOLD_PREFIX.sub('because ', on_hold[0].step.because)}"
        for mail in mails:
            if "\nON HOLD (" in mail.text:
                yield "mail", f"{mail.to}: {mail.subject}"
        for title in cards:
            yield "slack", f"the admins' room: {title}"

    def _no_longer_idle_lines(self, report: Report, records: dict[str, Record]) -> Iterator[tuple[str, str]]:
        """Resources that are no longer idle, one line for each reason."""
        alike: dict[tuple[State, str], list[Finding]] = {}
        for finding in report.findings:
            if self._is_no_longer_idle(finding):
                alike.setdefault((finding.case.verdict.state, finding.case.verdict.because), []).append(finding)
        for (state, because), some in sorted(alike.items()):
            names = ", ".join(f.case.resource.name for f in some)
            yield (
                state.value,
                f"{names}: {because}{_expired_notices_clause(sum(self._notice_expired(f, records) for f in some))}",
            )

    def _is_no_longer_idle(self, finding: Finding) -> bool:
        state = self.states.get(finding.case.resource.name)
        stays = finding.case.rule.hours is None and finding.step.name not in DONE
        return stays and state is State.IDLE and finding.case.verdict.state in {State.ACTIVE, State.EXEMPT}

    def _notice_expired(self, finding: Finding, records: dict[str, Record]) -> bool:
        """Whether its notice is gone from the ledger."""
        name = finding.case.resource.name
        return self.records.get(name, Record()).notice is not None and records.get(name, Record()).notice is None

    def _is_first_time(self, line: str) -> bool:
        """Whether this wasn't printed before."""
        is_new = line not in self.already_printed
        self.already_printed.add(line)
        return is_new


def _sweep_summary(report: Report) -> str:
    sums = report.totals
    states = ", ".join(f"{count} {state}" for state, count in sums.by_state.items() if count)
    price = f", {sums.unpriced_idle} with unknown price" if sums.unpriced_idle else ""
    coverage_clause = "" if report.is_complete else "; coverage is incomplete"
    return f"{sums.resources} resources: {states}; idle costs ${sums.idle_usd_per_hour:,.2f} an hour{price}{coverage_clause}"


def _expired_notices_clause(count: int) -> str:
    return {0: "", 1: "; its notice no longer counts"}.get(count, f"; {count} notices no longer count")


def _next_step_clause(following: str) -> str:
    """What a mail announces, without the part that all mails share."""
    return re.split(r" unless it is used|\. It keeps costing", following)[0]
