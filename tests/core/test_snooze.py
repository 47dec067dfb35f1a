from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from core.fakes import DAY, HOUR, NOW
from reaper import ledger as ledgers
from reaper import page, snooze, wish
from reaper.errors import CloudError, Trouble
from reaper.fleeting import Fleeting
from reaper.ledger import Ledger
from reaper.meter import Meter, Meters
from reaper.model import Memory
from reaper.snooze import Reply, Request, answer
from reaper.token import Keys, Link, sign

KEYS = Keys(current="k1", ring={"k1": b"1" * 32})
ID = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn"
LINK = Link(
    resource=ID,
    expires=NOW + 14 * DAY,
    max_days=30,
    kind="sagemaker-endpoint",
    name="churn",
    where="123456789012 us-east-1",
    owner="jo@example.com",
    usd_per_hour=1.408,
    idle_since=NOW - 9 * DAY,
)
TOKEN = sign(LINK, KEYS)
WARNED = Memory(idle_since=NOW - 9 * DAY, warned_at=NOW - HOUR, receipt="m-1")
HOSTILE = [
    pytest.param("<script>alert(1)</script>", id="a script"),
    pytest.param('"><img src=x onerror=alert(1)>', id="out of an attribute"),
    pytest.param("</textarea><form action=//evil.test>", id="out of the text area"),
    pytest.param("{{ 7 * 7 }}{% include 'x' %}", id="a template"),
    pytest.param("a\r\nSet-Cookie: x=1\x00\x1b[31m", id="line breaks and escapes"),
    pytest.param("invoice\u202egnp.exe\u2066", id="right to left"),
    pytest.param("x" * 10_000, id="ten thousand characters"),
    pytest.param("=cmd|' /C calc'!A0", id="a formula"),
]


class Down(Fleeting):
    """A store that nobody can reach."""

    def recall(self, ids: Iterable[str], now: datetime) -> dict[str, Memory]:
        raise CloudError(Trouble.UNREACHABLE, "dynamodb:GetItem", "timed out at 10.0.0.7")


class Forgetful(Fleeting):
    """A store whose history cannot be written."""

    def note(self, entry: Any) -> None:
        raise CloudError(Trouble.THROTTLED, "dynamodb:PutItem", "slow down")


class Raced(Fleeting):
    """A store where a sweep writes right before each of the first `times` writes."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def remember(self, id: str, memory: Memory, expected_version: int, now: datetime) -> bool:
        if self.times:
            self.times -= 1
            seen = self.recall([id], now).get(id, Memory())
            super().remember(id, replace(seen, reminded_at=now), seen.version, now)
        return super().remember(id, memory, expected_version, now)


class Page(HTMLParser):
    """What a page consists of: tag names, attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def fields(self) -> dict[str, list[str | None]]:
        found: dict[str, list[str | None]] = {}
        for tag, attrs in self.tags:
            if tag in {"input", "textarea"}:
                found.setdefault(attrs["name"] or "", []).append(attrs.get("value"))
        return found


@pytest.fixture
def ledger() -> Fleeting:
    found = Fleeting()
    assert found.remember(ID, WARNED, 0, NOW)
    return found


def look(ledger: Ledger, token: str = TOKEN, method: str = "GET", now: datetime = NOW) -> Reply:
    return answer(Request(method=method, path="/keep", query=f"t={token}", source_ip="192.0.2.7"), ledger, KEYS, now)


def send(ledger: Ledger, now: datetime = NOW, keys: Keys = KEYS, **fields: str) -> Reply:
    sent = {"t": TOKEN, "days": "7", "reason": "", "name": ""} | fields
    request = Request(method="POST", path="/keep", body=urlencode(sent).encode(), source_ip="192.0.2.7")
    return answer(request, ledger, keys, now)


def remembered(ledger: Ledger, id: str = ID) -> Memory:
    return ledger.recall([id], NOW).get(id, Memory())


