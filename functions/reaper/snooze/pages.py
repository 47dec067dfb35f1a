"""The pages behind a snooze link, and every reply: its status, its page, and its line in the log.

A reply to a stranger never says why a link isn't valid: `note` does, for the log.
No scripts, and one inline style that the policy names by its hash. The token is in the address, so nothing may store it or pass it on:
https://developer.mozilla.org/en-US/docs/Web/HTTP/Reference/Headers/Content-Security-Policy
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from reaper.ledger.rows import Visit, VisitResource
from reaper.snooze.news import Row, shown_currency
from reaper.snooze.request import PAGE_PATH, Reply, SnoozeForm
from reaper.text import Currency, count_noun, format_usd, open_templates

if TYPE_CHECKING:
    from jinja2 import Template

    from reaper.snooze.choices import Written

NO_HEADERS: Mapping[str, str] = {}
MAX_DAYS = 3650
"""Ten years: no snooze is longer, whatever the ledger says."""


def form_page(
    form: SnoozeForm, visit: Visit, rows: Sequence[Row], now: datetime, may: Mapping[str, bool], problem: str = ""
) -> Reply:
    """The form. `may`: whether the reader may `shorten` a snooze or `disown` a resource. `problem` is what the reader must correct.

    What was acted on is preselected only if the reader selected it before.
    """
    named = [row for row in rows if row.number in form.rows] or rows
    chosen = [row.resource for row in named if row.may_keep and (problem or not row.done)]
    left, count = [row.resource for row in rows if row.may_keep], len(rows)
    which = f"these {len(left)} resources" if len(left) > 1 else f"“{left[0].name}”" if left else ""
    body = _render_page(
        "form",
        f"Keep {which}?" if which else "Nothing is left to keep",
        visit=visit,
        form=form,
        now=now,
        money=partial(format_usd, currency=shown_currency(visit)),
        rows=rows,
        left=left,
        chosen=chosen,
        choices=snooze_choices(chosen, visit, now),
        about="" if count == 1 else f" for all {count}" if len(chosen) == count else f" for the {len(chosen)} preselected",
        may=may,
        problem=problem,
    )
    return _reply(400 if problem else 200, body, f"{count_noun(count, 'resource')}: {problem or 'form shown'}")


def result_page(form: SnoozeForm, visit: Visit, written: Sequence[Written], rows: Sequence[Row], now: datetime) -> Reply:
    """The page after the form was sent: what was kept until when, what is "not mine", what failed, and which of the `rows` came too late."""
    done = [each for each in written if not each.error]
    failed = [each for each in written if each.error]
    what = f"“{done[0].resource.name}” is" if len(done) == 1 else f"{len(done)} resources are"
    title = f"{what} {'marked as not yours' if form.disowns else 'snoozed'}" if done else "Nothing was saved"
    body = _render_page(
        "result",
        title,
        visit=visit,
        form=form,
        done=done,
        failed=failed,
        rows=[row for row in rows if row.done],
        until=snooze_end(now, 7),
        path=PAGE_PATH[1:],
    )
    reply = _reply(200 if done else 503, body, "; ".join(f"{each.resource.id}: {each.log_text}" for each in written))
    return replace(reply, failed=bool(failed) or any(each.problem for each in written))


def invalid_request(detail: str) -> Reply:
    """The reply to something that isn't a request."""
    return text_reply(400, "Invalid request", "This page answers browsers only. Nothing was changed.", detail)


def invalid_link(now: datetime, detail: str) -> Reply:
    """The reply to a link that isn't valid. It never says why."""
    text = "It may have expired or been cut off. Nothing was changed."
    body = _render_page("refused", "This link isn't valid", text=text, until=snooze_end(now, 7))
    return _reply(403, body, f"refused: {detail}")


def too_many_requests(detail: str) -> Reply:
    """The reply over a rate limit."""
    return text_reply(429, "Too many requests", "Nothing was changed. Try again in a minute.", detail, {"retry-after": "60"})


def try_later(page: str, now: datetime, detail: str) -> Reply:
    """The reply if the keys (page `refused`) or the ledger (page `unavailable`) can't be read."""
    text = "This link can't be checked right now. Nothing was changed. Try again in a few minutes."
    body = _render_page(page, "Try again later", text=text, until=snooze_end(now, 7))
    return _reply(503, body, detail, {"retry-after": "120"})


def text_reply(status: int, title: str, text: str, note: str, headers: Mapping[str, str] = NO_HEADERS) -> Reply:
    """A page of one sentence."""
    return _reply(status, _render_page("plain", title, text=text, until=None), note, headers)


def _reply(status: int, body: str, note: str, headers: Mapping[str, str] = NO_HEADERS) -> Reply:
    return Reply(status=status, headers={**page_headers(), **headers}, body=body, note=note, failed=status >= 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One choice of how long to keep the chosen resources. `cost` is that of the time, empty if no price is known."""

    days: int
    label: str
    until: datetime
    cost: str
    checked: bool


def snooze_choices(chosen: Sequence[VisitResource], visit: Visit, now: datetime) -> list[Choice]:
    """A day, three days, a week and the most that any resource allows; the longest of at most three days is preselected."""
    most = max(days_for(MAX_DAYS, resource) for resource in visit.resources)
    choices = sorted({days for days in (1, 3, 7) if days < most} | {most})
    preset = max([days for days in choices if days <= 3], default=choices[0])
    currency = shown_currency(visit)
    costs = {days: _cost_text(chosen, days, currency) for days in choices}
    return [
        Choice(days=days, label=_days_label(days), until=snooze_end(now, days), cost=costs[days], checked=days == preset)
        for days in choices
    ]


def days_for(days: int, resource: VisitResource) -> int:
    """The days for which the resource is kept if so many are chosen: no more than its rule allows."""
    return max(1, min(days, resource.max_days, MAX_DAYS))


def _cost_text(chosen: Sequence[VisitResource], days: int, currency: Currency) -> str:
    """`$101`, or `at least $101` if a price is unknown."""
    known = [24 * days_for(days, each) * each.usd_per_hour for each in chosen if each.usd_per_hour is not None]
    return f"{'at least ' if len(known) < len(chosen) else ''}{format_usd(sum(known), currency=currency)}" if known else ""


def snooze_end(now: datetime, days: int) -> datetime:
    """The end of a snooze: a full hour, so that sending a form twice gives the same end."""
    end = now + timedelta(days=days)
    full = end.replace(minute=0, second=0, microsecond=0)
    return full if full == end else full + timedelta(hours=1)


def _days_label(days: int) -> str:
    """`1 day`, `1 week`, `10 days`, `2 weeks`."""
    count, unit = (days // 7, "week") if days % 7 == 0 else (days, "day")
    return f"{count} {unit}{'s' if count != 1 else ''}"


def _render_page(page: str, title: str, **values: Any) -> str:
    """The page as HTML; every value is escaped. Pages: form, result, unavailable, refused, plain."""
    return _page_template().render(page=page, title=title, style=Markup(_read_style()), **values)


@cache
def page_headers() -> Mapping[str, str]:
    """The headers of every reply, names in lower case."""
    digest = b64encode(sha256(_read_style().encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    return {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": policy,
        "cache-control": "no-store",
        "cross-origin-opener-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "strict-transport-security": "max-age=31536000",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "x-robots-tag": "noindex, nofollow",
    }


@cache
def _read_style() -> str:
    return files("reaper.snooze").joinpath("snooze.css").read_text(encoding="utf-8")


@cache
def _page_template() -> Template:
    return open_templates("reaper.snooze", {}).get_template("snooze.html.j2")
