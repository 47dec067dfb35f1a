"""Warnings about a valid policy that probably isn't what its author meant: rules that never match, actions without effect, tags that
differ only in case. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain, islice
from typing import Any
from zoneinfo import ZoneInfo

from reaper import prices, registry
from reaper.calendars.calendar import Calendar
from reaper.calendars.freezes import MOMENT
from reaper.calendars.resolve import FREEZE, names_used, unreadable_texts
from reaper.duration import policy_duration
from reaper.kind import Kind
from reaper.model import Ceiling, StepName
from reaper.notices.message import Audience
from reaper.policy.accepted import expiry_notes
from reaper.policy.channel_settings import Room
from reaper.policy.match import ACCOUNT, Match, matches_any
from reaper.policy.parse import MAX_PROBLEMS, Problem
from reaper.policy.schema import Policy, RuleSpec, all_matches
from reaper.policy.values import TAG_ADDRESSEE, Section
from reaper.policy.yaml_lines import KeyPath, parse_with_lines
from reaper.text import MAX_LINE_LENGTH, did_you_mean, first_few, short_repr, shorten

NIGHT_LENGTH = timedelta(hours=12)
"""About the time between two working days."""
LOOKALIKE = re.compile("[\u00ab\u00bb\u2018-\u201f\u2032-\u203a\u2010-\u2015\u2212\ufe58\ufe63\uff01-\uff5e\u0300-\u036f]")
"""Curly quotes, hyphens and full-width letters that no keyboard has by default, and accents that are characters of their own."""
COMPARED_KEYS = ("name", "account", "subscription", "region", "size")
ENDS_SOON, YEAR = timedelta(days=60), timedelta(days=365)
MOST_OF_IT = 0.5
"""The share of the next year from which a freeze is probably a mistake, such as a Change Calendar that is closed by default."""
REGIONAL = frozenset({"AU", "CA", "CH", "DE", "ES", "GB", "IN", "MY"})
"""Countries whose regions have many holidays of their own."""


def lint_policy(policy: Policy, text: str, source: str, now: datetime | None = None) -> list[str]:
    """One line per warning, with file and line; at most MAX_PROBLEMS. `now`: when the calendars were read; None: days aren't checked."""
    over = ((("accept", index, "until"), note) for index, note in expiry_notes(policy, now, timedelta(0))) if now else ()
    dated = (over, _calendar_problems(policy, now)) if now else ()
    problems = chain.from_iterable([*dated, *(check(policy) for check in CHECKS)])
    _, lines = parse_with_lines(text, source)
    return [
        shorten(f"{source}:{lines.line(path)}: {message}", MAX_LINE_LENGTH) for path, message in islice(problems, MAX_PROBLEMS)
    ]


def _unreachable_rules(policy: Policy) -> Iterator[Problem]:
    for index, spec in enumerate(policy.rules):
        if earlier := next((rule for rule in policy.rules[:index] if covers_match(rule.match, spec.match)), None):
            because = f"rule {earlier.name!r} above it matches everything it could"
            yield ("rules", index), f"rule {spec.name!r} never matches: {because}"


def covers_match(wide: Match, narrow: Match) -> bool:
    """Whether `wide` surely matches everything that `narrow` matches. Cloud and kind count together: all in aws is `sagemaker-*`."""
    kinds = _kind_names(narrow)
    if not kinds or not kinds <= _kind_names(wide):
        return False
    for name in COMPARED_KEYS:
        wide_values, narrow_values = getattr(wide, name), getattr(narrow, name)
        if wide_values is None or "*" in wide_values:
            continue
        if narrow_values is None or not set(narrow_values) <= set(wide_values):
            return False
    if wide.usd_per_hour is not None and wide.usd_per_hour != narrow.usd_per_hour:
        return False
    narrow_tags = {key.lower(): values for key, values in (narrow.tags or {}).items()}
    return all(_tag_covers(values, key.lower(), narrow_tags) for key, values in (wide.tags or {}).items())


def _tag_covers(wide_values: list[str] | None, key: str, narrow_tags: dict[str, list[str] | None]) -> bool:
    if key not in narrow_tags:
        return False
    narrow_values = narrow_tags[key]
    if wide_values is None or narrow_values is None:
        return wide_values is narrow_values
    return "*" in wide_values or set(narrow_values) <= set(wide_values)


