"""Which rule of the policy holds for a resource, and what its own tags make of it. Pure.

The first rule that matches decides. A rule that asks for a price which is not known may or may not apply: then the gentler of it and
the next matching rule holds, so that a missing price never costs anybody a resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from reaper import duration, schedule, tags
from reaper.model import Action, Resource, Rule
from reaper.policy import SHORTEST, Leeway, Policy, Spec


def rule(policy: Policy, resource: Resource, usd_per_hour: float | None, now: datetime) -> Rule:
    """What holds for `resource` at `now`. With unreadable tags the file's rules are used; `judge` then says `unknown`."""
    asked = [_plain(policy, spec) for spec in _matching(policy, resource, usd_per_hour)]
    found = asked[0] if len(asked) == 1 else _gentlest(asked)
    found = replace(found, protected=f"{found.name} says ignore") if found.action is Action.IGNORE else found
    return _out_of_hours(_with_tags(found, _may(policy, resource, usd_per_hour), tags.read(resource.tags or {}, now)), now)


def looked_at(policy: Policy, resource: Resource, usd_per_hour: float | None) -> Iterator[tuple[str, bool | None, list[str]]]:
    """Every rule in the order of the file: its name, whether it matches, and which of its conditions say no or hang on the unknown."""
    for spec in policy.rules:
        held = spec.match.conditions(resource, usd_per_hour)
        yield spec.name, spec.match.fits(resource, usd_per_hour), [name for name, holds in held.items() if holds is not True]


def shortest_idle_after(policy: Policy) -> timedelta:
    """The shortest `idle_after` of any rule; whatever was busy since then is active under every rule."""
    hours = [SHORTEST for spec in policy.rules if spec.hours]
    return min([spec.idle_after for spec in policy.rules if spec.idle_after] + [policy.defaults.idle_after, *hours])


def sooner(policy: Policy, resources: Iterable[Resource], now: datetime) -> dict[str, datetime]:
    """By resource id, the moment before which silence counts for those whose own tag asks for less than any rule does."""
    usual = shortest_idle_after(policy)
    asked = {r.id: tags.read(r.tags or {}, now).idle_after for r in resources if r.tags}
    return {id_: now - wish for id_, wish in asked.items() if wish and wish < usual}


def longest_idle_after(policy: Policy) -> timedelta:
    """The longest `idle_after` in the file: the window must reach back at least that far."""
    return max([spec.idle_after for spec in policy.rules if spec.idle_after] + [policy.defaults.idle_after])


def _matching(policy: Policy, resource: Resource, usd_per_hour: float | None) -> Iterator[Spec | None]:
    """Every rule that may apply because of an unknown price, then the one that surely does (None: the defaults)."""
    for spec in policy.rules:
        fits = spec.match.fits(resource, usd_per_hour)
        if fits is not False:
            yield spec
        if fits is True:
            return
    yield None


def _may(policy: Policy, resource: Resource, usd_per_hour: float | None) -> set[Leeway]:
    asked = [
        spec.tags_may if spec and spec.tags_may is not None else policy.defaults.tags_may
        for spec in _matching(policy, resource, usd_per_hour)
    ]
    return set.intersection(*(set(a) for a in asked))


def _plain(policy: Policy, spec: Spec | None) -> Rule:
    chosen = {} if spec is None else {k: v for k in Rule.__dataclass_fields__ if (v := getattr(spec, k, None)) is not None}
    fields = {
        k: getattr(policy.defaults, k) for k in ("action", "idle_after", "grace", "remind_every", "snooze_max", "act_on")
    } | chosen
    name = f"rule {spec.name!r}" if spec else "the policy's defaults"
    hours = spec.hours.hours if spec and spec.hours else None
    return Rule(**{**fields, "name": name, "hours": hours})


def _gentlest(asked: list[Rule]) -> Rule:
    last = asked[-1]
    gentle = min(asked, key=lambda r: r.action.rank)
    return replace(
        last,
        name=" or ".join(r.name for r in asked),
        action=gentle.action,
        idle_after=max(r.idle_after for r in asked),
        grace=max(r.grace for r in asked),
        remind_every=max(r.remind_every for r in asked),
        snooze_max=max(r.snooze_max for r in asked),
        act_on=max((r.act_on for r in asked), key=lambda c: c == "proven"),
        notes=("its price or size is not known, so the gentler of these rules holds",),
    )


def _with_tags(found: Rule, may: set[Leeway], wishes: tags.Wishes) -> Rule:
    notes = list(found.notes)
    idle_after, action = found.idle_after, found.action
    if wishes.idle_after and wishes.idle_after != idle_after:
        need = Leeway.LOOSEN if wishes.idle_after > idle_after else Leeway.TIGHTEN
        if need in may:
            idle_after = wishes.idle_after
        else:
            notes.append(f"tag reaper:idle-after={duration.spell(wishes.idle_after)} not honoured: tags_may lacks {need}")
    if wishes.action and wishes.action.rank <= action.rank:
        action = wishes.action
    elif wishes.action:
        notes.append(f"tag reaper:action={wishes.action} not honoured: {found.name} allows {action} at most")
    hours = found.hours
    if wishes.hours and hours:
        hours = replace(wishes.hours, restart=hours.restart, force=hours.force, override=hours.override)
    protected = wishes.protected or found.protected
    return replace(found, idle_after=idle_after, action=action, hours=hours, protected=protected, notes=tuple(notes))


def _out_of_hours(found: Rule, now: datetime) -> Rule:
    """Outside office hours nobody is expected, so the shortest silence that can be told from use is enough."""
    if found.hours is None or found.idle_after <= SHORTEST or schedule.is_open(found.hours, now):
        return found
    note = f"outside its office hours {duration.spell(SHORTEST)} of silence are enough"
    return replace(found, idle_after=SHORTEST, notes=(*found.notes, note))
