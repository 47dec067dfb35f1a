"""A sweep that asks only what it doesn't know judges, plans and limits as its twin does, which asks about everything in every sweep."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

import seeds
from fakes.builders import DAY, HOUR, NOW, TARGET, resource
from fakes.fake_cloud import KIND, FakeSession, _seen
from fakes.fake_deployment import FakeDeployment, policy
from fakes.memory_ledger import InMemoryLedger
from reaper import registry
from reaper.evidence import is_recent
from reaper.judge import assess
from reaper.kind import Kind
from reaper.ledger.ledger import read_gaps
from reaper.limits import holds
from reaper.limits.caps import count_places, places_with_known_share
from reaper.limits.holds import PlaceCount
from reaper.model import Mode, Resource, Role, State
from reaper.observation import Observation, Reading, RecentSince, Series, Window
from reaper.observing import cache
from reaper.observing.cache import ConfigurationCache, LastUse
from reaper.prices import PriceBook
from reaper.run import OpenRun

LIMITS = (
    "limits: {max_acts: 20, max_share: 100%, max_usd_per_hour: 1000}\nowners: {domains: [example.com], fallback: a@example.com}\n"
)
POLICIES = [
    f"version: 1\ndefaults: {{action: stop, idle_after: {length}, grace: 1d}}\n{LIMITS}{rules}"
    for length, rules in [
        ("24h", ""),
        ("4h", ""),
        ("3d", ""),
        (
            "24h",
            "rules: [{name: hot, match: {tags: {tier: hot}}, idle_after: 3h}, {name: keep, match: {name: 'kept*'}, action: ignore}]",
        ),
        ("24h", "rules: [{name: office, match: {tags: {tier: hot}}, hours: {on: 'mon-fri 07:00-19:00', tz: UTC}}]"),
    ]
]
PLACE = ("aws/123456789012/us-east-1", KIND)


@dataclass
class Twin(FakeDeployment):
    """One of two deployments in equal worlds. `spares`: it remembers uses. `is_out`: no query is answered. `asked`: how often it asked."""

    spares: bool = True
    is_out: bool = False
    asked: int = 0

    @property
    def kind(self) -> Kind[Any]:
        return replace(super().kind, observe=self.observe, spares_known=self.spares)

    def observe(self, yard: FakeSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
        for one in resources:
            if readings := window.known.get(one.id):
                yield Observation(resource=one, readings=readings, unknown_because="it was used too recently")
                continue
            self.asked += 1
            seen = _seen(one, yard.cloud.things[one.name], window)
            empty = Series(start=window.start, step=HOUR, end=window.end)
            if self.is_out:
                seen = replace(seen, readings=tuple(replace(r, series=empty, complete=False) for r in seen.readings))
            yield replace(seen, unknown_because="it was used too recently") if is_recent(seen, window) else seen

    def open_run(self, mode: Mode = Mode.ENFORCE, regions: Any = None, accounts: Any = None) -> OpenRun:
        opened = super().open_run(mode, regions, accounts)
        kept = ConfigurationCache(ledger=self.ledger, now=self.now, may_write=mode.writes, report_failure=pytest.fail)
        [context] = opened.observe
        return replace(opened, observe=[replace(context, cache=kept, in_full=read_gaps(self.ledger)[1])])


def lives(chance: random.Random, end: datetime) -> dict[str, dict[str, Any]]:
    """Things by name. Each is used from time to time, or all the time, or up to some day; nothing shows any use for two days in between."""
    broken = NOW + chance.uniform(5, 9) * DAY
    rows: dict[str, dict[str, Any]] = {"idle": {}, "kept": {}}
    for index in range(10):
        every, until = chance.choice([0.5, 0.5, 2, 7, 30]) * HOUR, chance.choice([end, end, NOW + chance.uniform(0, 10) * DAY])
        times, when = [], NOW - 15 * DAY
        while when < until:
            times += [] if broken < when < broken + 2 * DAY else [when]
            when += every * chance.uniform(0.5, 1.5)
        rows[f"thing-{index}"] = {"uses": times}
    for name, row in rows.items():
        row["tags"] = {"owner": f"{name}@example.com", **chance.choice([{}, {}, {"tier": "hot"}, {"reaper:idle-after": "5h"}])}
    return rows


def happens(chance: random.Random, twins: Sequence[Twin], dice: float) -> None:
    """What people and clouds do between two sweeps, in both worlds alike."""
    name = chance.choice(sorted(twins[0].cloud.things))
    text, tag, is_out = chance.choice(POLICIES), chance.choice(["45m", "6h", "2d"]), chance.random() < 0.8
    for twin in twins:
        thing = twin.cloud.things.get(name)
        if dice < 0.06:
            twin.is_out = is_out
        elif dice < 0.10:
            twin.policy = policy(text)
        elif thing and dice < 0.13:
            thing.tags = {**(thing.tags or {}), "reaper:idle-after": tag}
        elif thing and dice < 0.15:
            thing.created = thing.running_since = twin.now
            thing.uses = [use for use in thing.uses if use > twin.now]
        elif thing and dice < 0.18:
            thing.status = "Updating" if thing.status == "InService" else "InService"
        elif thing and dice < 0.21:
            thing.metric_gaps.append((twin.now, twin.now + 3 * HOUR))
        if dice > 0.25:
            twin.is_out = False


def outcome(twin: Twin) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What a sweep of it made of each thing, by name, what is on hold after it, and the rows that the breaker compares with."""
    report = twin.sweep()
    rows = {
        f.case.resource.name: (f.case.verdict.state, f.case.rule.name, f.step.name, f.outcome.result) for f in report.findings
    }
    shares = {row.run: (row.seen, row.idle) for row in twin.ledger.statistics(TARGET, KIND, 1000)}
    return rows, holds.standing_rows(twin.ledger, twin.now), shares


