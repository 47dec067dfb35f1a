"""What every format of the report says in the same words: its headline, its actions in groups, what happens next, and what comes by date. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from reaper import registry
from reaper.case import Coverage, frozen_because
from reaper.finding import Finding, Money, Report, is_action, money_of
from reaper.model import BudgetUse, Ceiling, HoldReason, Mode, Result, Role, State, Status, StepName
from reaper.notices import forecast
from reaper.notices.item import kind_title, shown_name, shown_place
from reaper.policy.tags import tag_values
from reaper.report import coverage_map
from reaper.savings.totals import saved_text
from reaper.text import Currency, clean_line, count_noun, first_few, format_day, format_usd, tidy_line, with_local_times

Item = TypeVar("Item")
MAX_ACCEPTANCES = 10
NOTICE_WORDS = {StepName.WARN: "owner notified", StepName.REMIND: "owner reminded"}
STEP_WORDS = {StepName.WARN: "notify the owner", StepName.REMIND: "remind the owner"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionGroup:
    """Findings under one heading; `needs_attention` if a person has to look at them."""

    title: str
    findings: tuple[Finding, ...]
    needs_attention: bool = False

    @property
    def holds(self) -> dict[HoldReason, list[Finding]]:
        """Those on hold, by reason; empty for any other group."""
        return holds_of(f for f in self.findings if f.step.name is StepName.HOLD)


def hold_groups(items: Iterable[Item], reasons_of: Callable[[Item], Sequence[HoldReason]]) -> dict[HoldReason, list[Item]]:
    """What is on hold, by reason. What several limits or jumps hold is below each of them."""
    groups: dict[HoldReason, list[Item]] = {}
    for item in items:
        for reason in reasons_of(item):
            groups.setdefault(reason, []).append(item)
    return groups


def holds_of(findings: Iterable[Finding]) -> dict[HoldReason, list[Finding]]:
    """These findings, all of them on hold, by reason."""
    return hold_groups(findings, lambda f: f.step.hold_reasons or (HoldReason(because=f.step.because),))


def hold_sentence(reason: HoldReason) -> str:
    """`9 actions in account 123456789012 exceed max_acts: 8, since 2026-11-25 18:53 UTC.`"""
    since = f", since {reason.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if reason.since else ""
    return f"{reason.because[:1].upper()}{reason.because[1:]}{since}."


def release_command(reason: HoldReason) -> str:
    """The command that allows what is on hold; empty if none does."""
    return f"reaper release {reason.release}" if reason.release else ""


def release_note(reason: HoldReason) -> str:
    """What else a release leads to, as a clause; mostly empty."""
    return " (owners get a new notice first)" if reason.after else ""


def acted_clause(report: Report) -> str:
    """`, of which 2 acted on (saving $0.69/hour)`: those that are idle no more; empty if there are none."""
    acted = report.totals.acted
    cost, saved = (
        f"{format_usd(usd, currency=report.run.currency)}/hour" for usd in (acted.usd_per_hour, acted.saves_usd_per_hour)
    )
    money = f"saving {saved}" if saved == cost else f"saving {saved} of their {cost}"
    parts = [f"{acted.count} acted on" + (f" ({money})" if acted.saves_usd_per_hour else "")] if acted.count else []
    parts += [f"{acted.already} already stopped or gone"] if acted.already else []
    return f", of which {' and '.join(parts)}" if parts else ""


def unpriced_clause(report: Report) -> str:
    """`2 more: price unknown`; empty if every idle resource has a price."""
    return f"{report.totals.unpriced_idle} more: price unknown" if report.totals.unpriced_idle else ""


def could_read_nothing(report: Report) -> bool:
    """Whether no list at all could be read."""
    rows = report.cloud_rows
    return bool(rows) and not report.findings and all(row.status in {Status.DENIED, Status.FAILED} for row in rows)


def nothing_idle_text(report: Report) -> str:
    """The headline of a report without idle resources; it says that nothing is idle only if everything was read and judged."""
    if could_read_nothing(report):
        return "Nothing could be read"
    if report.gaps:
        return "No idle resources found; coverage is incomplete"
    if not report.findings:
        return "No resources found"
    return f"No idle resources found; {len(report.unknown):,} unknown" if report.unknown else "Nothing is idle"


def access_remedies(report: Report) -> list[str]:
    """What to do if nothing could be read, a line for each cloud."""
    rows = {row.cloud: row for row in reversed(report.gaps)} if could_read_nothing(report) else {}
    return [registry.access_advice(row.cloud, row.missing) for row in rows.values()]


def head_notes(report: Report) -> list[str]:
    """Sentences below the headline: what was saved, budgets that are exceeded, acceptances to renew, notices that weren't sent, what was swept if nothing is there, and what it takes to prove more."""
    over = [f"{budget_line(budget, report.run.currency)}." for budget in report.run.budgets if budget.is_over]
    over += [f"{line}." for line in unsent_notices(report)]
    return [
        *frozen_lines(report).values(),
        *saved_notes(report),
        *over,
        *acceptance_notes(report),
        *_swept_places(report),
        *_missing_setups(report),
    ]