def _contradictory_rules(policy: Policy) -> Iterator[Problem]:
    for path, who, match in all_matches(policy):
        never = f"{who} never matches"
        clouds = {kind.cloud for kind in registry.kinds() if matches_any(match.kind or (), kind.name)}
        if match.cloud and clouds and not clouds & set(match.cloud):
            yield (*path, "match"), f"{never}: its kinds are not in cloud {first_few(match.cloud)}"
        if match.account and match.subscription and not set(match.account) & set(match.subscription):
            yield (*path, "match"), f"{never}: account and subscription mean the same, but differ"


def _case_traps(policy: Policy) -> Iterator[Problem]:
    spellings: dict[tuple[str, str], str] = {}
    for index, spec in enumerate(policy.rules):
        path: KeyPath = ("rules", index, "match", "tags")
        for key, values in (spec.match.tags or {}).items():
            for value in values or ():
                first = spellings.setdefault((key.lower(), value.lower()), value)
                if first != value:
                    differ = f"{short_repr(value)} and {short_repr(first)} differ only in case"
                    yield path, f"tag {shorten(key)}: {differ}; tag values match exactly"
            if spec.action is Ceiling.IGNORE and values and all(value != value.lower() for value in values):
                missed = f"{first_few(values)} does not protect a lower-case spelling"
                yield path, f"tag {shorten(key)}: values match exactly, so {missed}"


def _repeated_tags(policy: Policy) -> Iterator[Problem]:
    """Matches that name a tag twice: keys match in any case, so such a match asks for both values at once."""
    for path, who, match in all_matches(policy):
        spellings: dict[str, str] = {}
        for key in match.tags or {}:
            first = spellings.setdefault(key.lower(), key)
            if first != key:
                same = f"{short_repr(first)} and {short_repr(key)} are the same tag, since keys match in any case"
                yield (*path, "match", "tags"), f"{who}: {same}"


def _words(policy: Policy) -> Iterator[tuple[KeyPath, str, str]]:
    """Every word that is compared with the clouds' own: the path of its key, whose it is, and itself."""
    sections: list[tuple[KeyPath, str, Section]] = [((*path, "match"), who, match) for path, who, match in all_matches(policy)]
    others = {"enforce_only": policy.enforce_only, "escalate": policy.escalate, "owners": policy.owners, "report": policy.report}
    sections += [((name,), name, section) for name, section in others.items() if section]
    for path, who, section in sections:
        for key in (*COMPARED_KEYS, "accounts", "tags", "to"):
            words = getattr(section, key, None) or ()
            values = chain.from_iterable(each or () for each in words.values()) if isinstance(words, dict) else ()
            yield from (((*path, key), who, word) for word in (*words, *values))


def _mistaken_words(policy: Policy) -> Iterator[Problem]:
    """Regions in no price list (a new one may be right), what can't be an account, and characters that look like those of a keyboard."""
    known = prices.priced_regions()
    for path, who, word in _words(policy):
        if path[-1] in ("account", "subscription", "accounts") and not ACCOUNT.fullmatch(word):
            expected = "an AWS account has 12 digits, an Azure subscription is a GUID"
            yield path, f"{who}: {short_repr(word)} matches no account: {expected}"
        elif path[-1] == "region" and not any(fnmatchcase(name, word) for name in known):
            yield path, f"{who}: unknown region {short_repr(word)}{did_you_mean(word, known)}"
        elif odd := LOOKALIKE.search(word):
            name = f"U+{ord(odd[0]):04X} ({unicodedata.name(odd[0], 'unnamed')})"
            yield path, f"{who}: {short_repr(word)} has {name}; it matches only what is spelled with the same character"


def _prices_without_effect(policy: Policy) -> Iterator[Problem]:
    """Price rules without effect, rates that are those of several sizes, and what a limit in dollars no longer counts."""
    for index, rule in enumerate(policy.prices.rules):
        path: KeyPath = ("prices", "rules", index)
        match = rule.match
        if earlier := next((r for r in policy.prices.rules[:index] if covers_match(r.match, match)), None):
            yield path, f"price rule {rule.name!r} has no effect: {earlier.name!r} above it covers all of its prices"
        if rule.usd_per_hour is not None and any(set(glob) & set("*?[") for glob in match.size or ()):
            yield (*path, "match", "size"), f"price rule {rule.name!r}: every size that it matches gets the same rate"
        if rule.usd_per_hour == 0 or rule.discount == 1:
            free = "limits.max_usd_per_hour and usd_per_hour conditions count what it covers as free"
            yield path, f"price rule {rule.name!r}: {free}"
        known = prices.priced_sizes()
        for size in match.size or ():
            if not any(fnmatchcase(name, size.lower()) for name in known):
                unknown = f"no size with a list price fits {short_repr(size)}{did_you_mean(size, known)}"
                yield (*path, "match", "size"), f"price rule {rule.name!r}: {unknown}"


