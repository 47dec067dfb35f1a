"""A policy's text as a `Policy`, or every problem in it: its line, the value, what was expected, and the nearest valid word."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from itertools import chain, islice
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from reaper.calendars import office_hours
from reaper.calendars.office_hours import Hours
from reaper.duration import policy_duration
from reaper.errors import PolicyError
from reaper.model import Ceiling
from reaper.notices.message import is_deliverable, is_plain_address
from reaper.policy import channel_settings
from reaper.policy.rules import delete_after
from reaper.policy.schema import Policy, RuleSpec, all_matches
from reaper.policy.values import BusinessDayCount
from reaper.policy.yaml_lines import KeyPath, LineMap, parse_with_lines
from reaper.text import MAX_LINE_LENGTH, did_you_mean, first_few, short_repr, shorten, validation_text

Problem = tuple[KeyPath, str]
MAX_PROBLEMS = 100
SAMPLE_YEAR = [datetime(2024, 1, 1) + timedelta(days=day) for day in range(366)]  # noqa: DTZ001 - local dates, with every clock change
"""The days on which the hours of two time zones are compared."""
MAY_BE_EMPTY = frozenset({"defaults", "limits", "owners", "channels", "rules", "prices", "budgets", "calendars", "accept"})
"""The keys that mean nothing if nothing is below them, such as `defaults:` when every line below is a comment."""
EXPECTED_BY_ERROR = {
    "model": "expected keys and values, such as `{example}`",
    "dict": "expected keys and values, such as `{example}`",
    "list": "expected a list, such as [a, b]",
    "string": "expected a string",
    "int": "expected a whole number",
    "float": "expected a number",
    "bool": "expected true or false",
}
"""Our words for pydantic's errors about types, by the first word of their names: `int_type`, `int_parsing`, `int_from_float`."""
TYPE_ERROR = re.compile(r"(model|dict|list|string|int|float|bool)_(type|attributes_type|parsing|from_float)")
PYDANTIC_STEPS = ("list[", "function-", "literal", "[key]")
"""How parts of a location begin that name pydantic's validators and not a key."""


def parse_policy(text: str, source: str, kinds: Collection[str], startable: Collection[str] | None = None) -> Policy:
    """The policy in `text`. `startable`: the kinds that can be restarted; None checks no hours. Raises PolicyError with all problems."""
    data, lines = parse_with_lines(text, source)
    try:
        policy = Policy.model_validate({k: v for k, v in data.items() if v is not None or k not in MAY_BE_EMPTY})
    except ValidationError as error:
        errors = error.errors()
        raise _policy_error([_problem_line(lines, e) for e in errors[:MAX_PROBLEMS]], source, len(errors)) from error
    problems = list(islice(_unknown_kinds(policy, kinds), MAX_PROBLEMS + 1))
    problems += islice(_calendar_problems(policy), MAX_PROBLEMS + 1)
    problems += _hours_without_restart(policy, startable) if startable is not None else ()
    problems += chain(_forbidden_addressees(policy), _native_problems(policy), _then_problems(policy), _send_problems(policy))
    if problems:
        texts = [f"{lines.place(path)}: {because}" for path, because in problems[:MAX_PROBLEMS]]
        raise _policy_error(texts, source, len(problems))
    return policy


def _policy_error(problems: list[str], source: str, count: int) -> PolicyError:
    """The error for `count` problems, of which `problems` are the first. Long lines are cut."""
    more = [f"{source}: {count - len(problems)} more problems"] if count > len(problems) else []
    return PolicyError([shorten(problem, MAX_LINE_LENGTH) for problem in (*problems, *more)])


def _unknown_kinds(policy: Policy, kinds: Collection[str]) -> Iterator[Problem]:
    for path, _, match in all_matches(policy):
        for name in match.kind or []:
            if not any(fnmatchcase(kind, name) for kind in kinds):
                yield (*path, "match", "kind"), f"unknown kind {short_repr(name)}{_suggestion_text(name, sorted(kinds))}"


def _sections(policy: Policy) -> list[tuple[KeyPath, RuleSpec | None]]:
    """The defaults, as None, and every rule, each with its path."""
    return [(("defaults",), None), *((("rules", index), spec) for index, spec in enumerate(policy.rules))]


