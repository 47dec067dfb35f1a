from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from html import unescape
from typing import Any

import pytest

from fakes.builders import DAY, NOW, resource, rule
from fakes.mails import notice_item, owner_notices
from fakes.sample_findings import CLIPPED, finding, occasion, only, report
from reaper.calendars import office_hours
from reaper.case import Evidence
from reaper.finding import Finding, Outcome
from reaper.model import AnnouncedAction, Ceiling, Confidence, Mode, Result, Role, State, StepName
from reaper.notices import item
from reaper.notices.admin_summary import admin_summary
from reaper.notices.forecast import NoticeContext, OpenVisit
from reaper.notices.message import ABOUT, Audience, is_deliverable
from reaper.notices.owner_notice import MAX_DETAILED, MAX_ROWS
from reaper.planning import dates
from reaper.policy.schema import Owners
from reaper.record import Notice
from reaper.snooze.links import Keys, LinkSigner, open_visit
from reaper.text import format_time

KEYS = Keys(current="k1", ring={"k1": b"1" * 32})


def linked(base: str = "https://keep.example.com") -> OpenVisit:
    """The links of each mail, to a page there."""
    return partial(open_visit, LinkSigner(base=base, keys=KEYS), NOW)


# --- who gets what


def test_every_owner_gets_one_message_about_their_own():
    findings = [finding("a"), finding("b", address="dana@example.com"), finding("c", address="Lee@example.com")]
    by_address = {m.to.lower(): m for m in owner_notices(findings, occasion())}
    assert set(by_address) == {"lee@example.com", "dana@example.com"}
    assert [i.rpartition("/")[2] for i in by_address["lee@example.com"].resource_ids] == ["a", "c"]
    assert "churn" not in by_address["dana@example.com"].text


@pytest.mark.parametrize("move", [StepName.NONE, StepName.HOLD])
def test_no_reportable_finding_means_no_message(move: StepName):
    assert owner_notices([finding(move=move)], occasion()) == []
    assert owner_notices([], occasion()) == []


def test_an_address_outside_the_domains_is_never_mailed():
    message = only(owner_notices([finding(address="lee@evil.example")], occasion()))
    assert message.to == "ml-admins@example.com"
    assert "with no known owner" in message.subject


@pytest.mark.parametrize("fallback", [None])
def test_without_any_address_no_notice_is_sent_or_counted(fallback: str | None):
    owners = Owners(domains=["example.com"], fallback=fallback)
    assert owner_notices([finding(address=None), finding(address="x@evil.example")], occasion(owners=owners)) == []


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
def test_only_listed_domains_and_the_fallback_are_deliverable(address: str, goes: bool):
    assert is_deliverable(address, ["@Example.com"], "ml-admins@other.example") is goes


# --- what it says


@pytest.mark.parametrize(
    ("findings", "subject"),
    [
        pytest.param(
            [finding("churn", 2.816)],
            "1 idle ML resource costs $67.58 a day; it will be scaled in from Tue 24 Nov: churn",
            id="one",
        ),
        pytest.param(
            [finding("a", 4), finding("b", 3.09)],
            "2 idle ML resources cost $170 a day; all will be scaled in from Tue 24 Nov",
            id="two",
        ),
        pytest.param(
            [finding("a", 4), finding("b", None)],
            "2 idle ML resources cost at least $96.00 a day; all will be scaled in from Tue 24 Nov",
            id="one unpriced",
        ),
        pytest.param(
            [finding("a", None)], "1 idle ML resource, price unknown; it will be scaled in from Tue 24 Nov: a", id="unpriced"
        ),
        pytest.param(
            [finding("a", 1, move=StepName.REMIND)],
            "Reminder: 1 idle ML resource costs $24.00 a day; it will be scaled in from Tue 24 Nov: a",
            id="reminder",
        ),
        pytest.param(
            [finding("a", 2, move=StepName.STOP, outcome=Outcome(result=Result.DONE))],
            "1 idle ML resource was scaled in, saving $24.00 a day: a",
            id="stopped",
        ),
    ],
)
def test_the_subject_has_count_cost_consequence_and_date(findings: list[Finding], subject: str):
    assert only(owner_notices(findings, occasion())).subject == subject


def test_each_resource_has_every_line_in_a_notice():
    message = only(owner_notices([finding()], occasion(open_visit=linked())))
    for body in (message.text, message.html):
        assert "churn" in body
        assert "SageMaker endpoint" in body
        assert "us-east-1, account 123456789012" in body
        assert "Thu 12 Nov 2026, 10:17 UTC" in body
        assert "9 days" in body
        assert "no activity in Invocations for 9 days, while CPUUtilization reported every hour" in body
        assert "$48.00 a day" in body
        assert "$432" in body
        assert "It will be scaled in on or after Tue 24 Nov 2026, 10:17 UTC unless it is used or kept before then." in body
        assert re.search(r"https://keep\.example\.com/keep\?t=\S{80,}&(amp;)?r=1\b", body)
        assert "--resource-arn arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn" in body
        assert "Key=reaper:keep-until,Value=2026-11-28" in body
        assert "reaper restore arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn" in body


