"""Which rule of the policy applies to a resource, and how the resource's own tags change it. Pure.

The first rule that matches decides. A rule that needs an unknown price may or may not apply: then the gentler of it and the next matching
rule applies, so that a missing price never costs anyone a resource.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

from reaper import duration, registry
from reaper.calendars import office_hours
from reaper.calendars.calendar import Calendar
from reaper.calendars.freezes import BusinessDays, Freeze, add_length, merged, most_business_days
from reaper.model import Ceiling, Confidence, Resource, Rule
from reaper.policy import tags
from reaper.policy.accepted import UNSURE, accepted_because, ended_acceptance_at
from reaper.policy.schema import Policy, RuleSpec
from reaper.policy.tags import MIN_IDLE_AFTER, TagRequests
from reaper.policy.values import BusinessDayCount, TagPermission

NOT_IN_ENFORCE_ONLY = "not in enforce_only, so notices only"
"""The note on a rule that the policy's canary limits."""
DEFAULTED_FIELDS = ("action", "idle_after", "grace", "remind_every", "snooze_max", "act_on")
PAST, COMING = timedelta(days=60), timedelta(days=60)
"""The freezes that a rule carries: of this past, and of so much unfrozen time to come. The length that an action waits comes on top, twice ahead."""
MAX_AHEAD = timedelta(days=732)
DAYS_OFF_BEFORE, DAYS_OFF_AFTER = timedelta(days=45), timedelta(days=60)
"""The same for days off of office hours."""
OWN_FIELDS = tuple(name for name in Rule.__dataclass_fields__ if name in RuleSpec.model_fields and name != "business_days")


def effective_rule(policy: Policy, resource: Resource, usd_per_hour: float | None, now: datetime) -> Rule:
    """The rule for `resource` at `now`. If its tags are unreadable, the file alone decides; `judge` then says `unknown`.

    What `enforce_only` leaves out gets notices at most. What has office hours, by a tag or a rule, has no `then`.
    What is accepted is protected, too.
    """
    specs = list(_candidate_specs(policy, resource, usd_per_hour))
    requests = tags.read_tags(resource.tags or {}, now)
    rule = _combined_rule(policy, resource, specs, now, requests)
    if rule.hours:
        rule = replace(rule, delete_after=None)
    may_act = rule.in_doubt or rule.action.rank > Ceiling.NOTIFY.rank
    if policy.enforce_only is not None and may_act and not policy.enforce_only.covers(resource):
        action = min(rule.action, Ceiling.NOTIFY, key=lambda ceiling: ceiling.rank)
        rule = _with_note(replace(rule, action=action, only_notices=True, delete_after=None), NOT_IN_ENFORCE_ONLY)
    accepted = accepted_because(policy, resource, usd_per_hour, now)
    if accepted:
        rule = replace(rule, protected_because="; ".join(filter(None, (rule.protected_because, accepted))))
    is_sure = requests.reasons or (accepted and UNSURE not in accepted)
    ends = (requests.kept_until, ended_acceptance_at(policy, resource, usd_per_hour, now))
    return replace(
        rule,
        protection_ended_at=max((end for end in ends if end), default=None),
        in_doubt=not is_sure and (rule.in_doubt or accepted is not None),
    )


def idle_after_range(
    policy: Policy, resource: Resource, usd_per_hour: float | None, now: datetime, *, priced: bool = True
) -> tuple[timedelta, timedelta]:
    """The shortest and the longest `idle_after` that may apply to `resource` at `now`, with its tags and office hours.

    They differ only if the price or a size is unknown: whatever it turns out to be, `effective_rule` stays within them.
    Not `priced`: a price that is unknown now stays unknown after a closer look.
    """
    specs = list(_candidate_specs(policy, resource, usd_per_hour))
    by_size = any(spec.match.conditions(resource, None).get("size", True) is None for spec in specs if spec)
    may_change = len(specs) > 1 and (priced or by_size)
    outcomes = [specs, *([spec] for spec in specs)] if may_change else [specs]
    requests = tags.read_tags(resource.tags or {}, now)
    lengths = [_combined_rule(policy, resource, outcome, now, requests).idle_after for outcome in outcomes]
    return min(lengths), max(lengths)


def may_delete(policy: Policy, resource: Resource, usd_per_hour: float | None) -> bool:
    """Whether any rule that may apply to `resource` allows its deletion. Its own tags can only allow less."""
    candidates = [_rule_of_spec(policy, spec) for spec in _candidate_specs(policy, resource, usd_per_hour)]
    return any(rule.action is Ceiling.DELETE or rule.delete_after for rule in candidates)


def explain_matches(
    policy: Policy, resource: Resource, usd_per_hour: float | None
) -> Iterator[tuple[str, bool | None, list[str]]]:
    """Every rule in the order of the file: its name, whether it matches, and its conditions that fail or depend on the unknown."""
    for spec in policy.rules:
        conditions = spec.match.conditions(resource, usd_per_hour)
        failing = [name for name, result in conditions.items() if result is not True]
        yield spec.name, spec.match.matches(resource, usd_per_hour), failing


