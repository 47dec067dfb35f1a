"""Reads a saved JSON report and explains one of its resources without calls to a cloud.

What isn't in the report (what the kind can do, the history) is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from reaper.case import Coverage, Evidence, Owner, Price
from reaper.errors import SettingsError
from reaper.model import Status
from reaper.report.explain import (
    clean_whole,
    explain_line,
    explained_ids,
    hours_line,
    origin_lines,
    owner_lines,
    rule_lines,
    signal_line,
    tag_lines,
    verdict_line,
)
from reaper.report.json import utc_text
from reaper.text import Currency, validation_text

MEMORY_NAMES = {"idle_since": "idle since", "warned_at": "notified", "snoozed_until": "snoozed until"}


def _empty_for_null(row: Any) -> Any:
    """The signal's row; null, the subject of a signal of the whole resource, becomes an empty text."""
    return {**row, "subject": row.get("subject") or ""} if isinstance(row, dict) else row


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class SavedPrice(_Section):
    """The source of a price."""

    source: str
    as_of: str


class SavedHours(_Section):
    """Office hours as written in a policy."""

    on: str
    tz: str
    start: str
    force: bool


class SavedRule(_Section):
    """`rule_detail`."""

    action: str
    idle_after: str
    grace: str
    hours: SavedHours | None


class SavedNext(_Section):
    """`next`: what the policy leads to."""

    step: str
    at: AwareDatetime | None
    blocked_because: str | None


class SavedFinding(_Section):
    """One finding: the keys that an explanation needs. `memory`: the dates that it has."""

    id: str
    kind: str
    name: str
    account: str
    region: str
    size: str | None
    status: str | None
    created: AwareDatetime | None
    changed: AwareDatetime | None
    state: str
    confidence: str | None
    because: str
    idle_for_s: Annotated[int, Field(ge=0, le=10**9)] | None
    rule: str
    rule_detail: SavedRule | None
    rule_notes: tuple[str, ...]
    tags: dict[str, str] | None
    owner: Owner
    usd_per_hour: float | None
    price: SavedPrice | None
    host_share: Price | None
    step: str
    step_because: str
    outcome: str
    outcome_because: str | None
    error: str | None
    next: SavedNext | None
    memory: dict[str, AwareDatetime | None] | None
    evidence: tuple[Annotated[Evidence, BeforeValidator(_empty_for_null)], ...]


class SavedRun(_Section):
    """When and how the report was made."""

    id: str
    started_at: AwareDatetime
    mode: str
    policy_sha256: str
    currency: Annotated[Currency, BeforeValidator(lambda row: {name: value for name, value in row.items() if value is not None})]


class SavedReport(_Section):
    """The report."""

    schema_: Literal[1]
    run: SavedRun
    coverage: tuple[Coverage, ...]
    findings: tuple[SavedFinding, ...]

    @property
    def is_complete(self) -> bool:
        """Whether its coverage is complete."""
        return all(row.status is Status.OK for row in self.coverage)


def load_report(file: Path) -> SavedReport:
    """The report in that file. Raises SettingsError if it can't be read or isn't a report."""
    where = f"--report {str(file)!r}"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SettingsError(f"{where}: can't be read: {error}") from error
    return parse_report(text, where)


def parse_report(text: str, where: str) -> SavedReport:
    """The report in `text`. Raises SettingsError that names `where` if it isn't one."""
    try:
        content = json.loads(text)
        return SavedReport.model_validate({**content, "schema_": content["schema"]})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{where}: this version can't read the report: {place}: {validation_text(first['msg'])}") from error
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise SettingsError(f"{where}: not a JSON report; write one with `reaper sweep --format json`: {error}") from error


def render(report: SavedReport, wanted: str) -> str | None:
    """The explanation of every resource with that ID or name, or the only one with such a part; None if there is none."""
    ids = explained_ids(wanted, {row.id: row.name for row in report.findings})
    rows = [row for row in report.findings if row.id in ids]
    return "\n".join("\n".join(_explain_row(row, report.run)) + "\n" for row in rows) if rows else None


def _explain_row(row: SavedFinding, run: SavedRun) -> Iterator[str]:
    yield clean_whole(row.name)
    yield explain_line("id", clean_whole(row.id))
    yield explain_line("report", f"run {clean_whole(run.id)} of {utc_text(run.started_at)}, mode {clean_whole(run.mode)}")
    size, status = clean_whole(row.size or "size unknown"), clean_whole(row.status or "status unknown")
    where = f"{clean_whole(row.account)} {clean_whole(row.region)}"
    yield explain_line("kind", f"{clean_whole(row.kind)} in {where}, {size}, {status}")
    price = None
    if row.host_share:
        price = row.host_share
    elif row.price and row.usd_per_hour is not None:
        price = Price(usd_per_hour=row.usd_per_hour, source=row.price.source, as_of=row.price.as_of)
    yield from origin_lines(row.created, row.changed, price, run.currency)
    yield from tag_lines(row.tags, str)
    rule = row.rule_detail
    terms = f"at most {rule.action}, idle after {rule.idle_after}, grace {rule.grace}" if rule else None
    yield from rule_lines(clean_whole(row.rule), terms, row.rule_notes)
    if rule and (hours := rule.hours):
        yield hours_line(hours.on, hours.tz, hours.start, force=hours.force)
    yield from map(signal_line, row.evidence)
    idle_for = timedelta(seconds=row.idle_for_s) if row.idle_for_s else None
    yield verdict_line(row.state, row.confidence, idle_for, row.because)
    yield from _memory_lines(row)
    if following := row.next:
        when = f" on or after {utc_text(following.at)}" if following.at else ""
        because = f", blocked because {clean_whole(following.blocked_because)}" if following.blocked_because else ""
        yield explain_line("next", f"{clean_whole(following.step)}{when}{because}")
    yield explain_line("step", f"{clean_whole(row.step)}: {clean_whole(row.step_because)}")
    yield explain_line("outcome", ": ".join(clean_whole(part) for part in (row.outcome, row.outcome_because, row.error) if part))
    yield from owner_lines(row.owner)


def _memory_lines(row: SavedFinding) -> Iterator[str]:
    if row.memory is None:
        yield explain_line("memory", "no ledger record in the report")
        return
    for key, name in MEMORY_NAMES.items():
        if when := row.memory.get(key):
            yield explain_line("memory", f"{name} {utc_text(when)}")