def frozen_lines(report: Report) -> dict[str, str]:
    """Each reason why nothing is stopped or deleted now under rules that allow it, and a line with how many actions wait:
    `Frozen by year-end until 2027-01-04 00:00 UTC. 4 actions wait for that.`
    """
    waiting: Counter[str] = Counter()
    for finding in report.findings:
        rule = finding.case.rule
        if rule.action.rank >= Ceiling.STOP.rank and (because := frozen_because(rule, report.run.started_at)):
            waits = finding.step.because == because or (finding.next is not None and finding.next.blocked_because == because)
            waiting[because] += waits
    counts = {why: f"{count_noun(n, 'action') if n else 'No action'} wait{'' if n > 1 else 's'}" for why, n in waiting.items()}
    return {because: f"{because[:1].upper()}{because[1:]}. {count} for that." for because, count in counts.items()}


def unsent_notices(report: Report) -> list[str]:
    """`12 first notices weren't sent: 10 below notify_above: $5 a day, 2 waiting until 2026-11-30 08:00 UTC`; empty if there are none."""
    unsent = [f.step for f in report.findings if f.step.name is StepName.NONE and f.step.held is StepName.WARN]
    reasons = Counter(reason.because for step in unsent for reason in step.hold_reasons)
    why = ", ".join(f"{count} {because}" for because, count in reasons.items())
    verb = ("wasn't" if len(unsent) == 1 else "weren't") if report.run.mode.writes else "wouldn't be"
    return [f"{count_noun(len(unsent), 'first notice')} {verb} sent: {why}"] if unsent else []


def saved_notes(report: Report) -> list[str]:
    """`Saved this month: $1,204 (list price), 230 unpriced hours.`, unless nothing has been saved lately."""
    savings = report.savings
    return [f"Saved this month: {saved_text(savings.month, report.run.currency)}."] if savings and savings.has_any else []


def acceptance_notes(report: Report) -> list[str]:
    """The first sentences about acceptances that have expired, soon will, or matched nothing."""
    notes = [*report.run.acceptances]
    more = [f"{len(notes) - MAX_ACCEPTANCES} more acceptances need a look."] if len(notes) > MAX_ACCEPTANCES else []
    return [*notes[:MAX_ACCEPTANCES], *more]


def _swept_places(report: Report) -> Iterator[str]:
    """If everything could be read and nothing is there, a line for each cloud: its places and kinds."""
    by_cloud: dict[str, list[Coverage]] = defaultdict(list)
    for row in report.cloud_rows if not (report.findings or report.gaps) else ():
        by_cloud[row.cloud].append(row)
    for rows in by_cloud.values():
        kinds = ", ".join(dict.fromkeys(clean_line(row.kind) for row in rows))
        places = dict.fromkeys(coverage_map.place_text(row.account, row.account_name, row.region) for row in rows)
        yield f"Swept {first_few(list(places))} for {kinds}."


def _missing_setups(report: Report) -> Iterator[str]:
    """A line for each thing that isn't set up everywhere, such as Busy: how many resources never had a point of their kind's heartbeat."""
    counts: Counter[str] = Counter()
    for finding in report.findings:
        kind = registry.find_kind(finding.case.resource.kind)
        beats = [signal.points for signal in finding.case.evidence if signal.role is Role.HEARTBEAT]
        if kind and kind.needs_setup and beats and not any(beats) and finding.case.verdict.state is not State.EXEMPT:
            counts[kind.needs_setup] += 1
    for setup, count in counts.items():
        yield f"{count_noun(count, 'resource')} can't be proven idle without {setup}."