def _hours_without_effect(policy: Policy) -> Iterator[Problem]:
    """Office hours of kinds that can't be started again, or an `idle_after` longer than a night."""
    for index, spec in enumerate(policy.rules):
        if spec.hours is None:
            continue
        if kinds := [kind.name for kind in _kinds_of(spec.match) if kind.actions and not kind.can_be_started]:
            effect = "so there the hours only protect: they stop, start and force nothing"
            yield ("rules", index, "hours"), f"rule {spec.name!r}: {', '.join(kinds)} can't be started again, {effect}"
        if spec.idle_after and spec.idle_after > NIGHT_LENGTH:
            length = f"idle_after {policy_duration(spec.idle_after)} also applies outside the hours and is longer than a night"
            advice = "office hours may never stop anything; use 12h or less"
            yield ("rules", index, "idle_after"), f"rule {spec.name!r}: {length}, so {advice}"


def _freezes_without_effect(policy: Policy) -> Iterator[Problem]:
    """Freezes that hold nothing, and those of the defaults that a rule drops."""
    defaults = policy.defaults
    actions = [defaults.action, *(spec.action or defaults.action for spec in policy.rules)]
    if defaults.freeze and all(action.rank < Ceiling.STOP.rank for action in actions):
        yield ("defaults", "freeze"), "defaults: freeze has no effect, since no rule stops or deletes anything"
    for index, (spec, action) in enumerate(zip(policy.rules, actions[1:], strict=True)):
        if action.rank < Ceiling.STOP.rank:
            if spec.freeze:
                yield ("rules", index, "freeze"), f"rule {spec.name!r}: freeze has no effect, since its action is {action}"
        elif spec.freeze is not None and (dropped := [name for name in defaults.freeze if name not in spec.freeze]):
            instead = f"its freeze replaces that of the defaults, so {first_few(dropped)} doesn't hold it; list it too, if you want that"
            yield ("rules", index, "freeze"), f"rule {spec.name!r}: {instead}"


def _actions_without_effect(policy: Policy) -> Iterator[Problem]:
    """Rules whose action has no effect on a kind that they name."""
    default_is_set = "act_on" in policy.defaults.model_fields_set
    for index, spec in enumerate(policy.rules):
        action = spec.action or policy.defaults.action
        if action.rank < Ceiling.STOP.rank or not spec.match.kind or "*" in spec.match.kind:
            continue
        for kind in _kinds_of(spec.match):
            is_ended = _is_deleted_by_then(kind) and ("then" in spec.model_fields_set or policy.defaults.then is not None)
            for key, because in no_effect_reasons(kind, spec, action, default_is_set, stop_is_ended=is_ended):
                yield ("rules", index, key), f"rule {spec.name!r}, {key}: {because}"


def no_effect_reasons(
    kind: Kind[Any], spec: RuleSpec, action: Ceiling, default_is_set: bool, *, stop_is_ended: bool = False
) -> Iterator[tuple[str, str]]:
    """Why the rule's action has no effect on one kind: the key to change, and what to write instead.

    `default_is_set`: the policy's defaults set `act_on`, so its author knows about evidence. `stop_is_ended`: the file says what follows a stop.
    """
    stop, delete = kind.actions.get(StepName.STOP), kind.actions.get(StepName.DELETE)
    spec_of_action = delete if action is Ceiling.DELETE and delete and not spec.hours else stop
    if spec_of_action is None:
        instead = "use `action: delete`" if delete and not spec.hours else "use `action: notify`"
        yield "action", f"{kind.name} can't be stopped; {instead}"
        return
    if spec_of_action is stop and spec_of_action.no_effect_where and not stop_is_ended:
        yield "action", f"stop has no effect on some {kind.name} resources: {spec_of_action.no_effect_where}"
    if not spec_of_action.undo:
        yield "action", f"a {kind.name} that was {spec_of_action.participle} can't be restored; use `action: notify`"
    is_forced = spec.hours is not None and spec.hours.force and kind.can_be_started
    if kind.needs_setup and not (default_is_set or is_forced or "act_on" in spec.model_fields_set):
        yield "act_on", _likely_text(kind.needs_setup, f"{kind.name} is", action)


def _likely_text(setup: str, kinds_are: str, action: Ceiling) -> str:
    likely = f"without {setup}, {kinds_are} at most likely idle, and {action} has no effect"
    return f"{likely}; set that up and write `act_on: proven`, or write `act_on: likely`"


