from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from fakes.builders import NOW
from fakes.memory_ledger import InMemoryLedger
from fakes.snooze_requests import (
    ID,
    KEYS,
    RESOURCE,
    TOKEN,
    VISIT,
    WARNED,
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
from reaper.errors import CloudError, Reason
from reaper.ledger.rows import Category
from reaper.record import Record, Snooze
from reaper.snooze import pages
from reaper.snooze import pages as form
from reaper.snooze.handler import RateLimiter, RateLimiters, handle_request
from reaper.snooze.links import Keys, LinkSigner, open_visit, sign_link
from reaper.snooze.pages import Reply, Request
from snooze.test_links import finding

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
LINES = RateLimiter(burst=60, per_second=1)


@pytest.fixture
def ledger() -> InMemoryLedger:
    return warned()


BAD = [
    pytest.param("", id="none"),
    pytest.param("x" * 5000, id="far too long"),
    pytest.param(TOKEN[:-2] + ("AA" if TOKEN[-2:] != "AA" else "BB"), id="tampered with"),
    pytest.param(sign_link(VISIT.id, VISIT.expires, Keys(current="k1", ring={"k1": b"2" * 32})), id="signed by somebody else"),
    pytest.param(sign_link(VISIT.id, VISIT.expires, Keys(current="k9", ring={"k9": b"1" * 32})), id="a key that was retired"),
    pytest.param(sign_link(VISIT.id, NOW, KEYS), id="expired"),
]


@pytest.mark.parametrize("bad", BAD)
def test_every_invalid_link_gets_the_same_page(ledger: InMemoryLedger, bad: str):
    replies = [look(ledger, token=bad), look(ledger, method="HEAD", token=bad), send(ledger, t=bad)]
    assert {r.status for r in replies} == {403}
    assert {r.body for r in replies} == {look(ledger, token="nonsense").body, ""}
    assert "churn" not in replies[0].body
    assert "reaper:keep-until=2026-11-28" in replies[0].body
    assert all(r.note.startswith("refused: ") for r in replies)
    assert (remembered(ledger), ledger.record(ID, NOW)) == (Snooze(), replace(WARNED, version=1))


def test_a_post_needs_the_token_in_its_form(ledger: InMemoryLedger):
    for body in (b"days=7", b""):
        request = Request(method="POST", path="/keep", query=f"t={TOKEN}&days=7", body=body)
        assert handle_request(request, desk(ledger)).status == 403
    assert remembered(ledger).until is None


def test_a_link_writes_only_to_the_resources_of_its_mail(ledger: InMemoryLedger):
    ledger.add_visit(replace(visit_of(3), id="another-mail-with-three"))
    send(ledger, rows=(1, 2, 3, "other", "-1", "0", "٢"), resource="other", id="other", visit="another-mail-with-three")
    assert {key.name for key in ledger.memory_store.rows if key.category in {Category.RECORD, Category.SNOOZE}} == {ID}
    assert remembered(ledger).until is not None


@pytest.mark.parametrize("rows", [(), (2,), ("x",), ("99999",), tuple(range(2, 100))])
def test_rows_outside_the_mail_are_no_choice(ledger: InMemoryLedger, rows: tuple[object, ...]):
    reply = send(ledger, rows=rows)
    assert (reply.status, "Choose at least one resource" in reply.body) == (400, True)
    assert (remembered(ledger), ledger.record(ID, NOW)) == (Snooze(), replace(WARNED, version=1))


def test_thousands_of_rows_are_refused_before_the_ledger():
    for reply in (send(UnreachableLedger(), rows=range(2000)), look(UnreachableLedger(), rows=range(2000))):
        assert reply.status == 403


def test_a_guessed_visit_is_refused_before_the_ledger():
    for guess in (VISIT.id, "A" * 22, "../state#pause-pause-p"):
        assert look(UnreachableLedger(), token=f"{TOKEN[:6]}{guess}{TOKEN[28:-1]}").status == 403
        assert look(UnreachableLedger(), token=guess).status == 403


@pytest.mark.parametrize("gone", ["never stored", "its time is over", "it lists nothing"])
def test_a_signed_link_without_its_row_opens_nothing(gone: str):
    ledger = InMemoryLedger()
    if gone == "its time is over":
        ledger.add_visit(replace(VISIT, expires=NOW - timedelta(seconds=1)))
    elif gone == "it lists nothing":
        ledger.add_visit(replace(VISIT, resources=()))
    replies = [look(ledger), look(ledger, method="HEAD"), send(ledger), send(ledger, do="disown")]
    assert {reply.status for reply in replies} == {410}
    assert replies[0].body == look(ledger, token="nonsense").body
    assert (remembered(ledger), ledger.record(ID, NOW)) == (Snooze(), Record())


EDITED = [
    pytest.param({"resources": []}, 410, id="nothing listed"),
    pytest.param({"resources": 7}, 503, id="a number for the list"),
    pytest.param("{", 503, id="half a document"),
    pytest.param("[" * 100_000, 503, id="lists in lists"),
    pytest.param({"resources": [{"id": 7}]}, 503, id="a resource without fields"),
    pytest.param({"tz": "../etc/passwd"}, 503, id="no time zone"),
    pytest.param({"sent_at": "2026-11-21"}, 503, id="a time without a zone"),
    pytest.param({"address": "<script>alert(1)</script>", "is_owner": True}, 200, id="another address"),
]


@pytest.mark.parametrize(("edited", "status"), EDITED)
def test_an_edited_row_raises_nothing_and_snoozes_at_most(edited: dict[str, Any] | str, status: int):
    ledger = mailed()
    [(key, row)] = ledger.memory_store.rows.items()
    document = edited if isinstance(edited, str) else json.dumps(json.loads(row.columns["v_document"]) | edited)
    ledger.memory_store.rows[key] = replace(row, columns={"v_document": document})
    for reply in (look(ledger), send(ledger), send(ledger, do="disown")):
        assert reply.status in {status, 400 if status == 200 else status}
        assert "script" not in [tag for tag, _ in Page(reply.body).tags]
    assert [key.category for key in ledger.memory_store.rows] in (["visit"], ["visit", "snooze", "history"])
    assert (remembered(ledger).disowned_by, remembered(ledger).disowned_at) == (None, None)


@pytest.mark.parametrize("most", [10**12, 0, -(10**12)])
def test_an_edited_limit_never_fails_the_page(most: int):
    ledger = mailed(replace(VISIT, resources=(replace(RESOURCE, max_days=most),)))
    assert look(ledger).status == 200
    assert send(ledger, days="9999").status in {200, 400}
    until = remembered(ledger).until
    assert until is None or until <= NOW + timedelta(days=3651)


@pytest.mark.parametrize("path", ["/", "/keep/", "/Keep", "/stop", "/delete", "/favicon.ico", "//keep", "/%6beep", ""])
def test_every_other_path_is_404(ledger: InMemoryLedger, path: str):
    for method in ("GET", "POST", "DELETE"):
        assert handle_request(Request(method=method, path=path, query=f"t={TOKEN}"), desk(ledger)).status == 404


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "STOP", "get"])
def test_other_methods_are_405(ledger: InMemoryLedger, method: str):
    reply = look(ledger, method=method)
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD, POST")


