"""Sends the admins' summary of a run, if it says anything that the last one didn't, and remembers what it said.

The topics of the last summaries are one bounded row of the ledger. A run takes the place of those that read nothing but what it has read; the
others stay, so a run over a few places doesn't make what is known of the rest new. Those that must never be mistaken for known ones (holds, gaps, failures) are
stored exactly, in 64 bits each; of more than 4,000, only whether they are the same ones. There may be a hundred thousand idle or unknown resources: these are stored in a Bloom filter
(https://doi.org/10.1145/362686.362692) of 64 bits for each topic and at most 1,048,576 bits (171 kB of text). It never forgets a topic. The
probability that it mistakes a new topic for a known one is less than one in ten million up to 16,000 topics, 0.06% at 65,000 and 2.5% at
130,000. The summary then doesn't call that resource new, but still counts it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from itertools import accumulate

from reaper.case import Coverage
from reaper.errors import CloudError, ReaperError, Reason
from reaper.finding import Report, is_action
from reaper.ledger.ledger import update_row
from reaper.ledger.rows import NamedRow, adapter, sortable_time
from reaper.limits.holds import READ_STATUSES
from reaper.model import Result
from reaper.notices import admin_summary
from reaper.notices.admin_summary import OnHold, mark_of
from reaper.notices.channels.delivery import ChannelContext, deliver, first_receipt, open_channels
from reaper.notices.context import NoticeRound, Part, attempt
from reaper.notices.forecast import NoticeContext
from reaper.notices.sending import channel_failures
from reaper.policy.channel_settings import Acs, Sns
from reaper.policy.schema import Owners
from reaper.record import MAX_CLOCK_SKEW

SUMMARY_ROW = "summary"
"""The row of the ledger with the last summaries, the newest first."""
MAX_SUMMARIES, MAX_CHARACTERS, MAX_MARKS = 8, 300_000, 4_000
"""The most of them, the most characters of all, and the most marks of places, and of exact topics, that each of them lists."""
BUDGETS_ROW = "budgets"
"""The row with the budgets that are exceeded: by a mark of the name since when, a digest of the places of the run that saw it, and `KEPT`."""
EVERYWHERE = frozenset({"*"})
KEPT, LOW, TOLD_AGAIN_AFTER = "kept", 0.9, timedelta(days=3)
"""The word for one that is kept, which part of it is low, and after how long it is news again if it wasn't low meanwhile."""
BITS_PER_TOPIC, MAX_BITS, HASHES_PER_TOPIC = 64, 1 << 20, 8
"""Bits for each topic, the most bits, and how many of them a topic sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentSummary:
    """What the ledger has of one summary: its run, when that began, marks of the places that it read, and the topics (`topics_row`)."""

    run: str
    started: str
    places: frozenset[str]
    topics: Mapping[str, str]


def send_admin_summary(report: Report, notices: NoticeContext, mails: NoticeRound) -> Report:
    """The report, with a row for each channel that refused the summary.

    A run's summary is sent once. One without actions is not sent after that of a newer run that read all of its places.
    """
    try:
        row = mails.ledger.read_row(SUMMARY_ROW)
    except ReaperError as error:
        return _with_rows(report, (), mails.after(Part(errors=[error])))
    over_budget, errors = _over_budget(report, mails)
    mails = mails.after(Part(errors=errors))
    since = {resource_id: f.on_hold_since for resource_id, f in mails.decided.items() if f.on_hold_since}
    on_hold = OnHold(since=since, jumps=mails.jumps, over_budget=over_budget)
    failures = {f"trouble:{row.kind}" for row in mails.rows}
    exact = failures | admin_summary.urgent_topics(report, on_hold)
    has_actions = any(is_action(f) and f.outcome.result is not Result.PLANNED for f in report.findings)
    last = sent_summaries(row)
    if any(each.run == report.run.id or (_is_older(report, each, mails) and not has_actions) for each in last):
        return report
    topics = failures | admin_summary.topics(report, on_hold)
    said = [known_topics(exact, topics - exact, each.topics) for each in last]
    known = frozenset().union(*said) if row.version else None
    new_failures = [f"{row.kind}: {row.error}" for row in mails.rows if f"trouble:{row.kind}" not in (known or ())]
    message = admin_summary.admin_summary(report, notices, known, new_failures, on_hold)
    if message is None:
        return _with_rows(report, (), mails)
    mails.context.before_message()
    deliveries = deliver(message, mails.context.channels, {})
    if first_receipt(deliveries):
        mine = SentSummary(
            run=report.run.id,
            started=sortable_time(report.run.started_at),
            places=_read_places(report),
            topics=topics_row(exact, topics - exact),
        )
        write = partial(update_row, mails.ledger, SUMMARY_ROW, partial(_with_summary, mine), known=row)
        mails = mails.after(Part(errors=attempt(write)))
    return _with_rows(report, channel_failures(deliveries), mails)


def send_audit_summary(report: Report, owners: Owners, spec: Acs | Sns, stored: str | None, clock: Callable[[], datetime]) -> str:
    """Send an audit's summary on the channel that its deployment brings, and return the receipts. `stored`: where the report is.

    Raises CloudError if no address accepts it.
    """
    context = NoticeContext(
        now=report.run.started_at,
        mode=report.run.mode,
        owners=owners,
        run_id=report.run.id,
        currency=report.run.currency,
        report_address=stored or "",
    )
    channels = open_channels([spec], ChannelContext(read_secret=_no_secret, clock=clock))
    sent = deliver(admin_summary.compose_summary(report, context), channels, {})
    error = sent[0].error
    if error and not first_receipt(sent):
        text = str(error).removeprefix(f"{error.operation}: ")
        raise error.reworded(f"the summary was not accepted: {text}") from error
    return "; ".join(each.receipt or str(each.error) for each in sent)


def _over_budget(report: Report, mails: NoticeRound) -> tuple[Mapping[str, str], list[ReaperError]]:
    """Since when each exceeded budget has been exceeded, by its mark; none if the ledger fails.

    That a budget is kept again counts only in a complete run of the places of the one that saw it exceeded: any other may just see less. Until
    it is low, or TOLD_AGAIN_AFTER is over, it is the same budget that is exceeded again.
    """
    budgets = {mark_of(budget.name): budget for budget in report.run.budgets}
    names = sorted({f"{row.cloud} {row.account} {row.region} {row.kind}" for row in report.coverage if not row.is_own})
    places = mark_of("\n".join(names))
    now, long_ago = sortable_time(mails.now), sortable_time(mails.now - TOLD_AGAIN_AFTER)
    since: dict[str, str] = {}

    def changed(row: NamedRow) -> Mapping[str, str] | None:
        after = dict(row.values)
        for mark in {*after, *budgets}:
            first, where, kept = (*after.get(mark, "").split(" "), "", "")[:3]
            budget = budgets.get(mark)
            if budget and budget.is_over:
                after[mark] = f"{now if not first or (kept and first <= long_ago) else first} {places}"
            elif first and report.is_complete and where == places:
                del after[mark]
                if budget and (budget.unpriced or budget.idle_usd_per_month > LOW * budget.usd_per_month):
                    after[mark] = f"{first} {places} {KEPT}"
        since.update({mark: seen.partition(" ")[0] for mark, seen in after.items()})
        return None if after == row.values else after

    errors = attempt(lambda: update_row(mails.ledger, BUDGETS_ROW, changed)) if report.run.budgets else []
    return {} if errors else since, errors


def _with_rows(report: Report, rows: Sequence[Coverage], mails: NoticeRound) -> Report:
    """The report with these rows, and those that came while the summary was sent. What a row of the same kind says already isn't repeated."""
    since = [row for row in mails.rows if row not in report.coverage]
    said = [(row.kind, str(row.error)) for row in report.coverage]
    new = [row for row in rows if not any(row.kind == kind and text.startswith(str(row.error)) for kind, text in said)]
    return replace(report, coverage=(*report.coverage, *new, *since))