def shortest_idle_after(policy: Policy) -> timedelta:
    """The shortest `idle_after` of any rule, in or out of its hours. What was busy since then is active under every rule."""
    lengths = [spec.idle_after for spec in policy.rules if spec.idle_after]
    outside_hours = [MIN_IDLE_AFTER for spec in policy.rules if spec.hours and not spec.idle_after]
    return min([policy.defaults.idle_after, *lengths, *outside_hours])


def longest_idle_after(policy: Policy) -> timedelta:
    """The longest `idle_after` in the file: the least that the window must cover."""
    return max([spec.idle_after for spec in policy.rules if spec.idle_after] + [policy.defaults.idle_after])


def _combined_rule(
    policy: Policy, resource: Resource, specs: Sequence[RuleSpec | None], now: datetime, requests: TagRequests
) -> Rule:
    """The rule for `resource` if any of `specs` may apply, with the requests of its own tags."""
    rules = [_rule_near(policy, spec, now) for spec in specs]
    rule = rules[0] if len(rules) == 1 else _gentlest_rule(rules, now)
    if rule.hours and not registry.can_be_started(resource.kind):
        rule = replace(rule, hours=office_hours.protecting(rule.hours))
    if rule.action is Ceiling.IGNORE:
        rule = replace(rule, protected_because=f"{rule.name} says ignore")
    may_narrow = all(spec and TagPermission.TIGHTEN in (spec.tags_may or ()) for spec in specs)
    hours = office_hours.with_tag_hours(rule.hours, requests.hours, may_narrow=may_narrow)
    tagged = _with_idle_after(replace(rule, hours=hours), _tag_permissions(policy, specs), requests.idle_after)
    tagged = _with_action(tagged, requests.action)
    if requests.reasons:
        tagged = replace(tagged, protected_because=requests.protected_because)
    if requests.idle_after == tagged.idle_after:
        return tagged
    # Outside the rules' hours, what they set themselves is enough, else the shortest that proves anything.
    outside = max((spec.idle_after or MIN_IDLE_AFTER for spec in specs if spec), default=MIN_IDLE_AFTER)
    return _shortened_outside_hours(tagged, outside, now)


def _candidate_specs(policy: Policy, resource: Resource, usd_per_hour: float | None) -> Iterator[RuleSpec | None]:
    """The rules that may apply because of something unknown, then the one that surely does (None: the defaults)."""
    for spec in policy.rules:
        matches = spec.match.matches(resource, usd_per_hour)
        if matches is not False:
            yield spec
        if matches is True:
            return
    yield None


def _tag_permissions(policy: Policy, specs: Sequence[RuleSpec | None]) -> set[TagPermission]:
    """What tags may do under every one of `specs`."""
    lists = [spec.tags_may if spec and spec.tags_may is not None else policy.defaults.tags_may for spec in specs]
    return set.intersection(*(set(permissions) for permissions in lists))


def _rule_of_spec(policy: Policy, spec: RuleSpec | None) -> Rule:
    own = {} if spec is None else {k: v for k in OWN_FIELDS if (v := getattr(spec, k)) is not None}
    fields = {name: getattr(policy.defaults, name) for name in DEFAULTED_FIELDS} | own
    if isinstance(fields["grace"], BusinessDayCount):
        fields["grace"] = fields["grace"].least
    name = f"rule {spec.name!r}" if spec else "the policy's defaults"
    hours = spec.hours.to_hours if spec and spec.hours else None
    return Rule(**{**fields, "name": name, "hours": hours, "delete_after": delete_after(policy, spec)})


def _rule_near(policy: Policy, spec: RuleSpec | None, now: datetime) -> Rule:
    """The rule of `spec`, None for the defaults, with what its calendars say near `now`. It is made once a day, not for each resource."""
    key = (spec.name if spec else None, now.astimezone(UTC).date())
    if key not in policy.known_rules:
        rule = _rule_of_spec(policy, spec)
        policy.known_rules[key] = _with_calendars(rule, policy, spec, key[1]) if policy.calendars else rule
    return policy.known_rules[key]


def _with_calendars(rule: Rule, policy: Policy, spec: RuleSpec | None, today: date) -> Rule:
    """The rule with its freezes, its business days and the days off of its hours."""
    names = policy.defaults.freeze if spec is None or spec.freeze is None else spec.freeze
    frozen = [policy.calendar(name) for name in dict.fromkeys(names)]
    needed = [("freeze", each) for each in frozen]
    grace = (spec.grace if spec else None) or policy.defaults.grace
    name = (spec.business_days if spec else None) or policy.defaults.business_days
    if isinstance(grace, BusinessDayCount) and name:
        counted = policy.calendar(name)
        needed.append(("business-day", counted))
        # Of a calendar that can't be read, the weekend alone: a date by it is the earliest, and nothing is done by it.
        off = frozenset(day for day in counted.days if -2 * PAST <= day - today <= MAX_AHEAD)
        days = BusinessDays(count=grace.count, calendar=name, tz=counted.tz, weekend=counted.weekend, days_off=off)
        rule = replace(rule, business_days=days)
    if rule.hours:
        days_off = (day for name in rule.hours.calendars for day in policy.calendar(name).days)
        near = frozenset(day for day in days_off if -DAYS_OFF_BEFORE <= day - today <= DAYS_OFF_AFTER)
        rule = replace(rule, hours=replace(rule.hours, days_off=near))
    unreadable = [
        f"the {what} calendar {c.name!r} can't be read: {c.unreadable_because}" for what, c in needed if c.unreadable_because
    ]
    return replace(rule, freezes=_freezes_near(frozen, rule, today), waits_because=" and ".join(unreadable) or None)


