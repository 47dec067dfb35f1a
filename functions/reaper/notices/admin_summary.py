"""One message for the admins about a whole sweep: money first, then what is new, whose it is, and what could not be seen. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256

from reaper.actions.holds import kind_in_target
from reaper.model import Finding, Mode, Report, Result, Status, StepName
from reaper.notices import commands, forecast
from reaper.notices.message import MAX_SHORT_SUBJECT, MAX_SUBJECT, AttributeValue, Audience, Message, to_one_line
from reaper.notices.owner_notice import (
    ACTIONS,
    Item,
    NoticeContext,
    format_amount,
    kind_title,
    notice_address,
    notice_item,
    unknown_price_text,
)
from reaper.report import action_groups
from reaper.report.brief import place_text as spot
from reaper.report.totals import (
    HOURS_A_MONTH,
    cloud_rows,
    idle_findings,
    incomplete_rows,
    is_complete,
    is_done,
    nothing_idle_text,
    report_totals,
    unknown_findings,
)
from reaper.report.totals import own_failures as failed
from reaper.snooze.form import tidy_line
from reaper.text import format_usd

MAX_ROWS, MAX_NEW_ROWS = 10, 6
COMMANDS = ("release", "plan", "apply")
MAX_GROUPS = 6
MAX_HOLD_KEYS = 10_000
"""So many keys of what is on hold at most, each by itself."""
HeldSince = Mapping[str, Collection[datetime]]
"""By resource id: since when the holds over it stand."""
NONE_HELD: HeldSince = {}
TEAM_TAGS = ("team", "cost-center", "costcenter", "department")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCost:
    """What one team, owner or kind has idle; `percent` is its part of the dearest one's money, for a bar, 0 where no price is known.

    `cost`: dollars an hour as they are told, empty where they are not known; `unpriced` of `count` are not in it. `others`: how many groups
    it stands for that are not named themselves; 0 for a group of its own.
    """

    name: str
    count: int
    unpriced: int
    cost: str
    percent: int
    others: int = 0


def urgent_topics(report: Report, held: HeldSince = NONE_HELD) -> frozenset[str]:
    """What this report has to tell that must never be taken for told: what is on hold, anew for each hold over it, and what was not seen."""
    holes = {f"{c.status}:{c.account}/{c.region}/{c.kind}" for c in report.coverage if c.status is not Status.OK}
    return frozenset({*_hold_topics(report, held), *holes})


def topics(report: Report, held: HeldSince = NONE_HELD) -> frozenset[str]:
    """Everything this report has to tell, by key: give it to the next `overview` as `known`, and only what came since is new."""
    blind = {f"unknown:{f.case.resource.id}" for f in unknown_findings(report)}
    waiting = {f"due:{f.case.resource.id}" for f in _due_findings(report) if _is_unusual(f)}
    return frozenset({*urgent_topics(report, held), *blind, *waiting, *(f.case.resource.id for f in idle_findings(report))})


def _due_findings(report: Report) -> list[Finding]:
    """What only a person carries out, with `reaper apply`: what is due in a run that announces and does not act."""
    return [f for f in report.findings if _waits_for_apply(f, report.run.mode)]


def _waits_for_apply(finding: Finding, mode: Mode) -> bool:
    return mode.announces and not mode.acts and finding.step.name in ACTIONS and finding.outcome.result is Result.PLANNED


def _hold_topics(report: Report, held: HeldSince) -> set[str]:
    """One key for each resource on hold and hold over it; where these are very many, one for all in a place, which changes with any of them."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for found in (f for f in report.findings if f.step.name is StepName.HOLD):
        for since in held.get(found.case.resource.id) or ("",):
            groups[str(since), "/".join(kind_in_target(found.case.resource.target, found.case.resource.kind))].append(
                found.case.resource.id
            )
    if sum(map(len, groups.values())) <= MAX_HOLD_KEYS:
        return {f"hold:{since}:{id_}" for (since, _), ids in groups.items() for id_ in ids}
    return {
        f"hold:{since}:{where}:{sha256(' '.join(sorted(ids)).encode()).hexdigest()}" for (since, where), ids in groups.items()
    }


