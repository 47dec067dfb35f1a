from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fakes.builders import DAY, NOW
from fakes.histories import history_of
from fakes.memory_ledger import InMemoryLedger
from fakes.records import changed
from fakes.snooze_requests import (
    ID,
    RESOURCE,
    TOKEN,
    VISIT,
    WARNED,
    ContendedLedger,
    LedgerWithoutHistory,
    Page,
    UnreachableLedger,
    desk,
    look,
    mailed,
    remembered,
    send,
    visit_of,
    warned,
)
from reaper.ledger import opening
from reaper.ledger.forget import forget_address
from reaper.ledger.rows import Category, snooze_key
from reaper.record import Snooze
from reaper.snooze import links, pages
from reaper.snooze.handler import handle_request
from reaper.snooze.pages import Request


@pytest.fixture
def ledger() -> InMemoryLedger:
    return warned()


def test_the_form_shows_the_resource_and_the_choices(ledger: InMemoryLedger):
    reply = look(ledger)
    page = Page(reply.body)
    assert reply.status == 200
    for text in (
        "churn",
        "sagemaker-endpoint",
        "123456789012 us-east-1",
        "Thu 12 Nov 2026, 10:17 UTC",
        "9 days",
        "$33.79 a day",
        "$304",
    ):
        assert text in page.text
    assert page.fields()["days"] == ["1", "3", "7", "30"]
    assert page.fields()["t"] == [TOKEN]


@pytest.mark.parametrize("category", [Category.RECORD, Category.SNOOZE])
def test_an_unreadable_row_is_never_overwritten(ledger: InMemoryLedger, category: Category):
    ledger.write_snooze(ID, Snooze(until=NOW + DAY, at=NOW, by="jo@example.com"), 0, NOW)
    rows = ledger.memory_store.rows
    [key] = [key for key in rows if (key.category, key.name) == (category, ID)]
    rows[key] = broken = replace(rows[key], columns={"document": "next summer"})
    assert look(ledger).status == 200
    asked = [send(ledger, do="disown"), *([send(ledger, shorten="yes")] if category is Category.SNOOZE else [])]
    for reply in asked:
        assert (reply.status, reply.failed) == (503, True)
        assert "can't be read" in reply.note
        assert "may not have been saved" in Page(reply.body).text
    if category is Category.RECORD:
        assert send(ledger).status == 200, "a snooze is a row of its own"
        assert remembered(ledger).until == pages.snooze_end(NOW, 7)
    assert rows[key] == broken


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_opening_a_link_changes_nothing(ledger: InMemoryLedger, method: str):
    for _ in range(3):
        look(ledger, method=method)
    handle_request(
        Request(method=method, path="/keep", query=f"t={TOKEN}&r=1&do=disown&days=7&reason=x&shorten=yes"), desk(ledger)
    )
    assert (remembered(ledger), ledger.record(ID, NOW)) == (Snooze(), replace(WARNED, version=1))
    assert history_of(ledger, ID) == []


def test_head_answers_like_get_without_a_body(ledger: InMemoryLedger):
    got, head = look(ledger), look(ledger, method="HEAD")
    assert (head.status, head.headers, head.body) == (got.status, got.headers, "")


def test_sending_the_form_snoozes_and_records_who_and_why(ledger: InMemoryLedger):
    reply = send(ledger, days="3", reason="demo on Monday")
    snooze = remembered(ledger)
    assert (reply.status, snooze.until) == (200, datetime(2026, 11, 24, 11, tzinfo=UTC))
    assert (snooze.by, snooze.reason, snooze.at) == ("jo@example.com", "demo on Monday", NOW)
    assert ledger.record(ID, NOW) == replace(WARNED, version=1), "only its own row is written"
    assert "until Tue 24 Nov 2026, 11:00 UTC" in Page(reply.body).text
    [entry] = history_of(ledger, ID)
    assert (entry.id, entry.when, entry.what, entry.by) == (ID, NOW, "kept", "jo@example.com")
    assert entry.because == "snoozed by its link until Tue 24 Nov 2026, 11:00 UTC: demo on Monday"


def test_a_typed_name_is_added_to_the_links_owner(ledger: InMemoryLedger):
    send(ledger, name="The Admin")
    assert remembered(ledger).by == "The Admin (jo@example.com)"


