"""Handles requests for snooze links, whichever cloud serves them; holds ledger, keys and rate limits between requests.

Opening a link changes nothing, because mail scanners, previews and prefetching browsers do that; only sending the form does. No request
can stop or delete anything.

Anyone may send a request, so what costs money comes last: path, method, size, rate and the link's form, then the keys and the signature,
and the ledger only for a valid link.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

from reaper.errors import ReaperError, SettingsError
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger
from reaper.ledger.opening import require_known_format
from reaper.ledger.rows import Visit
from reaper.snooze import choices, keys, news, pages
from reaper.snooze import request as form
from reaper.snooze.keys import Keyring
from reaper.snooze.news import Row
from reaper.snooze.request import MAX_BODY, PAGE_PATH, Reply, Request, SnoozeContext, SnoozeForm, network_of, token_of
from reaper.snooze.token import InvalidLink, Keys, key_id, verify_link


class SnoozeHandler:
    """Answers requests, for as long as its process. `open_ledger` and `open_ring` are called once, when needed; they raise ReaperError."""

    def __init__(self, open_ledger: Callable[[], Ledger], open_ring: Callable[[], Keyring], limiters: RateLimiters) -> None:
        self._ledger = cache(open_ledger)
        self._ring = cache(open_ring)
        self._limiters = limiters

    def handle(self, request: Request, now: datetime) -> Reply:
        """The reply at `now`, always a page. Its note is empty if the log has had too many like it."""
        errors: list[str] = []
        context = SnoozeContext(ledger=self._ledger, keys=lambda wanted: self._keys(now, wanted, errors), now=now)
        reply = handle_request(request, context, self._limiters)
        if errors and not reply.failed:
            reply = replace(reply, note="; ".join([reply.note, *errors]), failed=True)
        if log_level(reply) <= logging.INFO or self._limiters.per_log_line.allow(str((reply.status, reply.failed)), now):
            return reply
        return replace(reply, note="")

    def _keys(self, now: datetime, wanted: str | None, errors: list[str]) -> Keys:
        """The keys. If the newest can't be read, `errors` gets the reason."""
        ring = self._ring()
        current = ring.keys(now, wanted)
        if failure := ring.failure:
            errors.append(f"the last keys are used, because they can't be read again: {failure}")
        return current


def open_handler(environ: Mapping[str, str]) -> SnoozeHandler:
    """The handler that the settings describe. Opens and raises nothing yet: the page says what is wrong when someone opens a link."""
    return SnoozeHandler(
        open_ledger=lambda: opening.open_ledger(_required_setting(environ, "REAPER_LEDGER"), environ),
        open_ring=lambda: keys.open_keyring(_required_setting(environ, "REAPER_SNOOZE_KEYS"), environ),
        limiters=default_limiters(),
    )


def log_level(reply: Reply) -> int:
    """An error if a part of the reaper failed, a warning for a refused request, else info."""
    return logging.ERROR if reply.failed else logging.WARNING if reply.status >= 400 else logging.INFO


def handle_request(request: Request, context: SnoozeContext, limiters: RateLimiters | None = None) -> Reply:
    """The reply to one request. Raises nothing, whatever a stranger sends and whether or not keys and ledger work."""
    reply = _reply_without_keys(request, context.now, limiters) or _reply_to_link(request, context, limiters)
    return replace(reply, body="") if request.method == "HEAD" else reply


def _reply_without_keys(request: Request, now: datetime, limiters: RateLimiters | None) -> Reply | None:
    if request.path != PAGE_PATH:
        no_page = f"no page at {request.path[:80]!r}"
        return pages.text_reply(404, "Page not found", "There is no page at this address.", no_page)
    if request.method not in {"GET", "HEAD", "POST"}:
        text = "You can only open this page or send its form."
        return pages.text_reply(405, "Not supported", text, repr(request.method[:20]), {"allow": "GET, HEAD, POST"})
    network = network_of(request)
    if limiters and not limiters.per_network.allow(network, now):
        return pages.too_many_requests(f"too many requests from {network}")
    if len(request.body) > MAX_BODY:
        return pages.text_reply(413, "Too long", "The form is too long. Nothing was changed.", f"{len(request.body)} bytes")
    return None if key_id(token_of(request)) else pages.invalid_link(now, "not in the form of a link")