def _actions_for_every_kind(policy: Policy) -> Iterator[Problem]:
    """Actions for every kind: what they delete or only stop, and the kinds on which a stop in the defaults has no effect."""
    defaults = policy.defaults
    if defaults.action is Ceiling.DELETE:
        yield ("defaults", "action"), f"defaults: {_delete_warning(Match())} without a rule that sets another action"
    if defaults.action.rank >= Ceiling.STOP.rank:
        for warning in _default_action_warnings(policy):
            yield ("defaults", "action"), f"defaults: {warning}"
    for index, spec in enumerate(policy.rules):
        if spec.action is Ceiling.DELETE and not spec.hours and "*" in (spec.match.kind or ["*"]):
            yield ("rules", index, "action"), f"rule {spec.name!r}: {_delete_warning(spec.match)} that the rule matches"


def _components_left_out(policy: Policy) -> Iterator[Problem]:
    """Rules that delete a kind which others live on, if no rule deletes these: it stays for as long as they do."""
    deleting = [(index, spec) for index, spec in enumerate(policy.rules) if spec.action is Ceiling.DELETE]
    deleted = {kind.name for _, spec in deleting for kind in _kinds_of(spec.match)}
    for index, spec in deleting if policy.defaults.action is not Ceiling.DELETE else ():
        for kind in registry.kinds():
            if kind.host in _kind_names(spec.match) and kind.name not in deleted:
                because = f"one with a {kind.name} on it is never deleted, and no rule deletes those; name that kind, too"
                yield ("rules", index, "match"), f"rule {spec.name!r} deletes {kind.host}: {because}"


def _delete_warning(match: Match) -> str:
    """`delete names no kind: it deletes every idle a and b, and stops every idle c and d`."""
    kinds = _kinds_of(match)
    deleted = [kind.name for kind in kinds if StepName.DELETE in kind.actions]
    stopped = [kind.name for kind in kinds if StepName.DELETE not in kind.actions and StepName.STOP in kind.actions]
    parts = [f"it {verb} every idle {', '.join(names)}" for verb, names in (("deletes", deleted), ("stops", stopped)) if names]
    return f"delete names no kind: {' and '.join(parts) or 'no kind fits'}"


def _default_action_warnings(policy: Policy) -> Iterator[str]:
    """The kinds on which a stop in the defaults has no effect, and those that are at most likely idle, unless the defaults set `act_on`."""
    action, is_set, then = policy.defaults.action, "act_on" in policy.defaults.model_fields_set, policy.defaults.then
    kinds = [kind for kind in registry.kinds() if not (action is Ceiling.DELETE and StepName.DELETE in kind.actions)]
    stopped = [kind for kind in kinds if StepName.STOP in kind.actions and not (then and _is_deleted_by_then(kind))]
    if unaffected := ", ".join(kind.name for kind in stopped if kind.actions[StepName.STOP].no_effect_where):
        yield f"stop has no effect on some {unaffected} resources, which cost as before; a rule that names the kind shows why"
    setups = {kind.name: kind.needs_setup for kind in kinds if kind.needs_setup}
    if setups and not is_set:
        yield _likely_text(", ".join(dict.fromkeys(setups.values())), f"{', '.join(setups)} are", action)


def _is_deleted_by_then(kind: Kind[Any]) -> bool:
    """Whether `then` may delete resources of the kind: a stop leaves a cost, and the kind can be deleted."""
    return StepName.DELETE in kind.actions and bool(kind.actions[StepName.STOP].still_billed)


def _then_without_effect(policy: Policy) -> Iterator[Problem]:
    for index, spec in enumerate(policy.rules):
        if spec.then and not any(map(_is_deleted_by_then, _kinds_of(spec.match))):
            because = "a stop ends the whole cost of its kinds, or they can't be deleted"
            yield ("rules", index, "then"), f"rule {spec.name!r}: then has no effect: {because}"


def _kinds_of(match: Match) -> list[Kind[Any]]:
    names = _kind_names(match)
    return [kind for kind in registry.kinds() if kind.name in names]


def _kind_names(match: Match) -> frozenset[str]:
    clouds = ("*",) if match.cloud is None else tuple(match.cloud)
    return _names_by_globs(clouds, tuple(match.kind or ("*",)))


@lru_cache(maxsize=1024)
def _names_by_globs(clouds: tuple[str, ...], globs: tuple[str, ...]) -> frozenset[str]:
    """The names of the kinds in one of the clouds that fit one of the globs."""
    kinds = [kind for kind in registry.kinds() if matches_any(clouds, kind.cloud)]
    return frozenset(kind.name for kind in kinds if matches_any(globs, kind.name))


