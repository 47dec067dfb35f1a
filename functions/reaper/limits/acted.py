"""What runs of the last hours acted on: one ledger row per account. It makes the caps those of a day, however often sweeps run.

A resource is added by version before the intent of its action is written, unless a release covers that. An undo takes nothing out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256

from reaper.case import Case, is_stopped_by_hours
from reaper.ledger.ledger import target_text
from reaper.ledger.rows import DOCUMENT, comparable_id, document_of, parse_document
from reaper.model import Time

COUNTED_FOR = timedelta(hours=22)
"""How long a run's actions count, from its start: a day, but for what a daily run may be late."""
RECENT = f"the last {COUNTED_FOR // timedelta(hours=1)} hours"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActedOn:
    """A resource with a stop or delete, as a short digest of its ID, and its target. `started`: when the run that acted on it began; None if it is only due.

    `by_hours`: the office hours of its rule asked for it. `usd_per_hour`: what it cost then, if known.
    """

    digest: str
    kind: str
    target: str = ""
    started: Time | None = None
    usd_per_hour: float | None = None
    by_hours: bool = False


def acted_on(case: Case, started: datetime | None = None) -> ActedOn:
    """The resource as a run counts it."""
    return ActedOn(
        digest=sha256(comparable_id(case.resource.id).encode()).hexdigest()[:10],
        kind=case.resource.kind,
        target=target_text(case.resource.target),
        started=started,
        usd_per_hour=case.usd_per_hour,
        by_hours=is_stopped_by_hours(case),
    )


def without(acted: Iterable[ActedOn], others: Iterable[ActedOn]) -> list[ActedOn]:
    """What was acted on and isn't among the others. A stop by office hours is one thing, and a stop for another reason a second one."""
    known = {(each.digest, each.by_hours) for each in others}
    return [each for each in acted if (each.digest, each.by_hours) not in known]


def acted_row(key: str) -> str:
    """The name of the row of the account with that key."""
    return f"acted {key}"


def acted_columns(acted: Collection[ActedOn], own: ActedOn) -> dict[str, str]:
    """The row with one more, as columns of the ledger. Of one that it has, the higher cost stays."""
    costs = [a.usd_per_hour for a in (*acted, own) if a.digest == own.digest and a.usd_per_hour is not None]
    rows = (*without(acted, [own]), replace(own, usd_per_hour=max(costs, default=None)))
    return {DOCUMENT: document_of(rows, tuple[ActedOn, ...])}


def acted_from_columns(name: str, values: Mapping[str, str], now: datetime) -> tuple[ActedOn, ...]:
    """What still counts in the row of that name. Raises CloudError if it can't be read."""
    subject, advice = f"the row {name!r} with what was acted on", "; delete it, which costs one day's count"
    acted = parse_document(tuple[ActedOn, ...], values.get(DOCUMENT), subject, advice) if values else ()
    return tuple(each for each in acted if each.started and now - each.started < COUNTED_FOR)