def _calendar_problems(policy: Policy) -> Iterator[Problem]:
    """Names of no calendar, and a grace in business days that has no calendar."""
    for path, rule in _sections(policy):
        spec, hours = rule or policy.defaults, rule.hours if rule else None
        business = [spec.business_days] if spec.business_days is not None else []
        keys = {("freeze",): spec.freeze or [], ("hours", "except"): hours.except_ if hours else [], ("business_days",): business}
        for key, name in ((key, name) for key, names in keys.items() for name in names if name not in policy.calendars):
            known = _suggestion_text(name, list(policy.calendars)) or "; add it under calendars"
            yield (*path, *key), f"unknown calendar {short_repr(name)}{known}"
        if isinstance(spec.grace, BusinessDayCount) and not (spec.business_days or policy.defaults.business_days):
            fix = "add business_days: and the name of a calendar, here or in the defaults"
            yield (*path, "grace"), f"{spec.grace.count}bd needs the calendar of its business days; {fix}"


def _hours_without_restart(policy: Policy, startable: Collection[str]) -> Iterator[Problem]:
    """Rules with hours whose kinds can't be started again: what they stop in the evening would stay stopped."""
    for index, spec in enumerate(policy.rules):
        globs = spec.match.kind
        if spec.hours and globs and not any(fnmatchcase(kind, glob) for kind in startable for glob in globs):
            fix = f"remove the hours, or match a kind that can be, such as {' or '.join(sorted(startable))}"
            because = f"not valid for {first_few(globs)}, which can't be started again when the hours begin"
            yield ("rules", index, "hours"), f"{because}: {fix}"


def _native_problems(policy: Policy) -> Iterator[Problem]:
    """Rules that leave stopping to the cloud's own idle shutdown, and ask for what that doesn't heed."""
    for index, spec in enumerate(policy.rules):
        frozen = policy.defaults.freeze if spec.freeze is None else spec.freeze
        unheeded, fix = ("hours", "remove the hours") if spec.hours else ("freeze", "write `freeze: []`")
        if spec.stop_by == "native" and (spec.hours or frozen):
            because = f"not valid with {unheeded}, which the cloud's own idle shutdown doesn't heed"
            yield ("rules", index, "stop_by"), f"{because}; {fix}, or use `stop_by: stop`"


def _send_problems(policy: Policy) -> Iterator[Problem]:
    """The rules whose `force` needs a notice of the same day at a time when none is sent."""
    window = policy.send_hours
    for index, spec in enumerate(policy.rules):
        hours = spec.hours.to_hours if spec.hours else None
        if window and hours and hours.force and (day := _day_without_notice(hours, window)):
            end = f"{hours.end // 60:02}:{hours.end % 60:02} {hours.tz}"
            sent = f"notices.send is {office_hours.hours_text(window)} {window.tz}"
            fix = "end the hours an hour before notices.send, send notices for longer, or remove force"
            yield ("rules", index, "hours"), f"force needs a notice in the hour after {end} on {day}, and {sent}; {fix}"


def _day_without_notice(hours: Hours, window: Hours) -> str | None:
    """The first day of the hours whose end, or the hour after it, lies outside the window."""
    zone, sent_in = office_hours.time_zone(hours.tz), office_hours.time_zone(window.tz)
    for day in (day for day in SAMPLE_YEAR if day.weekday() in hours.days):
        end = (day + timedelta(minutes=hours.end)).replace(tzinfo=zone).astimezone(sent_in)
        minute = end.hour * 60 + end.minute
        if end.weekday() not in window.days or not window.start <= minute <= window.end - 60:
            return office_hours.DAYS[day.weekday()]
    return None


def _forbidden_addressees(policy: Policy) -> Iterator[Problem]:
    """Addresses of `escalate` that no mail may go to."""
    for index, to in enumerate(policy.escalate.to if policy.escalate else ()):
        if is_plain_address(to) and not is_deliverable(to, policy.owners.domains, policy.owners.fallback):
            fix = f"add {to.rpartition('@')[2]} to owners.domains, or remove the address"
            yield ("escalate", "to", index), f"no mail may go to {to}: {fix}"


