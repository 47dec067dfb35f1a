"""The mail about a past month, for admins: what was saved, what is still idle, and what comes next.

It is sent once, by the first run of a month that reads every place of which the trend knows. After three days any run sends it, and names the gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from reaper.case import Coverage
from reaper.coverage import failure_row, target_of_row
from reaper.errors import ReaperError
from reaper.finding import Report
from reaper.ledger.ledger import update_row
from reaper.ledger.rows import NamedRow, sortable_time
from reaper.notices.admin_summary import MAX_ROWS, coming_section, idle_text
from reaper.notices.blocks import Block, Card, Line, Look, Paragraph, Row, Section
from reaper.notices.channels import delivery
from reaper.notices.context import NoticeRound, attempt
from reaper.notices.forecast import NoticeContext
from reaper.notices.item import kind_title
from reaper.notices.message import MAX_SUBJECT, SENDER_NAME, Audience, Message
from reaper.notices.render import render_mail
from reaper.notices.sending import channel_failures
from reaper.prices import price_basis
from reaper.record import MAX_CLOCK_SKEW
from reaper.report.coverage_map import place_text
from reaper.report.summary import coming_actions, coming_sentence
from reaper.savings.book import TrendDay, complete_kinds, read_saved, read_trend
from reaper.savings.totals import METHOD, TAG_PREFIX, Saved, Sum, group_text, grouping, saved_text, summarize
from reaper.text import Currency, format_usd, tidy_line

MONTHLY_ROW, MONTH_COLUMN, CLAIM_COLUMN = "monthly", "month", "claim"
"""The row of the ledger with the last month that a mail was about, or that needed none, and the run that is sending one, since when."""
CLAIM_LASTS, WAIT = timedelta(hours=3), timedelta(days=3)
"""How long a run may take to send it, and how long it waits for a run without gaps."""


def past_month(now: datetime, tz: str) -> tuple[datetime, datetime]:
    """The first moment of that zone's last whole month, and its end."""
    until = now.astimezone(ZoneInfo(tz)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (until - timedelta(days=1)).replace(day=1), until


def send_monthly_mail(report: Report, notices: NoticeContext, mails: NoticeRound, *, by_plan: bool) -> list[Coverage]:
    """Send it if the policy asks for it and it's due. Returns a row for each channel that refused it, and for a ledger that failed.

    `by_plan`: the run carries out a plan file, so it doesn't speak for the whole. There is none about a month of which the ledger has nothing, such as the one before the first run.
    """
    policy, ledger = mails.context.policy, mails.ledger
    if not policy.notices.monthly or mails.lost:
        return []
    begin, end = past_month(mails.now, policy.owners.tz)
    month, since, until = f"{begin:%Y-%m}", begin.astimezone(UTC), end.astimezone(UTC)
    # A later month was written by a wrong clock, or by one that is slightly ahead of this one.
    latest = f"{past_month(mails.now + timedelta(days=1), policy.owners.tz)[0]:%Y-%m}"
    try:
        if month <= ledger.read_row(MONTHLY_ROW).values.get(MONTH_COLUMN, "") <= latest:
            return []
        trend = read_trend(ledger, since, mails.now)
        gaps = _gaps(report, trend)
        if (by_plan or gaps) and mails.now < until + WAIT:
            return []
        rows = read_saved(ledger, since, until)
        saved = {by: summarize(rows, since, until, by) for by in (grouping(policy.report.tags), "kind")}
        is_known = any(day.day <= until.date().isoformat() for day in trend)
        is_news = bool(saved["kind"].lines or ((report.idle or gaps) and is_known))
        if not _is_claimed(month, latest, mails):
            return []
    except ReaperError as error:
        return [failure_row("ledger", error)]
    deliveries = []
    if is_news:
        message = monthly_message(report, saved, begin, replace(notices, audience=Audience.ADMINS), gaps)
        mails.context.before_message()
        deliveries = delivery.deliver(message, mails.context.channels, {})
    is_notified = not is_news or delivery.first_receipt(deliveries)

    def settled(row: NamedRow) -> Mapping[str, str]:
        return {MONTH_COLUMN: month if is_notified else row.values.get(MONTH_COLUMN, "")}

    errors = attempt(lambda: update_row(ledger, MONTHLY_ROW, settled))
    return [*channel_failures(deliveries), *(failure_row("ledger", error) for error in errors)]


def _is_claimed(month: str, latest: str, mails: NoticeRound) -> bool:
    """Whether this run is the one that sends it. Raises CloudError."""
    now = mails.context.clock()
    mine = f"{mails.run.id} {sortable_time(now)}"

    def claimed(row: NamedRow) -> Mapping[str, str] | None:
        run, _, since = row.values.get(CLAIM_COLUMN, "").partition(" ")
        is_sending = sortable_time(now - CLAIM_LASTS) < since <= sortable_time(now + MAX_CLOCK_SKEW) and run != mails.run.id
        is_over = month <= row.values.get(MONTH_COLUMN, "") <= latest
        return None if is_sending or is_over else {**row.values, CLAIM_COLUMN: mine}

    return update_row(mails.ledger, MONTHLY_ROW, claimed).get(CLAIM_COLUMN) == mine


def _gaps(report: Report, trend: Sequence[TrendDay]) -> str:
    """What the run didn't read as a whole: its own gaps, and where the last day of the trend has something that isn't among what it read."""
    read, last = complete_kinds(report.coverage), {(day.target, day.kind): day for day in trend}
    had = {place for place, day in last.items() if day.resources and day.kind not in read[day.target]}
    missed = {(target_of_row(row), row.kind) for row in report.gaps}
    names = sorted(f"{kind} in {place_text(target.account, None, target.region)}" for target, kind in had | missed)
    more = f" and {len(names) - MAX_ROWS} more" if len(names) > MAX_ROWS else ""
    return f" Not read: {tidy_line(', '.join(names[:MAX_ROWS]), 600)}{more}." if names else ""


def monthly_message(report: Report, saved: Mapping[str, Saved], begin: datetime, context: NoticeContext, gaps: str) -> Message:
    """The mail about the month that began then. `saved`: by grouping. What is idle and what comes next is as of now, but for the `gaps`."""
    whole, run = saved["kind"], report.run
    name, total, idle = f"{begin:%B %Y}", format_usd(whole.ours.saved_usd, currency=context.currency), idle_text(report, context)
    subject = f"[ML Idle Reaper] {name}: {total} saved; {idle}"
    saving, now = f"In {name}, the reaper's actions saved {saved_text(whole, context.currency)}", f"{idle}.{gaps}"
    head = [Line(text=saving, besides=".", look=Look.TITLE)]
    if usd := whole.prompted.saved_usd:
        prompted = format_usd(usd, currency=context.currency)
        head.append(Line(text=f"Owners who stopped a resource after a notice saved {prompted} more. No other total has it."))
    basis = price_basis(report.findings, context.currency)
    signature = [
        Line(text=f"How savings are counted: {METHOD}"),
        Line(text=f"{SENDER_NAME}, run {run.id}, {run.mode} mode. {basis} The month is in the time zone {context.owners.tz}."),
    ]
    blocks: list[Block] = [
        Paragraph(lines=[*head, Line(label="Now:", text=now)]),
        *(_saved_by(by, same.groups, context.currency) for by, same in saved.items()),
        coming_section(report, context),
        Paragraph(lines=signature, form="foot"),
    ]
    text, html = render_mail(subject, blocks, 640)
    comes = coming_sentence(coming_actions(report.findings), run.mode, context.rate, context.owners.tz)
    return Message(
        to=context.owners.fallback or "",
        subject=tidy_line(subject, MAX_SUBJECT, joiners=False),
        text=text,
        html=html,
        audience=Audience.ADMINS,
        attributes={"audience": Audience.ADMINS.value, "month": f"{begin:%Y-%m}", "saved_usd": whole.ours.saved_usd},
        card=Card(lines=(f"{saving}.", f"Now: {now}", f"What comes next: {comes}.")),
    )


def _saved_by(by: str, groups: Sequence[Sum], currency: Currency) -> Section:
    most = MAX_ROWS + (len(groups) == MAX_ROWS + 1)
    first, rest = groups[:most], groups[most:]
    rows = [Row(name=tidy_line(kind_title(group.key), 60), figure=group_text(group, currency)) for group in first]
    if rest:
        rows.append(Row(name=f"{len(rest)} others", figure=format_usd(sum(group.saved_usd for group in rest), currency=currency)))
    return Section(title=f"Saved by {tidy_line(by.removeprefix(TAG_PREFIX), 60)}", rows=rows)