def _freezes_near(calendars: Sequence[Calendar], rule: Rule, today: date) -> tuple[Freeze, ...]:
    midnight, waits_for = datetime.combine(today, time(), UTC), max(rule.grace, rule.delete_after or timedelta())
    since, until = midnight - PAST - waits_for, midnight + MAX_AHEAD
    stretches = [(each.name, stretch) for each in calendars for stretch in each.stretches]
    known = merged(
        Freeze(calendar=name, start=start, end=end) for name, (start, end) in stretches if since < end and start < until
    )
    last = add_length(midnight, 2 * waits_for + COMING, known)
    return tuple(freeze for freeze in known if freeze.start < last)


def delete_after(policy: Policy, spec: RuleSpec | None) -> timedelta | None:
    """When `then` deletes what the rule stopped; None if it doesn't. A rule that isn't about stops, or has office hours, inherits none."""
    sets_it = spec is not None and "then" in spec.model_fields_set
    then = spec.then if spec and sets_it else policy.defaults.then
    action = (spec.action if spec else None) or policy.defaults.action
    return then.after if then and action is Ceiling.STOP and not (spec and spec.hours) else None


def _gentlest_rule(rules: Sequence[Rule], now: datetime) -> Rule:
    """Of each field the value that does the least. Every field of `Rule` is listed, so that none comes from one rule by chance."""
    deletes_after = [r.delete_after for r in rules if r.delete_after]
    return Rule(
        name=" or ".join(r.name for r in rules),
        action=min((r.action for r in rules), key=lambda action: action.rank),
        idle_after=max(r.idle_after for r in rules),
        grace=max(r.grace for r in rules),
        remind_every=max(r.remind_every for r in rules),
        snooze_max=max(r.snooze_max for r in rules),
        act_on=Confidence.LIKELY if all(r.act_on is Confidence.LIKELY for r in rules) else Confidence.PROVEN,
        stop_by="native" if all(r.stop_by == "native" for r in rules) else "stop",
        hours=office_hours.gentlest([r.hours for r in rules], now),
        protected_because=next((r.protected_because for r in rules if r.protected_because), None),
        only_notices=any(r.only_notices for r in rules) or all(r.action.rank < Ceiling.STOP.rank for r in rules),
        delete_after=max(deletes_after) if len(deletes_after) == len(rules) else None,
        business_days=most_business_days([r.business_days for r in rules if r.business_days]),
        freezes=merged(freeze for r in rules for freeze in r.freezes),
        waits_because=next((r.waits_because for r in rules if r.waits_because), None),
        protection_ended_at=max((r.protection_ended_at for r in rules if r.protection_ended_at), default=None),
        in_doubt=True,
        notes=("its price or size is unknown, so the gentler of these rules applies", *(n for r in rules for n in r.notes)),
    )


def _with_idle_after(rule: Rule, permissions: set[TagPermission], requested: timedelta | None) -> Rule:
    if requested is None or requested == rule.idle_after:
        return rule
    needed = TagPermission.LOOSEN if requested > rule.idle_after else TagPermission.TIGHTEN
    if needed in permissions:
        return replace(rule, idle_after=requested)
    text = duration.policy_duration(requested)
    return _with_note(rule, f"tag reaper:idle-after={text} ignored: tags_may doesn't include {needed}")


def _with_action(rule: Rule, requested: Ceiling | None) -> Rule:
    if requested is None:
        return rule
    if requested.rank <= rule.action.rank:
        return replace(rule, action=requested, delete_after=None)
    return _with_note(rule, f"tag reaper:action={requested} ignored: {rule.action} is the strongest action under {rule.name}")


def _shortened_outside_hours(rule: Rule, idle_after: timedelta, now: datetime) -> Rule:
    """Outside a rule's office hours people have gone home, so less silence is enough. A tag's hours change nothing."""
    hours = rule.hours
    if hours is None or not hours.by_rule or rule.idle_after <= idle_after or office_hours.is_open(hours, now):
        return rule
    note = f"outside its office hours, {duration.policy_duration(idle_after)} of silence is enough"
    return _with_note(replace(rule, idle_after=idle_after), note)


def _with_note(rule: Rule, note: str) -> Rule:
    return replace(rule, notes=(*rule.notes, note))
