"""What owners and admins read of freezes, business days and days off, from whole sweeps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fakes.builders import DAY, HOUR
from fakes.fake_cloud import STARTABLE
from fakes.fake_deployment import POLICY, FakeDeployment, policy
from fakes.read_calendars import calendar, unreadable
from reaper.calendars.calendar import Calendar
from reaper.notices.message import Audience, Message
from reaper.report import explain, json, text
from reaper.report.explain import ExplainContext

NAMES = "calendars: {year-end: {dates: [2026-12-24]}, germany: {dates: [2026-12-24]}}\n"
BERLIN = POLICY.replace("fallback:", "tz: Europe/Berlin, fallback:") + NAMES
YEAR_END = calendar("year-end", "2026-12-19/2027-01-06", tz="Europe/Berlin")
GERMANY = calendar("germany", "2026-12-25/2026-12-26", "2027-01-01", tz="Europe/Berlin")
FRIDAY = datetime(2026, 12, 18, 9, tzinfo=UTC)
OFFICE = "rules: [{name: office, grace: 2h, hours: {on: 'mon-fri 07:00-21:00', tz: Europe/Berlin, except: germany}}]\n"


def deployment(text_of_policy: str, *calendars: Calendar, now: datetime = FRIDAY) -> FakeDeployment:
    """One idle thing of Lee's under that policy."""
    new = FakeDeployment(policy=policy(text_of_policy), now=now)
    new.policy = new.policy.with_calendars({each.name: each for each in calendars})
    new.cloud.add("churn", tags={"reaper:owner": "lee@example.com"})
    return new


def mail(swept: FakeDeployment, audience: Audience = Audience.OWNERS) -> Message:
    """The only mail to them of one sweep."""
    swept.channel.messages.clear()
    swept.sweep()
    [message] = [m for m in swept.channel.messages if m.audience is audience]
    return message


def plain(message: Message) -> str:
    return " ".join(message.text.split())


FROZEN = BERLIN.replace("action: stop", "action: stop, freeze: year-end")


def test_a_notice_says_the_freeze_beside_the_date_that_it_moved():
    message = mail(deployment(FROZEN, YEAR_END))
    assert "from Sat 9 Jan" in message.subject
    assert (
        "It will be scaled in on or after Sat 9 Jan 2027, 10:00 Europe/Berlin unless it is used or kept before then. Nothing is stopped or "
        "deleted from Sat 19 Dec to Wed 6 Jan (year-end)."
    ) in plain(message)


def test_a_notice_before_a_freeze_that_is_later_says_nothing_of_it():
    assert "Nothing is stopped" not in plain(mail(deployment(FROZEN, YEAR_END, now=FRIDAY - 20 * DAY)))


def test_a_reminder_in_a_freeze_promises_no_action_at_any_time():
    swept = deployment(FROZEN, YEAR_END, now=FRIDAY - 4 * DAY)
    swept.sweep()
    swept.now += 7 * DAY
    message = mail(swept)
    assert "from Thu 7 Jan" in message.subject
    assert "on or after Thu 7 Jan 2027, 00:00 Europe/Berlin unless" in plain(message)
    assert "at any time" not in message.text


def test_a_freeze_of_part_of_a_day_is_said_with_its_times():
    hours = Calendar(name="year-end", tz="UTC", stretches=((FRIDAY + 2 * HOUR, FRIDAY + 3 * HOUR),))
    said = "deleted from Fri 18 Dec 2026, 12:00 Europe/Berlin until Fri 18 Dec 2026, 13:00 Europe/Berlin (year-end)."
    assert said in plain(mail(deployment(FROZEN, hours)))


def test_a_notice_says_so_if_the_freeze_cannot_be_read():
    swept = deployment(FROZEN, unreadable("year-end"))
    message = mail(swept)
    assert "Nothing is stopped or deleted while the freeze calendar 'year-end' can't be read." in plain(message)
    swept.now += 7 * DAY
    assert "at any time" not in mail(swept).text


def test_a_notice_names_its_business_days():
    swept = deployment(
        BERLIN.replace("grace: 3d", "grace: 2bd, business_days: germany"), GERMANY, now=datetime(2026, 12, 23, 14, tzinfo=UTC)
    )
    message = mail(swept)
    assert "on or after Tue 29 Dec 2026, 15:00 Europe/Berlin" not in message.text
    assert "on or after Mon 28 Dec 2026, 15:00 Europe/Berlin unless" in plain(message)
    assert "That leaves 2 business days (germany)." in plain(message)


