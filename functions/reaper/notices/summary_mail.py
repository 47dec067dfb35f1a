"""Sends the admins' summary of a run, if it says anything that the last one didn't, and remembers what it said.

The topics of the last summary are one bounded row of the ledger. Those that must never be mistaken for known ones (holds, gaps, failures) are
stored exactly, in 64 bits each. There may be a hundred thousand idle or unknown resources: these are stored in a Bloom filter
(https://doi.org/10.1145/362686.362692) of 64 bits for each topic and at most 1,048,576 bits (171 kB of text). It never forgets a topic. The
probability that it mistakes a new topic for a known one is less than one in ten million up to 16,000 topics, 0.06% at 65,000 and 2.5% at
130,000. The summary then doesn't call that resource new, but still counts it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256

from reaper.case import Coverage, Report
from reaper.errors import CloudError, ReaperError, Reason
from reaper.idle_period import MAX_CLOCK_SKEW
from reaper.ledger.rows import NamedRow, sortable_time
from reaper.ledger.update import update_row
from reaper.model import Result
from reaper.notices import admin_summary
from reaper.notices.admin_summary import OnHold
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import ChannelContext
from reaper.notices.context import NoticeRound, Part, attempt
from reaper.notices.forecast import NoticeContext
from reaper.notices.sending import channel_failures
from reaper.policy.channel_settings import Acs, Sns
from reaper.policy.schema import Owners

SUMMARY_ROW = "summary"
"""The row of the ledger with the topics of the last summary."""
BUDGETS_ROW = "budgets"
"""The row with the budgets that are exceeded: by a mark of the name since when, and a digest of the places of the run that saw it."""
RUN_COLUMN, STARTED_COLUMN, PLACES_COLUMN = "run", "started", "places"
"""The run that sent it, when that run started, and a digest of the targets and kinds that it covered."""
BITS_PER_TOPIC, MAX_BITS, HASHES_PER_TOPIC = 64, 1 << 20, 8
"""Bits for each topic, the most bits, and how many of them a topic sets."""


def send_admin_summary(report: Report, notices: NoticeContext, mails: NoticeRound) -> Report:
    """The report, with a row for each channel that refused the summary.

    A run's summary is sent once. One without actions is not sent after that of a newer run of the same places.
    """
    try:
        last = mails.ledger.read_row(SUMMARY_ROW)
    except ReaperError as error:
        return _with_rows(report, (), mails.after(Part(errors=[error])))
    over_budget, errors = _over_budget(report, mails)
    mails = mails.after(Part(errors=errors))
    on_hold = replace(_on_hold(mails), over_budget=over_budget)
    failures = {f"trouble:{row.kind}" for row in mails.rows}
    exact = failures | admin_summary.urgent_topics(report, on_hold)
    has_actions = any(f.is_action and f.outcome.result is not Result.PLANNED for f in report.findings)
    if last.values.get(RUN_COLUMN) == report.run.id or (_is_older(report, last, mails) and not has_actions):
        return report
    topics = failures | admin_summary.topics(report, on_hold)
    known = known_topics(exact, topics - exact, last.values) if last.version else None
    new_failures = [f"{row.kind}: {row.error}" for row in mails.rows if f"trouble:{row.kind}" not in (known or ())]
    message = admin_summary.admin_summary(report, notices, known, new_failures, on_hold)
    if message is None:
        return _with_rows(report, (), mails)
    mails.context.before_message()
    deliveries = delivery.deliver(message, mails.context.channels, {})
    if delivery.first_receipt(deliveries):
        row = {**topics_row(exact, topics - exact), **_run_columns(report)}
        mails = mails.after(Part(errors=attempt(lambda: update_row(mails.ledger, SUMMARY_ROW, lambda _: row, mails.now))))
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
    channels = delivery.open_channels([spec], ChannelContext(read_secret=_no_secret, clock=clock))
    sent = delivery.deliver(admin_summary.compose_summary(report, context), channels, {})
    error = sent[0].error
    if error and not delivery.first_receipt(sent):
        text = str(error).removeprefix(f"{error.operation}: ")
        raise error.reworded(f"the summary was not accepted: {text}") from error
    return "; ".join(each.receipt or str(each.error) for each in sent)


def _over_budget(report: Report, mails: NoticeRound) -> tuple[Mapping[str, str], list[ReaperError]]:
    """Since when each exceeded budget has been exceeded, by its mark; none if the ledger fails.

    That a budget is kept again counts only in a complete run of the places of the one that saw it exceeded: any other may just see less.
    """
    over = [admin_summary.budget_mark(budget.name) for budget in report.run.budgets if budget.is_over]
    places, now = _places_digest(report), sortable_time(mails.now)
    since: dict[str, str] = {}

    def changed(row: NamedRow) -> Mapping[str, str] | None:
        left = {mark: seen for mark, seen in row.values.items() if not (report.is_complete and seen.endswith(f" {places}"))}
        after = left | {mark: f"{row.values.get(mark, now).partition(' ')[0]} {places}" for mark in over}
        since.update({mark: seen.partition(" ")[0] for mark, seen in after.items()})
        return None if after == row.values else after

    errors = attempt(lambda: update_row(mails.ledger, BUDGETS_ROW, changed, mails.now)) if report.run.budgets else []
    return {} if errors else since, errors


def _with_rows(report: Report, rows: Sequence[Coverage], mails: NoticeRound) -> Report:
    """The report with these rows, and those that came while the summary was sent. What a row of the same kind says already isn't repeated."""
    since = [row for row in mails.rows if row not in report.coverage]
    said = [(row.kind, str(row.error)) for row in report.coverage]
    new = [row for row in rows if not any(row.kind == kind and text.startswith(str(row.error)) for kind, text in said)]
    return replace(report, coverage=(*report.coverage, *new, *since))


