"""Keeping a resource by its signed link: one request in, one page out, the same for every cloud.

Looking changes nothing, because mail scanners, previews and prefetching browsers follow links; only sending the form does. There is no
verb here that stops or deletes anything. What a reply must not tell a stranger is in its `note`, for the log.

Anyone may ask, so what costs comes last: path, method, size, rate and the link's shape, then the keys, the signature, and only for a link
that holds the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from ipaddress import ip_network
from typing import Any

from reaper.errors import ReaperError
from reaper.ledger.opening import require_known_format
from reaper.ledger.port import SNOOZE_FIELDS, HistoryEntry, Ledger
from reaper.model import Memory
from reaper.snooze import form, pages
from reaper.snooze.form import MAX_BODY, SnoozeForm
from reaper.snooze.rate_limit import RateLimiters
from reaper.snooze.token import InvalidLink, Keys, SnoozeLink, key_id, verify_link
from reaper.text import format_time

PAGE_PATH = "/keep"
MAX_TRIES = 8
"""How often a write is tried again after somebody else has written in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a browser asked for: header names in lower case, `query` as it stood in the address, without the question mark."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    source_ip: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What it gets, and a line for the log. `failed`: something of ours failed, also where the request was answered all the same."""

    status: int
    headers: Mapping[str, str]
    body: str
    note: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SnoozeContext:
    """What one request is answered with, had when it is needed. Both calls raise ReaperError; `keys` takes the key id that is wanted."""

    ledger: Callable[[], Ledger]
    keys: Callable[[str | None], Keys]
    now: datetime


def link_address(base: str, token: str) -> str:
    """The link to put into a message; `base` is REAPER_SNOOZE_URL."""
    return f"{base.rstrip('/')}{PAGE_PATH}?t={token}"


def token_of(request: Request) -> str:
    """The token that a request carries: in the form when it is sent, in the address when it is looked at. A body too long has none."""
    if request.method != "POST":
        return form.first_value(request.query, "t")
    return form.first_value(request.body.decode("utf-8", "replace"), "t") if len(request.body) <= MAX_BODY else ""


def handle_request(request: Request, desk: SnoozeContext, meters: RateLimiters | None = None) -> Reply:
    """The reply to one request. Raises nothing for what a stranger sends, nor when the keys or the ledger fail."""
    reply = _early_reply(request, desk.now, meters) or _link_reply(request, desk, meters)
    return replace(reply, body="") if request.method == "HEAD" else reply


def unreadable_reply(detail: str) -> Reply:
    """What to say to something that is no request at all."""
    return _text_reply(400, "Not understood", "This page answers browsers only. Nothing was changed.", detail)


def _early_reply(request: Request, now: datetime, meters: RateLimiters | None) -> Reply | None:
    """What can be said without a key, None where that is not enough."""
    if request.path != PAGE_PATH:
        return _text_reply(404, "Not here", "There is no page at this address.", f"no page at {request.path[:80]!r}")
    if request.method not in {"GET", "HEAD", "POST"}:
        reply = _text_reply(
            405, "Not possible", "This page can be read and its form be sent, nothing else.", repr(request.method[:20])
        )
        return replace(reply, headers={**reply.headers, "allow": "GET, HEAD, POST"})
    network = _network_of(request.source_ip)
    if meters and not meters.per_network.allow(network, now):
        return _too_often_reply(f"too many requests from {network}")
    if len(request.body) > MAX_BODY:
        return _text_reply(
            413, "Too long", "That was more than this page takes. Nothing was changed.", f"{len(request.body)} bytes"
        )
    return None if key_id(token_of(request)) else _refused_reply(now, "not of a link's shape")


def _link_reply(request: Request, desk: SnoozeContext, meters: RateLimiters | None) -> Reply:
    """The reply to a link, if its signature holds and it is not used too often. Only a link that holds is counted as one."""
    token = token_of(request)
    try:
        link = verify_link(token, desk.keys(key_id(token)), desk.now)
    except InvalidLink as bad:
        return _refused_reply(desk.now, bad.detail)
    except ReaperError as error:
        return _unavailable_reply(desk.now, f"keys: {error}")
    if meters and not meters.per_link.allow(token[-43:], desk.now):
        return _too_often_reply(f"too many requests for the link of {link.resource}")
    try:
        return (
            _snooze_reply(request, link, desk) if request.method == "POST" else _form_reply(SnoozeForm(token=token), link, desk)
        )
    except ReaperError as error:
        days = form.read_form(request.body).days or 7
        return _ledger_failure_reply(
            link, pages.snooze_end(desk.now, min(max(days, 1), link.max_days)), f"{link.resource}: {error}"
        )


def _form_reply(asked: SnoozeForm, link: SnoozeLink, desk: SnoozeContext, problem: str = "") -> Reply:
    memory = _read_memory(link, desk)
    until = memory.snoozed_until if memory.snoozed_until and memory.snoozed_until > desk.now else None
    shown: dict[str, Any] = {
        "link": link,
        "wish": asked,
        "now": desk.now,
        "idle_since": memory.idle_since,
        "kept_until": until,
        "kept_by": memory.snoozed_by,
        "kept_why": memory.snooze_reason,
        "choices": pages.snooze_choices(link, desk.now),
        "problem": problem,
    }
    body = pages.render_page("form", f"Keep {link.name}?", **shown)
    return _page_reply(400 if problem else 200, body, f"{link.resource}: {problem or 'looked at'}")