def test_a_forgotten_resource_can_be_snoozed():
    ledger = mailed()
    assert send(ledger).status == 200
    assert remembered(ledger).until == pages.snooze_end(NOW, 7)


def test_resending_the_form_changes_nothing(ledger: InMemoryLedger):
    send(ledger)
    before = remembered(ledger)
    for _ in range(5):
        assert "already snoozed" in Page(send(ledger, now=NOW + timedelta(minutes=20)).body).text
    assert remembered(ledger) == before
    assert len(history_of(ledger, ID)) == 1


def test_a_longer_snooze_stays_unless_shortened(ledger: InMemoryLedger):
    send(ledger, days="30")
    assert "already snoozed" in Page(send(ledger, days="1").body).text
    assert remembered(ledger).until == pages.snooze_end(NOW, 30)
    send(ledger, days="1", shorten="yes")
    assert remembered(ledger).until == pages.snooze_end(NOW, 1)
    assert len(history_of(ledger, ID)) == 2


def snoozed_by(by: str) -> InMemoryLedger:
    """A ledger with a month's snooze that was given by that person."""
    ledger = mailed()
    assert ledger.write_record(ID, WARNED, 0, NOW)
    assert ledger.write_snooze(ID, Snooze(until=pages.snooze_end(NOW, 30), at=NOW, by=by), 0, NOW)
    return ledger


@pytest.mark.parametrize(
    "by", ["lee@example.com", "Jo (lee@example.com)", "(forgotten)", "the holder of the link", "jo@example.com.org"]
)
def test_a_link_never_shortens_a_snooze_given_otherwise(by: str):
    ledger = snoozed_by(by)
    assert "shorten" not in Page(look(ledger).body).fields()
    assert "already snoozed" in Page(send(ledger, days="1", shorten="yes").body).text
    assert remembered(ledger).until == pages.snooze_end(NOW, 30)


@pytest.mark.parametrize("by", ["Jo@example.com", "Jo (jo@example.com)"])
def test_owners_may_shorten_their_own_snooze(by: str):
    ledger = snoozed_by(by)
    send(ledger, days="1", shorten="yes")
    assert remembered(ledger).until == pages.snooze_end(NOW, 1)


def test_a_link_to_a_forgotten_address_stores_and_shortens_nothing_of_it():
    ledger = snoozed_by("(forgotten)")
    assert [row.columns for row in forget_address(ledger, "jo@example.com") if row.sort == "visit"] == [("address",)]
    send(ledger, days="1", shorten="yes", name="Jo")
    assert remembered(ledger).until == pages.snooze_end(NOW, 30)
    assert send(ledger, do="disown").status == 400
    send(ledger, days="30", now=NOW + DAY, name="Jo")
    assert remembered(ledger).by == "Jo (the holder of the link)"
    assert "disown" not in look(ledger).body
    assert "jo@example.com" not in str(ledger.memory_store.rows)


def test_a_click_after_forget_stores_nothing_of_the_person_again(ledger: InMemoryLedger):
    send(ledger, days="1")
    assert [row.error for row in forget_address(ledger, "jo@example.com")] == ["", "", "", ""]
    send(ledger, days="7")
    snooze = remembered(ledger)
    assert (snooze.until, snooze.by) == (pages.snooze_end(NOW, 7), "the holder of the link")
    assert "jo@example.com" not in str([snooze, *history_of(ledger, ID)])


def test_all_of_a_mail_is_kept_in_one_visit():
    ledger = warned(visit_of(60))
    page = Page(look(ledger).body)
    assert page.fields()["r"] == [str(number) for number in range(1, 61)]
    assert sum("checked" in attrs for _, attrs in page.tags) == 61, "every resource, and one length"
    reply = send(ledger, rows=range(1, 61), days="3")
    assert (reply.status, "60 resources are snoozed" in Page(reply.body).text) == (200, True)
    assert {remembered(ledger, f"{ID}-{n}").until for n in range(1, 61)} == {pages.snooze_end(NOW, 3)}


def test_only_the_chosen_resources_are_kept():
    ledger = warned(visit_of(3))
    shown = [
        attrs["value"] for _, attrs in Page(look(ledger, rows=[2]).body).tags if attrs.get("name") == "r" and "checked" in attrs
    ]
    send(ledger, rows=shown)
    assert shown == ["2"]
    assert [remembered(ledger, f"{ID}-{n}").until is not None for n in (1, 2, 3)] == [False, True, False]


