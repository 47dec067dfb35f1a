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
from reaper.duration import spell
from reaper.echo import LINE, brief, nearest, several, shown
from reaper.model import Action, Kind, Move
from reaper.policy.schema import Match, Policy, Spec
from reaper.policy.yaml_lines import MOST, line_of

NIGHT = timedelta(hours=12)
"""About what office hours leave of a working day."""
FIELDS = ("name", "account", "subscription", "region", "size")


def lint(policy: Policy, text: str, source: str) -> list[str]:
    """One line per finding, each with file and line; the first hundred."""
    found = chain.from_iterable(look(policy) for look in LOOKS)
    line = line_of(text, source)
    return [brief(f"{source}:{line(path)}: {message}", LINE) for path, message in islice(found, MOST)]


Problem = tuple[tuple[str | int, ...], str]


def _unreachable(policy: Policy) -> Iterator[Problem]:
    for index, spec in enumerate(policy.rules):
        for earlier in policy.rules[:index]:
            if covers(earlier.match, spec.match):
                yield (
                    ("rules", index),
                    f"rule {spec.name!r} can never match: {earlier.name!r} above it already takes all of its resources",
                )
                break


def covers(wide: Match, narrow: Match) -> bool:
    """Whether everything that `narrow` matches, `wide` matches too. May miss some cases, never claims a wrong one.

    Cloud and kind are one question: what is of cloud aws is of a kind `sagemaker-*`.
    """
    reached = _names(narrow)
    if not reached or not reached <= _names(wide):
        return False
    for name in FIELDS:
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


def _contradictory(policy: Policy) -> Iterator[Problem]:
    for index, spec in enumerate(policy.rules):
        match = spec.match
        clouds = {"sagemaker": "aws", "azureml": "azure"}
        meant = {clouds.get(kind.partition("-")[0], "") for kind in match.kind or ()} - {""}
        if match.cloud and match.kind and meant and not meant & set(match.cloud):
            yield (
                ("rules", index, "match"),
                f"rule {spec.name!r} can never match: its kinds are not in cloud {several(match.cloud)}",
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
                        f"tag {brief(key)}: {shown(value)} and {shown(first)} differ only in case; tag values match exactly",
                    )
            if _protects(spec) and any(v != v.lower() for v in values or ()) and not any(v == v.lower() for v in values or ()):
                yield (
                    ("rules", index, "match", "tags"),
                    f"tag {brief(key)}: values match exactly, so {several(values or ())} does not protect a lower-case spelling",
                )


def _twice(policy: Policy) -> Iterator[Problem]:
    """Tag keys are the same in any case, so that one rule which names one twice asks for both values at once."""
    for index, spec in enumerate(policy.rules):
        first: dict[str, str] = {}
        for key in spec.match.tags or {}:
            if first.setdefault(key.lower(), key) != key:
                yield (
                    ("rules", index, "match", "tags"),
                    f"rule {spec.name!r}: {shown(first[key.lower()])} and {shown(key)} are the same tag, since keys match in any case",
                )


def _regions(policy: Policy) -> Iterator[Problem]:
    """Regions of which no price list knows; a new one may be right, which is why this is no error."""
    known = prices.regions()
    for index, spec in enumerate(policy.rules):
        for region in spec.match.region or ():
            if not any(fnmatchcase(name, region.lower()) for name in known):
                yield (
                    ("rules", index, "match", "region"),
                    f"rule {spec.name!r}: {shown(region)} is no region that is known here{nearest(region, known)}",
                )


def _hours(policy: Policy) -> Iterator[Problem]:
    """Rules whose office hours stop what nothing starts again, or force it in vain, or ask for more silence than a night has."""
    for index, spec in enumerate(policy.rules):
        if spec.hours is None:
            continue
        if lasting := ", ".join(_lasting(spec.match)):
            yield (
                ("rules", index, "hours"),
                f"rule {spec.name!r}: nothing starts {lasting} again in the morning; name other kinds",
            )
            if spec.hours.force:
                yield ("rules", index, "hours", "force"), f"rule {spec.name!r}: force does not hold for {lasting}: only when idle"
        if spec.idle_after and spec.idle_after > NIGHT:
            yield (
                ("rules", index, "idle_after"),
                f"rule {spec.name!r}: an idle_after of {spell(spec.idle_after)} holds outside the hours, too, and outlasts a night",
            )


def _in_vain(policy: Policy) -> Iterator[Problem]:
    """Rules that ask for an action of kinds they name themselves, and will not get it."""
    asked = "act_on" in policy.defaults.model_fields_set
    for index, spec in enumerate(policy.rules):
        action = spec.action or policy.defaults.action
        if action.rank < Action.STOP.rank or not spec.match.kind or "*" in spec.match.kind:
            continue
        for kind in _reached(spec.match):
            for key, said in in_vain(kind, spec, action, asked):
                yield ("rules", index, key), f"rule {spec.name!r}, {key}: {said}"