def test_looking_shows_what_it_is_about_and_the_choices(ledger: Fleeting):
    reply = look(ledger)
    found = Page(reply.body)
    assert reply.status == 200
    for text in (
        "churn",
        "sagemaker-endpoint",
        "123456789012 us-east-1",
        "Thu 12 Nov 2026, 10:17 UTC",
        "9 d",
        "$33.79 a day",
        "$304",
    ):
        assert text in found.text
    assert found.fields()["days"] == ["1", "3", "7", "30"]
    assert found.fields()["t"] == [TOKEN]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_looking_changes_nothing(ledger: Fleeting, method: str):
    before = remembered(ledger)
    for _ in range(3):
        look(ledger, method=method)
    answer(Request(method=method, path="/keep", query=f"t={TOKEN}&days=7&reason=x&shorten=yes"), ledger, KEYS, NOW)
    assert remembered(ledger) == before
    assert ledger.history(ID) == []


def test_head_answers_as_get_would_without_the_page(ledger: Fleeting):
    got, head = look(ledger), look(ledger, method="HEAD")
    assert (head.status, head.headers, head.body) == (got.status, got.headers, "")


def test_sending_keeps_the_resource_and_says_until_when_by_whom_and_why(ledger: Fleeting):
    reply = send(ledger, days="3", reason="demo on Monday")
    found = remembered(ledger)
    assert (reply.status, found.snoozed_until) == (200, datetime(2026, 11, 24, 11, tzinfo=UTC))
    assert (found.snoozed_by, found.snoozed_why) == ("jo@example.com", "demo on Monday")
    assert replace(found, snoozed_until=None, snoozed_by=None, snoozed_why=None, version=1) == replace(WARNED, version=1)
    assert "Until Tue 24 Nov 2026, 11:00 UTC" in Page(reply.body).text
    [entry] = ledger.history(ID)
    assert (entry.id, entry.when, entry.what, entry.by) == (ID, NOW, "kept", "jo@example.com")
    assert entry.because == "kept by its link until Tue 24 Nov 2026, 11:00 UTC: demo on Monday"


def test_a_name_that_was_typed_in_goes_with_the_links_owner_and_does_not_replace_it(ledger: Fleeting):
    send(ledger, name="The Admin")
    assert remembered(ledger).snoozed_by == "The Admin (jo@example.com)"


def test_a_resource_that_was_forgotten_can_still_be_kept():
    ledger = Fleeting()
    assert send(ledger).status == 200
    assert remembered(ledger).snoozed_until == page.until(NOW, 7)


def test_a_replay_changes_nothing_more(ledger: Fleeting):
    send(ledger)
    before = remembered(ledger)
    for _ in range(5):
        assert "Nothing was changed" in Page(send(ledger, now=NOW + timedelta(minutes=20)).body).text
    assert remembered(ledger) == before
    assert len(ledger.history(ID)) == 1


def test_a_longer_snooze_stays_unless_shortening_was_asked_for(ledger: Fleeting):
    send(ledger, days="30")
    assert "Nothing was changed" in Page(send(ledger, days="1").body).text
    assert remembered(ledger).snoozed_until == page.until(NOW, 30)
    send(ledger, days="1", shorten="yes")
    assert remembered(ledger).snoozed_until == page.until(NOW, 1)
    assert len(ledger.history(ID)) == 2


def test_a_shorter_snooze_is_prolonged(ledger: Fleeting):
    send(ledger, days="1")
    send(ledger, days="7")
    assert remembered(ledger).snoozed_until == page.until(NOW, 7)


def test_a_snooze_that_is_over_does_not_count_as_kept(ledger: Fleeting):
    send(ledger, days="1")
    later = NOW + 2 * DAY
    assert "Already kept" not in look(ledger, now=later).body
    send(ledger, days="1", now=later)
    assert remembered(ledger).snoozed_until == page.until(later, 1)


def test_looking_at_what_is_kept_says_until_when_by_whom_and_why_and_offers_to_shorten(ledger: Fleeting):
    assert "shorten" not in Page(look(ledger).body).fields()
    send(ledger, days="30", reason="quarterly run")
    found = Page(look(ledger).body)
    assert "Already kept until Mon 21 Dec 2026, 11:00 UTC" in found.text
    assert "jo@example.com: quarterly run" in found.text
    assert "shorten" in found.fields()


