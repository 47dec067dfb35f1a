"""Every reply of the snooze page: its status, its page, and its line in the log.

A reply to a stranger never says why a link isn't valid: `note` does, for the log.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from reaper.model import Memory
from reaper.snooze import pages, record
from reaper.snooze.request import PAGE_PATH, Reply, SnoozeForm
from reaper.snooze.token import SnoozeLink


def form_page(form: SnoozeForm, link: SnoozeLink, memory: Memory, now: datetime, problem: str = "") -> Reply:
    """The form. `problem` is what the owner must correct."""
    until = memory.snoozed_until if memory.snoozed_until and memory.snoozed_until > now else None
    body = pages.render_page(
        "form",
        f"Keep {link.name}?",
        link=link,
        form=form,
        now=now,
        idle_since=memory.idle_since,
        snoozed_until=until,
        snoozed_by=memory.snoozed_by,
        snooze_reason=memory.snooze_reason,
        choices=pages.snooze_choices(link, now),
        may_shorten=record.may_shorten(memory, link),
        problem=problem,
    )
    return _page_reply(400 if problem else 200, body, f"{link.resource}: {problem or 'form shown'}")


def snoozed_page(form: SnoozeForm, link: SnoozeLink, memory: Memory, now: datetime, *, changed: bool) -> Reply:
    """The page after a snooze. Not `changed`: the resource was snoozed for as long already."""
    body = pages.render_page(
        "snoozed",
        f"{link.name} is snoozed",
        link=link,
        now=now,
        idle_since=memory.idle_since,
        snoozed_until=memory.snoozed_until,
        changed=changed,
        again=f"{PAGE_PATH[1:]}?t={form.token}",
    )
    result = f"snoozed until {memory.snoozed_until} by {memory.snoozed_by}" if changed else "already snoozed"
    return _page_reply(200, body, f"{link.resource}: {result}")


def invalid_request(detail: str) -> Reply:
    """The reply to something that isn't a request."""
    return _text_page(400, "Invalid request", "This page answers browsers only. Nothing was changed.", detail)


def not_found(path: str) -> Reply:
    """The reply for another path."""
    return _text_page(404, "Page not found", "There is no page at this address.", f"no page at {path[:80]!r}")


def method_not_allowed(method: str) -> Reply:
    """The reply to a method other than GET, HEAD and POST."""
    reply = _text_page(405, "Not supported", "You can only open this page or send its form.", repr(method[:20]))
    return replace(reply, headers={**reply.headers, "allow": "GET, HEAD, POST"})


def body_too_long(length: int) -> Reply:
    """The reply to a form longer than any that this page can send."""
    return _text_page(413, "Too long", "The form is too long. Nothing was changed.", f"{length} bytes")


def invalid_link(now: datetime, detail: str) -> Reply:
    """The reply to a link that isn't valid. It never says why."""
    text = "It may have expired or been cut off. Nothing was changed."
    until = pages.snooze_end(now, 7)
    return _text_page(403, "This link isn't valid", text, f"refused: {detail}", template="refused", until=until)


def too_many_requests(detail: str) -> Reply:
    """The reply over a rate limit."""
    reply = _text_page(429, "Too many requests", "Nothing was changed. Try again in a minute.", detail)
    return _with_retry_after(reply, 60)


def keys_unavailable(now: datetime, detail: str) -> Reply:
    """The reply if the keys can't be read."""
    text = "This link can't be checked right now. Nothing was changed. Try again in a few minutes."
    until = pages.snooze_end(now, 7)
    return _with_retry_after(_text_page(503, "Try again later", text, detail, template="refused", until=until), 120)


def ledger_unavailable(link: SnoozeLink, until: datetime, detail: str) -> Reply:
    """The reply if the ledger fails."""
    body = pages.render_page("unavailable", "Try again later", link=link, until=until)
    return _with_retry_after(_page_reply(503, body, f"{link.resource}: {detail}"), 120)


def _text_page(status: int, title: str, text: str, note: str, *, template: str = "plain", until: datetime | None = None) -> Reply:
    return _page_reply(status, pages.render_page(template, title, text=text, until=until), note)


def _with_retry_after(reply: Reply, seconds: int) -> Reply:
    return replace(reply, headers={**reply.headers, "retry-after": str(seconds)})


def _page_reply(status: int, body: str, note: str) -> Reply:
    return Reply(status=status, headers=pages.page_headers(), body=body, note=note, failed=status >= 500)