@dataclass(frozen=True, slots=True, kw_only=True)
class CostGroup:
    """Findings of one owner, kind or the like. `others`: how many groups without a place of their own it combines; 0 for one of them."""

    name: str
    findings: Sequence[Finding]
    money: Money
    others: int = 0


def groups_by_cost(findings: Iterable[Finding], label: Callable[[Finding], str], most: int) -> list[CostGroup]:
    """The findings by label, most expensive groups first; if there are more than `most` and one, the others are combined."""
    by_label: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_label[label(finding)].append(finding)
    groups = [CostGroup(name=name, findings=group, money=money_of(group)) for name, group in by_label.items()]
    groups.sort(key=lambda group: (-group.money.usd_per_hour, group.name))
    if len(groups) <= most + 1:
        return groups
    rest = [finding for group in groups[most:] for finding in group.findings]
    others = len(groups) - most
    return [*groups[:most], CostGroup(name=f"{others} others", findings=rest, money=money_of(rest), others=others)]


def tag_value(finding: Finding, key: str) -> str | None:
    """The value of the resource's tag, whatever the case of its key; None without such a tag, and if its tags couldn't be read."""
    return next((value for _, value in tag_values(finding.case.resource.tags, key)), None)


def budget_line(budget: BudgetUse, currency: Currency) -> str:
    """`vision: idle resources cost $612 a month, over its budget of $500`."""
    cost, limit = (format_usd(usd, currency=currency) for usd in (budget.idle_usd_per_month, budget.usd_per_month))
    more = f", and {budget.unpriced} more: price unknown" if budget.unpriced else ""
    return f"{clean_line(budget.name)}: idle resources cost {cost} a month, over its budget of {limit}{more}"


def team_costs(report: Report, most: int) -> list[CostGroup]:
    """What each value of the first key of `report.tags` costs, active or idle, most expensive first; none without such a key.

    What is known to run nothing isn't counted, nor what its host's price includes.
    """
    billed = [
        f for f in report.findings if f.case.price or (f.case.resource.parts != () and registry.has_price(f.case.resource.kind))
    ]
    return groups_by_cost(billed, lambda f: team_name(f, report.run.report_tags[0]), most) if report.run.report_tags else []


def team_name(finding: Finding, key: str) -> str:
    """The value of that tag, `no team` if there is none, or that the tags couldn't be read."""
    if finding.case.resource.tags is None:
        return "tags couldn't be read"
    return clean_line(tag_value(finding, key) or f"no {key}")


def idle_money(findings: Iterable[Finding]) -> Money:
    """What the idle ones of these cost."""
    return money_of(f for f in findings if f.case.verdict.state is State.IDLE)


def complete_count(report: Report) -> str:
    """`13 of 14`: how much of the coverage is complete."""
    rows = len(report.cloud_rows)
    return f"{rows - len(report.gaps)} of {rows}"


def incomplete_line(report: Report) -> str:
    """One line for someone who doesn't read the report at once: how many gaps and failures there are, and the first cause."""
    gaps, failed = coverage_map.coverage_gaps(report), report.own_failures
    counts = [f"{complete_count(report)} complete"] if gaps else []
    counts += [f"{count_noun(len(failed), 'failure')} in the reaper itself"] if failed else []
    first = f"{gaps[0].status}: {gaps[0].places}: {gaps[0].why}" if gaps else failure_text(failed[0])
    return f"coverage incomplete: {', '.join(counts)}; first: {first}"


def failure_text(row: Coverage) -> str:
    """What failed in the reaper itself: `ledger: dynamodb:PutItem: refused`."""
    missing = f" missing {row.missing}:" if row.missing else ""
    return f"{clean_line(row.kind)}:{missing} {clean_line(row.error or '', 300)}"


def has_news(report: Report) -> bool:
    """Whether REAPER_QUIET still lets the summary through: something is idle or unknown, or coverage is incomplete."""
    return bool(report.idle or report.unknown or not report.is_complete)


