"""`accept`: findings that people accept in the policy file, each until a day and with a reason. An acceptance only takes actions away. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from string import ascii_letters, ascii_lowercase, digits
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, StringConstraints

from reaper import registry
from reaper.errors import PolicyError
from reaper.model import Resource, Target
from reaper.policy.match import Match, matches_any
from reaper.policy.values import Day, Section
from reaper.policy.yaml_lines import parse_with_lines
from reaper.text import clean_line, printable

if TYPE_CHECKING:
    from reaper.case import Case, Coverage
    from reaper.policy.file import PolicySource
    from reaper.policy.schema import Policy

SOON, LONGEST = timedelta(days=14), timedelta(days=2 * 366)
"""The time before its end in which reports name it, and the longest time ahead."""
ACCEPTED = "accepted until "
"""How the reason of an acceptance begins."""
UNSURE = " (it may match: its price or size is unknown)"


def _require_conditions(match: Match) -> Match:
    if not match.tags and all(match.matches(sample, usd) for sample, usd in _samples()):
        raise ValueError("expected a condition such as name, kind or tags; without any, everything would be accepted")
    return match


def _samples() -> Iterator[tuple[Resource, float]]:
    """Resources of every kind and their prices, as different as can be: a match that fits all of them fits everything."""
    kinds = registry.kinds()
    for number, c in enumerate((ascii_letters + digits) * 2):
        kind, letter, digit = kinds[number % len(kinds)], ascii_lowercase[number % 26], f"{number % 16:x}"
        account, region, size = str(number % 10) * 12, f"{letter * 2}-{letter * 4}-1", f"ml.{c * 2}"
        if kind.cloud == "azure":
            account, region, size = "-".join(digit * length for length in (8, 4, 4, 4, 12)), letter * 8, f"Standard_{c * 2}"
        target = Target(cloud=kind.cloud, account=account)
        sample = Resource(kind=kind.name, id=c, name=c * 12, target=target, region=region, created=None, size=size, parts=())
        yield sample, 10_000 if number % 2 else 0.01


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200), AfterValidator(printable)]


class Acceptance(Section):
    """Findings that are accepted: until the day is over, what matches is exempt."""

    match: Annotated[Match, AfterValidator(_require_conditions)] = Field(
        description="which resources are accepted; at least one condition", examples=[{"name": "demo-*"}]
    )
    until: Day = Field(description="the last day, as YYYY-MM-DD in owners.tz; at most two years ahead", examples=["2027-01-31"])
    reason: Text = Field(description="why, for reports", examples=["the demo for the trade fair"])
    by: Text = Field(description="who accepts them, for reports", examples=["Lee, platform team"])

    @property
    def name(self) -> str:
        """What it accepts and who says so, for people: `name demo-*, tag env=dev by Lee`."""
        found = self.match.model_dump(exclude_none=True)
        tags = found.pop("tags", {}).items()
        parts = [f"{key} {' or '.join([value] if isinstance(value, str) else value)}" for key, value in found.items()]
        parts += [f"no tag {key}" if values is None else f"tag {key}={' or '.join(values)}" for key, values in tags]
        return f"{clean_line(', '.join(parts), 100)} by {clean_line(self.by, 60)}"


def accepted_because(policy: Policy, resource: Resource, usd_per_hour: float | None, now: datetime) -> str | None:
    """Why `resource` is accepted at `now`, by the acceptance of it or its host that lasts longest and may match; None if none does."""
    today = _today(policy, now)
    found = [
        (a, a.match.matches(each, usd), whose)
        for each, usd, whose in _with_host(resource, usd_per_hour)
        for a in policy.accept
        if today <= a.until
    ]
    matching = [(a, whose, "" if matches else UNSURE) for a, matches, whose in found if matches is not False]
    last, whose, note = max(matching, key=lambda match: match[0].until, default=(None, "", ""))
    return f"{whose}{ACCEPTED}{last.until} by {last.by}: {last.reason}{note}" if last else None


def ended_acceptance_at(policy: Policy, resource: Resource, usd_per_hour: float | None, now: datetime) -> datetime | None:
    """When the last acceptance that matched `resource` or its host, or may have matched, ended before `now`; None if none did."""
    over = [a for a in policy.accept if a.until < _today(policy, now)]
    looks = list(_with_host(resource, usd_per_hour)) if over else []
    days = [a.until for a in over if any(a.match.matches(each, usd) is not False for each, usd, _ in looks)]
    zone = ZoneInfo(policy.owners.tz)
    return datetime.combine(max(days) + timedelta(days=1), time(), zone).astimezone(UTC) if days else None


def _with_host(resource: Resource, usd_per_hour: float | None) -> Iterator[tuple[Resource, float | None, str]]:
    """The resource, and what it lives in as far as is known from inside, swept or not: its tags are among the resource's. Each with its price and words."""
    yield resource, usd_per_hour, ""
    kind = registry.find_kind(resource.kind)
    if resource.host_id and kind and kind.host:
        name = resource.host_id.rpartition("/")[2]
        host = replace(resource, kind=kind.host, id=resource.host_id, name=name, size="", parts=None, host_id=None)
        yield host, None, "its host is "