@pytest.mark.parametrize(
    ("mode", "fields", "sentence"),
    [
        pytest.param(Mode.AUDIT, {}, "It won't be stopped automatically", id="audit"),
        pytest.param(Mode.NOTIFY, {}, "It won't be stopped automatically", id="notify"),
        pytest.param(
            Mode.ENFORCE, {"rule": rule(action=Ceiling.NOTIFY)}, "It won't be stopped automatically", id="action notify"
        ),
        pytest.param(
            Mode.ENFORCE, {"confidence": Confidence.LIKELY}, "The evidence is indirect, so it won't be stopped", id="likely"
        ),
        pytest.param(
            Mode.ENFORCE,
            {"confidence": Confidence.LIKELY, "rule": rule(act_on=Confidence.LIKELY)},
            "It will be scaled in on or after Tue 24 Nov 2026",
            id="likely is enough",
        ),
        pytest.param(
            Mode.ENFORCE, {"rule": rule(action=Ceiling.DELETE)}, "It will be deleted on or after Tue 24 Nov 2026", id="delete"
        ),
    ],
)
def test_only_what_will_happen_is_announced(mode: Mode, fields: dict[str, Any], sentence: str):
    message = only(owner_notices([finding(**fields)], occasion(mode=mode)))
    assert sentence in message.text
    assert ("will be" in message.text) is sentence.startswith("It will be")
    assert ("reaper restore " in message.html) is sentence.startswith("It will be")


NOTEBOOK = resource(kind="sagemaker-notebook", id="arn:aws:sagemaker:us-east-1:123456789012:notebook-instance/nb", name="nb")
STOPPED = Outcome(result=Result.DONE, because="it is stopping")


@pytest.mark.parametrize(
    ("findings", "text", "html"),
    [
        pytest.param(
            finding(),
            "To undo this later, ask your admins to run `reaper restore arn:",
            "To undo this later, ask your admins to run<br>",
            id="announced",
        ),
        pytest.param(
            finding(rule=rule(action=Ceiling.DELETE)),
            "To undo this later, ask your admins to run `reaper restore arn:",
            "To undo this later, ask your admins to run<br>",
            id="announced delete",
        ),
        pytest.param(
            finding(move=StepName.STOP, outcome=STOPPED),
            "To undo this, ask your admins to run `reaper restore arn:",
            "To undo this, ask your admins to run<br>",
            id="done",
        ),
        pytest.param(
            finding(resource=NOTEBOOK),
            "To undo this later: aws sagemaker start-notebook-instance",
            "To undo this later:<br>",
            id="a command of the cloud, announced",
        ),
        pytest.param(
            finding(resource=NOTEBOOK, move=StepName.STOP, outcome=STOPPED),
            "To undo this: aws sagemaker start-notebook-instance",
            "To undo this:<br>",
            id="a command of the cloud, done",
        ),
    ],
)
def test_owners_get_no_command_that_only_admins_can_run(findings: Finding, text: str, html: str):
    message = only(owner_notices([findings], occasion()))
    assert text in message.text
    assert html in message.html
    assert ("ask your admins" in message.text) is ("reaper restore" in message.text)


def test_admins_standing_in_are_not_referred_to_themselves():
    message = only(owner_notices([finding(address=None)], occasion()))
    assert "To undo this later: reaper restore arn:" in message.text
    assert "To undo this later:<br>" in message.html


@pytest.mark.parametrize(
    ("warned", "date_text"),
    [(NOW - DAY, "on or after Mon 23 Nov 2026, 10:17 UTC"), (NOW - 10 * DAY, "at any time")],
)
def test_the_grace_runs_from_the_first_notice(warned: Any, date_text: str):
    item = replace(finding(move=StepName.REMIND), notice=Notice(warned_at=warned))
    message = only(owner_notices([item], occasion()))
    assert message.text.count(f"It will be scaled in {date_text}") == 2
    page = message.html.partition("</title>")[2]
    assert page.count(f"will be scaled in {date_text}") + page.count(f"will be scaled in</b> {date_text}") == 3


def test_the_top_says_all_if_all_are_meant():
    both, one = [finding("a"), finding("b")], [finding("a"), finding("b", rule=rule(action=Ceiling.NOTIFY))]
    assert "All will be scaled in, the first on or after " in only(owner_notices(both, occasion())).text
    assert "\n1 will be scaled in on or after " in only(owner_notices(one, occasion())).text