def sent_summaries(row: NamedRow) -> list[SentSummary]:
    """The summaries of the row, the newest first. What can't be read isn't known, which costs one extra summary."""
    summaries = []
    for _, text in sorted(row.values.items()):
        with suppress(ValueError):
            summaries.append(adapter(SentSummary).validate_json(text))
    return summaries


def _with_summary(mine: SentSummary, row: NamedRow) -> dict[str, str]:
    """The row with that summary, which takes the place of those that it covers. The oldest are forgotten if there are too many."""
    kept = [each for each in sent_summaries(row) if mine.places != EVERYWHERE and not each.places <= mine.places]
    texts = [adapter(SentSummary).dump_json(each).decode() for each in [mine, *kept]][:MAX_SUMMARIES]
    lengths = accumulate(map(len, texts))
    return {str(n): text for n, (text, length) in enumerate(zip(texts, lengths, strict=True)) if length <= MAX_CHARACTERS}


def _read_places(report: Report) -> frozenset[str]:
    """Marks of the targets and kinds that the run read; of more than MAX_MARKS, the one that stands for all there are."""
    read = {
        (row.cloud, row.account, row.region, row.kind)
        for row in report.coverage
        if not row.is_own and row.status in READ_STATUSES
    }
    return EVERYWHERE if len(read) > MAX_MARKS else frozenset(mark_of(" ".join(map(str, place)))[:8] for place in read)


