"""A saved JSON report, read back to explain one resource of it without asking a cloud.

What the report does not have (what the kind can do, the history) is not told. Reports of older versions lack some keys, and numbers in
them may be -Infinity, which Python's parser takes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from math import inf, isfinite
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from reaper.duration import text
from reaper.errors import SettingsError
from reaper.model import Evidence, Owner, Role
from reaper.report.explain import line, owner, signal, whole
from reaper.report.json import stamp


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Price(_Part):
    """Where a price comes from."""

    source: str
    as_of: str


class Hours(_Part):
    """Office hours as a policy spells them."""

    on: str
    tz: str
    start: str
    force: bool


class Terms(_Part):
    """`rule_detail`."""

    action: str
    idle_after: str
    grace: str
    hours: Hours | None


class Known(_Part):
    """`memory`."""

    idle_since: AwareDatetime | None
    warned_at: AwareDatetime | None
    snoozed_until: AwareDatetime | None


class Signal(_Part):
    """One line of `evidence`."""

    signal: str
    subject: str | None = None
    role: Role
    points: int
    last_busy: AwareDatetime | None
    peak: float | None
    complete: bool
    busy_above: float | None = None


class Row(_Part):
    """One finding, as far as it is explained."""

    id: str
    kind: str
    name: str
    account: str
    region: str
    size: str | None
    status: str | None = None
    created: AwareDatetime | None = None
    changed: AwareDatetime | None = None
    state: str
    confidence: str | None
    because: str
    idle_for_s: Annotated[int, Field(ge=0, le=10**9)] | None
    rule: str
    rule_detail: Terms | None = None
    rule_notes: tuple[str, ...] = ()
    tags: dict[str, str] | None
    owner: Owner
    usd_per_hour: float | None
    price: Price | None
    step: str
    step_because: str
    outcome: str
    outcome_because: str | None = None
    error: str | None
    memory: Known | None = None
    evidence: tuple[Signal, ...]


class Run(_Part):
    """When and how it was made."""

    id: str
    started_at: AwareDatetime
    mode: str


class Covered(_Part):
    """One line of `coverage`."""

    status: str


class Saved(_Part):
    """The report."""

    schema_: Literal[1]
    run: Run
    coverage: tuple[Covered, ...]
    findings: tuple[Row, ...]

    @property
    def complete(self) -> bool:
        """Whether everything could be read when it was written."""
        return all(row.status == "ok" for row in self.coverage)


def load(file: Path) -> Saved:
    """The report in that file. Raises SettingsError for one that cannot be read, or is no report."""
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        return Saved.model_validate({**said, "schema_": said["schema"]})
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--report {str(file)!r}: cannot be read: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"--report {str(file)!r}: is no report that we know: {where}: {first['msg']}") from error
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise SettingsError(f"--report {str(file)!r}: is no JSON report of `reaper sweep --format json`: {error}") from error


def render(report: Saved, wanted: str) -> str | None:
    """The explanation of every resource with that id or name; None when there is none. Ids match case-insensitively."""
    found = [row for row in report.findings if wanted.lower() == row.id.lower() or wanted == row.name]
    return "\n".join("\n".join(_one(row, report.run)) + "\n" for row in found) if found else None


def _one(row: Row, run: Run) -> Iterator[str]:
    yield whole(row.name)
    yield line("id", whole(row.id))
    yield line("report", f"run {whole(run.id)} of {stamp(run.started_at)}, mode {whole(run.mode)}")
    size, status = whole(row.size or "size unknown"), whole(row.status or "status unknown")
    yield line("kind", f"{whole(row.kind)} in {whole(row.account)} {whole(row.region)}, {size}, {status}")
    yield line("created", f"{stamp(row.created) or 'unknown'}, changed {stamp(row.changed) or 'unknown'}")
    yield line("price", _price(row))
    yield from _tags(row)
    yield from _rule(row)
    yield from (signal(_evidence(seen)) for seen in row.evidence)
    sure = f" ({whole(row.confidence)})" if row.confidence else ""
    idle = f", idle for {text(timedelta(seconds=row.idle_for_s))}" if row.idle_for_s else ""
    yield line("verdict", f"{whole(row.state)}{sure}{idle}: {whole(row.because)}")
    yield from _memory(row)
    yield line("step", f"{whole(row.step)}: {whole(row.step_because)}")
    yield line("outcome", ": ".join(whole(said) for said in (row.outcome, row.outcome_because, row.error) if said))
    yield from owner(row.owner)


def _price(row: Row) -> str:
    if row.usd_per_hour is None or row.price is None:
        return "unknown"
    return f"${row.usd_per_hour:.4f}/h ({whole(row.price.source)}, {whole(row.price.as_of)})"


def _tags(row: Row) -> Iterator[str]:
    if row.tags is None:
        yield line("tags", "could not be read, and a tag may protect it")
        return
    yield line("tags", f"{len(row.tags)} read" if row.tags else "none")
    yield from (line("", f"{whole(key)}={whole(value)}") for key, value in sorted(row.tags.items()))


def _rule(row: Row) -> Iterator[str]:
    terms = row.rule_detail
    said = f": at most {whole(terms.action)}, idle after {whole(terms.idle_after)}, grace {whole(terms.grace)}" if terms else ""
    yield line("rule", f"{whole(row.rule)}{said}")
    yield from (line("", whole(note)) for note in row.rule_notes)
    if terms and (hours := terms.hours):
        force = ", force" if hours.force else ""
        yield line("hours", f"{whole(hours.on)} in {whole(hours.tz)}, start: {whole(hours.start)}{force}")


def _memory(row: Row) -> Iterator[str]:
    if row.memory is None:
        yield line("memory", "the report has nothing of the ledger about it")
        return
    known = row.memory
    for name, when in (("idle since", known.idle_since), ("warned", known.warned_at), ("kept until", known.snoozed_until)):
        if when:
            yield line("memory", f"{name} {stamp(when)}")


def _evidence(seen: Signal) -> Evidence:
    """The same as the report had it; a level that is null or not finite is none: the signal counts at any value."""
    level = seen.busy_above if seen.busy_above is not None and isfinite(seen.busy_above) else -inf
    return Evidence(**{**seen.model_dump(), "subject": seen.subject or "", "busy_above": level})
