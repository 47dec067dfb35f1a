"""Which rule of the policy holds for a resource, and what its own tags make of it. Pure.

The first rule that matches decides. A rule that asks for a price which is not known may or may not apply: then the gentler of it and
the next matching rule holds, so that a missing price never costs anybody a resource.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from reaper import duration
from reaper.model import Ceiling, Confidence, Hours, Resource, Rule
from reaper.policy import office_hours, tags
from reaper.policy.schema import MIN_IDLE_AFTER, Policy, RuleSpec, TagPermission


def effective_rule(policy: Policy, resource: Resource, usd_per_hour: float | None, now: datetime) -> Rule:
    """What holds for `resource` at `now`. With unreadable tags the file's rules are used; `judge` then says `unknown`."""
    return _combined_rule(
        policy, list(_candidate_specs(policy, resource, usd_per_hour)), tags.read_tags(resource.tags or {}, now), now
    )


def idle_after_range(
    policy: Policy, resource: Resource, usd_per_hour: float | None, now: datetime, *, priced: bool = True
) -> tuple[timedelta, timedelta]:
    """The shortest and the longest `idle_after` that may hold for `resource` at `now`, its own tags and office hours included.

    They differ only where a price or a size is not known: whatever these turn out to be, `rule` then asks for no less and no more.
    Not `priced`: a price that is not known now is not known after a closer look either.
    """
    specs = list(_candidate_specs(policy, resource, usd_per_hour))
    wishes = tags.read_tags(resource.tags or {}, now)
    may_change = len(specs) > 1 and (priced or any(_depends_on_size(spec, resource) for spec in specs if spec))
    alone = [[spec] for spec in specs] if may_change else []
    found = [_combined_rule(policy, some, wishes, now).idle_after for some in (specs, *alone)]
    return min(found), max(found)


def may_delete(policy: Policy, resource: Resource, usd_per_hour: float | None) -> bool:
    """Whether any rule that may hold for `resource` allows to delete it; its own tags may allow less and never more."""
    return any(_rule_of_spec(policy, spec).action is Ceiling.DELETE for spec in _candidate_specs(policy, resource, usd_per_hour))


def explain_matches(
    policy: Policy, resource: Resource, usd_per_hour: float | None
) -> Iterator[tuple[str, bool | None, list[str]]]:
    """Every rule in the order of the file: its name, whether it matches, and which of its conditions say no or hang on the unknown."""
    for spec in policy.rules:
        held = spec.match.conditions(resource, usd_per_hour)
        yield spec.name, spec.match.matches(resource, usd_per_hour), [name for name, holds in held.items() if holds is not True]


def shortest_idle_after(policy: Policy) -> timedelta:
    """The shortest `idle_after` of any rule, in or out of its hours; whatever was busy since then is active under every rule."""
    written = [spec.idle_after for spec in policy.rules if spec.idle_after]
    hours = [MIN_IDLE_AFTER for spec in policy.rules if spec.hours and not spec.idle_after]
    return min([policy.defaults.idle_after, *written, *hours])


def longest_idle_after(policy: Policy) -> timedelta:
    """The longest `idle_after` in the file: the window must reach back at least that far."""
    return max([spec.idle_after for spec in policy.rules if spec.idle_after] + [policy.defaults.idle_after])


def _combined_rule(policy: Policy, specs: list[RuleSpec | None], wishes: tags.TagRequests, now: datetime) -> Rule:
    """What holds where any of `specs` may, with the resource's own tags."""
    asked = [_rule_of_spec(policy, spec) for spec in specs]
    found = asked[0] if len(asked) == 1 else _gentlest_rule(asked, now)
    found = replace(found, protected_because=f"{found.name} says ignore") if found.action is Ceiling.IGNORE else found
    tagged = _with_tags(found, _tag_permissions(policy, specs), wishes)
    return (
        tagged if wishes.idle_after == tagged.idle_after else _shortened_outside_hours(tagged, _enough_outside_hours(specs), now)
    )


def _candidate_specs(policy: Policy, resource: Resource, usd_per_hour: float | None) -> Iterator[RuleSpec | None]:
    """Every rule that may apply because of an unknown price, then the one that surely does (None: the defaults)."""
    for spec in policy.rules:
        fits = spec.match.matches(resource, usd_per_hour)
        if fits is not False:
            yield spec
        if fits is True:
            return
    yield None


def _depends_on_size(spec: RuleSpec, resource: Resource) -> bool:
    return spec.match.conditions(resource, None).get("size", True) is None


def _tag_permissions(policy: Policy, specs: list[RuleSpec | None]) -> set[TagPermission]:
    asked = [spec.tags_may if spec and spec.tags_may is not None else policy.defaults.tags_may for spec in specs]
    return set.intersection(*(set(a) for a in asked))