def admin_summary(
    report: Report,
    occasion: NoticeContext,
    known_topics: Collection[str] | None = None,
    failures: Sequence[str] = (),
    held_since: HeldSince = NONE_HELD,
) -> Message | None:
    """The summary; None when nothing is new since `known` (None: no earlier sweep), nothing was acted on and nothing failed.

    `troubles` are failures outside the report, such as a channel that refused, each a sentence; those of our own that are in its coverage
    are told with them. Its `to` is the policy's fallback; channels for admins may know better.
    """
    due = _due_findings(report)
    acted = [f for f in report.findings if f.step.name in ACTIONS and not _waits_for_apply(f, report.run.mode)]
    if not (topics(report, held_since) - frozenset(known_topics or ()) or any(_is_unusual(f) for f in acted) or failures):
        return None
    from reaper.notices.render import render_mail

    looked_at, waiting = len(report.findings), [f for f in report.findings if f.step.name is StepName.HOLD]
    # Of what was deleted in part the rest still costs.
    over = {
        f.case.resource.id
        for f in acted
        if f.outcome.result is Result.DONE and not (f.outcome.part_done and f.step.name is StepName.DELETE)
    }
    ended = sorted((f for f in acted if is_done(f)), key=lambda f: -(f.case.usd_per_hour or 0))
    report = replace(report, findings=tuple(f for f in report.findings if f.case.resource.id not in over))
    fresh = [f for f in idle_findings(report) if known_topics is not None and f.case.resource.id not in known_topics]
    lost = [f for f in acted if f.outcome.result in {Result.REFUSED, Result.FAILED}]
    run = {name: commands.with_settings(f"reaper {name}", occasion.location_settings) for name in COMMANDS}
    subject = _subject(report, len(fresh), {"held": waiting, "done": ended, "lost": lost, "due": due})
    plain, html = render_mail(
        "admin",
        subject=subject,
        headline=_headline(report),
        month=_cost_text(idle_findings(report), HOURS_A_MONTH),
        spot=spot,
        looked_at=looked_at,
        report=report,
        run=run,
        sums=report_totals(report),
        fresh=_first_items(fresh, occasion, MAX_NEW_ROWS),
        dearest=_first_items(idle_findings(report), occasion),
        shares={
            "Team": _group_costs(report, _team_of),
            "Owner": _group_costs(report, _owner_of),
            "Kind": _group_costs(report, _kind_of),
        },
        held=_first_items(waiting, occasion),
        acted=len(over),
        done=_first_items(ended, occasion),
        undone=_first_items([f for f in lost if not f.outcome.begun], occasion),
        unsure=_first_items([f for f in lost if f.outcome.begun], occasion),
        due=_first_items(due, occasion),
        nobody=_first_items([f for f in idle_findings(report) if notice_address(f, occasion.owners) is None], occasion),
        unknown=_first_items(unknown_findings(report), occasion, MAX_NEW_ROWS),
        gaps=incomplete_rows(report),
        troubles=[tidy_line(t, 300) for t in list(dict.fromkeys((*failures, *_own_failure_texts(report))))[:MAX_ROWS]],
    )
    return Message(
        to=occasion.owners.fallback or "",
        subject=subject,
        text=plain,
        html=html,
        audience=Audience.ADMINS,
        attributes=_attributes(report, len(fresh)),
        resource_ids=tuple(f.case.resource.id for f in idle_findings(report)),
    )


def _is_unusual(finding: Finding) -> bool:
    """Whether an act is news by itself: what office hours do every evening and morning is not, unless it went wrong."""
    return finding.case.rule.hours is None or finding.outcome.result in {Result.REFUSED, Result.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstItems:
    """The first of a list, each as an item with what the plan says of it, and how many more there are."""

    items: tuple[tuple[Item, str], ...]
    more: int

    @property
    def count(self) -> int:
        """How many there are in all."""
        return len(self.items) + self.more


def _first_items(findings: Sequence[Finding], occasion: NoticeContext, rows: int = MAX_ROWS) -> FirstItems:
    items = tuple(
        (notice_item(f, occasion, for_admins=True), _as_sentence(tidy_line(_reason_text(f), 300))) for f in findings[:rows]
    )
    return FirstItems(items=items, more=max(0, len(findings) - rows))


def _reason_text(finding: Finding) -> str:
    """What was done or why not, without the command that releases it: the heading has that, with the ledger that it needs."""
    return action_groups.outcome_reason(finding).partition(". `reaper release`")[0]


def _as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '…')) else '.'}" if text else ""


def _own_failure_texts(report: Report) -> list[str]:
    """What failed of our own means, such as the ledger."""
    return [f"{row.kind}: {row.error}" for row in failed(report)]


