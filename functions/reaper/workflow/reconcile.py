"""Compares the items of a workflow with what its steps left behind. An item without a part is a failure in the report, never an empty list.

A step may end without a trace that the workflow sees as a failure: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from reaper import handover
from reaper.case import Coverage
from reaper.coverage import OWN
from reaper.errors import CloudError, Reason
from reaper.handover import Acted, Observed
from reaper.model import Status, Target
from reaper.registry import kinds
from reaper.workflow.store import RunStore
from reaper.workflow.stored_run import RunItem, StoredRun

OTHER_RUN = "it belongs to another run"
NO_REASON = "its step of the workflow ended without a result"
Failures = Mapping[int, str]
"""Why steps failed, by item, as far as the engine knows."""


def missing_items(items: Sequence[RunItem], store: RunStore, failures: Failures) -> dict[int, str]:
    """Why each item without a part has none."""
    names = set(store.names("observed/"))
    return {item.item: failures.get(item.item, NO_REASON) for item in items if f"observed/{item.item}.json" not in names}


def observed_parts(
    stored: StoredRun, items: Sequence[RunItem], store: RunStore, missing: Failures, now: datetime
) -> Iterator[Observed]:
    """What each item's step observed, one after the other. A missing or unreadable part is one with failed rows only."""
    for item in items:
        because, part = missing.get(item.item, NO_REASON), None
        try:
            text = _read_part(store, f"observed/{item.item}.json") if item.item not in missing else None
            part = _of_run(handover.load_observed(text), stored) if text is not None else None
        except ValueError as error:
            because = f"what it observed can't be read ({_first_line(error)})"
        yield part or _missing_part(stored, item, because, now)


def acted_parts(stored: StoredRun, targets: Sequence[Target], store: RunStore, failures: Failures) -> list[Acted]:
    """What was done in each target. For a missing part, the ledger's intents say what was done, and a row says that it is missing."""
    parts = []
    for number, target in enumerate(targets):
        because, part = failures.get(number, NO_REASON), None
        try:
            text = _read_part(store, f"acted/{number}.json")
            part = _of_run(handover.load_acted(text), stored) if text is not None else None
            if part and part.target != target:
                raise ValueError(f"it is about {part.target.account}")
        except ValueError as error:
            because = f"what it did can't be read ({_first_line(error)})"
        parts.append(part or Acted(run=stored.run, target=target, coverage=(_acting_row(target, because),)))
    return parts


Part = TypeVar("Part", Observed, Acted)


def _of_run(part: Part, stored: StoredRun) -> Part:
    """The part. Raises ValueError if another run left it."""
    if part.run != stored.run:
        raise ValueError(OTHER_RUN)
    return part


def _read_part(store: RunStore, name: str) -> str | None:
    """The part's text; None if there is none. Raises ValueError if it isn't text, and CloudError if the store fails."""
    try:
        return store.read(name)
    except CloudError as error:
        if error.reason is not Reason.UNREADABLE:
            raise
        raise ValueError(str(error)) from error


def _missing_part(stored: StoredRun, item: RunItem, because: str, now: datetime) -> Observed:
    account = stored.account(item.account)
    rows = tuple(
        Coverage(
            cloud=account.cloud,
            account=account.id,
            account_name=account.name,
            region=region,
            kind=kind.name,
            status=Status.FAILED,
            error=f"not read: {because}",
        )
        for region in (item.regions if item.regions and item.regions != ("all",) else (None,))
        for kind in kinds(account.cloud)
        if not stored.kinds or kind.name in stored.kinds
    )
    return Observed(run=stored.run, targets=(), coverage=rows, cases=())


def _acting_row(target: Target, because: str) -> Coverage:
    where = f"{target.account} {target.region or ''}".strip()
    return Coverage(
        cloud=OWN,
        account="",
        region=None,
        kind="acts",
        status=Status.FAILED,
        error=f"acting in {where}: {because}; the ledger says which actions were carried out",
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [repr(error)])[0]
