"""One message for the admins about a whole sweep: money first, then what is new, whose it is, and what could not be seen. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256

from reaper.actions.holds import place
from reaper.model import Finding, Mode, Move, Report, Result, Status
from reaper.notices import commands, forecast
from reaper.notices.message import MAX_SUBJECT, SHORT_SUBJECT, Audience, Message, Value, line
from reaper.notices.owner_notice import ACTED, Item, Occasion, address_of, amount, item, missing, title
from reaper.report import action_groups
from reaper.report.brief import place as spot
from reaper.report.totals import HOURS_A_MONTH, complete, gaps, idle, is_done, lists, nothing, totals, unknown
from reaper.report.totals import troubles as failed
from reaper.snooze.form import tidy
from reaper.text import money

ROWS, FEW = 10, 6
COMMANDS = ("release", "plan", "apply")
GROUPS = 6
EACH = 10_000
"""So many keys of what is on hold at most, each by itself."""
Held = Mapping[str, Collection[datetime]]
"""By resource id: since when the holds over it stand."""
NONE_HELD: Held = {}
TEAM_TAGS = ("team", "cost-center", "costcenter", "department")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
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


def alarms(report: Report, held: Held = NONE_HELD) -> frozenset[str]:
    """What this report has to tell that must never be taken for told: what is on hold, anew for each hold over it, and what was not seen."""
    holes = {f"{c.status}:{c.account}/{c.region}/{c.kind}" for c in report.coverage if c.status is not Status.OK}
    return frozenset({*_holds(report, held), *holes})


def topics(report: Report, held: Held = NONE_HELD) -> frozenset[str]:
    """Everything this report has to tell, by key: give it to the next `overview` as `known`, and only what came since is new."""
    blind = {f"unknown:{f.case.resource.id}" for f in unknown(report)}
    waiting = {f"due:{f.case.resource.id}" for f in _due(report) if _unusual(f)}
    return frozenset({*alarms(report, held), *blind, *waiting, *(f.case.resource.id for f in idle(report))})


def _due(report: Report) -> list[Finding]:
    """What only a person carries out, with `reaper apply`: what is due in a run that announces and does not act."""
    return [f for f in report.findings if _waits(f, report.run.mode)]


def _waits(found: Finding, mode: Mode) -> bool:
    return mode.announces and not mode.acts and found.step.move in ACTED and found.outcome.result is Result.PLANNED


def _holds(report: Report, held: Held) -> set[str]:
    """One key for each resource on hold and hold over it; where these are very many, one for all in a place, which changes with any of them."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for found in (f for f in report.findings if f.step.move is Move.HOLD):
        for since in held.get(found.case.resource.id) or ("",):
            groups[str(since), "/".join(place(found.case.resource.target, found.case.resource.kind))].append(
                found.case.resource.id
            )
    if sum(map(len, groups.values())) <= EACH:
        return {f"hold:{since}:{id_}" for (since, _), ids in groups.items() for id_ in ids}
    return {
        f"hold:{since}:{where}:{sha256(' '.join(sorted(ids)).encode()).hexdigest()}" for (since, where), ids in groups.items()
    }


