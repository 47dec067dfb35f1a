"""One message for the admins about a whole run: what is missing from it, decisions to make, what was done, then what is idle. Pure.

Its subject begins with holds and cost; then come what was done, what failed and what is new.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256

from reaper.finding import Actions, Finding, Report, is_action, money_of
from reaper.ledger.ledger import target_from_text
from reaper.limits.caps import RELEASE_ALL, account_text
from reaper.limits.holds import ALL_ACCOUNTS, Breaker, kind_in_target
from reaper.model import Result, Status, StepName
from reaper.notices.chat_card import admin_card
from reaper.notices.forecast import NoticeContext
from reaper.notices.item import (
    Item,
    cost_sentence,
    has_cost,
    kind_title,
    lasting_saving,
    notice_item,
    rate_text,
    wasted_text,
    with_settings,
)
from reaper.notices.message import MAX_SHORT_SUBJECT, MAX_SUBJECT, Audience, Message, render_mail
from reaper.notices.owner_notice import notice_address
from reaper.pending.stop_switch import paused_sentence
from reaper.prices import price_basis
from reaper.report import summary
from reaper.report.coverage_map import coverage_gaps
from reaper.report.summary import coming_actions, coming_sentence
from reaper.text import count_noun, format_time, tidy_line, with_local_times

MAX_ROWS, MAX_NEW_ROWS, MAX_GROUPS = 10, 6, 6
"""Resources and lines of a section, newly idle ones, and teams, owners and kinds with a line of their own."""
MAX_ACCOUNTS = 20
"""The most accounts that the command for a release names; above that it releases all."""
MAX_HOLD_KEYS = 10_000
"""The most keys for resources on hold; with more of them, one key stands for a whole place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHold:
    """What stands on hold besides the report's findings: the `jumps` of idle shares, whether anything is due there or not.

    `since`: when the holds over a resource began, by its ID. `over_budget`: since when a budget has been exceeded, by its mark.
    """

    since: Mapping[str, Collection[datetime]] = field(default_factory=dict)
    jumps: Sequence[Breaker] = ()
    over_budget: Mapping[str, str] = field(default_factory=dict)


NOTHING_ON_HOLD = OnHold()


def urgent_topics(report: Report, on_hold: OnHold = NOTHING_ON_HOLD) -> frozenset[str]:
    """The topics that must never be mistaken for known ones: the stop switch, each hold over a resource, each freeze, each jump of an idle
    share, each "not mine", each exceeded budget, each acceptance that ends, and what is missing from the coverage.
    """
    frozen = {f"frozen:{because.partition(': ')[0]}" for because in summary.frozen_lines(report)}
    gaps = {f"{c.status}:{c.account}/{c.region}/{c.kind}" for c in report.coverage if c.status is not Status.OK}
    paused = {f"paused:{report.run.pause.at}:{report.run.pause.until}"} if report.run.pause else set()
    jumped = {f"jump:{jump.since}:{jump.target}/{jump.kind}" for jump in on_hold.jumps}
    disowned = {_disowned_topic(f) for f in report.findings if f.case.owner.disowned_by}
    over = {_budget_topic(mark, since) for mark, since in on_hold.over_budget.items()}
    ending = {f"accept:{note}" for note, ends in report.run.acceptances.items() if ends}
    return frozenset({*_hold_topics(report, on_hold), *gaps, *paused, *frozen, *jumped, *disowned, *over, *ending})


def topics(report: Report, on_hold: OnHold = NOTHING_ON_HOLD) -> frozenset[str]:
    """Everything this report has to say, by key. Pass it to the next summary as `known_topics`, and only later topics are new."""
    unknown = {f"unknown:{f.case.resource.id}" for f in report.unknown}
    due = {f"due:{f.case.resource.id}" for f in report.findings if _waits_for_person(f, report) and _is_unusual(f)}
    return frozenset(
        {*urgent_topics(report, on_hold), *unknown, *due, *_escalated(report), *(f.case.resource.id for f in report.idle)}
    )


