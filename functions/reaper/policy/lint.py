"""What is valid in a policy and still probably not meant: rules that can never match, actions that cannot come about, tags that differ only
in case. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain, islice
from typing import Any

from reaper import prices, registry
from reaper.duration import policy_duration
from reaper.kind import Kind
from reaper.model import Ceiling, StepName
from reaper.policy.schema import Match, Policy, RuleSpec
from reaper.policy.yaml_lines import MAX_PROBLEMS, line_finder
from reaper.text import MAX_LINE_LENGTH, did_you_mean, first_few, short_repr, shorten

NIGHT_LENGTH = timedelta(hours=12)
"""About what office hours leave of a working day."""
COMPARED_KEYS = ("name", "account", "subscription", "region", "size")


def lint_policy(policy: Policy, text: str, source: str) -> list[str]:
    """One line per finding, each with file and line; the first hundred."""
    found = chain.from_iterable(look(policy) for look in CHECKS)
    line = line_finder(text, source)
    return [shorten(f"{source}:{line(path)}: {message}", MAX_LINE_LENGTH) for path, message in islice(found, MAX_PROBLEMS)]


Problem = tuple[tuple[str | int, ...], str]


def _unreachable_rules(policy: Policy) -> Iterator[Problem]:
    for index, spec in enumerate(policy.rules):
        for earlier in policy.rules[:index]:
            if covers_match(earlier.match, spec.match):
                yield (
                    ("rules", index),
                    f"rule {spec.name!r} can never match: {earlier.name!r} above it already takes all of its resources",
                )
                break


def covers_match(wide: Match, narrow: Match) -> bool:
    """Whether everything that `narrow` matches, `wide` matches too. May miss some cases, never claims a wrong one.

    Cloud and kind are one question, because each kind is of one cloud.
    """
    reached = _kind_names(narrow)
    if not reached or not reached <= _kind_names(wide):
        return False
    for name in COMPARED_KEYS:
        mine, other = getattr(wide, name), getattr(narrow, name)
        if mine is not None and "*" not in mine and (other is None or not set(other) <= set(mine)):
            return False
    if wide.usd_per_hour is not None and wide.usd_per_hour != narrow.usd_per_hour:
        return False
    theirs = {key.lower(): values for key, values in (narrow.tags or {}).items()}
    return all(_tag_covers(values, key.lower(), theirs) for key, values in (wide.tags or {}).items())


def _tag_covers(values: list[str] | None, key: str, theirs: dict[str, list[str] | None]) -> bool:
    if key not in theirs:
        return False
    other = theirs[key]
    if values is None or other is None:
        return values is other
    return "*" in values or set(other) <= set(values)


def _contradictory_rules(policy: Policy) -> Iterator[Problem]:
    for index, spec in enumerate(policy.rules):
        match = spec.match
        meant = {kind.cloud for kind in registry.kinds() if any(fnmatchcase(kind.name, glob) for glob in match.kind or ())}
        if match.cloud and match.kind and meant and not meant & set(match.cloud):
            yield (
                ("rules", index, "match"),
                f"rule {spec.name!r} can never match: its kinds are not in cloud {first_few(match.cloud)}",
            )
        if match.account and match.subscription and not set(match.account) & set(match.subscription):
            yield (
                ("rules", index, "match"),
                f"rule {spec.name!r} can never match: account and subscription are the same thing and differ",
            )


def _case_traps(policy: Policy) -> Iterator[Problem]:
    spelled: dict[tuple[str, str], str] = {}
    for index, spec in enumerate(policy.rules):
        for key, values in (spec.match.tags or {}).items():
            for value in values or ():
                first = spelled.setdefault((key.lower(), value.lower()), value)
                if first != value:
                    yield (
                        ("rules", index, "match", "tags"),
                        f"tag {shorten(key)}: {short_repr(value)} and {short_repr(first)} differ only in case; tag values match exactly",
                    )
            if _protects(spec) and any(v != v.lower() for v in values or ()) and not any(v == v.lower() for v in values or ()):
                yield (
                    ("rules", index, "match", "tags"),
                    f"tag {shorten(key)}: values match exactly, so {first_few(values or ())} does not protect a lower-case spelling",
                )


def _tags_named_twice(policy: Policy) -> Iterator[Problem]:
    """Tag keys are the same in any case, so that one rule which names one twice asks for both values at once."""
    for index, spec in enumerate(policy.rules):
        first: dict[str, str] = {}
        for key in spec.match.tags or {}:
            if first.setdefault(key.lower(), key) != key:
                yield (
                    ("rules", index, "match", "tags"),
                    f"rule {spec.name!r}: {short_repr(first[key.lower()])} and {short_repr(key)} are the same tag, since keys match in any case",
                )


def _unknown_regions(policy: Policy) -> Iterator[Problem]:
    """Regions of which no price list knows; a new one may be right, which is why this is no error."""
    known = prices.priced_regions()
    for index, spec in enumerate(policy.rules):
        for region in spec.match.region or ():
            if not any(fnmatchcase(name, region.lower()) for name in known):
                yield (
                    ("rules", index, "match", "region"),
                    f"rule {spec.name!r}: {short_repr(region)} is no region that is known here{did_you_mean(region, known)}",
                )


def _hours_without_effect(policy: Policy) -> Iterator[Problem]:
    """Rules whose office hours stop what nothing starts again, or force it in vain, or ask for more silence than a night has."""
    for index, spec in enumerate(policy.rules):
        if spec.hours is None:
            continue
        if lasting := ", ".join(_not_restartable(spec.match)):
            yield (
                ("rules", index, "hours"),
                f"rule {spec.name!r}: nothing starts {lasting} again in the morning; name other kinds",
            )
            if spec.hours.force:
                yield ("rules", index, "hours", "force"), f"rule {spec.name!r}: force does not hold for {lasting}: only when idle"
        if spec.idle_after and spec.idle_after > NIGHT_LENGTH:
            yield (
                ("rules", index, "idle_after"),
                f"rule {spec.name!r}: an idle_after of {policy_duration(spec.idle_after)} holds outside the hours, too, and outlasts a night",
            )


def _actions_without_effect(policy: Policy) -> Iterator[Problem]:
    """Rules that ask for an action of kinds they name themselves, and will not get it."""
    asked = "act_on" in policy.defaults.model_fields_set
    for index, spec in enumerate(policy.rules):
        action = spec.action or policy.defaults.action
        if action.rank < Ceiling.STOP.rank or not spec.match.kind or "*" in spec.match.kind:
            continue
        for kind in _kinds_of_match(spec.match):
            for key, said in no_effect_reasons(kind, spec, action, asked):
                yield ("rules", index, key), f"rule {spec.name!r}, {key}: {said}"


def no_effect_reasons(kind: Kind[Any], spec: RuleSpec, action: Ceiling, asked: bool) -> Iterator[tuple[str, str]]:
    """Where a rule with that action does nothing to one kind: the key that is in the way, and what to write instead.

    `asked`: the defaults say which evidence an action needs; whoever wrote that knows of it.
    """
    stop, delete = kind.actions.get(StepName.STOP), kind.actions.get(StepName.DELETE)
    deed = delete if action is Ceiling.DELETE and delete and not spec.hours else stop
    if deed is None:
        can = "`action: delete` exists" if delete and not spec.hours else "it is only told of, as `action: notify` says"
        yield "action", f"nothing can stop {kind.name}: {can}"
        return
    if deed is stop and deed.no_effect_where:
        yield "action", f"stop is not for every {kind.name}: {deed.no_effect_where}"
    if not deed.undo:
        yield "action", f"what is {deed.participle} of {kind.name} cannot be brought back: write `action: notify`"
    forced = spec.hours is not None and spec.hours.force
    if kind.needs_setup and not (asked or forced or "act_on" in spec.model_fields_set):
        likely = f"without {kind.needs_setup} {kind.name} is only ever likely idle, and then {action} does nothing"
        yield "act_on", f"{likely}: set that up and write `act_on: proven`, or write `act_on: likely`"


def _actions_for_every_kind(policy: Policy) -> Iterator[Problem]:
    """Actions that are for every kind: what they delete, what they only stop, and where a stop in the defaults does nothing."""
    base = policy.defaults
    if base.action is Ceiling.DELETE:
        yield ("defaults", "action"), f"defaults: {_delete_warning(Match())} that no rule gives another action"
    if base.action.rank >= Ceiling.STOP.rank:
        asked = "act_on" in base.model_fields_set
        yield from ((("defaults", "action"), f"defaults: {said}") for said in _default_action_warnings(base.action, asked))
    for index, spec in enumerate(policy.rules):
        if spec.action is Ceiling.DELETE and not spec.hours and "*" in (spec.match.kind or ["*"]):
            yield ("rules", index, "action"), f"rule {spec.name!r}: {_delete_warning(spec.match)} that the rule matches"


def _delete_warning(match: Match) -> str:
    """`delete names no kind: it deletes every idle a and b, and stops every idle c and d`."""
    found = _kinds_of_match(match)
    gone = [kind.name for kind in found if StepName.DELETE in kind.actions]
    kept = [kind.name for kind in found if StepName.DELETE not in kind.actions and StepName.STOP in kind.actions]
    parts = [f"it {verb} every idle {', '.join(names)}" for verb, names in (("deletes", gone), ("stops", kept)) if names]
    return f"delete names no kind: {' and '.join(parts) or 'there is none'}"


def _default_action_warnings(action: Ceiling, asked: bool) -> Iterator[str]:
    """What a stop in the defaults does not do: of the kinds that stay, and of those that are only ever likely idle."""
    kinds = [kind for kind in registry.kinds() if not (action is Ceiling.DELETE and StepName.DELETE in kind.actions)]
    stay = [kind.name for kind in kinds if StepName.STOP in kind.actions and kind.actions[StepName.STOP].no_effect_where]
    if stay:
        yield f"stop is not for every {', '.join(stay)}: some stay and cost as before; a rule that names one of these kinds is told why"
    likely = {kind.name: kind.needs_setup for kind in kinds if kind.needs_setup}
    if likely and not asked:
        needs = ", ".join(dict.fromkeys(likely.values()))
        yield (
            f"without {needs} {', '.join(likely)} are only ever likely idle, and then {action} does nothing: set that up and write "
            "`act_on: proven`, or write `act_on: likely`"
        )


def _kinds_of_match(match: Match) -> list[Kind[Any]]:
    """The kinds that the rule is for."""
    kinds = [k for k in registry.kinds() if match.cloud is None or k.cloud in match.cloud]
    return [k for k in kinds if match.kind is None or any(fnmatchcase(k.name, glob) for glob in match.kind)]


def _kind_names(match: Match) -> frozenset[str]:
    return _names_by_globs(tuple(match.cloud or ("*",)), tuple(match.kind or ("*",)))


@lru_cache(maxsize=1024)
def _names_by_globs(clouds: tuple[str, ...], globs: tuple[str, ...]) -> frozenset[str]:
    """The names of the kinds that are of one of the clouds and fit one of the globs."""
    kinds = [kind for kind in registry.kinds() if "*" in clouds or kind.cloud in clouds]
    return frozenset(kind.name for kind in kinds if any(fnmatchcase(kind.name, glob) for glob in globs))


def _not_restartable(match: Match) -> list[str]:
    """The kinds that the rule is for, that can be stopped, and that nothing starts again."""
    return [k.name for k in _kinds_of_match(match) if k.actions and not k.can_be_started]


def _protects(spec: RuleSpec) -> bool:
    return spec.action is Ceiling.IGNORE


def _missing_domains(policy: Policy) -> Iterator[Problem]:
    if policy.owners.tags and not policy.owners.domains and "owners" in policy.model_fields_set:
        rest = "everything goes to the fallback" if policy.owners.fallback else "and without a fallback no owner gets mail"
        yield ("owners",), f"owners.domains is empty: no address from a tag will ever be used, {rest}"


CHECKS = (
    _unreachable_rules,
    _contradictory_rules,
    _case_traps,
    _tags_named_twice,
    _unknown_regions,
    _hours_without_effect,
    _actions_without_effect,
    _actions_for_every_kind,
    _missing_domains,
)