def test_each_resource_is_kept_no_longer_than_its_own_rule_allows():
    visit = visit_of(2)
    visit = replace(visit, resources=(visit.resources[0], replace(visit.resources[1], max_days=2)))
    ledger = warned(visit)
    assert "Kept for at most 2 days at a time" in Page(look(ledger).body).text
    page = Page(send(ledger, rows=[1, 2], days="30").body)
    assert [remembered(ledger, f"{ID}-{n}").until for n in (1, 2)] == [pages.snooze_end(NOW, days) for days in (30, 2)]
    assert "until Mon 23 Nov 2026, 11:00 UTC" in page.text


def test_one_failed_choice_hides_no_other():
    ledger = warned(visit_of(3))
    key, rows = snooze_key(f"{ID}-2"), ledger.memory_store.rows
    assert ledger.write_snooze(f"{ID}-2", Snooze(until=NOW), 0, NOW)
    rows[key] = broken = replace(rows[key], columns={"document": "next summer"})
    reply = send(ledger, rows=[1, 2, 3])
    assert rows[key] == broken
    text = Page(reply.body).text
    assert (reply.status, reply.failed) == (200, True)
    assert text.index("2 resources are snoozed") < text.index("may not have been saved") < text.rindex("churn-2")
    assert [remembered(ledger, f"{ID}-{n}").until is not None for n in (1, 3)] == [True, True]


def test_times_are_in_the_zone_of_the_mail():
    ledger = mailed(replace(VISIT, tz="Asia/Tokyo"))
    assert "19:17 Asia/Tokyo" in Page(look(ledger).body).text
    assert "20:00 Asia/Tokyo" in Page(send(ledger).body).text


def test_not_mine_is_recorded_with_its_history(ledger: InMemoryLedger):
    reply = send(ledger, do="disown", days="", reason="I left that team")
    snooze = remembered(ledger)
    assert (reply.status, "“churn” is marked as not yours" in Page(reply.body).text) == (200, True)
    assert snooze == Snooze(disowned_by="jo@example.com", disowned_at=NOW, version=1)
    [entry] = history_of(ledger, ID)
    assert (entry.what, entry.by) == ("disowned", "jo@example.com")
    assert entry.because == "its owner said that it isn't theirs: I left that team"
    assert "This was said before" in Page(send(ledger, do="disown", now=NOW + DAY).body).text
    assert remembered(ledger) == snooze


def test_keeping_takes_ones_own_not_mine_back(ledger: InMemoryLedger):
    send(ledger, do="disown")
    send(ledger)
    snooze = remembered(ledger)
    assert (snooze.disowned_by, snooze.disowned_at, snooze.until) == (None, None, pages.snooze_end(NOW, 7))


def test_a_mail_to_a_stand_in_offers_no_not_mine():
    ledger = warned(replace(VISIT, is_owner=False))
    assert "Not mine" not in look(ledger).body
    assert send(ledger, do="disown").status == 400
    assert remembered(ledger).disowned_by is None


def test_an_old_mail_does_not_replace_the_present_owners_not_mine():
    ledger = mailed()
    assert ledger.write_record(ID, changed(WARNED, to="lee@example.com"), 0, NOW)
    assert ledger.write_snooze(ID, Snooze(disowned_by="lee@example.com", disowned_at=NOW), 0, NOW)
    assert "This was said before" in Page(send(ledger, do="disown").body).text
    assert remembered(ledger).disowned_by == "lee@example.com"


def test_a_shorter_snooze_is_extended(ledger: InMemoryLedger):
    send(ledger, days="1")
    send(ledger, days="7")
    assert remembered(ledger).until == pages.snooze_end(NOW, 7)


def test_an_expired_snooze_is_not_shown(ledger: InMemoryLedger):
    send(ledger, days="1")
    later = NOW + 2 * DAY
    assert "Snoozed until" not in look(ledger, now=later).body
    send(ledger, days="1", now=later)
    assert remembered(ledger).until == pages.snooze_end(later, 1)


