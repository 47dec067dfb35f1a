"""The mail about a past month, for admins: what was saved, what is still idle, and what comes next. It is sent once, in the first run of a month."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from reaper.case import Coverage, Report
from reaper.coverage import failure_row
from reaper.errors import ReaperError
from reaper.ledger.update import update_row
from reaper.notices.admin_summary import MAX_ROWS, idle_text
from reaper.notices.channels import delivery
from reaper.notices.context import NoticeRound, attempt
from reaper.notices.forecast import NoticeContext
from reaper.notices.message import MAX_SUBJECT, Audience, Message, render_mail
from reaper.notices.sending import channel_failures
from reaper.report.coming import coming_table
from reaper.savings.book import SavedAction, read_saved, read_trend
from reaper.savings.overview import METHOD, group_text, grouping, saved_text
from reaper.savings.totals import TAG_PREFIX, Saved, summarize
from reaper.text import Currency, format_usd, tidy_line

MONTHLY_ROW, MONTH_COLUMN = "monthly", "month"
"""The row of the ledger with the last month that a mail was about, or that needed none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastMonth:
    """The month before a time, in a zone. `key` sorts, such as `2026-10`; `name` is for readers."""

    since: datetime
    until: datetime
    key: str
    name: str


def past_month(now: datetime, tz: str) -> PastMonth:
    """The last whole month of that zone."""
    until = now.astimezone(ZoneInfo(tz)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    since = (until - timedelta(days=1)).replace(day=1)
    return PastMonth(since=since.astimezone(UTC), until=until.astimezone(UTC), key=f"{since:%Y-%m}", name=f"{since:%B %Y}")


def send_monthly_mail(report: Report, notices: NoticeContext, mails: NoticeRound) -> list[Coverage]:
    """Send it if the policy asks for it and it's due. Returns a row for each channel that refused it, and for a ledger that failed.

    There is none about a month of which the ledger has nothing, such as the one before the first run.
    """
    policy, ledger = mails.context.policy, mails.ledger
    if not policy.notices.monthly or mails.lost:
        return []
    month = past_month(mails.now, policy.owners.tz)
    try:
        if ledger.read_row(MONTHLY_ROW).values.get(MONTH_COLUMN, "") >= month.key:
            return []
        actions = list(read_saved(ledger, month.since, month.until))
        is_news = bool(actions or (report.idle and read_trend(ledger, month.since, month.until)))
    except ReaperError as error:
        return [failure_row("ledger", error)]
    deliveries = []
    if is_news:
        message = monthly_message(report, replace(notices, audience=Audience.ADMINS), month, actions, policy.report.tags)
        mails.context.before_message()
        deliveries = delivery.deliver_all([message], mails.context.channels)
    rows = channel_failures(deliveries)
    if not deliveries or any(sent.receipt for sent in deliveries):
        errors = attempt(lambda: update_row(ledger, MONTHLY_ROW, lambda _: {MONTH_COLUMN: month.key}, mails.now))
        rows += [failure_row("ledger", error) for error in errors]
    return rows


def monthly_message(
    report: Report, context: NoticeContext, month: PastMonth, actions: Sequence[SavedAction], tag_keys: Sequence[str]
) -> Message:
    """The mail about that month. What is idle and what comes next is as of now."""
    by_grouping = {by: summarize(actions, month.since, month.until, by) for by in (grouping(tag_keys), "kind")}
    whole, idle = by_grouping["kind"], idle_text(report, context)
    money = partial(format_usd, currency=context.currency)
    subject = f"[ML Idle Reaper] {month.name}: {money(whole.saved_usd)} saved; {idle}"
    text, html = render_mail(
        "monthly",
        subject=subject,
        month=month.name,
        saved=saved_text(whole, context.currency),
        prompted=money(whole.prompted_usd) if whole.prompted_usd else "",
        idle=idle,
        groups={by.removeprefix(TAG_PREFIX): _group_lines(saved, context.currency) for by, saved in by_grouping.items()},
        coming=coming_table(report.findings, report.run.mode, context.rate, context.owners.tz),
        run=report.run,
        tz=context.owners.tz,
        method=METHOD,
    )
    return Message(
        to=context.owners.fallback or "",
        subject=tidy_line(subject, MAX_SUBJECT, joiners=False),
        text=text,
        html=html,
        audience=Audience.ADMINS,
        attributes={"audience": Audience.ADMINS.value, "month": month.key, "saved_usd": whole.saved_usd},
    )


def _group_lines(saved: Saved, currency: Currency) -> list[tuple[str, str]]:
    """Each of the largest groups with what it saved, and the others together."""
    first, rest = saved.groups[:MAX_ROWS], saved.groups[MAX_ROWS:]
    others = [(f"{len(rest)} others", format_usd(sum(group.saved_usd for group in rest), currency=currency))] if rest else []
    return [*((tidy_line(group.key, 60), group_text(group, currency)) for group in first), *others]