def _group_costs(report: Report, of: Callable[[Finding], str]) -> list[GroupCost]:
    """The dearest groups, and one share for all others together; what has no price counts, but not as money."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for found in idle_findings(report):
        groups[of(found)].append(found)
    sums = {name: _usd_per_hour(group) for name, group in groups.items()}
    top = max(sums.values(), default=0.0)
    names = sorted(groups, key=lambda name: (-sums[name], name))
    shown = len(names) if len(names) <= MAX_GROUPS + 1 else MAX_GROUPS
    parts = [(tidy_line(name, 60) or "(no name)", [name], 0) for name in names[:shown]]
    if rest := names[shown:]:
        parts.append((f"and {len(rest)} others", rest, len(rest)))
    return [_group_cost(label, [f for n in named for f in groups[n]], others, top) for label, named, others in parts]


def _group_cost(name: str, findings: Sequence[Finding], others: int, top: float) -> GroupCost:
    """Of what a group has; `top`: the dollars an hour of the dearest."""
    usd, unpriced = _usd_per_hour(findings), _unpriced_count(findings)
    percent = min(100, max(1, round(100 * usd / top))) if top and unpriced < len(findings) else 0
    cost = format_amount(usd, unpriced) if unpriced < len(findings) else ""
    return GroupCost(name=name, count=len(findings), unpriced=unpriced, cost=cost, percent=percent, others=others)


def _usd_per_hour(findings: Iterable[Finding]) -> float:
    """Dollars an hour; what has no price is not in it."""
    return sum(f.price.usd_per_hour for f in findings if f.price)


def _unpriced_count(findings: Iterable[Finding]) -> int:
    return sum(1 for f in findings if f.price is None)


def _team_of(finding: Finding) -> str:
    tags = {key.lower(): value.strip() for key, value in (finding.case.resource.tags or {}).items()}
    return next((tags[key] for key in TEAM_TAGS if tags.get(key)), "no team")


def _owner_of(finding: Finding) -> str:
    return finding.owner.address or "no owner address"


def _kind_of(finding: Finding) -> str:
    return kind_title(finding.case.resource.kind)


def _headline(report: Report) -> str:
    found = idle_findings(report)
    if not found:
        return nothing_idle_text(report)
    cost = _cost_text(found)
    return f"{cost} an hour" if cost else f"{len(found)} idle, {unknown_price_text(_unpriced_count(found), len(found))}"


def _cost_text(findings: Sequence[Finding], times: float = 1) -> str:
    """What they cost an hour, or in `times` hours, as it is told; empty where that is not known."""
    return (
        format_amount(_usd_per_hour(findings) * times, _unpriced_count(findings))
        if _unpriced_count(findings) < len(findings)
        else ""
    )


def _subject(report: Report, fresh: int, actions: Mapping[str, Sequence[Finding]]) -> str:
    """The long form, or the brief one where that has no room, or where a channel with less of it would cut off what went wrong."""
    full, short = (_subject_text(report, fresh, actions, brief=brief) for brief in (False, True))
    wrong = incomplete_rows(report) or _failed_actions(actions)
    return to_one_line(full if len(full) <= (MAX_SHORT_SUBJECT if wrong else MAX_SUBJECT) else short, MAX_SUBJECT)


def _failed_actions(actions: Mapping[str, Sequence[Finding]]) -> list[Finding]:
    return [f for f in actions["lost"] if f.outcome.result is Result.FAILED]


def _subject_text(report: Report, fresh: int, actions: Mapping[str, Sequence[Finding]], *, brief: bool) -> str:
    held, ended, due = actions["held"], actions["done"], actions["due"]
    failed = _failed_actions(actions)
    saved = 0 if brief else sum(forecast.saved_usd_per_hour(f) for f in ended)
    every = len(cloud_rows(report))
    first = [f"{_action_count(held)} on hold"] if held else []
    first += [_idle_text(report, brief=brief)]
    done = [f"{_count_text(ended, brief)} taken" + (f", saving {format_usd(saved)} an hour" if saved else "")] if ended else []
    lost = [f"{_count_text(failed, brief)} failed or unknown"] if failed else []
    news = [f"{len(due)} due" + ("" if brief else ", waiting for `reaper apply`")] if due else []
    news += [f"{fresh} new"] if fresh else []
    seen = [f"coverage {every - len(incomplete_rows(report))} of {every}"] if incomplete_rows(report) else []
    parts = [*first, *lost, *seen, *done, *news] if brief else [*first, *done, *lost, *news, *seen]
    return "[ML Idle Reaper] " + "; ".join(parts)


def _idle_text(report: Report, *, brief: bool) -> str:
    """`3 idle ML resources cost $8.13 an hour`, or in brief `3 idle, $8.13 an hour`."""
    found = idle_findings(report)
    if not found:
        return nothing_idle_text(report)
    count, cost = len(found), _cost_text(found)
    said = f"{cost} an hour" if cost else unknown_price_text(_unpriced_count(found), count)
    if brief:
        return f"{count} idle, {said}"
    verb = " costs " if count == 1 else " cost "
    return f"{count} idle ML resource{'' if count == 1 else 's'}{verb if cost else ', '}{said}"


def _count_text(findings: Sequence[Finding], brief: bool) -> str:
    return str(len(findings)) if brief else _action_count(findings)


def _action_count(findings: Sequence[Finding]) -> str:
    return f"{len(findings)} action{'' if len(findings) == 1 else 's'}"


def _attributes(report: Report, fresh: int) -> dict[str, AttributeValue]:
    sums = report_totals(report)
    return {
        "audience": Audience.ADMINS.value,
        "mode": report.run.mode.value,
        "coverage": "complete" if is_complete(report) else "incomplete",
        "idle": sums.by_state["idle"],
        "new": fresh,
        "unknown": sums.by_state["unknown"],
        "kind": _kind_names(idle_findings(report)),
        "idle_usd_per_hour": sums.idle_usd_per_hour,
    }


def _kind_names(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(sorted({f.case.resource.kind for f in findings}))