def test_idleness_with_unknown_start_says_at_least():
    item = finding()
    unseen = replace(item, case=replace(item.case, verdict=replace(item.case.verdict, last_busy=None)))
    assert "at least" in only(owner_notices([unseen], occasion())).text
    assert "at least" not in only(owner_notices([item], occasion())).text


@pytest.mark.parametrize("link", ["javascript:alert(1)", "http://evil.example/keep", "https://", "https://x.example/\n"])
def test_an_unsafe_link_is_dropped_and_the_tag_remains(link: str):
    message = only(owner_notices([finding()], occasion(open_visit=linked(link))))
    addresses = re.findall(r'href="([^"]*)"', message.html)
    own = ("mailto:ml-admins@example.com?", "https://us-east-1.console.aws.amazon.com/", ABOUT)
    assert [a for a in addresses if not a.startswith(own)] == []
    assert "Keep it</a>" not in message.html
    assert "reaper:keep-until" in message.html


def test_a_mails_links_open_one_visit_each_with_its_own_row():
    due = [
        finding("a", 1),
        finding("b", 3),
        finding("c", 2),
        finding("gone", move=StepName.STOP, outcome=Outcome(result=Result.DONE)),
    ]
    message = only(owner_notices(due, occasion(open_visit=linked())))
    assert message.visit
    assert [each.name for each in message.visit.resources] == ["b", "c", "a"]
    assert (message.visit.address, message.visit.is_owner, message.visit.tz) == ("lee@example.com", True, "UTC")
    [whole, *rows] = [link.partition("?t=")[2] for link in re.findall(r"https://keep\S+", message.text)]
    assert rows == [f"{whole}&r={number}" for number in (1, 2, 3)]
    assert unescape(message.html).count(whole) == 4
    stand_in = only(owner_notices([finding(address=None)], occasion(open_visit=linked())))
    assert stand_in.visit
    assert (stand_in.visit.is_owner, "Keep all" in stand_in.text) == (False, False)


def test_the_bars_show_use_and_then_silence():
    shape = (100, 50, 1, 0) * 7 + (0,) * 28
    evidence = Evidence(
        signal="Invocations", subject="blue", role=Role.ACTIVITY, points=9, last_busy=NOW, peak=9, complete=True, slots=shape
    )
    message = only(owner_notices([finding(evidence=(evidence,))], occasion()))
    assert "█▂" * 7 + "▁" * 14 in message.text
    assert message.html.count('class="bar"') == 14
    assert "Invocations of blue, last 14 days" in message.html


@pytest.mark.parametrize(
    ("shape", "drawn"), [((), ""), ((0,), "▁"), ((1,), "▂"), ((100,), "█"), ((0, 0, 100), "▁▁█"), ((0,) * 57, "▁" * 19)]
)
def test_bars_never_hide_use(shape: tuple[int, ...], drawn: str):
    assert item.draw_bars(shape) == drawn


# --- how much


def test_many_resources_make_several_messages_none_is_clipped():
    count = 2 * (MAX_DETAILED + MAX_ROWS) + 1
    link = "https://keep.example.com/" + "x" * 800
    shape = tuple(range(0, 100, 2))[:56]
    evidence = Evidence(
        signal="Invocations", subject="", role=Role.ACTIVITY, points=1, last_busy=NOW, peak=1, complete=True, slots=shape
    )
    findings = [finding(f"{'n' * 50}-{n:03}", n, because="why " * 75, evidence=(evidence,)) for n in range(count)]
    messages = owner_notices(findings, occasion(open_visit=linked(link)))
    ids = [i for m in messages for i in m.resource_ids]
    assert sorted(ids) == sorted(f.case.resource.id for f in findings)
    assert [m.subject[-8:] for m in messages] == ["(1 of 3)", "(2 of 3)", "(3 of 3)"]
    for message in messages:
        assert len(message.html.encode()) < CLIPPED
        assert len(message.text.encode()) < 200_000
        assert all(i.rpartition("/")[2] in message.text and i.rpartition("/")[2] in message.html for i in message.resource_ids)


def test_every_listed_action_has_its_undo_command():
    outcome = Outcome(result=Result.DONE, because="it was scaled in", begun=True)
    idle = [finding(f"idle-{n}", n) for n in range(MAX_DETAILED)]
    message = only(owner_notices([*idle, finding("gone", move=StepName.STOP, outcome=outcome)], occasion()))
    for body in (message.text, message.html):
        assert "reaper restore arn:aws:sagemaker:us-east-1:123456789012:endpoint/gone" in body