def _reply_to_link(request: Request, context: SnoozeContext, limiters: RateLimiters | None) -> Reply:
    """The reply to a link, if its signature is valid and it isn't used too often. Invalid links don't count for a link's rate."""
    token, now = token_of(request), context.now
    try:
        visit_id = verify_link(token, context.keys(key_id(token)), now)
    except InvalidLink as error:
        return pages.invalid_link(now, error.detail)
    except ReaperError as error:
        return pages.try_later("refused", now, f"keys: {error}")
    if limiters and not limiters.per_link.allow(visit_id, now):
        return pages.too_many_requests("too many requests for one link")
    try:
        visit = context.ledger().visit(visit_id, now)
        if visit is None or not visit.resources:
            return replace(pages.invalid_link(now, "the ledger has no resources for this link"), status=410)
        if request.method == "POST":
            return _reply_to_form(form.read_form(request.body), visit, context)
        return _form_page(SnoozeForm(token=token, rows=form.chosen_rows(request.query)), visit, context)
    except ReaperError as error:
        return pages.try_later("unavailable", now, str(error))


def _reply_to_form(sent: SnoozeForm, visit: Visit, context: SnoozeContext) -> Reply:
    ledger, now = context.ledger(), context.now
    recalled = ledger.recall([each.id for each in visit.resources], now)
    chosen = [row for row in news.rows_of(visit, recalled, now) if row.number in sent.rows]
    if problem := _problem_of(sent, visit, chosen):
        return _form_page(sent, visit, context, problem)
    require_known_format(ledger)
    kept = [row.resource for row in chosen if row.may_keep]
    return pages.result_page(sent, visit, choices.write_choices(sent, visit, kept, ledger, recalled, now), chosen, now)


def _problem_of(sent: SnoozeForm, visit: Visit, chosen: Sequence[Row]) -> str:
    """What the reader must correct; empty if nothing."""
    if not any(row.may_keep for row in chosen):
        return "It was too late to keep this. Nothing was saved." if chosen else "Choose at least one resource."
    if sent.disowns:
        return "" if choices.may_disown(visit) else "This mail didn't go to an owner, so only the tags can say whose it is."
    is_valid = sent.days is not None and 1 <= sent.days <= max(pages.days_for(sent.days, each) for each in visit.resources)
    return "" if is_valid else "Choose how long to keep it."


def _form_page(sent: SnoozeForm, visit: Visit, context: SnoozeContext, problem: str = "") -> Reply:
    now = context.now
    rows = news.rows_of(visit, context.ledger().recall([each.id for each in visit.resources], now), now)
    may = {"shorten": any(choices.may_shorten(row.snooze, visit, now) for row in rows), "disown": choices.may_disown(visit)}
    return pages.form_page(sent, visit, rows, now, may, problem)


def _required_setting(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise SettingsError(f"{name} is not set; snooze links need it")
    return value


class RateLimiter:
    """Buckets of `burst` requests that refill at `per_second`. Over `max_names`, the names idle for longest are dropped first.

    They slow one eager client down. Every warm instance has its own buckets, so the outer limit is the number of instances: reserved
    concurrency on Lambda, the plan's instance limit on Azure. https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html
    """

    def __init__(self, burst: float, per_second: float, max_names: int = 4096) -> None:
        self.burst = burst
        self.per_second = per_second
        self._max_names = max_names
        self._buckets: OrderedDict[str, tuple[float, datetime]] = OrderedDict()
        self._lock = threading.Lock()

    def allow(self, name: str, now: datetime) -> bool:
        """Whether `name` may send a request at `now`; if so, it's counted."""
        with self._lock:
            level, since = self._buckets.pop(name, (self.burst, now))
            level = min(self.burst, level + max(0.0, (now - since).total_seconds()) * self.per_second)
            allowed = level >= 1
            self._buckets[name] = (level - 1 if allowed else level, max(now, since))
            while len(self._buckets) > self._max_names:
                self._buckets.popitem(last=False)
        return allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimiters:
    """The limits for one network (offices and mail scanners share one), for one link, and for log lines about one status.

    Log lines cost money, too: on Azure, strangers could use up the daily cap, and the alerts would be blind until midnight.
    """

    per_network: RateLimiter
    per_link: RateLimiter
    per_log_line: RateLimiter


def default_limiters() -> RateLimiters:
    """Per network: bursts of 60 requests, then 1 a second. Per link: 20, then 1 every 3 seconds. Log lines: 60, then 1 a minute."""
    return RateLimiters(
        per_network=RateLimiter(burst=60, per_second=1),
        per_link=RateLimiter(burst=20, per_second=1 / 3),
        per_log_line=RateLimiter(burst=60, per_second=1 / 60),
    )