def _then_problems(policy: Policy) -> Iterator[Problem]:
    """Where the file asks for a `then` that makes no sense: its key, and what to write instead."""
    for path, spec in _sections(policy):
        section = spec or policy.defaults
        action, grace = section.action or policy.defaults.action, section.grace or policy.defaults.grace
        days = f"{grace.count}bd, at least " if isinstance(grace, BusinessDayCount) else ""
        grace = grace.least if isinstance(grace, BusinessDayCount) else grace
        after = delete_after(policy, spec)
        if section.then and action is not Ceiling.STOP:
            why = "deletes after its own grace" if action is Ceiling.DELETE else "stops nothing that a delete could follow"
            yield (*path, "then"), f"not valid with `action: {action}`, which {why}; write `action: stop`, or remove then"
        elif section.then and spec and spec.hours:
            yield (*path, "then"), "not valid with hours, which stop it every day; remove one of them"
        elif after and after < grace:
            most, least = policy_duration(after), policy_duration(grace)
            if section.then:
                yield (*path, "then", "after"), f"{most} is shorter than the grace ({days}{least}); write {least} or more"
            elif section.grace:
                fix = f"write {most} or less, or give the rule a then of its own"
                yield (*path, "grace"), f"{least} is longer than then.after in the defaults ({most}); {fix}"


def _problem_line(lines: LineMap, error: ErrorDetails) -> str:
    path, channel_type = _key_path(error["loc"])
    place, value = lines.place(path), error["input"]
    if error["type"] == "extra_forbidden":
        model = channel_settings.CHANNEL_MODELS[channel_type] if channel_type else _model_at(path[:-1])
        keys = [field.alias or name for name, field in model.model_fields.items()] if model else []
        return f"{place}: unknown key{_suggestion_text(str(path[-1]), keys)}"
    if error["type"].startswith("union_tag_"):
        return f"{place}: {_channel_type_problem(value)}"
    if error["type"] == "missing":
        return f"{place}: this key is missing{'; add `version: 1`' if path == ('version',) else ''}"
    model = _model_at(path) if error["type"].startswith("model") else None
    return f"{place}: {_value_problem(error, value, _example_text(model))}"


def _example_text(model: type[BaseModel] | None) -> str:
    """A section as an error shows it: `{on: mon-fri 07:00-21:00, tz: Europe/Berlin}`, its required keys; `key: value` if it has none."""
    required = {name: field.examples for name, field in model.model_fields.items() if field.is_required()} if model else {}
    keys = [f"{name}: {examples[0]}" for name, examples in required.items() if examples]
    return f"{{{', '.join(keys)}}}" if keys else "key: value"


def _suggestion_text(word: str, valid: Sequence[str]) -> str:
    """`; did you mean x?`, or the list of valid words if none is near."""
    return did_you_mean(word, valid, cutoff=0.5) or (f"; valid here: {', '.join(valid)}" if valid else "")


def _key_path(location: Sequence[str | int]) -> tuple[KeyPath, str | None]:
    """The path of keys in the file, and the channel's type, which pydantic adds to the path of a channel."""
    path = tuple(part for part in location if not (isinstance(part, str) and part.startswith(PYDANTIC_STEPS)))
    if path[:1] == ("channels",) and len(path) > 2 and path[2] in channel_settings.CHANNEL_MODELS:
        return path[:2] + path[3:], str(path[2])
    return path, None


def _channel_type_problem(value: Any) -> str:
    written = value.get("type", "") if isinstance(value, dict) else ""
    name = written if isinstance(written, str) else short_repr(written)
    advice = channel_settings.channel_advice(name) or _suggestion_text(name, list(channel_settings.CHANNEL_MODELS))
    return f"unknown channel type {short_repr(name)}{advice}"


def _value_problem(error: ErrorDetails, value: Any, example: str) -> str:
    type_error = TYPE_ERROR.fullmatch(error["type"])
    expected = EXPECTED_BY_ERROR[type_error[1]].format(example=example) if type_error else validation_text(error["msg"])
    expected = (expected[0].lower() + expected[1:]).replace("input should be", "expected")
    if isinstance(value, dict | list | BaseModel):
        return expected
    if error["type"] == "string_type" and isinstance(value, int | float):
        return f"{short_repr(value)} is a number; put it in quotes"
    is_choice = error["type"] in {"enum", "literal_error"}
    hint = _suggestion_text(str(value), re.findall(r"'([^']+)'", expected)) if is_choice else ""
    return f"{short_repr(value)} is not valid: {expected}{hint}"


def _model_at(path: KeyPath) -> type[BaseModel] | None:
    """The section whose keys are at `path`; None if there is none."""
    model: type[BaseModel] | None = Policy
    for part in path[:1] + path[2:] if path[:1] == ("calendars",) else path:  # without the calendar's name, which is no key
        if model and isinstance(part, str):
            model = _model_of(model.model_fields[part].annotation) if part in model.model_fields else None
    return model


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for arg in get_args(annotation) if (model := _model_of(arg))), None)
