"""The `reaper:*` tags of a resource. Keys match case-insensitively; a tag that can't be read protects. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from difflib import get_close_matches
from functools import lru_cache

from reaper import duration
from reaper.calendars.terms import Hours
from reaper.model import Ceiling
from reaper.policy import office_hours

TAG_PREFIX = "reaper:"
MIN_IDLE_AFTER = timedelta(minutes=30)
"""The shortest idle_after. Metrics arrive some minutes late, so less silence proves nothing."""
TAG_DOCS = {
    "reaper:action": "the strongest action allowed: ignore, notify, stop or delete; can lower the rule's action, never raise it",
    "reaper:idle-after": "how long the resource must be silent to count as idle, such as 4h or 3d",
    "reaper:keep-until": "protect until this ISO date (its whole day, everywhere on Earth) or datetime",
    "reaper:keep": "protect; any value but `false` does",
    "reaper:owner": "the owner's email address",
    "reaper:hours": "office hours with a time zone, such as `mon-fri 07:00-21:00 Europe/Berlin`",
}


@dataclass(slots=True, kw_only=True)
class TagRequests:
    """What the tags ask for. `reasons` are the reasons to leave the resource alone."""

    action: Ceiling | None = None
    idle_after: timedelta | None = None
    owner: str | None = None
    hours: Hours | None = None
    reasons: list[str] = field(default_factory=list)

    @property
    def protected_because(self) -> str | None:
        """The first reason to leave the resource alone, if any."""
        return self.reasons[0] if self.reasons else None


def read_tags(tags: Mapping[str, str], now: datetime) -> TagRequests:
    """What the `reaper:*` tags ask for at `now`. A key or value that can't be read is a reason to leave the resource alone."""
    requests = TagRequests()
    for key, value in tags.items():
        plain = key.strip().lower()
        reader = _READERS.get(plain)
        if reader:
            try:
                reader(requests, value.strip(), now)
            except ValueError as error:
                requests.reasons.append(f"tag {key}={_short_repr(value)} can't be read ({error}), so the resource is protected")
        elif suggestion := _suggested_key(plain):
            requests.reasons.append(
                f"unknown tag {_short_repr(key)} (did you mean {suggestion}?); the resource is protected until you fix it"
            )
    return requests


@lru_cache(maxsize=4096)
def _suggested_key(key: str) -> str | None:
    """The known key that `key` was probably meant to be; None if it isn't one of the reaper's."""
    word, separator, rest = key.partition(":")
    names = [known.removeprefix(TAG_PREFIX) for known in TAG_DOCS]
    if separator and word.strip() == "reaper":
        return TAG_PREFIX + get_close_matches(re.sub(r"[\s_./:-]+", "-", rest), names, n=1, cutoff=0.0)[0]
    letters = {re.sub(r"[^a-z]", "", known): known for known in TAG_DOCS}
    bare = re.sub(r"^(ml)?idle(?=reaper)", "", re.sub(r"[^a-z]", "", key))
    near = get_close_matches(bare, letters, n=1, cutoff=0.82)
    return letters[near[0]] if near else None


def _read_keep(requests: TagRequests, value: str, now: datetime) -> None:
    if value.lower() != "false":
        requests.reasons.append(f"kept by tag reaper:keep={_short_repr(value)}")


def _read_keep_until(requests: TagRequests, value: str, now: datetime) -> None:
    if now < parse_until(value):
        requests.reasons.append(f"kept by tag until {value}")


def _read_action(requests: TagRequests, value: str, now: datetime) -> None:
    if value.lower() not in {a.value for a in Ceiling}:
        raise ValueError(f"expected one of {', '.join(Ceiling)}")
    action = Ceiling(value.lower())
    requests.action = min(action, requests.action or action, key=lambda a: a.rank)
    if action is Ceiling.IGNORE:
        requests.reasons.append("kept by tag reaper:action=ignore")


def _read_idle_after(requests: TagRequests, value: str, now: datetime) -> None:
    length = max(duration.parse_duration(value), MIN_IDLE_AFTER)
    requests.idle_after = max(length, requests.idle_after or length)


def _read_owner(requests: TagRequests, value: str, now: datetime) -> None:
    if not re.fullmatch(r"[^@\s<>,;]+@[^@\s<>,;]+", value):
        raise ValueError("expected one email address")
    requests.owner = value


def _read_hours(requests: TagRequests, value: str, now: datetime) -> None:
    on, _, tz = value.rpartition(" ")
    hours = office_hours.parse_hours(on, tz)
    if requests.hours not in (None, hours):
        raise ValueError("the tag is there twice, in different case, with different hours")
    requests.hours = hours


def parse_until(value: str) -> datetime:
    """The end of a keep-until. A date lasts until it is over in the last place on Earth (UTC-12)."""
    for read_value in (_end_of_day, _parse_instant):
        try:
            return read_value(value)
        except (ValueError, OverflowError):
            continue
    raise ValueError("expected an ISO date or datetime such as 2026-12-31")


def _end_of_day(value: str) -> datetime:
    return datetime.combine(date.fromisoformat(value) + timedelta(days=1), time(12), UTC)


def _parse_instant(value: str) -> datetime:
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC) + timedelta(hours=12)


def _short_repr(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:57] + "...")


_READERS: dict[str, Callable[[TagRequests, str, datetime], None]] = {
    "reaper:action": _read_action,
    "reaper:idle-after": _read_idle_after,
    "reaper:keep-until": _read_keep_until,
    "reaper:keep": _read_keep,
    "reaper:owner": _read_owner,
    "reaper:hours": _read_hours,
}
