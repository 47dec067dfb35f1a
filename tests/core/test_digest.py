from __future__ import annotations

import shlex
import unicodedata
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.fakes import DAY, NOW, resource, rule
from reaper import advice, digest, spark
from reaper.digest import DETAILED, ROWS, Occasion
from reaper.message import Audience, Message, deliverable, plain
from reaper.model import (
    Action,
    Case,
    Confidence,
    Coverage,
    Evidence,
    Finding,
    Memory,
    Mode,
    Move,
    Outcome,
    Owner,
    Price,
    Report,
    Result,
    Role,
    Run,
    State,
    Status,
    Step,
    Target,
    Verdict,
)
from reaper.overview import overview, topics
from reaper.policy import Owners

HOSTILE = "<script>alert(1)</script>\"'\r\nBcc: all@evil.example\u202egpj.exe &lt;"
OWNERS = Owners(domains=["example.com"], fallback="ml-admins@example.com")
CLIPPED = 102_000
"""Bytes of HTML above which Gmail hides the rest."""


def finding(name: str = "churn", usd: float | None = 2.0, address: str | None = "lee@example.com", **given: Any) -> Finding:
    """An endpoint idle for nine days, whose owner is due a first notice."""
    thing = given.pop("resource", None) or resource(id=f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/{name}", name=name)
    verdict = Verdict(
        state=given.pop("state", State.IDLE),
        because=given.pop("because", "Invocations silent for 9 d while CPUUtilization reported every hour"),
        idle_for=9 * DAY,
        last_busy=NOW - 9 * DAY,
        confidence=given.pop("confidence", Confidence.PROVEN),
    )
    price = None if usd is None else Price(usd_per_hour=usd, source="test", as_of="2026-11-20")
    fields: dict[str, Any] = {
        "case": Case(resource=thing, rule=given.pop("rule", rule()), verdict=verdict, usd_per_hour=usd),
        "step": Step(move=given.pop("move", Move.WARN), because="idle under the rule"),
        "outcome": Outcome(result=Result.PLANNED),
        "owner": Owner(address=address, source="tag owner"),
        "price": price,
        "wasted_usd": None if usd is None else usd * 9 * 24,
        "evidence": (),
    }
    return Finding(**{**fields, **given})


def occasion(**given: Any) -> Occasion:
    return Occasion(**{"now": NOW, "mode": Mode.ENFORCE, "owners": OWNERS, **given})


def report(*findings: Finding, coverage: tuple[Coverage, ...] = ()) -> Report:
    run = Run(id="r1", started_at=NOW, finished_at=NOW, mode=Mode.NOTIFY, version="0", policy_sha256="0" * 64)
    return Report(run=run, coverage=coverage, findings=findings)


def only(messages: list[Message]) -> Message:
    [message] = messages
    return message


# --- who gets what


def test_every_owner_gets_one_message_about_their_own_and_nobody_elses():
    found = [finding("a"), finding("b", address="dana@example.com"), finding("c", address="Lee@example.com")]
    by_address = {m.to.lower(): m for m in digest.owners(found, occasion())}
    assert set(by_address) == {"lee@example.com", "dana@example.com"}
    assert [i.rpartition("/")[2] for i in by_address["lee@example.com"].resource_ids] == ["a", "c"]
    assert "churn" not in by_address["dana@example.com"].text


@pytest.mark.parametrize("move", [Move.NONE, Move.HOLD])
def test_nothing_to_tell_is_no_message(move: Move):
    assert digest.owners([finding(move=move)], occasion()) == []
    assert digest.owners([], occasion()) == []


def test_an_address_outside_the_domains_is_never_written_to_even_if_the_finding_says_so():
    message = only(digest.owners([finding(address="lee@evil.example")], occasion()))
    assert message.to == "ml-admins@example.com"
    assert "without a known owner" in message.subject


@pytest.mark.parametrize("fallback", [None, "not an address", "a@b\r\nBcc: x@y.z"])
def test_without_owner_and_usable_fallback_nobody_is_told_and_no_notice_counts(fallback: str | None):
    owners = Owners(domains=["example.com"], fallback=fallback)
    assert digest.owners([finding(address=None), finding(address="x@evil.example")], occasion(owners=owners)) == []


@pytest.mark.parametrize(
    ("address", "goes"),
    [
        ("lee@example.com", True),
        ("lee@EXAMPLE.com", True),
        ("ml-admins@other.example", True),
        ("lee@sub.example.com", False),
        ("lee@example.com.evil.example", False),
        ("lee@evil.example@example.com", False),
        ('"lee@evil.example"@example.com', False),
        ("lee@example.com\r\nBcc: x@evil.example", False),
        ("Lee <lee@example.com>", False),
        ("lee@example.com, x@evil.example", False),
        ("lee@xn--exmple-cua.com", False),
        ("@example.com", False),
        pytest.param(f"{'a' * 65}@example.com", False, id="too long"),
        ("lée@example.com", False),
    ],
)
def test_only_plain_addresses_in_the_listed_domains_and_the_fallback_are_deliverable(address: str, goes: bool):
    assert deliverable(address, ["@Example.com"], "ml-admins@other.example") is goes


# --- what it says


@pytest.mark.parametrize(
    ("found", "subject"),
    [
        pytest.param([finding("churn", 2.816)], "1 idle ML resource costs you $2.82/h: churn", id="one"),
        pytest.param([finding("a", 4), finding("b", 3.09)], "2 idle ML resources cost you $7.09/h", id="two"),
        pytest.param([finding("a", 4), finding("b", None)], "2 idle ML resources cost you at least $4.00/h", id="one unpriced"),
        pytest.param([finding("a", None)], "1 idle ML resource, price not known: a", id="unpriced"),
        pytest.param([finding("a", 1, move=Move.REMIND)], "Reminder: 1 idle ML resource costs you $1.00/h: a", id="reminder"),
        pytest.param(
            [finding("a", 2, move=Move.STOP, outcome=Outcome(result=Result.DONE))],
            "1 idle ML resource was stopped, saving $2.00/h: a",
            id="stopped",
        ),
    ],
)
def test_the_subject_has_count_and_money(found: list[Finding], subject: str):
    assert only(digest.owners(found, occasion())).subject == subject


def test_each_resource_has_what_where_since_evidence_cost_next_link_tag_and_undo():
    message = only(digest.owners([finding()], occasion(keep_link=lambda i: f"https://keep.example.com/{i[-5:]}")))
    for body in (message.text, message.html):
        assert "churn" in body
        assert "SageMaker endpoint" in body
        assert "us-east-1, account 123456789012" in body
        assert "Thu 12 Nov 2026, 10:17 UTC" in body
        assert "9 d" in body
        assert "Invocations silent for 9 d while CPUUtilization reported every hour" in body
        assert "$48.00 a day" in body
        assert "$432" in body
        assert "It will be stopped on Tue 24 Nov 2026, 10:17 UTC or soon after, unless it is used or kept before." in body
        assert "https://keep.example.com/churn" in body
        assert "--resource-arn arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn" in body
        assert "Key=reaper:keep-until,Value=2026-11-28" in body
        assert "reaper restore arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn" in body


@pytest.mark.parametrize(
    ("mode", "given", "said"),
    [
        pytest.param(Mode.AUDIT, {}, "Nothing is done to it by itself", id="audit"),
        pytest.param(Mode.NOTIFY, {}, "Nothing is done to it by itself", id="notify"),
        pytest.param(Mode.ENFORCE, {"rule": rule(action=Action.NOTIFY)}, "Nothing is done to it by itself", id="action notify"),
        pytest.param(
            Mode.ENFORCE, {"confidence": Confidence.LIKELY}, "The evidence is indirect, so nothing is done", id="likely"
        ),
        pytest.param(
            Mode.ENFORCE,
            {"confidence": Confidence.LIKELY, "rule": rule(act_on=Confidence.LIKELY)},
            "It will be stopped on Tue 24 Nov 2026",
            id="likely is enough",
        ),
        pytest.param(Mode.ENFORCE, {"rule": rule(action=Action.DELETE)}, "It will be deleted, with everything", id="delete"),
    ],
)
def test_only_what_will_happen_is_announced(mode: Mode, given: dict[str, Any], said: str):
    message = only(digest.owners([finding(**given)], occasion(mode=mode)))
    assert said in message.text
    assert ("will be" in message.text) is said.startswith("It will be")
    assert ("brings it back" in message.html) is said.startswith("It will be")


@pytest.mark.parametrize(
    ("warned", "said"),
    [(NOW - DAY, "on Mon 23 Nov 2026, 10:17 UTC"), (NOW - 10 * DAY, "at one of the next sweeps")],
)
def test_the_grace_runs_from_the_first_notice(warned: Any, said: str):
    found = finding(move=Move.REMIND)
    message = only(digest.owners([found], occasion(memories={found.case.resource.id: Memory(warned_at=warned)})))
    assert said in message.text


def test_a_silence_that_was_not_seen_to_begin_says_at_least():
    found = finding()
    unseen = replace(found, case=replace(found.case, verdict=replace(found.case.verdict, last_busy=None)))
    assert "at least" in only(digest.owners([unseen], occasion())).text
    assert "at least" not in only(digest.owners([found], occasion())).text


@pytest.mark.parametrize("link", ["javascript:alert(1)", "http://evil.example/keep", "https://", "https://x.example/\n"])
def test_a_link_that_is_no_web_page_of_ours_is_left_out_and_the_tag_remains(link: str):
    message = only(digest.owners([finding()], occasion(keep_link=lambda i: link)))
    assert "href=" not in message.html
    assert "reaper:keep-until" in message.html


def test_the_bars_show_use_and_then_silence():
    shape = (100, 50, 1, 0) * 7 + (0,) * 28
    evidence = Evidence(
        signal="Invocations", subject="blue", role=Role.ACTIVITY, points=9, last_busy=NOW, peak=9, complete=True, shape=shape
    )
    message = only(digest.owners([finding(evidence=(evidence,))], occasion()))
    assert "█▂" * 7 + "▁" * 14 in message.text
    assert message.html.count('class="bar"') == 14
    assert "Invocations of blue, last 14 d" in message.html


@pytest.mark.parametrize(
    ("shape", "drawn"), [((), ""), ((0,), "▁"), ((1,), "▂"), ((100,), "█"), ((0, 0, 100), "▁▁█"), ((0,) * 57, "▁" * 19)]
)
def test_bars_never_hide_use(shape: tuple[int, ...], drawn: str):
    assert spark.bars(shape) == drawn


# --- how much


def test_many_resources_make_several_messages_none_is_lost_and_no_mail_client_clips_them():
    count = 2 * (DETAILED + ROWS) + 1
    link = "https://keep.example.com/keep?t=" + "x" * 900
    shape = tuple(range(0, 100, 2))[:56]
    seen = Evidence(
        signal="Invocations", subject="", role=Role.ACTIVITY, points=1, last_busy=NOW, peak=1, complete=True, shape=shape
    )
    found = [finding(f"{'n' * 50}-{n:03}", n, because="why " * 75, evidence=(seen,)) for n in range(count)]
    messages = digest.owners(found, occasion(keep_link=lambda i: link))
    told = [i for m in messages for i in m.resource_ids]
    assert sorted(told) == sorted(f.case.resource.id for f in found)
    assert [m.subject[-8:] for m in messages] == ["(1 of 3)", "(2 of 3)", "(3 of 3)"]
    for message in messages:
        assert len(message.html.encode()) < CLIPPED
        assert len(message.text.encode()) < 200_000
        assert all(i.rpartition("/")[2] in message.text and i.rpartition("/")[2] in message.html for i in message.resource_ids)


def test_the_attributes_let_a_filter_policy_pick_and_are_few_enough_for_raw_delivery():
    message = only(digest.owners([finding("a", 1.5), finding("b", 2, move=Move.REMIND)], occasion()))
    assert message.audience is Audience.OWNERS
    assert len(message.attributes) <= 10
    assert message.attributes["owner"] == "lee@example.com"
    assert message.attributes["action"] == ("remind", "warn")
    assert message.attributes["kind"] == ("sagemaker-endpoint",)
    assert message.attributes["usd_per_hour"] == 3.5


# --- hostile input


class Shape(HTMLParser):
    """The tags and attribute names of a page, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))


def hostile(text: str) -> Finding:
    thing = resource(
        id=f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/{text}",
        name=text,
        size=text or "x",
        tags={text: text, "team": text},
        target=Target(cloud="aws", account=text, region=text),
    )
    seen = Evidence(
        signal=text, subject=text, role=Role.ACTIVITY, points=1, last_busy=NOW, peak=1, complete=True, shape=(1, 2, 3)
    )
    owner = Owner(address="ml-admins@example.com", source=f"fallback; tag owner names {text}")
    return finding(resource=thing, because=text, owner=owner, evidence=(seen,), rule=rule(name=text))


LETTERS = st.text(
    alphabet=st.one_of(st.characters(), st.sampled_from("<>\"'&{}%\r\n\x00\x1b\u202e\u2066\u200f=@;`$()")),
    min_size=1,
    max_size=60,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(LETTERS)
def test_hostile_text_changes_no_markup_and_leaves_no_control_or_direction_marks(text: str):
    gap = Coverage(
        cloud="aws", account=text, region=text, kind="sagemaker-endpoint", status=Status.DENIED, missing=text, error=text
    )
    harmless = replace(gap, account="x", region="x", missing="x", error="x")
    made, calm = (
        [
            only(digest.owners([hostile(t)], occasion())),
            overview(report(hostile(t), coverage=(g,)), occasion(), None, [t]),
        ]
        for t, g in ((text, gap), ("x", harmless))
    )
    for message, usual in zip(made, calm, strict=True):
        assert message is not None
        assert usual is not None
        assert [t for t in Shape(message.html).tags if t[0] != "br"] == [t for t in Shape(usual.html).tags if t[0] != "br"] or (
            not text.isprintable()
        )
        assert {t for t, _ in Shape(message.html).tags} <= {t for t, _ in Shape(usual.html).tags}
        assert message.subject.isprintable()
        for body in (message.text, message.html):
            assert not {c for c in body if unicodedata.category(c) in {"Cc", "Cf", "Cs"} and c not in "\n\u200c\u200d"}
            body.encode()


@pytest.mark.parametrize(
    "text", [HOSTILE, "=cmd()|' /C calc'!A0", "\u202eevil", "a" * 10_000, "\ud800", "{{ 7*7 }}"], ids=lambda t: ascii(t)[:30]
)
def test_known_attacks_come_out_harmless(text: str):
    message = only(digest.owners([hostile(text)], occasion()))
    summary = overview(report(hostile(text)), occasion())
    assert summary is not None
    for one in (message, summary):
        assert "<script" not in one.html
        assert "\nBcc" not in one.text
        assert len(one.subject) <= 150
        assert len(one.html) < 40_000
        assert not any(c in one.html + one.text + one.subject for c in "\u202e\r")
        assert "49" not in one.subject


def test_no_mail_asks_for_anything_from_the_network():
    message = only(digest.owners([finding()], occasion()))
    summary = overview(report(finding()), occasion())
    assert summary is not None
    for page in (message.html, summary.html):
        assert not any(mark in page for mark in ("<img", "src=", "url(", "<link", "<script", "@import"))
        assert 'name="color-scheme"' in page
        assert 'name="viewport"' in page


@settings(deadline=None, max_examples=100)
@given(LETTERS)
def test_what_is_pasted_into_a_shell_is_one_argument_however_the_resource_is_called(text: str):
    thing = resource(id=f"arn:{text}", name=text, kind="sagemaker-notebook")
    for command in (advice.keep_command(thing, NOW), advice.undo_command(thing)):
        if command is not None:
            assert "\n" not in command
            words = shlex.split(command)
            assert f"arn:{text}" in words or text in words


@pytest.mark.parametrize(
    "given",
    [
        {"subject": "a\r\nBcc: x@evil.example"},
        {"subject": ""},
        {"subject": "a\u202e"},
        {"subject": "a" * 151},
        {"to": "x@y.z\r\nBcc: a@b.c"},
        {"to": ""},
        {"to": "<x@example.com>"},
        {"text": " \n"},
    ],
    ids=repr,
)
def test_a_message_with_a_hostile_header_or_nothing_in_it_cannot_be_made(given: dict[str, Any]):
    with pytest.raises(ValueError):
        Message(**{"to": "lee@example.com", "subject": "s", "text": "t", "html": "h", **given})


@given(st.text(max_size=40))
def test_no_address_that_passes_can_end_a_header_line(text: str):
    if plain(text):
        assert text.isascii()
        assert text.isprintable()
        assert not set(text) & set(' <>,;:"()[]\\')


# --- the admins' summary


def test_the_summary_has_money_teams_owners_kinds_new_unknown_denied_and_held():
    teams = finding("a", 3, resource=resource(name="a", tags={"Team": "growth"}))
    denied = Coverage(
        cloud="aws",
        account="123456789012",
        region="eu-west-1",
        kind="sagemaker-notebook",
        status=Status.DENIED,
        missing="sagemaker:ListNotebookInstances",
        error="not allowed",
    )
    held = finding("held", 9, move=Move.HOLD, step=Step(move=Move.HOLD, because="over the cap of 20 acts"))
    blind = finding("blind", 1, state=State.UNKNOWN, because="its heartbeat stopped", move=Move.NONE)
    nobody = finding("stray", 1, address=None)
    told = report(teams, held, blind, nobody, coverage=(denied,))
    owners = Owners(domains=["example.com"])
    summary = overview(told, occasion(owners=owners), known={held.case.resource.id}, troubles=["smtp: login refused"])
    assert summary is not None
    assert summary.subject == "[ML Idle Reaper] 3 idle ML resources cost $13.00/h; 2 new; 1 of 1 lists incomplete"
    for said in (
        "$13.00 an hour", "$9,490 a month", "growth: $3.00 an hour, 1 idle", "lee@example.com: $12.00 an hour, 2 idle",
        "SageMaker endpoint: $13.00 an hour, 3 idle", "NEW since the last sweep (2)", "its heartbeat stopped",
        "missing permission sagemaker:ListNotebookInstances", "over the cap of 20 acts", "smtp: login refused", "NOBODY TO TELL",
    ):  # fmt: skip
        assert said in summary.text
    assert "growth" in summary.html
    assert "Held, waiting for you" in summary.html


def test_nothing_new_is_no_summary_and_anything_new_is_one():
    first = report(finding("a"), finding("b", state=State.UNKNOWN, move=Move.NONE))
    assert overview(first, occasion()) is not None
    assert overview(first, occasion(), topics(first)) is None
    assert overview(report(*first.findings, finding("c")), occasion(), topics(first)) is not None
    assert overview(first, occasion(), topics(first), ["smtp: it failed"]) is not None
    assert overview(report(), occasion()) is None
    acted = finding("a", move=Move.STOP, outcome=Outcome(result=Result.FAILED, error="throttled"))
    summary = overview(report(acted), occasion(), topics(report(acted)))
    assert summary is not None
    assert "throttled" in summary.text


def test_a_new_gap_in_coverage_is_news_once():
    gap = Coverage(cloud="aws", account="1", region="x", kind="k", status=Status.FAILED, error="down")
    seen = report(coverage=(gap,))
    assert overview(seen, occasion()) is not None
    assert overview(seen, occasion(), topics(seen)) is None


def test_the_summary_stays_short_however_much_there_is():
    many = [finding(f"r{n}", 1.0, address=f"p{n}@example.com") for n in range(400)]
    summary = overview(report(*many), occasion(), known=set())
    assert summary is not None
    assert len(summary.html.encode()) < CLIPPED
    assert "and 390 more" in summary.text
    assert len(summary.resource_ids) == 400


def test_days_are_counted_from_the_moment_of_the_sweep():
    assert advice.keep_tag(NOW) == "reaper:keep-until=2026-11-28"
    assert advice.keep_tag(NOW + timedelta(days=40)) == "reaper:keep-until=2027-01-07"