@pytest.mark.parametrize("days", ["", "0", "31", "-1", "1.5", "1e9", "99999999999", "７", "7 ", "seven"])
def test_days_outside_the_rules_limit_are_asked_for_again_and_nothing_is_written(ledger: Fleeting, days: str):
    reply = send(ledger, days=days, reason="because")
    assert reply.status == 400
    assert "Please choose" in reply.body
    assert ">because</textarea>" in reply.body
    assert remembered(ledger).snoozed_until is None


@pytest.mark.parametrize(
    ("limit", "offered"), [(1, ["1"]), (2, ["1", "2"]), (3, ["1", "3"]), (7, ["1", "3", "7"]), (14, ["1", "3", "7", "14"])]
)
def test_no_choice_is_beyond_the_rules_limit_and_one_is_chosen_beforehand(ledger: Fleeting, limit: int, offered: list[str]):
    found = Page(look(ledger, token=sign(replace(LINK, max_days=limit), KEYS)).body)
    assert found.fields()["days"] == offered
    assert sum("checked" in attrs for _, attrs in found.tags) == 1


BAD = [
    pytest.param("", id="none"),
    pytest.param("x" * 5000, id="far too long"),
    pytest.param(TOKEN[:-2] + ("AA" if TOKEN[-2:] != "AA" else "BB"), id="tampered with"),
    pytest.param(sign(LINK, Keys(current="k1", ring={"k1": b"2" * 32})), id="signed by somebody else"),
    pytest.param(sign(LINK, Keys(current="k9", ring={"k9": b"1" * 32})), id="a key that was retired"),
    pytest.param(sign(replace(LINK, expires=NOW), KEYS), id="expired"),
]


@pytest.mark.parametrize("bad", BAD)
def test_every_bad_link_gets_the_same_plain_page_and_the_log_gets_the_reason(ledger: Fleeting, bad: str):
    replies = [look(ledger, token=bad), look(ledger, method="HEAD", token=bad), send(ledger, t=bad)]
    assert {r.status for r in replies} == {403}
    assert {r.body for r in replies} == {look(ledger, token="nonsense").body, ""}
    assert "churn" not in replies[0].body
    assert "reaper:keep-until=2026-11-28" in replies[0].body
    assert all(r.note.startswith("refused: ") for r in replies)
    assert remembered(ledger) == replace(WARNED, version=1)


def test_the_token_must_be_in_the_form_itself(ledger: Fleeting):
    request = Request(method="POST", path="/keep", query=f"t={TOKEN}", body=b"days=7")
    assert answer(request, ledger, KEYS, NOW).status == 403
    assert remembered(ledger).snoozed_until is None


def test_a_link_keeps_the_resource_that_it_names_and_no_other(ledger: Fleeting):
    send(ledger, resource="other", r="other", id="other")
    assert remembered(ledger, "other") == Memory()
    assert remembered(ledger).snoozed_until is not None


@pytest.mark.parametrize("path", ["/", "/keep/", "/Keep", "/stop", "/delete", "/favicon.ico", "//keep", "/%6beep", ""])
def test_there_is_one_page_and_no_other(ledger: Fleeting, path: str):
    for method in ("GET", "POST", "DELETE"):
        assert answer(Request(method=method, path=path, query=f"t={TOKEN}"), ledger, KEYS, NOW).status == 404


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "STOP", "get"])
def test_other_methods_are_not_there(ledger: Fleeting, method: str):
    reply = look(ledger, method=method)
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD, POST")


def test_a_body_too_long_is_not_read(ledger: Fleeting):
    assert send(ledger, reason="x" * wish.MAX_BODY).status == 413
    assert send(ledger, reason="😀" * wish.MAX_REASON, name="😀" * wish.MAX_NAME).status == 200