def _hold_topics(report: Report, on_hold: OnHold) -> set[str]:
    """One key for each resource and hold over it; if there are very many, one for each place, which changes with any of them."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for resource in (f.case.resource for f in report.actions.on_hold):
        for since in on_hold.since.get(resource.id) or ("",):
            groups[str(since), "/".join(kind_in_target(resource.target, resource.kind))].append(resource.id)
    if sum(map(len, groups.values())) <= MAX_HOLD_KEYS:
        return {f"hold:{since}:{resource_id}" for (since, _), ids in groups.items() for resource_id in ids}
    return {
        f"hold:{since}:{place}:{sha256(' '.join(sorted(ids)).encode()).hexdigest()}" for (since, place), ids in groups.items()
    }


def admin_summary(
    report: Report,
    context: NoticeContext,
    known_topics: Collection[str] | None = None,
    failures: Sequence[str] = (),
    on_hold: OnHold = NOTHING_ON_HOLD,
) -> Message | None:
    """The summary, or None if every topic is in `known_topics`, no action was made and nothing failed.

    `known_topics`: None if there was no earlier run. `failures`: those outside the report, such as a channel's, each a sentence.
    """
    acted = [f for f in report.findings if is_action(f) and not _waits_for_person(f, report)]
    new_topics = topics(report, on_hold) - frozenset(known_topics or ())
    if not (new_topics or any(_is_unusual(f) for f in acted) or failures):
        return None
    return compose_summary(report, context, known_topics, failures, on_hold)


def compose_summary(
    report: Report,
    context: NoticeContext,
    known_topics: Collection[str] | None = None,
    failures: Sequence[str] = (),
    on_hold: OnHold = NOTHING_ON_HOLD,
) -> Message:
    """The summary, whether or not there is news in it. It goes to the policy's fallback, unless a channel knows its admins."""
    jumps, since = on_hold.jumps, on_hold.over_budget
    known = known_topics or ()
    over = [
        b for b in report.run.budgets if b.is_over and _budget_topic(mark := mark_of(b.name), since.get(mark, "")) not in known
    ]
    actions, resources, mode = report.actions, len(report.findings), report.run.mode
    context, zone = replace(context, audience=Audience.ADMINS), context.owners.tz
    disowned = [f for f in report.findings if f.case.owner.disowned_by and _disowned_topic(f) not in (known_topics or ())]
    # What was deleted in part still costs.
    settled = {f.case.resource.id for f in actions.settled if not (f.outcome.part_done and f.step.name is StepName.DELETE)}
    report = replace(report, findings=tuple(f for f in report.findings if f.case.resource.id not in settled))
    escalated = [f for topic, f in _escalated(report).items() if topic not in known]
    new = [f for f in report.idle if known_topics is not None and f.case.resource.id not in known_topics]
    groups = {
        "would": () if mode.writes else actions.planned,
        "due": actions.planned if mode.announces and not mode.acts else (),
        "done": sorted(actions.done, key=lambda f: -(f.case.usd_per_hour or 0)),
        "not_done": [f for f in actions.lost if not (f.outcome.begun and f.outcome.result is Result.FAILED)],
        "unsure": [f for f in actions.lost if f.outcome.begun and f.outcome.result is Result.FAILED],
        "idle": report.idle,
        "disowned": disowned,
        "no_address": [f for f in report.idle if notice_address(f, context.owners) is None],
    }
    holds = summary.holds_of(actions.on_hold)
    frozen = [with_local_times(tidy_line(line, 300), zone) for line in summary.frozen_lines(report).values()]
    coming = coming_actions(report.findings)
    own_failures = list(map(summary.failure_text, report.own_failures))
    failed = [tidy_line(f, 300) for f in list(dict.fromkeys((*failures, *own_failures)))[:MAX_ROWS]]
    over_budget = [f"{tidy_line(summary.budget_line(budget, context.currency), 300)}." for budget in over[:MAX_ROWS]]
    accepted = [tidy_line(note, 300) for note in summary.acceptance_notes(report)]
    details = _idle_sentences(report, actions, context)
    jumped = [_jump_line(jump, context) for jump in jumps[:MAX_ROWS]]
    problems = (*failed, *jumped, *over_budget, *accepted)
    subject = _subject(report, actions, context, newly_idle=len(new), jumps=len(jumps))
    text, html = render_mail(
        "admin",
        subject=subject,
        report=report,
        context=context,
        resources=resources,
        settled=len(settled),
        sums=report.totals,
        basis=price_basis(report.findings, context.currency),
        headline=_saved_text(actions, context) or idle_text(report, context),
        details=details,
        remedies=summary.access_remedies(report),
        saved=summary.saved_notes(report),
        coming=coming,
        comes=coming_sentence(coming, mode, context.rate, zone),
        paused=with_local_times(tidy_line(paused_sentence(report.run.pause), 300), zone),
        frozen=frozen,
        breakdown=_cost_breakdown(report, context),
        gaps=coverage_gaps(report)[:MAX_ROWS],
        run={
            name: with_settings(f"reaper {name} {options}".strip(), context.location_settings)
            for name, options in (("release", _release_options(actions.on_hold)), ("plan", ""), ("apply", ""))
        },
        jumps=jumped,
        more_jumps=max(0, len(jumps) - MAX_ROWS),
        failures=failed,
        on_hold=[
            (with_local_times(tidy_line(summary.hold_sentence(reason), 300), zone), _first_items(held, context, MAX_NEW_ROWS))
            for reason, held in list(holds.items())[:MAX_ROWS]
        ],
        held=len(actions.on_hold),
        more_holds=max(0, len(holds) - MAX_ROWS),
        over_budget=over_budget,
        escalated=[(notice_item(f, context, for_admins=True), f.record and f.record.notice) for f in escalated],
        accepted=accepted,
        newly_idle=_first_items(new, context, MAX_NEW_ROWS),
        unknown=_first_items(report.unknown, context, MAX_NEW_ROWS),
        **{name: _first_items(group, context) for name, group in groups.items()},
    )
    return Message(
        to=context.owners.fallback or "",
        subject=subject,
        text=text,
        html=html,
        audience=Audience.ADMINS,
        attributes={
            "audience": Audience.ADMINS.value,
            "mode": mode.value,
            "coverage": "complete" if report.is_complete else "incomplete",
            "idle": len(report.idle),
            "new": len(new),
            "unknown": len(report.unknown),
            "kind": tuple(sorted({f.case.resource.kind for f in report.idle})),
            "idle_usd_per_hour": report.totals.idle_usd_per_hour,
        },
        resource_ids=tuple(f.case.resource.id for f in report.idle),
        card=admin_card(report, actions, context, [paused_sentence(report.run.pause), details, *problems]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstItems:
    """The first of a list, each with the reason for its step or outcome, and how many more there are."""

    items: tuple[tuple[Item, str], ...]
    more: int

    @property
    def count(self) -> int:
        """How many there are in all."""
        return len(self.items) + self.more


def _first_items(findings: Sequence[Finding], context: NoticeContext, rows: int = MAX_ROWS) -> FirstItems:
    reasons = [summary.outcome_sentence(f, context.owners.tz) for f in findings[:rows]]
    items = tuple((notice_item(f, context, for_admins=True), why) for f, why in zip(findings[:rows], reasons, strict=True))
    return FirstItems(items=items, more=max(0, len(findings) - rows))


def _waits_for_person(finding: Finding, report: Report) -> bool:
    """Whether it waits for `reaper apply`, or for the end of a pause: news once, not in every run."""
    mode, result = report.run.mode, finding.outcome.result
    is_due = mode.announces and not mode.acts and result is Result.PLANNED
    return is_action(finding) and (is_due or (report.run.pause is not None and result is Result.REFUSED))


def _is_unusual(finding: Finding) -> bool:
    """Whether an action is news: what office hours do every evening and morning isn't, unless it went wrong."""
    return finding.case.rule.hours is None or finding.outcome.result in {Result.REFUSED, Result.FAILED}


def _release_options(on_hold: Sequence[Finding]) -> str:
    """The options with which `reaper release` allows these actions: `--account 123456789012`."""
    names = list(dict.fromkeys(f.case.resource.target.account for f in on_hold))
    over_run = any(reason.release == RELEASE_ALL for f in on_hold for reason in f.step.hold_reasons)
    return RELEASE_ALL if over_run or not 0 < len(names) <= MAX_ACCOUNTS else f"--account {','.join(names)}"


def _jump_line(jump: Breaker, context: NoticeContext) -> str:
    """Where an idle share jumped, since when, and how to say that it is true."""
    target = target_from_text(jump.target)
    where, options = "all accounts", "--all"
    if target.account != ALL_ACCOUNTS:
        where = ", ".join(filter(None, (account_text(target.cloud, target.account), target.region)))
        options = f"--account {target.account}"
    release = with_settings(f"reaper release {options}", context.location_settings)
    since = f", since {format_time(jump.since, context.owners.tz)}" if jump.since else ""
    return f"{jump.kind} in {where}{since}: {jump.because}. {'' if jump.protections else 'Check the metrics. '}If they are idle, run `{release}`."


def _disowned_topic(finding: Finding) -> str:
    return f"disowned:{finding.case.owner.disowned_by}:{finding.case.resource.id}"


def _escalated(report: Report) -> Mapping[str, Finding]:
    remembered = [(f, f.record.notice.escalated_at) for f in report.findings if f.record and f.record.notice]
    return {f"escalated:{at}:{f.case.resource.id}": f for f, at in remembered if at}


def mark_of(text: str) -> str:
    """A budget's name or the like as a key of the ledger: in sixteen characters."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _budget_topic(mark: str, since: str) -> str:
    return f"budget:{since}:{mark}"


def _subject(
    report: Report, actions: Actions, context: NoticeContext, *, newly_idle: int, jumps: int, brief: bool = False
) -> str:
    """The long form, or the brief one if that doesn't fit, or if a channel with short subjects would cut off what went wrong."""
    mode = report.run.mode
    due = len(actions.planned) if mode.announces and not mode.acts else 0
    saved = _saved_text(actions, context, brief=brief)
    first = ["stop switch on"] if report.run.pause else []
    first += ["a calendar can't be read"] if any(f.case.rule.waits_because for f in report.findings) else []
    first += [f"{count_noun(len(actions.on_hold), 'action')} on hold"] if actions.on_hold else []
    first += [f"idle share jumped in {count_noun(jumps, 'place')}"] if jumps else []
    first += [saved or idle_text(report, context, brief=brief)]
    done = [f"{_count_text(actions.done, brief)} taken"] if actions.done and not saved else []
    lost = [f"{_count_text(actions.failed, brief)} failed or unknown"] if actions.failed else []
    rest = [f"{due} due" + ("" if brief else ", waiting for `reaper apply`")] if due else []
    rest += [f"{newly_idle} new"] if newly_idle else []
    coverage = [f"coverage {summary.complete_count(report)}"] if report.gaps else []
    parts = [*first, *lost, *coverage, *done, *rest] if brief else [*first, *done, *lost, *rest, *coverage]
    text = "[ML Idle Reaper] " + "; ".join(parts)
    if not brief and len(text) > (MAX_SHORT_SUBJECT if report.gaps or actions.failed else MAX_SUBJECT):
        return _subject(report, actions, context, newly_idle=newly_idle, jumps=jumps, brief=True)
    return tidy_line(text, MAX_SUBJECT, joiners=False)


def _saved_text(actions: Actions, context: NoticeContext, *, brief: bool = False) -> str:
    """`2 actions taken, saving $869 a month`; empty if they save nothing."""
    saved = sum(map(lasting_saving, actions.done))
    return f"{_count_text(actions.done, brief)} taken, saving {context.rate(saved)}" if saved else ""


def _idle_sentences(report: Report, actions: Actions, context: NoticeContext) -> str:
    """What the headline doesn't say of what is idle: its cost after actions, what is wasted, and how many have no price."""
    money, wasted = money_of(report.idle), wasted_text(report.idle, context)
    cost = [idle_text(report, context)] if report.idle and _saved_text(actions, context) else []
    some = [f"The price of {money.unpriced} of them is unknown"] if money.unpriced and has_cost(money) else []
    unsent = [with_local_times(line, context.owners.tz) for line in summary.unsent_notices(report)]
    return " ".join(f"{each}." for each in [*cost, *([wasted] if wasted else []), *some, *unsent])


def idle_text(report: Report, context: NoticeContext, *, brief: bool = False) -> str:
    """`3 idle ML resources cost $5,935 a month`, or if brief `3 idle, $5,935 a month`."""
    if not report.idle:
        return summary.nothing_idle_text(report)
    money = money_of(report.idle)
    if brief:
        return f"{money.count} idle, {rate_text(money, context)}"
    return cost_sentence(count_noun(money.count, "idle ML resource"), money, context)


def _count_text(findings: Sequence[Finding], brief: bool) -> str:
    return str(len(findings)) if brief else count_noun(len(findings), "action")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCost:
    """What one team, owner or kind has idle.

    `rate`: `$336 a month`; `unpriced` of `count` are not in it. `percent`: the length of its bar, of the most expensive group's; 0 if no
    price is known. `others`: how many groups it combines, 0 for a group of its own. `mixed`: its resources and what of it is idle, if
    it also has others.
    """

    name: str
    count: int
    unpriced: int
    rate: str
    percent: int
    others: int
    mixed: str


def _cost_breakdown(report: Report, context: NoticeContext) -> Mapping[str, list[GroupCost]]:
    """By heading, what each owner and kind has idle, most expensive first; with `report.tags` before that what each team costs."""
    idle, keys = report.idle, report.run.report_tags
    teams = {f"Cost by {tidy_line(key, 60)}, idle or not": summary.team_costs(report, MAX_GROUPS) for key in keys[:1]}
    groups = {
        **teams,
        "Idle cost by owner": summary.groups_by_cost(idle, lambda f: f.case.owner.address or "no owner address", MAX_GROUPS),
        "Idle cost by kind": summary.groups_by_cost(idle, lambda f: kind_title(f.case.resource.kind), MAX_GROUPS),
    }
    return {heading: _group_costs(same, context, mixed=heading in teams) for heading, same in groups.items()}


def _group_costs(groups: Sequence[summary.CostGroup], context: NoticeContext, *, mixed: bool) -> list[GroupCost]:
    """Resources without a price count, but not as money."""
    top = max((each.money.usd_per_hour for each in groups if not each.others), default=0.0)
    costs = []
    for group in groups:
        money, idle = group.money, summary.idle_money(group.findings)
        part = f"{count_noun(money.count, 'resource')}, {rate_text(idle, context) if idle.count else 'none'} of it idle"
        has_bar = top and money.unpriced < money.count
        cost = GroupCost(
            name=f"and {group.name}" if group.others else tidy_line(group.name, 60) or "(no name)",
            count=money.count,
            unpriced=money.unpriced if has_cost(money) else 0,
            rate=rate_text(money, context),
            percent=min(100, max(1, round(100 * money.usd_per_hour / top))) if has_bar else 0,
            others=group.others,
            mixed=part if mixed else "",
        )
        costs.append(cost)
    return costs