def overview(
    report: Report,
    occasion: Occasion,
    known: Collection[str] | None = None,
    troubles: Sequence[str] = (),
    held: Held = NONE_HELD,
) -> Message | None:
    """The summary; None when nothing is new since `known` (None: no earlier sweep), nothing was acted on and nothing failed.

    `troubles` are failures outside the report, such as a channel that refused, each a sentence; those of our own that are in its coverage
    are told with them. Its `to` is the policy's fallback; channels for admins may know better.
    """
    due = _due(report)
    acted = [f for f in report.findings if f.step.move in ACTED and not _waits(f, report.run.mode)]
    if not (topics(report, held) - frozenset(known or ()) or any(_unusual(f) for f in acted) or troubles):
        return None
    from reaper.notices.render import both

    looked_at, waiting = len(report.findings), [f for f in report.findings if f.step.move is Move.HOLD]
    # Of what was deleted in part the rest still costs.
    over = {
        f.case.resource.id
        for f in acted
        if f.outcome.result is Result.DONE and not (f.outcome.part and f.step.move is Move.DELETE)
    }
    ended = sorted((f for f in acted if is_done(f)), key=lambda f: -(f.case.usd_per_hour or 0))
    report = replace(report, findings=tuple(f for f in report.findings if f.case.resource.id not in over))
    fresh = [f for f in idle(report) if known is not None and f.case.resource.id not in known]
    lost = [f for f in acted if f.outcome.result in {Result.REFUSED, Result.FAILED}]
    run = {name: commands.with_places(f"reaper {name}", occasion.places) for name in COMMANDS}
    subject = _subject(report, len(fresh), {"held": waiting, "done": ended, "lost": lost, "due": due})
    plain, html = both(
        "admin",
        subject=subject,
        headline=_headline(report),
        month=_cost(idle(report), HOURS_A_MONTH),
        spot=spot,
        looked_at=looked_at,
        report=report,
        run=run,
        sums=totals(report),
        fresh=_some(fresh, occasion, FEW),
        dearest=_some(idle(report), occasion),
        shares={"Team": _shares(report, _team), "Owner": _shares(report, _owner), "Kind": _shares(report, _kind)},
        held=_some(waiting, occasion),
        acted=len(over),
        done=_some(ended, occasion),
        undone=_some([f for f in lost if not f.outcome.begun], occasion),
        unsure=_some([f for f in lost if f.outcome.begun], occasion),
        due=_some(due, occasion),
        nobody=_some([f for f in idle(report) if address_of(f, occasion.owners) is None], occasion),
        unknown=_some(unknown(report), occasion, FEW),
        gaps=gaps(report),
        troubles=[tidy(t, 300) for t in list(dict.fromkeys((*troubles, *_troubles(report))))[:ROWS]],
    )
    return Message(
        to=occasion.owners.fallback or "",
        subject=subject,
        text=plain,
        html=html,
        audience=Audience.ADMINS,
        attributes=_attributes(report, len(fresh)),
        resource_ids=tuple(f.case.resource.id for f in idle(report)),
    )


def _unusual(found: Finding) -> bool:
    """Whether an act is news by itself: what office hours do every evening and morning is not, unless it went wrong."""
    return found.case.rule.hours is None or found.outcome.result in {Result.REFUSED, Result.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Some:
    """The first of a list, each as an item with what the plan says of it, and how many more there are."""

    items: tuple[tuple[Item, str], ...]
    more: int

    @property
    def count(self) -> int:
        """How many there are in all."""
        return len(self.items) + self.more


def _some(found: Sequence[Finding], occasion: Occasion, rows: int = ROWS) -> Some:
    items = tuple((item(f, occasion, admins=True), _sentence(tidy(_why(f), 300))) for f in found[:rows])
    return Some(items=items, more=max(0, len(found) - rows))


def _why(found: Finding) -> str:
    """What was done or why not, without the command that releases it: the heading has that, with the ledger that it needs."""
    return action_groups.why(found).partition(". `reaper release`")[0]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '…')) else '.'}" if text else ""


def _troubles(report: Report) -> list[str]:
    """What failed of our own means, such as the ledger."""
    return [f"{row.kind}: {row.error}" for row in failed(report)]