@pytest.mark.fresh
@pytest.mark.parametrize("seed", range(seeds.first(2), seeds.first(2) + 2))
def test_weeks_of_sparing_sweeps_equal_those_of_a_twin_that_asks_all(seed: int):
    chance = random.Random(seed)
    end = NOW + 14 * DAY
    twins = [Twin(spares=True, policy=policy(POLICIES[0])), Twin(spares=False, policy=policy(POLICIES[0]))]
    things = lives(chance, end)
    for twin in twins:
        for name, row in things.items():
            twin.cloud.add(name, tags=dict(row["tags"]), uses=list(row.get("uses", ())))
    without_answers: set[str] = set()
    while twins[0].now < end:
        step = chance.choice([HOUR, HOUR, HOUR, HOUR / 2, 5 * HOUR, -HOUR / 2]) + timedelta(seconds=chance.uniform(-200, 200))
        for twin in twins:
            twin.now += step
        happens(chance, twins, chance.random())
        (sparing, held, shares), (asking, held_too, shares_too) = map(outcome, twins)
        for name, row in asking.items() if twins[0].is_out else ():
            if sparing[name][0] is State.ACTIVE and row[0] is not State.IDLE:  # known to be in use, though no query says so now
                asking[name] = (State.ACTIVE, *row[1:])
        assert sparing == asking, twins[0].now
        without_answers |= {f"run-{twins[0].runs}"} if twins[0].is_out else set()
        assert not any(shares[run][1] for run in shares.keys() - shares_too.keys()), "all of it was known to be in use"
        answered = [[pair for pair in rows.items() if pair[0] not in without_answers] for rows in (shares, shares_too)]
        assert answered[0] == answered[1], twins[0].now
        assert held == held_too, twins[0].now
    assert twins[0].cloud.log == twins[1].cloud.log
    assert twins[0].asked < 0.95 * twins[1].asked


AT = datetime(2026, 11, 20, 12, 17, tzinfo=NOW.tzinfo)
ONE = replace(resource(), created=AT - 30 * DAY, changed=AT - 20 * DAY)
OWN_HOUR = AT.replace(hour=cache.key_of(ONE.id)[-1] % 24, minute=0)


def window_at(now: datetime, hours: float = 24) -> Window:
    """That of a sweep if some rule calls the resource idle after so many hours."""
    since = RecentSince(under_some_rule=now - hours * HOUR, under_every_rule=now - hours * HOUR)
    return Window(start=now - 15 * DAY, end=now, recent_since=now - DAY, recent_since_by_id={ONE.id: since})


def seen(asked: datetime, used: datetime | None, before: LastUse | None = None, **fields: Any) -> LastUse | None:
    """What a sweep remembers that saw a use then."""
    reading = Reading(signal="Invocations", role=Role.ACTIVITY, series=Series(start=asked - 15 * DAY, step=HOUR), event_at=used)
    observation = Observation(resource=ONE, readings=(replace(reading, **fields),))
    return cache.seen_use(observation, ONE, before, window_at(asked), asked)


def known(use: LastUse | None, now: datetime, one: Resource = ONE, hours: float = 24, **more: Any) -> str:
    """What a sweep at `now` knows of a resource: that it is used, that it was silent, or nothing."""
    stored, recent = {cache.key_of(ONE.id): use} if use else {}, window_at(now, hours).recent_since_by_id
    in_full = more.get("in_full", frozenset())
    readings = cache.known_readings([one] * more.get("times", 1), stored, recent, in_full, now).get(one.id)
    return "nothing" if readings is None else "used" if readings else "silent"


@pytest.mark.parametrize(
    ("asked", "now", "more", "expected"),
    [
        pytest.param(1, 20, {}, "used", id="as long as the rule allows"),
        pytest.param(1, 20, {"hours": 19}, "nothing", id="no longer than the rule allows"),
        pytest.param(1, 4, {"hours": 2}, "nothing", id="a rule that became shorter"),
        pytest.param(1, 20, {"hours": 72}, "used", id="a rule that became longer"),
        pytest.param(-1, 0.3, {}, "nothing", id="its own hour began since"),
        pytest.param(1, 24.3, {"hours": 72}, "nothing", id="its own hour began again"),
        pytest.param(3, 2, {}, "nothing", id="a clock that was set back"),
        pytest.param(1, 20, {"one": replace(ONE, created=OWN_HOUR)}, "nothing", id="recreated under its ID"),
        pytest.param(1, 20, {"one": replace(ONE, changed=OWN_HOUR)}, "nothing", id="changed"),
        pytest.param(1, 20, {"one": replace(ONE, status="Updating")}, "nothing", id="in another status"),
        pytest.param(1, 20, {"in_full": frozenset({ONE.id})}, "nothing", id="in use after a notice called it idle"),
        pytest.param(1, 20, {"times": 2}, "nothing", id="listed twice"),
    ],
)
def test_a_use_is_known_until_it_might_have_become_too_old(asked: float, now: float, more: dict[str, Any], expected: str):
    use = seen(OWN_HOUR + asked * HOUR, OWN_HOUR + (asked - 0.2) * HOUR)
    assert known(use, OWN_HOUR + now * HOUR, **more) == expected