def test_a_date_of_business_days_never_comes_before_what_the_mail_said():
    text_of_policy = BERLIN.replace("grace: 3d", "grace: 2bd, business_days: germany")
    swept = deployment(text_of_policy, now=datetime(2026, 12, 23, 14, tzinfo=UTC))
    assert "on or after Fri 25 Dec 2026, 15:00 Europe/Berlin" in plain(mail(swept))  # the weekend alone is known
    swept.now = datetime(2026, 12, 26, 14, tzinfo=UTC)
    swept.sweep()
    assert swept.cloud.log == []
    swept.policy = swept.policy.with_calendars({"germany": GERMANY})
    swept.now = datetime(2026, 12, 28, 13, 30, tzinfo=UTC)
    swept.sweep()
    assert swept.cloud.log == []
    swept.now += HOUR
    swept.sweep()
    assert [name for _, name, _ in swept.cloud.log] == ["churn"]


def test_mails_about_office_hours_name_calendars_and_days_off():
    swept = deployment(FROZEN + OFFICE, YEAR_END, GERMANY)
    swept.cloud.kind_name = STARTABLE
    enrolment = plain(mail(swept))
    assert "outside its office hours (mon-fri 07:00-21:00, Europe/Berlin, except on days off in germany)" in enrolment
    assert "deleted from Sat 19 Dec to Wed 6 Jan (year-end). Next days off: Fri 25 Dec, Fri 1 Jan." in enrolment
    swept.now += 7 * DAY
    summary = plain(mail(swept))
    assert "Its office hours, mon-fri 07:00-21:00 (Europe/Berlin, except on days off in germany), apply." in summary
    assert "Next days off: Fri 25 Dec, Fri 1 Jan." in summary


def test_admins_read_once_that_a_freeze_is_on_and_how_many_actions_wait():
    swept = deployment(FROZEN, YEAR_END, now=FRIDAY - 4 * DAY)
    swept.sweep()
    swept.now += 6 * DAY
    message = mail(swept, Audience.ADMINS)
    assert "Frozen by year-end until Thu 7 Jan 2027, 00:00 Europe/Berlin. 1 action waits for that." in plain(message)
    assert "Frozen by year-end until Thu 7 Jan 2027" in message.html
    swept.channel.messages.clear()
    swept.now += HOUR
    swept.sweep()
    assert swept.channel.messages == []


@pytest.mark.parametrize("because", ["no such file", "no such object (request 17)"])
def test_admins_read_loudly_that_a_freeze_cannot_be_read(because: str):
    swept = deployment(FROZEN, unreadable("year-end", because))
    message = mail(swept, Audience.ADMINS)
    assert message.subject.startswith("[ML Idle Reaper] a calendar can't be read; ")
    assert f"Nothing is stopped or deleted because the freeze calendar 'year-end' can't be read: {because}." in plain(message)
    swept.policy = swept.policy.with_calendars({"year-end": unreadable("year-end", f"{because} again")})
    swept.channel.messages.clear()
    swept.now += HOUR
    swept.sweep()
    assert swept.channel.messages == []


def test_reports_and_explanations_show_what_holds():
    swept = deployment(
        FROZEN.replace("grace: 3d", "grace: 2bd, business_days: germany") + OFFICE.replace("grace: 2h, ", ""), YEAR_END, GERMANY
    )
    swept.cloud.kind_name = STARTABLE
    swept.now = FRIDAY + 2 * DAY
    report = swept.sweep()
    explained = explain.render(report, "churn", ExplainContext(policy=swept.policy, now=swept.now)) or ""
    assert "grace 2bd" in explained
    assert "mon-fri 07:00-21:00 in Europe/Berlin, except on days off in germany, start: ours" in explained
    assert "frozen    from 2026-12-18T23:00:00Z until 2027-01-06T23:00:00Z by year-end" in explained
    assert "(notice first, grace 2 business days (germany); frozen by year-end until 2027-01-06 23:00 UTC)" in explained
    assert "Frozen by year-end until 2027-01-06 23:00 UTC." in text.render(report)
    detail = json.report_json(report)["findings"][0]["rule_detail"]
    assert (detail["grace"], detail["waits_because"], detail["hours"]["except"]) == (
        "2bd",
        None,
        ["germany"],
    )
    assert detail["freezes"] == [{"calendar": "year-end", "start": "2026-12-18T23:00:00Z", "end": "2027-01-06T23:00:00Z"}]


def test_a_rest_is_announced_for_after_the_freeze():
    swept = deployment(FROZEN, YEAR_END, now=FRIDAY - 4 * DAY)
    swept.cloud.things["churn"].variants = swept.cloud.things["churn"].whole = 2
    swept.sweep()
    swept.now += 3 * DAY + timedelta(minutes=5)
    text_of_mail = plain(mail(swept))
    assert (
        "The rest will be scaled in on or after Fri 8 Jan 2027, 10:05 Europe/Berlin unless it is used or kept before then."
        in text_of_mail
    )
    assert "Nothing is stopped or deleted from Sat 19 Dec to Wed 6 Jan (year-end)." in text_of_mail
    assert len(swept.cloud.log) == 1