def _shares(report: Report, of: Callable[[Finding], str]) -> list[Share]:
    """The dearest groups, and one share for all others together; what has no price counts, but not as money."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for found in idle(report):
        groups[of(found)].append(found)
    sums = {name: _usd(group) for name, group in groups.items()}
    top = max(sums.values(), default=0.0)
    names = sorted(groups, key=lambda name: (-sums[name], name))
    shown = len(names) if len(names) <= GROUPS + 1 else GROUPS
    parts = [(tidy(name, 60) or "(no name)", [name], 0) for name in names[:shown]]
    if rest := names[shown:]:
        parts.append((f"and {len(rest)} others", rest, len(rest)))
    return [_share(label, [f for n in named for f in groups[n]], others, top) for label, named, others in parts]


def _share(name: str, found: Sequence[Finding], others: int, top: float) -> Share:
    """Of what a group has; `top`: the dollars an hour of the dearest."""
    usd, unpriced = _usd(found), _unpriced(found)
    percent = min(100, max(1, round(100 * usd / top))) if top and unpriced < len(found) else 0
    cost = amount(usd, unpriced) if unpriced < len(found) else ""
    return Share(name=name, count=len(found), unpriced=unpriced, cost=cost, percent=percent, others=others)


def _usd(found: Iterable[Finding]) -> float:
    """Dollars an hour; what has no price is not in it."""
    return sum(f.price.usd_per_hour for f in found if f.price)


def _unpriced(found: Iterable[Finding]) -> int:
    return sum(1 for f in found if f.price is None)


def _team(found: Finding) -> str:
    tags = {key.lower(): value.strip() for key, value in (found.case.resource.tags or {}).items()}
    return next((tags[key] for key in TEAM_TAGS if tags.get(key)), "no team")


def _owner(found: Finding) -> str:
    return found.owner.address or "no owner address"


def _kind(found: Finding) -> str:
    return title(found.case.resource.kind)


def _headline(report: Report) -> str:
    found = idle(report)
    if not found:
        return nothing(report)
    cost = _cost(found)
    return f"{cost} an hour" if cost else f"{len(found)} idle, {missing(_unpriced(found), len(found))}"


def _cost(found: Sequence[Finding], times: float = 1) -> str:
    """What they cost an hour, or in `times` hours, as it is told; empty where that is not known."""
    return amount(_usd(found) * times, _unpriced(found)) if _unpriced(found) < len(found) else ""


def _subject(report: Report, fresh: int, actions: Mapping[str, Sequence[Finding]]) -> str:
    """The long form, or the brief one where that has no room, or where a channel with less of it would cut off what went wrong."""
    full, short = (_said(report, fresh, actions, brief=brief) for brief in (False, True))
    wrong = gaps(report) or _failed(actions)
    return line(full if len(full) <= (SHORT_SUBJECT if wrong else MAX_SUBJECT) else short, MAX_SUBJECT)


def _failed(actions: Mapping[str, Sequence[Finding]]) -> list[Finding]:
    return [f for f in actions["lost"] if f.outcome.result is Result.FAILED]


def _said(report: Report, fresh: int, actions: Mapping[str, Sequence[Finding]], *, brief: bool) -> str:
    held, ended, due = actions["held"], actions["done"], actions["due"]
    failed = _failed(actions)
    saved = 0 if brief else sum(forecast.saved(f) for f in ended)
    every = len(lists(report))
    first = [f"{_actions(held)} on hold"] if held else []
    first += [_idle(report, brief=brief)]
    done = [f"{_many(ended, brief)} taken" + (f", saving {money(saved)} an hour" if saved else "")] if ended else []
    lost = [f"{_many(failed, brief)} failed or unknown"] if failed else []
    news = [f"{len(due)} due" + ("" if brief else ", waiting for `reaper apply`")] if due else []
    news += [f"{fresh} new"] if fresh else []
    seen = [f"coverage {every - len(gaps(report))} of {every}"] if gaps(report) else []
    parts = [*first, *lost, *seen, *done, *news] if brief else [*first, *done, *lost, *news, *seen]
    return "[ML Idle Reaper] " + "; ".join(parts)


def _idle(report: Report, *, brief: bool) -> str:
    """`3 idle ML resources cost $8.13 an hour`, or in brief `3 idle, $8.13 an hour`."""
    found = idle(report)
    if not found:
        return nothing(report)
    count, cost = len(found), _cost(found)
    said = f"{cost} an hour" if cost else missing(_unpriced(found), count)
    if brief:
        return f"{count} idle, {said}"
    verb = " costs " if count == 1 else " cost "
    return f"{count} idle ML resource{'' if count == 1 else 's'}{verb if cost else ', '}{said}"


def _many(found: Sequence[Finding], brief: bool) -> str:
    return str(len(found)) if brief else _actions(found)


def _actions(found: Sequence[Finding]) -> str:
    return f"{len(found)} action{'' if len(found) == 1 else 's'}"


def _attributes(report: Report, fresh: int) -> dict[str, Value]:
    sums = totals(report)
    return {
        "audience": Audience.ADMINS.value,
        "mode": report.run.mode.value,
        "coverage": "complete" if complete(report) else "incomplete",
        "idle": sums.by_state["idle"],
        "new": fresh,
        "unknown": sums.by_state["unknown"],
        "kind": _kinds(idle(report)),
        "idle_usd_per_hour": sums.idle_usd_per_hour,
    }


def _kinds(found: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(sorted({f.case.resource.kind for f in found}))