def test_a_ledger_that_is_down_says_so_and_offers_the_tag_instead(ledger: Fleeting):
    for reply, day in (
        (look(Down()), "2026-11-28"),
        (send(Down(), days="3"), "2026-11-24"),
        (send(Down(), days="999"), "2026-12-21"),
    ):
        assert (reply.status, reply.headers["retry-after"]) == (503, "120")
        assert f"reaper:keep-until={day}" in reply.body
        assert "nothing was changed" in reply.body
        assert "10.0.0.7" not in reply.body
        assert "10.0.0.7" in reply.note


def test_a_history_that_cannot_be_written_is_logged_and_the_snooze_holds():
    ledger = Forgetful()
    reply = send(ledger)
    assert reply.status == 200
    assert "history could not be written" in reply.note
    assert remembered(ledger).snoozed_until is not None


def test_a_lost_race_is_tried_again_and_keeps_what_the_winner_wrote():
    ledger = Raced(3)
    assert send(ledger).status == 200
    found = remembered(ledger)
    assert (found.snoozed_until, found.reminded_at, found.version) == (page.until(NOW, 7), NOW, 4)


def test_losing_every_race_is_said_and_not_hidden():
    ledger = Raced(99)
    reply = send(ledger)
    assert (reply.status, remembered(ledger).snoozed_until) == (503, None)
    assert "somebody else wrote first" in reply.note