def _enough_outside_hours(specs: list[RuleSpec | None]) -> timedelta:
    """How long a silence is enough outside the rules' hours: what they write themselves, else the shortest that can be told from use."""
    return max((spec.idle_after or MIN_IDLE_AFTER for spec in specs if spec), default=MIN_IDLE_AFTER)


def _rule_of_spec(policy: Policy, spec: RuleSpec | None) -> Rule:
    chosen = {} if spec is None else {k: v for k in Rule.__dataclass_fields__ if (v := getattr(spec, k, None)) is not None}
    fields = {
        k: getattr(policy.defaults, k) for k in ("action", "idle_after", "grace", "remind_every", "snooze_max", "act_on")
    } | chosen
    name = f"rule {spec.name!r}" if spec else "the policy's defaults"
    hours = spec.hours.to_hours if spec and spec.hours else None
    return Rule(**{**fields, "name": name, "hours": hours})


def _gentlest_rule(asked: list[Rule], now: datetime) -> Rule:
    """Of each field the value that does the least; every field of `Rule` is named here, so that none is taken from one rule by chance."""
    return Rule(
        name=" or ".join(r.name for r in asked),
        action=min((r.action for r in asked), key=lambda action: action.rank),
        idle_after=max(r.idle_after for r in asked),
        grace=max(r.grace for r in asked),
        remind_every=max(r.remind_every for r in asked),
        snooze_max=max(r.snooze_max for r in asked),
        act_on=Confidence.LIKELY if all(r.act_on is Confidence.LIKELY for r in asked) else Confidence.PROVEN,
        stop_by="native" if all(r.stop_by == "native" for r in asked) else "stop",
        hours=_gentlest_hours([r.hours for r in asked], now),
        protected_because=next((r.protected_because for r in asked if r.protected_because), None),
        notes=("its price or size is not known, so the gentler of these rules holds", *(n for r in asked for n in r.notes)),
    )


def _gentlest_hours(asked: list[Hours | None], now: datetime) -> Hours | None:
    """Any hours protect: the first that are open now, else the first. They stop, shorten and force only where every rule keeps them."""
    kept = [hours for hours in asked if hours]
    if not kept:
        return None
    chosen = next((hours for hours in kept if office_hours.is_open(hours, now)), kept[0])
    shared = all(hours and _calendar_key(hours) == _calendar_key(chosen) for hours in asked)
    return replace(
        chosen,
        restart="all" if shared and all(hours.restart == "all" for hours in kept) else "ours",
        force=shared and all(hours.force for hours in kept),
        override=max(hours.override for hours in kept),
        by_rule=shared,
    )


def _calendar_key(hours: Hours) -> tuple[frozenset[int], int, int, str]:
    return hours.days, hours.start, hours.end, hours.tz


def _with_tags(found: Rule, may: set[TagPermission], wishes: tags.TagRequests) -> Rule:
    asked = _with_action(_with_idle_after(found, may, wishes.idle_after), wishes.action)
    return replace(
        asked, hours=_with_hours(found.hours, wishes.hours), protected_because=wishes.protected_because or found.protected_because
    )


def _with_idle_after(found: Rule, may: set[TagPermission], wish: timedelta | None) -> Rule:
    if wish is None or wish == found.idle_after:
        return found
    need = TagPermission.LOOSEN if wish > found.idle_after else TagPermission.TIGHTEN
    if need in may:
        return replace(found, idle_after=wish)
    return _with_note(found, f"tag reaper:idle-after={duration.policy_duration(wish)} not honoured: tags_may lacks {need}")


def _with_action(found: Rule, wish: Ceiling | None) -> Rule:
    if wish is None or wish.rank <= found.action.rank:
        return replace(found, action=wish or found.action)
    return _with_note(found, f"tag reaper:action={wish} not honoured: {found.name} allows {found.action} at most")


def _with_hours(ruled: Hours | None, wish: Hours | None) -> Hours | None:
    """A tag sets when it is open. What becomes of it outside is the rule's to say: without a rule's hours a tag's only protect."""
    if wish is None:
        return ruled
    if ruled is None:
        return replace(wish, restart="ours", force=False, by_rule=False)
    return replace(wish, restart=ruled.restart, force=ruled.force, override=ruled.override, by_rule=ruled.by_rule)


def _shortened_outside_hours(found: Rule, enough: timedelta, now: datetime) -> Rule:
    """Outside a rule's office hours people have gone home, so less silence is enough; outside a tag's nothing changes."""
    hours = found.hours
    if hours is None or not hours.by_rule or found.idle_after <= enough or office_hours.is_open(hours, now):
        return found
    return _with_note(
        replace(found, idle_after=enough), f"outside its office hours {duration.policy_duration(enough)} of silence are enough"
    )


def _with_note(found: Rule, note: str) -> Rule:
    return replace(found, notes=(*found.notes, note))