def _is_older(report: Report, last: SentSummary, mails: NoticeRound) -> bool:
    """Whether that summary is of a run that read all of its places and started later, and not by a wrong clock."""
    started, latest = sortable_time(report.run.started_at), sortable_time(mails.context.clock() + MAX_CLOCK_SKEW)
    is_within = last.places == EVERYWHERE or _read_places(report) <= last.places
    return is_within and started < last.started <= latest


def topics_row(exact: Iterable[str], many: Collection[str]) -> dict[str, str]:
    """The row for these topics: `exact` ones without error, `many` of them almost without."""
    size = min(MAX_BITS, BITS_PER_TOPIC * max(1, len(many)))
    bits = bytearray(size // 8)
    for topic in many:
        for n in _bit_positions(topic, size):
            bits[n // 8] |= 1 << n % 8
    return {"exact": " ".join(sorted(_marks(exact))), "many": b64encode(bits).decode()}


def known_topics(exact: Iterable[str], many: Iterable[str], row: Mapping[str, str]) -> frozenset[str]:
    """The topics that are in the row; none if it is empty or unreadable, which costs one extra summary."""
    marks = frozenset(row.get("exact", "").split())
    try:
        bits = b64decode(row.get("many", ""), validate=True)
    except ValueError:
        bits = b""
    exact = set(exact)
    known = exact if _marks(exact) <= marks else {topic for topic in exact if mark_of(topic) in marks}
    known |= {topic for topic in many if bits and all(bits[n // 8] >> n % 8 & 1 for n in _bit_positions(topic, 8 * len(bits)))}
    return frozenset(known)


def _bit_positions(topic: str, size: int) -> Iterator[int]:
    digest = sha256(topic.encode("utf-8", "replace")).digest()
    return (int.from_bytes(digest[4 * i : 4 * i + 4], "big") % size for i in range(HASHES_PER_TOPIC))


def _marks(texts: Iterable[str]) -> frozenset[str]:
    """A mark of each text; of more than MAX_MARKS, one of them all, which only the same ones have."""
    marks = frozenset(map(mark_of, texts))
    return marks if len(marks) <= MAX_MARKS else frozenset({mark_of(" ".join(sorted(marks)))})


def _no_secret(reference: str) -> str:
    """A deployment's own channel signs in as the function; it never needs a secret."""
    raise CloudError(Reason.REFUSED, "secret:Read", f"{reference}: this channel uses no secret")