def _snooze_reply(request: Request, link: SnoozeLink, desk: SnoozeContext) -> Reply:
    asked = form.read_form(request.body)
    if asked.days is None or not 1 <= asked.days <= link.max_days:
        return _form_reply(asked, link, desk, "Please choose for how long to keep it.")
    require_known_format(desk.ledger())
    memory, changed = _record_snooze(asked, link, desk)
    said = f"kept until {memory.snoozed_until} by {memory.snoozed_by}" if changed else "kept already"
    unwritten = _record_history(link, memory, desk) if changed else ""
    body = pages.render_page(
        "kept",
        f"{link.name} is kept",
        link=link,
        now=desk.now,
        idle_since=memory.idle_since,
        kept_until=memory.snoozed_until,
        changed=changed,
        again=f"{PAGE_PATH[1:]}?t={asked.token}",
    )
    return replace(_page_reply(200, body, f"{link.resource}: {said}{unwritten}"), failed=bool(unwritten))


def _record_snooze(asked: SnoozeForm, link: SnoozeLink, desk: SnoozeContext) -> tuple[Memory, bool]:
    """The memory as it is afterwards, and whether it was changed. A longer snooze stays unless it was asked to be shortened."""
    until = pages.snooze_end(desk.now, asked.days or 1)
    for _ in range(MAX_TRIES):
        memory = _read_memory(link, desk)
        before = memory.snoozed_until
        if before and (before == until or (before > until and not asked.shorten)):
            return memory, False
        why = asked.reason or None
        kept = replace(memory, snoozed_until=until, snoozed_at=desk.now, snoozed_by=_snoozed_by(asked, link), snooze_reason=why)
        if desk.ledger().remember(link.resource, kept, memory.version, desk.now, SNOOZE_FIELDS):
            return kept, True
    raise ReaperError(f"somebody else wrote first, {MAX_TRIES} times in a row")


def _read_memory(link: SnoozeLink, desk: SnoozeContext) -> Memory:
    memory: Memory = desk.ledger().recall([link.resource], desk.now).get(link.resource, Memory())
    return memory


def _snoozed_by(asked: SnoozeForm, link: SnoozeLink) -> str:
    """Whose link it was; a name that was typed in proves nothing and only goes with it."""
    owner = link.owner or "the holder of the link"
    return f"{asked.name} ({owner})" if asked.name else owner


def _record_history(link: SnoozeLink, memory: Memory, desk: SnoozeContext) -> str:
    """Write the history; if only that fails, the snooze holds all the same and the log says what is missing."""
    try:
        desk.ledger().add_history(
            HistoryEntry(
                id=link.resource, when=desk.now, what="kept", by=memory.snoozed_by or "", because=_history_reason(memory)
            )
        )
    except ReaperError as error:
        return f"; its history could not be written: {error}"
    return ""


def _history_reason(memory: Memory) -> str:
    until = format_time(memory.snoozed_until) if memory.snoozed_until else ""
    return f"kept by its link until {until}" + (f": {memory.snooze_reason}" if memory.snooze_reason else "")


def _network_of(source_ip: str) -> str:
    """One address, or the /64 that one IPv6 household has; whoever has neither shares one bucket."""
    try:
        return str(ip_network((source_ip, 64 if ":" in source_ip else 32), strict=False))
    except ValueError:
        return "unknown"


def _unavailable_reply(now: datetime, detail: str) -> Reply:
    """What to say when not even the keys can be had."""
    said = "This link cannot be checked just now, so nothing was changed. Try again in a few minutes."
    return _with_retry_after(_text_reply(503, "Not now", said, detail, template="refused", until=pages.snooze_end(now, 7)), 120)


def _refused_reply(now: datetime, detail: str) -> Reply:
    said = "It may be too old or not complete. Nothing was changed."
    return _text_reply(
        403, "This link does not work", said, f"refused: {detail}", template="refused", until=pages.snooze_end(now, 7)
    )


def _too_often_reply(detail: str) -> Reply:
    return _with_retry_after(
        _text_reply(429, "One moment", "That was too often. Nothing was changed. Try again in a minute.", detail), 60
    )


def _ledger_failure_reply(link: SnoozeLink, until: datetime, detail: str) -> Reply:
    return _with_retry_after(_page_reply(503, pages.render_page("trouble", "Not now", link=link, until=until), detail), 120)


def _text_reply(
    status: int, title: str, said: str, note: str, *, template: str = "plain", until: datetime | None = None
) -> Reply:
    return _page_reply(status, pages.render_page(template, title, said=said, until=until), note)


def _with_retry_after(reply: Reply, seconds: int) -> Reply:
    return replace(reply, headers={**reply.headers, "retry-after": str(seconds)})


def _page_reply(status: int, body: str, note: str) -> Reply:
    return Reply(status=status, headers=pages.page_headers(), body=body, note=note, failed=status >= 500)