def in_vain(kind: Kind[Any], spec: Spec, action: Action, asked: bool) -> Iterator[tuple[str, str]]:
    """Where a rule with that action does nothing to one kind: the key that is in the way, and what to write instead.

    `asked`: the defaults say which evidence an action needs; whoever wrote that knows of it.
    """
    stop, delete = kind.deeds.get(Move.STOP), kind.deeds.get(Move.DELETE)
    deed = delete if action is Action.DELETE and delete and not spec.hours else stop
    if deed is None:
        can = "`action: delete` exists" if delete and not spec.hours else "it is only told of, as `action: notify` says"
        yield "action", f"nothing can stop {kind.name}: {can}"
        return
    if deed is stop and deed.in_vain:
        yield "action", f"stop is not for every {kind.name}: {deed.in_vain}"
    if not deed.undo:
        yield "action", f"what is {deed.verb} of {kind.name} cannot be brought back: write `action: notify`"
    forced = spec.hours is not None and spec.hours.force
    if kind.needs and not (asked or forced or "act_on" in spec.model_fields_set):
        likely = f"without {kind.needs} {kind.name} is only ever likely idle, and then {action} does nothing"
        yield "act_on", f"{likely}: set that up and write `act_on: proven`, or write `act_on: likely`"


def _widest(policy: Policy) -> Iterator[Problem]:
    """Actions that are for every kind: what they delete, what they only stop, and where a stop in the defaults does nothing."""
    base = policy.defaults
    if base.action is Action.DELETE:
        yield ("defaults", "action"), f"defaults: {_deleted(Match())} that no rule gives another action"
    if base.action.rank >= Action.STOP.rank:
        asked = "act_on" in base.model_fields_set
        yield from ((("defaults", "action"), f"defaults: {said}") for said in _all_in_vain(base.action, asked))
    for index, spec in enumerate(policy.rules):
        if spec.action is Action.DELETE and not spec.hours and "*" in (spec.match.kind or ["*"]):
            yield ("rules", index, "action"), f"rule {spec.name!r}: {_deleted(spec.match)} that the rule matches"


def _deleted(match: Match) -> str:
    """`delete names no kind: it deletes every idle a and b, and stops every idle c and d`."""
    found = _reached(match)
    gone = [kind.name for kind in found if Move.DELETE in kind.deeds]
    kept = [kind.name for kind in found if Move.DELETE not in kind.deeds and Move.STOP in kind.deeds]
    parts = [f"it {verb} every idle {', '.join(names)}" for verb, names in (("deletes", gone), ("stops", kept)) if names]
    return f"delete names no kind: {' and '.join(parts) or 'there is none'}"


def _all_in_vain(action: Action, asked: bool) -> Iterator[str]:
    """What a stop in the defaults does not do: of the kinds that stay, and of those that are only ever likely idle."""
    kinds = [kind for kind in registry.kinds() if not (action is Action.DELETE and Move.DELETE in kind.deeds)]
    stay = [kind.name for kind in kinds if Move.STOP in kind.deeds and kind.deeds[Move.STOP].in_vain]
    if stay:
        yield f"stop is not for every {', '.join(stay)}: some stay and cost as before; a rule that names one of these kinds is told why"
    likely = {kind.name: kind.needs for kind in kinds if kind.needs}
    if likely and not asked:
        needs = ", ".join(dict.fromkeys(likely.values()))
        yield (
            f"without {needs} {', '.join(likely)} are only ever likely idle, and then {action} does nothing: set that up and write "
            "`act_on: proven`, or write `act_on: likely`"
        )


def _reached(match: Match) -> list[Kind[Any]]:
    """The kinds that the rule is for."""
    kinds = [k for k in registry.kinds() if match.cloud is None or k.cloud in match.cloud]
    return [k for k in kinds if match.kind is None or any(fnmatchcase(k.name, glob) for glob in match.kind)]


def _names(match: Match) -> frozenset[str]:
    return _named(tuple(match.cloud or ("*",)), tuple(match.kind or ("*",)))


@lru_cache(maxsize=1024)
def _named(clouds: tuple[str, ...], globs: tuple[str, ...]) -> frozenset[str]:
    """The names of the kinds that are of one of the clouds and fit one of the globs."""
    kinds = [kind for kind in registry.kinds() if "*" in clouds or kind.cloud in clouds]
    return frozenset(kind.name for kind in kinds if any(fnmatchcase(kind.name, glob) for glob in globs))


def _lasting(match: Match) -> list[str]:
    """The kinds that the rule is for, that can be stopped, and that nothing starts again."""
    return [k.name for k in _reached(match) if k.deeds and Move.START not in k.deeds]


def _protects(spec: Spec) -> bool:
    return spec.action is Action.IGNORE


def _no_domains(policy: Policy) -> Iterator[Problem]:
    if policy.owners.tags and not policy.owners.domains and "owners" in policy.model_fields_set:
        rest = "everything goes to the fallback" if policy.owners.fallback else "and without a fallback no owner gets mail"
        yield ("owners",), f"owners.domains is empty: no address from a tag will ever be used, {rest}"


LOOKS = (_unreachable, _contradictory, _case_traps, _twice, _regions, _hours, _in_vain, _widest, _no_domains)