def _missing_domains(policy: Policy) -> Iterator[Problem]:
    owners = policy.owners
    if owners.tags and not owners.domains and "owners" in policy.model_fields_set:
        no_mail = "no owner gets mail, since owners.fallback is empty, too"
        consequence = "notices go to owners.fallback" if owners.fallback else no_mail
        yield ("owners",), f"owners.domains is empty, so owner tags are ignored and {consequence}"
    by_tag = [to for to in (policy.escalate.to if policy.escalate else ()) if to.startswith(TAG_ADDRESSEE)]
    if by_tag and not owners.domains:
        yield ("escalate", "to"), f"owners.domains is empty, so no escalation goes to {first_few(by_tag)}; list your mail domain"


def _owners_in_rooms_only(policy: Policy) -> Iterator[Problem]:
    for_owners = [(index, spec) for index, spec in enumerate(policy.channels) if Audience.OWNERS in spec.readers]
    if for_owners and all(isinstance(spec, Room) for _, spec in for_owners):
        because = "an owner may not be in that room, and a post may be lost although accepted; add a mail channel for owners"
        yield ("channels", for_owners[0][0]), f"owners get notices only by {for_owners[0][1].type}: {because}"


def _canary_problems(policy: Policy) -> Iterator[Problem]:
    canary = policy.enforce_only
    if canary is None:
        return
    absent = [key for key, values in (canary.tags or {}).items() if values is None]
    if absent and canary.accounts is None and len(absent) == len(canary.tags or {}):
        meant = f'for resources that have the tag, write {short_repr(absent[0])}: "*"'
        yield ("enforce_only", "tags"), f"enforce_only covers every resource without the tag {short_repr(absent[0])}; {meant}"
    actions = [policy.defaults.action, *(spec.action or policy.defaults.action for spec in policy.rules)]
    if all(action.rank < Ceiling.STOP.rank for action in actions):
        yield ("enforce_only",), "enforce_only has no effect: no rule allows more than notices"


CHECKS = (
    _unreachable_rules,
    _contradictory_rules,
    _case_traps,
    _repeated_tags,
    _mistaken_words,
    _prices_without_effect,
    _hours_without_effect,
    _freezes_without_effect,
    _actions_without_effect,
    _actions_for_every_kind,
    _components_left_out,
    _then_without_effect,
    _missing_domains,
    _owners_in_rooms_only,
    _canary_problems,
)


def _calendar_problems(policy: Policy, now: datetime) -> Iterator[Problem]:
    used, freezes = (names_used(policy), names_used(policy, FREEZE)) if policy.calendars else (set(), set())
    unreadable = unreadable_texts(policy) if policy.resolved else {}
    for name, spec in policy.calendars.items():
        path: KeyPath = ("calendars", name)
        if name not in used:
            yield path, f"calendar {name!r} has no effect: name it in freeze, hours.except or business_days, or remove it"
        if spec.country in REGIONAL and not spec.subdiv:
            more = "its states or regions have more; add subdiv"
            yield path, f"calendar {name!r} has only the holidays of all of {spec.country}, and {more}"
        if because := unreadable.get(name):
            yield path, f"{because}. Until then its freezes hold, its days off are working days, and its business days don't end"
        elif calendar := policy.resolved.get(name):
            for problem in _problems_of_calendar(calendar, name in freezes, now):
                yield path, f"calendar {name!r} {problem}"


def _problems_of_calendar(calendar: Calendar, is_freeze: bool, now: datetime) -> Iterator[str]:
    last = calendar.stretches[-1][1]
    if last < now + ENDS_SOON:
        day = (last - MOMENT).astimezone(ZoneInfo(calendar.tz))
        yield f"has no entry after {day:%Y-%m-%d}; once that is over it can't be relied on, so add the coming ones"
    covered = sum((max(timedelta(), min(end, now + YEAR) - max(start, now)) for start, end in calendar.stretches), timedelta())
    if is_freeze and covered > MOST_OF_IT * YEAR:
        yield f"covers {covered / YEAR:.0%} of the next year, so as a freeze it allows almost no stop or delete"
    elif is_freeze and sum(now < end and start < now + YEAR for start, end in calendar.stretches) > MOST_OF_IT * YEAR.days:
        yield "freezes a part of most days, and no such day is a business day: a grace such as 2bd hardly ever ends under it"
