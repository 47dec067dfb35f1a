"""Handles requests for snooze links, whichever cloud serves them; holds ledger, keys and rate limits between requests.

A valid form writes for each chosen resource a snooze or a "not mine", in a row of its own, and an entry in its history.

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
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial

from reaper.errors import ReaperError, SettingsError
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger, update_snooze
from reaper.ledger.opening import require_known_format
from reaper.ledger.rows import HistoryEntry, Recalled, Visit, VisitResource
from reaper.notices.message import is_plain_address
from reaper.record import Snooze
from reaper.snooze import links, pages
from reaper.snooze.links import PAGE_PATH, InvalidLink, Keyring, Keys, key_id, verify_link
from reaper.snooze.pages import MAX_BODY, Reply, Request, Row, SnoozeContext, SnoozeForm, Written, network_of, token_of
from reaper.text import format_time

HOLDER = "the holder of the link"


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
        open_ring=lambda: links.open_keyring(_required_setting(environ, "REAPER_SNOOZE_KEYS"), environ),
        limiters=RateLimiters(),
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
        ledger = context.ledger()
        visit = ledger.visit(visit_id, now)
        if visit is None or not visit.resources:
            return replace(pages.invalid_link(now, "the ledger has no resources for this link"), status=410)
        recalled = ledger.recall([each.id for each in visit.resources], now)
        rows = pages.rows_of(visit, recalled, now)
        if request.method != "POST":
            return pages.form_page(SnoozeForm(token=token, rows=pages.chosen_rows(request.query)), visit, rows, now)
        sent = pages.read_form(request.body)
        chosen = [row for row in rows if row.number in sent.rows]
        if problem := _problem_of(sent, visit, chosen):
            return pages.form_page(sent, visit, rows, now, problem)
        require_known_format(ledger)
        kept = [row.resource for row in chosen if row.may_keep]
        written = [_write_choice(sent, visit, resource, ledger, recalled, now) for resource in kept]
        return pages.result_page(sent, visit, written, chosen, now)
    except ReaperError as error:
        return pages.try_later("unavailable", now, str(error))


def _problem_of(sent: SnoozeForm, visit: Visit, chosen: Sequence[Row]) -> str:
    """What the reader must correct; empty if nothing."""
    if not any(row.may_keep for row in chosen):
        return "It was too late to keep this. Nothing was saved." if chosen else "Choose at least one resource."
    if sent.disowns:
        return "" if pages.may_disown(visit) else "This mail didn't go to an owner, so only the tags can say whose it is."
    is_valid = sent.days is not None and 1 <= sent.days <= max(pages.days_for(sent.days, each) for each in visit.resources)
    return "" if is_valid else "Choose how long to keep it."


def _required_setting(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise SettingsError(f"{name} is not set; snooze links need it")
    return value


def _write_choice(
    form: SnoozeForm, visit: Visit, resource: VisitResource, ledger: Ledger, recalled: Recalled, now: datetime
) -> Written:
    """Write one choice; if that fails, it doesn't affect the others."""
    changed, known, to = False, Snooze(), ""

    def choose(snooze: Snooze) -> Snooze:
        nonlocal changed
        new = with_disowned(snooze, to, visit, now) if form.disowns else with_snooze(snooze, form, resource, visit, now)
        changed = new is not snooze
        return new

    try:
        is_unreadable = recalled.is_unreadable(resource.id)  # which protects; a snooze is a row of its own
        known = ledger.snooze(resource.id, now) if is_unreadable else recalled.snooze(resource.id)
        notice = None if is_unreadable and not form.disowns else recalled.record(resource.id).notice
        to = (notice and notice.to) or ""
        snooze = update_snooze(ledger, resource.id, choose, now, known)
    except ReaperError as error:
        return Written(resource=resource, snooze=known, error=str(error))
    problem = _record_history(form, resource.id, snooze, ledger, now) if changed else ""
    return Written(resource=resource, snooze=snooze, changed=changed, problem=problem)


def with_snooze(snooze: Snooze, form: SnoozeForm, resource: VisitResource, visit: Visit, now: datetime) -> Snooze:
    """The snooze that the form asks for, without a "not mine" of the same person, who has thought better of it.

    A longer snooze stays, unless the person gave it and the form asks to shorten it.
    """
    until, current = pages.snooze_end(now, pages.days_for(form.days or 1, resource)), snooze.until
    if is_disowned_by(snooze, visit.address):
        snooze = replace(snooze, disowned_by=None, disowned_at=None)
    if current and (current == until or (current > until and not (form.shorten and pages.may_shorten(snooze, visit, now)))):
        return snooze
    # A name in the form proves nothing, so it's only added. An address that was removed from the ledger isn't written again.
    owner = visit.address if is_plain_address(visit.address) else HOLDER
    by = f"{form.name} ({owner})" if form.name else owner
    return replace(snooze, until=until, at=now, by=by, reason=form.reason or None)


def with_disowned(snooze: Snooze, notified: str, visit: Visit, now: datetime) -> Snooze:
    """The snooze with the owner's "not mine". The mail to an earlier owner doesn't replace that of the present one, who was `notified`."""
    is_present_owner = notified.casefold() == visit.address.casefold()
    if is_disowned_by(snooze, visit.address) or (snooze.disowned_by and not is_present_owner):
        return snooze
    return replace(snooze, disowned_by=visit.address, disowned_at=now)


def is_disowned_by(snooze: Snooze, address: str) -> bool:
    """Whether it was this address that said that it isn't theirs."""
    return (snooze.disowned_by or "").casefold() == address.casefold()


def _record_history(form: SnoozeForm, resource_id: str, snooze: Snooze, ledger: Ledger, now: datetime) -> str:
    """Write the history. Returns the problem if that fails: the choice itself is valid all the same."""
    until = format_time(snooze.until) if snooze.until else ""
    because = f"snoozed by its link until {until}" + (f": {snooze.reason}" if snooze.reason else "")
    entry = HistoryEntry(id=resource_id, when=now, what="kept", by=snooze.by or "", because=because)
    if form.disowns:
        because = "its owner said that it isn't theirs" + (f": {form.reason}" if form.reason else "")
        entry = replace(entry, what="disowned", by=snooze.disowned_by or "", because=because)
    try:
        ledger.add_history(entry)
    except ReaperError as error:
        return f"its history couldn't be written: {error}"
    return ""


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

    per_network: RateLimiter = field(default_factory=partial(RateLimiter, burst=60, per_second=1))
    per_link: RateLimiter = field(default_factory=partial(RateLimiter, burst=20, per_second=1 / 3))
    per_log_line: RateLimiter = field(default_factory=partial(RateLimiter, burst=60, per_second=1 / 60))