def expiry_notes(policy: Policy, now: datetime, soon: timedelta = SOON) -> Iterator[tuple[int, str]]:
    """A sentence about each acceptance that has expired, or will `soon`, the first to end first, with its index in the file."""
    today = _today(policy, now)
    for index, acceptance in sorted(enumerate(policy.accept), key=lambda pair: pair[1].until):
        if acceptance.until < today:
            yield index, f"The acceptance of {acceptance.name} expired on {acceptance.until}. Remove it or renew it."
        elif acceptance.until - today < soon:
            fix = "Renew it, or its resources get notices again."
            yield index, f"The acceptance of {acceptance.name} expires after {acceptance.until}. {fix}"


def unmatched_notes(policy: Policy, cases: Iterable[Case], rows: Collection[Coverage], now: datetime) -> Iterator[str]:
    """A sentence about each acceptance that is valid and matches none of the cases, which must be those of a complete sweep.

    What is about places or kinds that were not swept is left out: another deployment may sweep them under the same policy.
    """
    accepted = [case for case in cases if ACCEPTED in (case.rule.protected_because or "")]
    for acceptance in policy.accept:
        looks = (look for case in accepted for look in _with_host(case.resource, case.usd_per_hour))
        matches = (acceptance.match.matches(each, usd) for each, usd, _ in looks)
        is_due = acceptance.until >= _today(policy, now) and any(_may_be_in(acceptance.match, row) for row in rows)
        if is_due and all(match is False for match in matches):
            yield f"The acceptance of {acceptance.name} matched nothing in this sweep. Correct it or remove it."


def _may_be_in(match: Match, row: Coverage) -> bool:
    """Whether a resource that matches may be in what that row of the coverage is about."""
    accounts = matches_any(match.account, row.account.lower()) and matches_any(match.subscription, row.account.lower())
    is_there = accounts and (row.region is None or matches_any(match.region, row.region.lower()))
    return is_there and matches_any(match.cloud, row.cloud) and matches_any(match.kind, row.kind) and not row.is_own


def require_near_ends(source: PolicySource, now: datetime) -> None:
    """Raises PolicyError if an acceptance lasts for more than two years: it would never have to be renewed."""
    latest = _today(source.policy, now) + LONGEST
    far = [(index, each.until) for index, each in enumerate(source.policy.accept) if each.until > latest]
    if far:
        _, lines = parse_with_lines(source.text, source.name)
        why = f"is more than two years ahead; write {latest} or an earlier day, and renew it then"
        raise PolicyError([f"{lines.place(('accept', index, 'until'))}: {until} {why}" for index, until in far])


def _today(policy: Policy, now: datetime) -> date:
    return now.astimezone(ZoneInfo(policy.owners.tz)).date()