def exit_status(report: Report, fail_on: str | None, fail_on_cost: float | None = None) -> int:
    """0 complete, 1 complete and a limit matched, 3 coverage incomplete. `fail_on`: `idle`, any idle resource; `fail_on_cost`: idle dollars an hour."""
    if not report.is_complete:
        return 3
    is_costly = fail_on_cost is not None and bool(report.idle) and report.totals.idle_usd_per_hour >= fail_on_cost
    return 1 if is_costly or (fail_on == "idle" and report.idle) else 0


def action_groups(report: Report) -> list[ActionGroup]:
    """The groups that aren't empty, what needs attention first."""
    actions = report.actions
    groups = [
        ActionGroup(title="On hold", findings=actions.on_hold, needs_attention=True),
        ActionGroup(title="Failed", findings=actions.failed, needs_attention=True),
        ActionGroup(title="Refused", findings=actions.refused),
        ActionGroup(title="Done", findings=actions.settled),
        ActionGroup(title=_due_title(report.run.mode), findings=actions.planned),
    ]
    return [group for group in groups if group.findings]


def action_word(finding: Finding) -> str:
    """`scale-in`: what its kind calls the step, also if it is on hold, or once it is done `scaled in`."""
    if is_action(finding) and finding.outcome.result is Result.DONE:
        return forecast.done_participle(finding)
    resource = finding.case.resource
    return registry.action_noun(resource.kind, finding.step.held or finding.step.name, resource.stop_by)


def outcome_reason(finding: Finding) -> str:
    """What was done, or why not, as a clause."""
    return finding.outcome.error or finding.outcome.because or finding.step.because


def outcome_sentence(finding: Finding, tz: str) -> str:
    """The same as a sentence, with times in that zone."""
    text = tidy_line(outcome_reason(finding), 300)
    end = "" if text.endswith((".", "…")) else "."
    return with_local_times(f"{text[:1].upper()}{text[1:]}{end}", tz) if text else ""


def plan_and_outcome_reasons(finding: Finding) -> tuple[str | None, str | None]:
    """Why it is planned, and the outcome. After an action or notice the plan's reason is left out: it says that a notice is still due."""
    outcome = finding.outcome.error or finding.outcome.because
    if finding.outcome.result is not Result.DONE:
        return finding.step.because, outcome
    if finding.step.name in NOTICE_WORDS:
        return f"a channel accepted the mail to {finding.case.owner.address or 'its owner'}", outcome
    return (None, outcome) if outcome else (finding.step.because, None)


def progress_words(finding: Finding, mode: Mode) -> tuple[str, str]:
    """A step and its result, as a heading and words: `Next` and `would notify the owner`, `Done` and `scaled in`, `Failed` and `stop`.

    Both come from one place, so that they can't contradict each other.
    """
    step, result = finding.step.name, finding.outcome.result
    words = STEP_WORDS.get(step, step.value)
    if step is StepName.HOLD:
        return "On hold", "until a person releases it"
    if result is Result.DONE:
        return "Done", NOTICE_WORDS.get(step) or action_word(finding)
    if result is not Result.PLANNED:
        return result.value.capitalize(), words
    if step is StepName.NONE:
        return "Next", "nothing"
    due, no_address = _due_title(mode), step in NOTICE_WORDS and not finding.case.owner.address
    later = f"{step}: {due[0].lower()}{due[1:]}" if is_action(finding) else f"{words}, but not in this run"
    return "Next", f"{later if mode.writes else f'would {words}'}{', but it has no owner address' if no_address else ''}"


def _due_title(mode: Mode) -> str:
    if not mode.writes:
        return "Would be carried out now"
    return "Due, waiting for `reaper apply`" if mode.announces and not mode.acts else "Due, not carried out"


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


def coming_sentence(coming: Coming, mode: Mode, rate: Callable[[float], str], tz: str = "UTC") -> str:
    """`If enforced from today: 14 actions by Thu 5 Nov, saving $61.20 an hour`. `rate`: dollars an hour in the reader's unit."""
    if not coming.dated:
        return "No action is coming"
    begin = "" if mode.acts else "If enforced from today: "
    last = format_day(coming.dated[-1].at, tz)
    saving = f", saving {rate(coming.saves_usd_per_hour)}" if coming.saves_usd_per_hour else ""
    unpriced = f" (unknown for {coming.unpriced:,})" if coming.unpriced and saving else ""
    return f"{begin}{count_noun(len(coming.dated), 'action')} by {last}{saving}{unpriced}"