def test_an_overlong_body_is_413(ledger: InMemoryLedger):
    assert send(ledger, reason="x" * form.MAX_BODY).status == 413
    assert send(ledger, reason="😀" * form.MAX_REASON, name="😀" * form.MAX_NAME).status == 200


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("where", ["name", "kind", "where"])
def test_hostile_names_are_escaped(where: str, hostile: str):
    ledger = mailed(replace(VISIT, resources=(replace(RESOURCE, **{where: hostile}),)))
    plain = [tag for tag, _ in Page(look(mailed()).body).tags]
    assert [tag for tag, _ in Page(look(ledger).body).tags] == plain
    for reply in (send(ledger), send(ledger, do="disown")):
        assert "script" not in [tag for tag, _ in Page(reply.body).tags]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_link_lists_hostile_names_as_short_lines(hostile: str):
    mine = finding(name=hostile, region=hostile)
    links = open_visit(LinkSigner(base="https://keep.example.com", keys=KEYS), NOW, "jo@example.com", True, "UTC", [mine])
    assert links
    [listed] = links.visit.resources
    for text in (listed.name, listed.where):
        assert not set(text) & set("\r\x00\x1b\u202e\u2066")
        assert 0 < len(text) <= 100


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_reasons_are_escaped_and_cut(ledger: InMemoryLedger, hostile: str):
    send(ledger, reason=hostile[:4000], name=hostile[:4000])
    snooze = remembered(ledger)
    assert snooze.reason
    assert snooze.by
    assert len(snooze.reason) <= form.MAX_REASON
    assert len(snooze.by) <= form.MAX_NAME + len(" (jo@example.com)")
    assert snooze.reason.isprintable()
    shown = Page(look(ledger).body)
    assert "script" not in [tag for tag, _ in shown.tags]
    assert sum(tag == "form" for tag, _ in shown.tags) == 1


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        pytest.param("Übung für Ōsaka 大阪 😀", "Übung für Ōsaka 大阪 😀", id="any script"),
        pytest.param("e\u0301te\u0301", "\u00e9t\u00e9", id="composed"),
        pytest.param("  two\r\n lines\t", "two lines", id="one line"),
        pytest.param("می\u200cخواهم", "می\u200cخواهم", id="words that need a joiner"),
        pytest.param("   ", None, id="nothing but blanks"),
    ],
)
def test_reasons_keep_their_script(ledger: InMemoryLedger, sent: str, reason: str | None):
    send(ledger, reason=sent)
    assert remembered(ledger).reason == reason


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
def test_a_body_that_is_no_form_raises_nothing(ledger: InMemoryLedger, body: bytes):
    assert handle_request(Request(method="POST", path="/keep", body=body), desk(ledger)).status == 403