def test_the_form_shows_the_current_snooze(ledger: InMemoryLedger):
    assert "shorten" not in Page(look(ledger).body).fields()
    send(ledger, days="30", reason="quarterly run")
    page = Page(look(ledger).body)
    assert "Snoozed until Mon 21 Dec 2026, 11:00 UTC" in page.text
    assert "jo@example.com: quarterly run" in page.text
    assert "shorten" in page.fields()


@pytest.mark.parametrize("days", ["", "0", "31", "-1", "1.5", "1e9", "99999999999", "７", "7 ", "seven"])
def test_days_outside_the_limit_write_nothing(ledger: InMemoryLedger, days: str):
    reply = send(ledger, days=days, reason="because")
    assert reply.status == 400
    assert "Choose how long to keep it" in reply.body
    assert ">because</textarea>" in reply.body
    assert remembered(ledger).until is None


@pytest.mark.parametrize(
    ("limit", "offered"), [(1, ["1"]), (2, ["1", "2"]), (3, ["1", "3"]), (7, ["1", "3", "7"]), (14, ["1", "3", "7", "14"])]
)
def test_choices_stay_within_the_limit_with_one_preselected(ledger: InMemoryLedger, limit: int, offered: list[str]):
    page = Page(look(mailed(replace(VISIT, resources=(replace(RESOURCE, max_days=limit),)))).body)
    assert page.fields()["days"] == offered
    assert sum("checked" in attrs for _, attrs in page.tags) == 1


def test_an_unreachable_ledger_is_a_503_with_the_tag(ledger: InMemoryLedger):
    for reply in (look(UnreachableLedger()), send(UnreachableLedger(), days="3"), send(UnreachableLedger(), do="disown")):
        assert (reply.status, reply.headers["retry-after"]) == (503, "120")
        assert "reaper:keep-until=2026-11-28" in reply.body
        assert "Your choice may not have been saved" in reply.body
        assert "10.0.0.7" not in reply.body
        assert "10.0.0.7" in reply.note


def test_a_failed_history_entry_is_logged_and_the_snooze_stays():
    ledger = LedgerWithoutHistory()
    reply = send(ledger)
    assert reply.status == 200
    assert "history couldn't be written" in reply.note
    assert remembered(ledger).until is not None


def test_a_lost_race_is_retried_and_keeps_the_winners_fields():
    ledger = ContendedLedger(3)
    assert send(ledger).status == 200
    snooze = remembered(ledger)
    assert (snooze.until, snooze.disowned_at, snooze.version) == (pages.snooze_end(NOW, 7), NOW, 4)


def test_losing_every_race_is_a_503():
    ledger = ContendedLedger(99)
    reply = send(ledger)
    assert (reply.status, remembered(ledger).until) == (503, None)
    assert "other writers came first 8 times in a row" in reply.note


@pytest.mark.parametrize("kept_in", ["memory:", "sqlite://{}/ledger.db"])
def test_of_concurrent_snoozes_the_longest_wins(kept_in: str, tmp_path: Path):
    ledger = opening.open_ledger(kept_in.format(tmp_path), {})
    ledger.add_visit(VISIT)
    start = threading.Barrier(8)

    def one(days: int) -> None:
        start.wait()
        statuses.append(send(ledger, days=str(days)).status)

    statuses: list[int] = []
    threads = [threading.Thread(target=one, args=(days,)) for days in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    snooze = remembered(ledger)
    assert set(statuses) == {200}
    assert snooze.until == pages.snooze_end(NOW, 8)
    assert snooze.version == len(history_of(ledger, ID))


@pytest.mark.parametrize("base", ["https://x.lambda-url.us-east-1.on.aws/", "https://x.lambda-url.us-east-1.on.aws"])
def test_link_address_appends_path_and_token(base: str):
    assert links.link_address(base, TOKEN) == f"https://x.lambda-url.us-east-1.on.aws/keep?t={TOKEN}"


def test_the_page_writes_nothing_to_the_ledger_of_another_deployment(ledger: InMemoryLedger):
    ledger.deployment = "one"
    opening.ensure_format(ledger)
    ledger.deployment = "two"
    rows = dict(ledger.memory_store.rows)
    reply = send(ledger, days="3")
    assert (reply.status, "belongs to the deployment one, and this is two" in reply.note) == (503, True)
    assert ledger.memory_store.rows == rows