@pytest.mark.parametrize("ago", [None, 25, 300])
def test_what_was_silent_is_read_in_full_at_once_until_it_changes(ago: float | None):
    use = seen(AT, AT - ago * HOUR if ago else None)
    assert known(use, AT + 2 * DAY) == "silent"
    assert known(use, AT + 2 * DAY, replace(ONE, changed=AT)) == "nothing"


def test_only_complete_replies_are_remembered():
    before = seen(AT, AT - HOUR)
    assert seen(AT + HOUR, AT, before, complete=False) == before
    assert seen(AT + HOUR, AT, complete=False) is None
    assert seen(AT + HOUR, AT, before) != before


def test_of_a_changing_resource_nothing_is_remembered():
    observation = Observation(resource=ONE, changing_because="its status is Updating")
    assert cache.seen_use(observation, ONE, seen(AT, AT), window_at(AT), AT) is None


def test_uses_are_stored_in_sixteen_bytes_each():
    rows = {cache.key_of(f"id-{n}"): LastUse(revision=b"abc", used=n, asked=2 * n) for n in range(100)}
    assert len(cache.packed_uses(rows)) == 1600
    assert cache.uses_in(cache.packed_uses(rows)) == rows


def test_rows_hold_ten_thousand_uses_each_and_a_bad_row_costs_only_its_own():
    book, listed = InMemoryLedger(), [f"id-{n}" for n in range(10_500)]
    opened = ConfigurationCache(ledger=book, now=NOW, may_write=True, report_failure=pytest.fail)
    rows = {cache.key_of(name): LastUse(revision=b"abc") for name in listed}
    shelf = lambda: cache.KindCache(cache=opened, target=TARGET, kind=KIND)  # noqa: E731
    cache.write_cached(shelf(), {}, listed, rows)
    assert cache.read_stored(shelf()).uses == rows
    assert max(len(text) for row in book.named_rows.values() for text in row.values.values()) < 215_000
    first = book.read_row(shelf().row_name(0))
    book.write_row(shelf().row_name(0), {**first.values, cache.USES_COLUMN: "AAAA"}, first.version)
    assert len(cache.read_stored(shelf()).uses) == 500


@pytest.mark.parametrize(
    ("count", "is_known"),
    [
        pytest.param(PlaceCount(total=100, asked=5, spared=95, unknown=5, unanswered=5), False, id="no query is answered"),
        pytest.param(
            PlaceCount(total=100, asked=20, spared=50, unknown=20, unanswered=20),
            False,
            id="no query is answered, and some need none",
        ),
        pytest.param(
            PlaceCount(total=100, asked=10, spared=90, unknown=4, unanswered=4, idle=6), True, id="some are not answered"
        ),
        pytest.param(PlaceCount(total=100, asked=5, spared=95, unknown=5), True, id="a few without a heartbeat"),
        pytest.param(PlaceCount(total=100, asked=100, unknown=51, unanswered=51), False, id="all asked, most unanswered"),
        pytest.param(PlaceCount(total=100, asked=100, unknown=50, unanswered=50), True, id="all asked, half unanswered"),
        pytest.param(PlaceCount(total=100, spared=100), True, id="all known to be in use"),
    ],
)
def test_a_place_is_known_as_far_as_what_was_asked_was_answered(count: PlaceCount, is_known: bool):
    assert bool(places_with_known_share({PLACE: count}, [PLACE])) is is_known
    assert count.seen >= count.idle


def test_what_needs_no_signals_never_counts_as_answered():
    seen_at = {"readings": (Reading(signal="earlier", role=Role.ACTIVITY, event_at=AT, seen_at=AT),)}
    cut = {"readings": (Reading(signal="Invocations", role=Role.ACTIVITY, complete=False),)}
    kind = next(each for each in registry.kinds() if each.name == KIND)
    looks = [*[seen_at] * 5, *[cut] * 2, *[{"changing_because": "it is being created"}] * 3]
    cases = [
        assess(Observation(resource=replace(ONE, kind=KIND), **look), kind, policy("version: 1"), PriceBook(), AT)
        for look in looks
    ]
    assert count_places(cases)[PLACE].in_doubt == 7


def test_no_kind_that_can_be_started_spares_what_is_in_use():
    assert [kind.name for kind in registry.kinds() if kind.spares_known and kind.can_be_started] == []