@pytest.mark.parametrize("kept_in", ["memory:", "sqlite://{}/ledger.db"])
def test_many_at_once_lose_nothing_and_the_longest_wins(kept_in: str, tmp_path: Path):
    ledger = ledgers.open(kept_in.format(tmp_path), {})
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
    found = remembered(ledger)
    assert set(statuses) == {200}
    assert found.snoozed_until == page.until(NOW, 8)
    assert found.version == len(ledger.history(ID))


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("where", ["name", "owner", "kind", "where"])
def test_hostile_names_come_out_harmless(where: str, hostile: str):
    link = replace(LINK, **{where: hostile})
    ledger = Fleeting()
    token = sign(link, KEYS)
    plain = [tag for tag, _ in Page(look(ledger).body).tags]
    shown = Page(look(ledger, token=token).body)
    assert [tag for tag, _ in shown.tags] == plain
    assert not set(shown.text) & set("\r\x00\x1b\u202e\u2066")
    assert len(shown.text) < 6000
    kept = Page(send(ledger, t=token).body)
    assert "script" not in [tag for tag, _ in kept.tags]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_reasons_come_out_harmless_and_cut(ledger: Fleeting, hostile: str):
    send(ledger, reason=hostile[:4000], name=hostile[:4000])
    found = remembered(ledger)
    assert found.snoozed_why
    assert found.snoozed_by
    assert len(found.snoozed_why) <= wish.MAX_REASON
    assert len(found.snoozed_by) <= wish.MAX_NAME + len(" (jo@example.com)")
    assert found.snoozed_why.isprintable()
    shown = Page(look(ledger).body)
    assert "script" not in [tag for tag, _ in shown.tags]
    assert sum(tag == "form" for tag, _ in shown.tags) == 1


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        pytest.param("Übung für Ōsaka 大阪 😀", "Übung für Ōsaka 大阪 😀", id="any script"),
        pytest.param("e\u0301te\u0301", "\u00e9t\u00e9", id="composed"),
        pytest.param("  two\r\n lines\t", "two lines", id="one line"),
        pytest.param("می\u200cخواهم", "می\u200cخواهم", id="words that need a joiner"),
        pytest.param("   ", None, id="nothing but blanks"),
    ],
)
def test_reasons_are_kept_in_any_script(ledger: Fleeting, sent: str, kept: str | None):
    send(ledger, reason=sent)
    assert remembered(ledger).snoozed_why == kept


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\xff\xfe\x00", id="no text"),
        pytest.param(b"&".join(b"a=1" for _ in range(4000)), id="thousands of fields"),
        pytest.param(b'{"t": "x"}', id="JSON"),
        pytest.param(b"t=%ff%fe&days=%00", id="escapes that are no text"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_a_body_that_is_no_form_is_refused_and_nothing_raised(ledger: Fleeting, body: bytes):
    assert answer(Request(method="POST", path="/keep", body=body), ledger, KEYS, NOW).status == 403


def test_a_reason_that_is_not_utf8_is_kept_with_marks(ledger: Fleeting):
    body = urlencode({"t": TOKEN, "days": "1"}).encode() + b"&reason=caf%E9"
    assert answer(Request(method="POST", path="/keep", body=body), ledger, KEYS, NOW).status == 200
    assert remembered(ledger).snoozed_why == "caf\ufffd"


def all_replies() -> list[Callable[[], Reply]]:
    meters = Meters(source=Meter(burst=0, per_second=0), link=Meter(burst=0, per_second=0))
    request = Request(method="GET", path="/keep", query=f"t={TOKEN}")
    return [
        lambda: look(Fleeting()),
        lambda: send(Fleeting()),
        lambda: send(Fleeting(), days="0"),
        lambda: look(Fleeting(), token="x"),
        lambda: look(Fleeting(), method="PUT"),
        lambda: look(Down()),
        lambda: answer(replace(request, path="/"), Fleeting(), KEYS, NOW),
        lambda: answer(replace(request, body=b"x" * 99_999), Fleeting(), KEYS, NOW),
        lambda: answer(request, Fleeting(), KEYS, NOW, meters),
        lambda: snooze.unavailable(NOW, "x"),
    ]


def test_every_reply_has_the_headers_that_keep_the_token_and_the_page_to_themselves():
    replies = [make() for make in all_replies()]
    assert [r.status for r in replies] == [200, 200, 400, 403, 405, 503, 404, 413, 429, 503]
    for reply in replies:
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "script-src" not in policy
        assert all(v.isascii() and v.isprintable() for v in reply.headers.values())


def test_no_page_has_a_script_or_fetches_anything_or_offers_more_than_keeping():
    for make in all_replies():
        found = Page(make().body)
        assert not {"script", "img", "iframe", "object", "svg"} & {tag for tag, _ in found.tags}
        assert not any(name.startswith("on") or name == "style" for _, attrs in found.tags for name in attrs)
        assert [attrs["href"] for tag, attrs in found.tags if tag == "link"] == ["data:,"]
        assert {attrs["action"] for tag, attrs in found.tags if tag == "form"} <= {"keep"}


def test_one_link_and_one_network_can_only_ask_so_often(ledger: Fleeting):
    meters = Meters(source=Meter(burst=3, per_second=0), link=Meter(burst=2, per_second=0))
    other = sign(replace(LINK, name="other"), KEYS)

    def ask(token: str, ip: str) -> int:
        return answer(Request(method="GET", path="/keep", query=f"t={token}", source_ip=ip), ledger, KEYS, NOW, meters).status

    assert [ask(TOKEN, "192.0.2.1"), ask(TOKEN, "192.0.2.2"), ask(TOKEN, "192.0.2.3")] == [200, 200, 429]
    assert [ask("guess", "2001:db8::1"), ask("guess", "2001:db8::2"), ask("guess", "2001:db8::3")] == [403, 403, 403]
    assert ask(other, "2001:db8::4") == 429
    assert ask(other, "2001:db8:0:1::1") == 200
    assert [ask(other, ""), ask("guess", "nonsense"), ask("guess", "?"), ask("guess", "")] == [200, 403, 403, 429]


def test_what_is_over_the_limit_is_told_when_to_come_back(ledger: Fleeting):
    meters = Meters(source=Meter(burst=0, per_second=0), link=Meter(burst=1, per_second=0))
    reply = answer(Request(method="POST", path="/keep", body=b""), ledger, KEYS, NOW, meters)
    assert (reply.status, reply.headers["retry-after"]) == (429, "60")


@pytest.mark.parametrize("base", ["https://x.lambda-url.us-east-1.on.aws/", "https://x.lambda-url.us-east-1.on.aws"])
def test_the_address_for_messages(base: str):
    assert snooze.address(base, TOKEN) == f"https://x.lambda-url.us-east-1.on.aws/keep?t={TOKEN}"


def test_no_note_for_the_log_holds_a_token(ledger: Fleeting):
    assert not any(TOKEN[-43:] in make().note for make in all_replies())
