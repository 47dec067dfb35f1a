"""The `reaper:*` tags of a resource. Keys match case-insensitively; a tag that can't be read protects. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from difflib import get_close_matches
from functools import lru_cache

from reaper import duration
from reaper.calendars import office_hours
from reaper.calendars.office_hours import Hours
from reaper.model import Ceiling
from reaper.text import shorten

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
    """What the tags ask for. `reasons` are the reasons to leave the resource alone. `kept_until`: the end of a keep-until that is over."""

    action: Ceiling | None = None
    idle_after: timedelta | None = None
    hours: Hours | None = None
    kept_until: datetime | None = None
    reasons: list[str] = field(default_factory=list)

    @property
    def protected_because(self) -> str | None:
        """The first reason to leave the resource alone, if any."""
        return self.reasons[0] if self.reasons else None


def read_tags(tags: Mapping[str, str], now: datetime) -> TagRequests:
    """What the `reaper:*` tags ask for at `now`. A key or value that can't be read is a reason to leave the resource alone."""
    requests = TagRequests()
    for key, value in tags.items():
        plain = plain_key(key)
        if plain in TAG_DOCS:
            try:
                _read_tag(requests, plain, value.strip(), now)
            except ValueError as error:
                requests.reasons.append(f"tag {key}={shorten(value, 60)!r} can't be read ({error}), so the resource is protected")
        elif suggestion := _suggested_key(plain):
            requests.reasons.append(
                f"unknown tag {shorten(key, 60)!r} (did you mean {suggestion}?); the resource is protected until you fix it"
            )
    return requests


def plain_key(key: str) -> str:
    """A tag's key as keys are compared: in any case, and in any width (NFKC)."""
    return unicodedata.normalize("NFKC", key).strip().lower()


def tag_values(tags: Mapping[str, str] | None, wanted: str) -> list[tuple[str, str]]:
    """The tags of that key in any case that aren't blank: as the policy spells it first, then by key, however a cloud lists them."""
    same = [(key != wanted, key) for key in tags or () if plain_key(key) == plain_key(wanted)]
    return [(key, tags[key]) for _, key in sorted(same) if tags and tags[key].strip()]


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


def _read_tag(requests: TagRequests, key: str, value: str, now: datetime) -> None:
    """Add what one tag asks for. Raises ValueError if its value can't be read."""
    match key.removeprefix(TAG_PREFIX):
        case "keep" if value.lower() != "false":
            requests.reasons.append(f"kept by tag reaper:keep={shorten(value, 60)!r}")
        case "keep-until":
            until = parse_until(value)
            if now < until:
                requests.reasons.append(f"kept by tag until {value}")
            else:
                requests.kept_until = max(until, requests.kept_until or until)
        case "action":
            if value.lower() not in {a.value for a in Ceiling}:
                raise ValueError(f"expected one of {', '.join(Ceiling)}")
            action = Ceiling(value.lower())
            requests.action = min(action, requests.action or action, key=lambda a: a.rank)
            if action is Ceiling.IGNORE:
                requests.reasons.append("kept by tag reaper:action=ignore")
        case "idle-after":
            length = max(duration.parse_duration(value), MIN_IDLE_AFTER)
            requests.idle_after = max(length, requests.idle_after or length)
        case "owner" if not re.fullmatch(r"[^@\s<>,;]+@[^@\s<>,;]+", value):
            raise ValueError("expected one email address")
        case "hours":
            on, _, tz = value.rpartition(" ")
            hours = office_hours.parse_hours(on, tz)
            if requests.hours not in (None, hours):
                raise ValueError("the tag is there twice, in different case, with different hours")
            requests.hours = hours


def parse_until(value: str) -> datetime:
    """The end of a keep-until. A date lasts until it is over in the last place on Earth (UTC-12)."""
    with suppress(ValueError, OverflowError):
        return datetime.combine(date.fromisoformat(value) + timedelta(days=1), time(12), UTC)
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(value)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC) + timedelta(hours=12)
    raise ValueError("expected an ISO date or datetime such as 2026-12-31")