def test_attributes_suit_filter_policies_and_raw_delivery():
    message = only(owner_notices([finding("a", 1.5), finding("b", 2, move=StepName.REMIND)], occasion()))
    assert message.audience is Audience.OWNERS
    assert len(message.attributes) <= 10
    assert message.attributes["owner"] == "lee@example.com"
    assert message.attributes["action"] == ("remind", "warn")
    assert message.attributes["kind"] == ("sagemaker-endpoint",)
    assert message.attributes["usd_per_hour"] == 3.5


def test_days_are_counted_from_the_moment_of_the_sweep():
    assert item.keep_tag(NOW) == "reaper:keep-until=2026-11-28"
    assert item.keep_tag(NOW + timedelta(days=40)) == "reaper:keep-until=2027-01-07"


# --- what was done, in part, or perhaps


def acted(name: str = "churn", move: StepName = StepName.STOP, **fields: Any) -> Finding:
    outcome = Outcome(**{"result": Result.DONE, "because": "it is going", "begun": True, **fields})
    return finding(name, move=move, outcome=outcome)


def test_an_uncertain_action_is_not_called_done():
    lost = acted(result=Result.FAILED, because=None, error="it isn't known whether the action was carried out: run r1 broke off")
    message = only(owner_notices([lost], occasion()))
    assert message.subject == "1 ML resource may have been scaled in; please check: churn"
    assert (
        "It may have been scaled in. It isn't known whether the action was carried out: run r1 broke off. Please check it."
        in message.text
    )
    assert "To undo this: " in message.text or "To undo this, ask" in message.text
    two = only(owner_notices([lost, acted("other")], occasion()))
    assert two.subject == "1 idle ML resource was scaled in, saving $24.00 a day; 1 more may have been"


def test_a_delete_that_left_the_endpoint_running_saves_nothing_yet():
    part = acted(move=StepName.DELETE, part_done="its 2 components; the endpoint remains")
    part = replace(part, case=replace(part.case, rule=rule(action=Ceiling.DELETE)))
    message = only(owner_notices([part], occasion()))
    assert message.subject == "1 idle ML resource was partly deleted; the rest will be deleted from Tue 24 Nov: churn"
    assert "Already done: its 2 components; the endpoint remains. The rest will be deleted on or after " in message.text
    summary = admin_summary(report(part), occasion(), frozenset())
    assert summary is not None
    assert summary.subject == "[ML Idle Reaper] 1 idle ML resource costs $1,460 a month; 1 action taken; 1 new"
    assert report(part).totals.acted.saves_usd_per_hour == 0


# --- office hours


HOURS = replace(office_hours.parse_hours("mon-fri 07:00-17:00", "UTC"), force=True, by_rule=True)
EVENING = NOW.replace(hour=20)


def busy(now: datetime = EVENING) -> tuple[Finding, NoticeContext]:
    """A notebook in use after its hours, whose owner was enrolled days ago, and what holds for its same-day notice."""
    item = finding(
        "nb",
        move=StepName.REMIND,
        state=State.ACTIVE,
        rule=rule(hours=HOURS, grace=timedelta(hours=1)),
        acts={StepName.STOP: None, StepName.START: None},
    )
    item = replace(item, case=replace(item.case, resource=resource(kind="sagemaker-notebook", id="nb", name="nb")))
    notice = Notice(
        warned_at=now - 3 * DAY,
        action=AnnouncedAction.HOURS,
        hours=dates.hours_digest(HOURS),
        to=item.case.owner.address,
        receipt="r",
    )
    return replace(item, notice=notice), occasion(now=now)


def test_a_stop_of_something_in_use_is_the_headline_of_its_notice():
    finding, when = busy()
    message = only(owner_notices([finding], when))
    assert message.subject == "1 ML resource will be stopped today from 21:17 UTC, even while used: nb"
    assert f"It will be stopped on or after {format_time(EVENING + timedelta(hours=1))}, even if it is in use." in message.text


def test_a_stop_of_something_in_use_is_promised_for_the_same_day_only():
    finding, when = busy(NOW.replace(hour=23, minute=30))
    message = only(owner_notices([finding], when))
    assert message.subject == "Weekly summary: office hours apply to 1 ML resource: nb"
    assert "will be stopped on" not in message.text


def test_a_first_mail_about_office_hours_says_that_they_are_new():
    finding, when = busy()
    message = only(owner_notices([replace(finding, step=replace(finding.step, name=StepName.WARN), notice=None)], when))
    assert message.subject == "1 ML resource will be stopped outside office hours from Sat 21 Nov: nb"


def test_a_start_has_no_undo_command():
    started = finding(move=StepName.START, outcome=Outcome(result=Result.DONE, because="it is starting", begun=True))
    assert notice_item(started, occasion()).undo is None