def _run_columns(report: Report) -> dict[str, str]:
    return {
        RUN_COLUMN: report.run.id,
        STARTED_COLUMN: sortable_time(report.run.started_at),
        PLACES_COLUMN: _places_digest(report),
    }


def _places_digest(report: Report) -> str:
    places = sorted({f"{row.cloud} {row.account} {row.region} {row.kind}" for row in report.coverage if not row.is_own})
    return sha256("\n".join(places).encode()).hexdigest()[:16]


def _is_older(report: Report, last: NamedRow, mails: NoticeRound) -> bool:
    """Whether the last summary is that of a run of the same places that started later, and not by a wrong clock."""
    columns, latest = _run_columns(report), sortable_time(mails.context.clock() + MAX_CLOCK_SKEW)
    started = last.values.get(STARTED_COLUMN, "")
    return last.values.get(PLACES_COLUMN) == columns[PLACES_COLUMN] and columns[STARTED_COLUMN] < started <= latest


def _on_hold(mails: NoticeRound) -> OnHold:
    since = {resource_id: d.on_hold_since for resource_id, d in mails.decisions.items() if d.on_hold_since}
    return OnHold(since=since, jumps=mails.jumps)


def topics_row(exact: Iterable[str], many: Collection[str]) -> dict[str, str]:
    """The row for these topics: `exact` ones without error, `many` of them almost without."""
    return {"exact": " ".join(sorted(map(_topic_mark, exact))), "many": b64encode(_bloom_filter(many)).decode()}


def known_topics(exact: Iterable[str], many: Iterable[str], row: Mapping[str, str]) -> frozenset[str]:
    """The topics that are in the row; none if it is empty or unreadable, which costs one extra summary."""
    marks = frozenset(row.get("exact", "").split())
    try:
        bits = b64decode(row.get("many", ""), validate=True)
    except ValueError:
        bits = b""
    known = {topic for topic in exact if _topic_mark(topic) in marks}
    return frozenset(
        known | {topic for topic in many if bits and all(bits[n // 8] >> n % 8 & 1 for n in _bit_positions(topic, 8 * len(bits)))}
    )


def _bloom_filter(topics: Collection[str]) -> bytes:
    size = min(MAX_BITS, BITS_PER_TOPIC * max(1, len(topics)))
    bits = bytearray(size // 8)
    for topic in topics:
        for n in _bit_positions(topic, size):
            bits[n // 8] |= 1 << n % 8
    return bytes(bits)


def _bit_positions(topic: str, size: int) -> Iterator[int]:
    digest = sha256(topic.encode("utf-8", "replace")).digest()
    return (int.from_bytes(digest[4 * i : 4 * i + 4], "big") % size for i in range(HASHES_PER_TOPIC))


def _topic_mark(topic: str) -> str:
    """A topic in sixteen characters."""
    return sha256(topic.encode("utf-8", "replace")).hexdigest()[:16]


def _no_secret(reference: str) -> str:
    """A deployment's own channel signs in as the function; it never needs a secret."""
    raise CloudError(Reason.REFUSED, "secret:Read", f"{reference}: this channel uses no secret")
