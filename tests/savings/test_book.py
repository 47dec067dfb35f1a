"""The rows of savings, in a real file of SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fakes.builders import DAY, HOUR, TARGET
from reaper.case import Price
from reaper.errors import CloudError, SettingsError
from reaper.ledger import opening
from reaper.ledger.forget import forget_address
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import AtVersion, Category, Key, sortable_time
from reaper.model import BilledPart, StepName
from reaper.savings import book, totals
from reaper.savings.book import TrendDay
from reaper.savings.credit import Cause, Saving, Span, Subject
from reaper_sandbox.shortcuts import saved_since

NOV = datetime(2026, 11, 20, 8, tzinfo=UTC)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = opening.open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", {})
    yield opened
    opened.close()


def saving(name: str = "churn", usd: float | None = 2.0, at: datetime = NOV, **fields: object) -> Saving:
    subject = Subject(
        id=f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/{name}",
        kind="sagemaker-endpoint",
        name=name,
        target=TARGET,
        region="us-east-1",
        owner="jo@example.com",
        tags={"team": "vision", "contact": "jo@example.com"},
    )
    return replace(
        Saving(
            subject=subject,
            cause=Cause.OURS,
            action=StepName.STOP,
            at=at,
            ends_at=at + 30 * DAY,
            rate=None if usd is None else Price(usd_per_hour=usd, source="snapshot", as_of="2026-09-24"),
            parts_left=(BilledPart(component="Hosting", instance="ml.m5.xlarge"),),
            called_at=at,
            looked_at=at,
        ),
        **fields,  # type: ignore[arg-type]
    )


def hours(since: float, until: float) -> Span:
    return Span(NOV + since * HOUR, NOV + until * HOUR)


def seconds(since: float, until: float) -> tuple[int, int]:
    return tuple(int(moment.timestamp()) for moment in hours(since, until))  # type: ignore[return-value]


def test_an_open_saving_comes_back_as_it_was(ledger: Ledger):
    first = saving(fingerprint="1 x M", resting=False)
    book.add_open(ledger, first, NOV)
    book.add_open(ledger, replace(first, rate=None), NOV)
    [row], errors = book.read_open(ledger, TARGET)
    assert (row.saving, errors) == (first, [])
    book.replace_open(ledger, row, replace(first, resting=True), NOV)
    book.replace_open(ledger, row, replace(first, rate=None), NOV)
    [newer], _ = book.read_open(ledger, TARGET)
    assert newer.saving == replace(first, resting=True)
    book.replace_open(ledger, newer, None, NOV)
    assert book.read_open(ledger, TARGET) == ([], [])


def test_a_repeated_credit_changes_nothing(ledger: Ledger):
    one, other = saving(), saving(usd=5.0, at=NOV + 2 * HOUR)
    for span in (hours(0, 6), hours(0, 6), hours(6, 12), hours(3, 9), hours(20, 22)):
        book.add_credits(ledger, [(one, span)], NOV)
    book.add_credits(ledger, [(other, hours(2, 4)), (other, hours(2, 4))], NOV)
    stored = ledger.store.query(Category.SAVED, "")
    book.add_credits(ledger, [(one, hours(2, 8)), (other, hours(2, 4))], NOV)
    assert ledger.store.query(Category.SAVED, "") == stored
    [row] = book.read_saved(ledger, NOV, NOV + DAY)
    first, second = row.actions
    assert first.spans == (seconds(0, 12), seconds(20, 22))
    assert [action.rate and action.rate.usd_per_hour for action in row.actions] == [2.0, 5.0]
    assert second.spans == (seconds(2, 4),)


def test_another_writer_at_the_same_moment_loses_nothing(ledger: Ledger):
    one, put, raced = saving(), ledger.store.put, []

    class Racing:
        def __getattr__(self, name: str) -> object:
            return getattr(ledger.store, name)

        def put(self, *given: object) -> bool:
            if not raced:
                raced.append(True)
                book.add_credits(ledger, [(one, hours(6, 12))], NOV)
            return put(*given)  # type: ignore[arg-type]

    book.add_credits(Ledger(Racing()), [(one, hours(0, 6))], NOV)  # type: ignore[arg-type]
    [row] = book.read_saved(ledger, NOV, NOV + DAY)
    assert [action.spans for action in row.actions] == [(seconds(0, 12),)]


def test_a_saving_over_months_is_split_and_read_as_one(ledger: Ledger):
    whole = Span(NOV, datetime(2027, 1, 2, tzinfo=UTC))
    book.add_credits(ledger, [(saving(), whole)], NOV)
    assert [row.key.name[:7] for row in ledger.store.query(Category.SAVED, "")] == book.months(*whole)
    saved = saved_since(ledger, NOV, whole.until)
    assert (saved.ours.hours, saved.ours.saved_usd, len(saved.lines)) == (42 * 24 + 16, 2 * (42 * 24 + 16), 1)
    december = saved_since(ledger, datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    assert december.ours.hours == 31 * 24


def test_totals_are_the_sums_of_their_lines(ledger: Ledger):
    credits = [(saving(f"e{n}", usd=0.3333 * n), hours(0, 5.01 * n)) for n in range(1, 9)]
    credits.append((saving("unknown", usd=None), hours(0, 7)))
    credits.append((saving("asked", cause=Cause.PROMPTED), hours(0, 3)))
    book.add_credits(ledger, credits, NOV)
    saved = saved_since(ledger, NOV, NOV + 10 * DAY, "tag:Team")
    ours = [line for line in saved.lines if line.cause is Cause.OURS]
    assert saved.ours.saved_usd == pytest.approx(sum(line.saved_usd for line in ours)) == sum(g.saved_usd for g in saved.groups)
    assert (saved.ours.unpriced_hours, saved.prompted.saved_usd, [g.key for g in saved.groups]) == (7.0, 6.0, ["vision"])
    rates = [line.action.rate for line in saved.lines]
    assert all(rate is None or (rate.source and rate.as_of) for rate in rates)
    weeks = totals.saved_by_week(book.read_saved(ledger, NOV, NOV + 10 * DAY), NOV, NOV + 10 * DAY)
    assert [week.since.weekday() for week in weeks] == [4, 0, 0]
    assert sum(week.ours.saved_usd for week in weeks) == pytest.approx(saved.ours.saved_usd, abs=0.2)


@pytest.mark.parametrize("by", ["", "team", "tag:"])
def test_an_unknown_grouping_is_an_error(ledger: Ledger, by: str):
    with pytest.raises(SettingsError, match=r"expected owner, account, kind, or tag:KEY"):
        saved_since(ledger, NOV, NOV + DAY, by)


def test_an_unreadable_row_is_an_error_and_hides_no_other(ledger: Ledger):
    book.add_open(ledger, saving(), NOV)
    key = Key(Category.SAVING, "aws/123456789012/us-east-1", "arn:broken#x")
    ledger.store.put(key, {"facts": "{}"}, sortable_time(NOV), AtVersion(version=0))
    rows, [error] = book.read_open(ledger, TARGET)
    assert (len(rows), "arn:broken" in str(error)) == (1, True)
    ledger.store.put(Key(Category.SAVED, "", "2026-11 arn:broken#ours"), {"facts": "?"}, sortable_time(NOV), AtVersion(version=0))
    broken = saving("x", subject=replace(saving().subject, id="arn:broken"))
    [error] = book.add_credits(ledger, [(broken, hours(0, 6)), (saving(), hours(0, 6))], NOV)
    assert "arn:broken" in str(error)
    assert len(ledger.store.query(Category.SAVED, "")) == 2, "the other one was added"
    with pytest.raises(CloudError, match="can't be read"):
        book.read_saved(ledger, NOV, NOV + DAY)


def test_forgetting_a_person_removes_the_address_and_keeps_the_money(ledger: Ledger):
    book.add_open(ledger, saving(), NOV)
    book.add_credits(ledger, [(saving(), hours(0, 6))], NOV)
    rows = list(forget_address(ledger, "jo@example.com"))
    assert [(row.sort, row.columns, row.error) for row in rows] == [
        ("saving", ("facts",), ""),
        ("saved", ("facts",), ""),
    ]
    assert not any("jo@" in str(row.columns) for row in ledger.store.scan())
    [group] = saved_since(ledger, NOV, NOV + DAY, "owner").groups
    assert (group.key, group.saved_usd) == ("(forgotten)", 12.0)
    [row], _ = book.read_open(ledger, TARGET)
    assert (row.saving.rate, row.saving.subject.tags["team"]) == (saving().rate, "vision")


def test_the_trend_has_one_row_a_day_target_and_kind(ledger: Ledger):
    day = TrendDay(
        day="2026-11-20", target=TARGET, kind="sagemaker-endpoint", resources=9, idle=2, unpriced_idle=1, idle_usd_per_hour=1.5
    )
    later = replace(day, idle=3)
    book.write_trend(ledger, [day, later, replace(day, day="2026-12-01"), replace(day, day="2026-11-19")], NOV)
    assert book.read_trend(ledger, NOV, NOV + 11 * DAY) == [later, replace(day, day="2026-12-01")]


def test_old_rows_are_forgotten_with_the_rest_of_the_ledger(ledger: Ledger):
    book.add_credits(ledger, [(saving(), hours(0, 6))], NOV)
    ledger.forget_before(NOV + timedelta(seconds=1))
    assert book.read_saved(ledger, NOV, NOV + DAY) == []