def test_invalid_utf8_in_a_reason_becomes_a_mark(ledger: InMemoryLedger):
    body = urlencode({"t": TOKEN, "r": 1, "days": "1"}).encode() + b"&reason=caf%E9"
    assert handle_request(Request(method="POST", path="/keep", body=body), desk(ledger)).status == 200
    assert remembered(ledger).reason == "caf\ufffd"


def all_replies() -> list[Callable[[], Reply]]:
    meters = RateLimiters(
        per_network=RateLimiter(burst=0, per_second=0), per_link=RateLimiter(burst=0, per_second=0), per_log_line=LINES
    )
    request = Request(method="GET", path="/keep", query=f"t={TOKEN}")
    return [
        lambda: look(mailed()),
        lambda: send(mailed()),
        lambda: send(mailed(), do="disown"),
        lambda: send(mailed(), days="0"),
        lambda: look(InMemoryLedger()),
        lambda: look(InMemoryLedger(), token="x"),
        lambda: look(InMemoryLedger(), method="PUT"),
        lambda: look(UnreachableLedger()),
        lambda: handle_request(replace(request, path="/"), desk(InMemoryLedger())),
        lambda: handle_request(replace(request, body=b"x" * 99_999), desk(InMemoryLedger())),
        lambda: handle_request(request, desk(InMemoryLedger()), meters),
        lambda: handle_request(request, replace(desk(InMemoryLedger()), keys=unreadable)),
        lambda: pages.invalid_request("x"),
    ]


def unreadable(wanted: str | None) -> Keys:
    raise CloudError(Reason.UNREACHABLE, "secretsmanager:GetSecretValue", "timed out at 10.0.0.7")


def test_every_reply_has_the_security_headers():
    replies = [make() for make in all_replies()]
    assert [r.status for r in replies] == [200, 200, 200, 400, 410, 403, 405, 503, 404, 413, 429, 503, 400]
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


def test_no_page_has_scripts_fetches_or_other_actions():
    for make in all_replies():
        page = Page(make().body)
        assert not {"script", "img", "iframe", "object", "svg"} & {tag for tag, _ in page.tags}
        assert not any(name.startswith("on") or name == "style" for _, attrs in page.tags for name in attrs)
        assert [attrs["href"] for tag, attrs in page.tags if tag == "link"] == ["data:,"]
        assert {attrs["action"] for tag, attrs in page.tags if tag == "form"} <= {"keep"}


def test_links_and_networks_are_rate_limited(ledger: InMemoryLedger):
    meters = RateLimiters(
        per_network=RateLimiter(burst=3, per_second=0), per_link=RateLimiter(burst=2, per_second=0), per_log_line=LINES
    )
    ledger.add_visit(replace(VISIT, id="another-mail-another-m"))
    other = sign_link("another-mail-another-m", VISIT.expires, KEYS)

    def ask(token: str, ip: str) -> int:
        return handle_request(Request(method="GET", path="/keep", query=f"t={token}", source_ip=ip), desk(ledger), meters).status

    assert [ask(TOKEN, "192.0.2.1"), ask(TOKEN, "192.0.2.2"), ask(TOKEN, "192.0.2.3")] == [200, 200, 429]
    assert [ask("guess", "2001:db8::1"), ask("guess", "2001:db8::2"), ask("guess", "2001:db8::3")] == [403, 403, 403]
    assert ask(other, "2001:db8::4") == 429
    assert ask(other, "2001:db8:0:1::1") == 200
    assert [ask(other, ""), ask("guess", "nonsense"), ask("guess", "?"), ask("guess", "")] == [200, 403, 403, 429]


def test_a_429_says_when_to_try_again(ledger: InMemoryLedger):
    meters = RateLimiters(
        per_network=RateLimiter(burst=0, per_second=0), per_link=RateLimiter(burst=1, per_second=0), per_log_line=LINES
    )
    reply = handle_request(Request(method="POST", path="/keep", body=b""), desk(ledger), meters)
    assert (reply.status, reply.headers["retry-after"]) == (429, "60")


def test_no_log_note_contains_a_token(ledger: InMemoryLedger):
    assert not any(TOKEN[-43:] in make().note for make in all_replies())
