"""The report as JSON, `schema: 1`: the stable interface that dashboards and other programs read. `reaper explain` reads it back.

Strict JSON as in RFC 8259: a number that is not finite becomes null. https://www.rfc-editor.org/rfc/rfc8259#section-6
Money is in US dollars, `_s` in seconds, times in UTC with a Z.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from reaper import duration
from reaper.calendars import office_hours
from reaper.calendars.freezes import Freeze
from reaper.case import Coverage, Evidence, Owner
from reaper.errors import SettingsError
from reaper.finding import Finding, Report, Totals
from reaper.ledger.rows import adapter
from reaper.model import (
    BudgetUse,
    Ceiling,
    Confidence,
    Constrained,
    Mode,
    NextAction,
    Result,
    Rule,
    State,
    Status,
    StepName,
    Time,
)
from reaper.record import NO_RECORD
from reaper.savings.totals import Saved
from reaper.text import Currency, validation_text

if TYPE_CHECKING:
    from pydantic import ValidationError

LEFT_OUT = {"owner": {"disowned_by"}, "evidence": {"__all__": {"slots"}}}
"""Fields of nouns that no finding in a report has: what is only drawn, and what the source of the owner says."""


class NullIfEmpty:
    """Has pydantic write a noun's empty texts as null, such as the subject of a signal of the whole resource, and read them so."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        written = {"type": "function-wrap", "function": _null_for_empty}
        read = {"type": "no-info", "function": _empty_for_null}
        return {"type": "function-before", "function": read, "schema": handler(source), "serialization": written}


def _null_for_empty(noun: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    return {name: None if value == "" else value for name, value in handler(noun).items()}


def _empty_for_null(row: Any) -> Any:
    texts = ("subject", "source", "as_of")
    return {**row, **{name: "" for name in texts if name in row and row[name] is None}} if isinstance(row, dict) else row


def _key(name: str) -> str:
    """The key of a field: `except` can't name one in Python."""
    return name.removesuffix("_")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSource:
    """The source of a price. `own`: the policy's `prices` changed it."""

    source: str
    as_of: str
    own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostShare(PriceSource):
    """The part of its host's price that a resource accounts for."""

    usd_per_hour: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoursRow:
    """Office hours as written in a policy."""

    __pydantic_config__: ClassVar = {"alias_generator": _key}

    on: str
    tz: str
    start: str
    force: bool
    except_: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThenRow:
    """What follows a stop, as written in a policy."""

    action: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """The effective rule, as written in a policy: `{"idle_after": "24h", "hours": {"on": "mon-fri 07:00-21:00", ...}}`."""

    action: Ceiling
    idle_after: str
    grace: str
    then: ThenRow | None
    freezes: tuple[Freeze, ...]
    waits_because: str | None
    hours: HoursRow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """One finding in a report."""

    id: str
    kind: str
    name: str
    cloud: str
    account: str
    account_name: str | None
    region: str
    size: str | None
    status: str | None
    created: Time | None
    changed: Time | None
    state: State
    confidence: Confidence | None
    because: str
    idle_for_s: Annotated[int, Constrained(ge=0, le=10**9)] | None
    last_busy: Time | None
    rule: str
    rule_detail: RuleRow
    rule_notes: tuple[str, ...]
    tags: Mapping[str, str] | None
    owner: Owner
    usd_per_hour: float | None
    price: PriceSource | None
    host_share: HostShare | None
    wasted_usd: float | None
    saves_usd_per_hour: float | None
    step: StepName
    step_because: str
    outcome: Result
    outcome_because: str | None
    error: str | None
    next: NextAction | None
    could: NextAction | None
    memory: Mapping[str, Time | None] | None
    evidence: tuple[Annotated[Evidence, NullIfEmpty()], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """What the run asked of the clouds, and how long it was billed for, if known."""

    metrics_requested: int
    calls: int
    gb_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """When and how the report was made."""

    id: str
    started_at: Time
    finished_at: Time
    mode: Mode
    version: str
    policy_sha256: str
    paused_until: Time | None
    report_tags: tuple[str, ...]
    budgets: tuple[BudgetUse, ...]
    currency: Annotated[Currency, NullIfEmpty()]
    cost: RunCost


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRow:
    """The sums of what was saved since a time; no other figure contains what was prompted."""

    since: Time
    saved_usd: float
    prompted_usd: float
    unpriced_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument:
    """The report as it is stored."""

    schema: Literal[1]
    run: RunRow
    coverage: tuple[Coverage, ...]
    savings: Mapping[str, SavedRow] | None
    totals: Totals
    findings: tuple[FindingRow, ...]

    @property
    def is_complete(self) -> bool:
        """Whether its coverage is complete."""
        return all(row.status is Status.OK for row in self.coverage)


def render(report: Report) -> str:
    """The whole report as one text."""
    return "".join(chunks(report))


def chunks(report: Report) -> Iterator[str]:
    """The whole report, finding by finding, so that a large one isn't in memory twice."""
    frame = _frame_json(report)
    totals = frame.pop("totals")
    yield "{" + "".join(f"{json_text(key)}: {json_text(value)},\n" for key, value in frame.items())
    yield '"findings": ['
    for index, finding in enumerate(report.findings):
        yield ("," if index else "") + "\n" + json_text(finding_json(finding, report.run.finished_at))
    yield f'],\n"totals": {json_text(totals)}}}\n'


def report_json(report: Report) -> dict[str, Any]:
    """The whole report as dicts, lists, strings and numbers."""
    return _frame_json(report) | {"findings": [finding_json(f, report.run.finished_at) for f in report.findings]}


def finding_json(finding: Finding, now: datetime) -> dict[str, Any]:
    """One finding in the report of a run that finished `now`, as dicts, lists, strings and numbers."""
    return document_json(finding_row(finding, now), LEFT_OUT)


def document_json(document: Any, left_out: Mapping[str, Any] | None = None, *, brief: bool = False) -> dict[str, Any]:
    """A dataclass as strict JSON, without the fields to leave out; if `brief`, without those that have their default."""
    form: Any = type(document)
    written = adapter(form).dump_python(document, by_alias=True, exclude=left_out, exclude_defaults=brief, warnings=False)
    return {key: _plain(value) for key, value in written.items()}


def json_text(value: Any) -> str:
    """The value as JSON. Raises ValueError for a number that is not finite; a document has none."""
    return json.dumps(value, allow_nan=False)


def load_report(file: Path) -> ReportDocument:
    """The report in that file. Raises SettingsError if it can't be read or isn't a report."""
    where = f"--report {str(file)!r}"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SettingsError(f"{where}: can't be read: {error}") from error
    return parse_report(text, where)


def parse_report(text: str, where: str) -> ReportDocument:
    """The report in `text`. Raises SettingsError that names `where` if it isn't one."""
    from pydantic import ValidationError

    try:
        report: ReportDocument = adapter(ReportDocument).validate_json(text)
    except ValidationError as error:
        because = f"write one with `reaper sweep --format json`: {fault_text(error)}"
        raise SettingsError(f"{where}: not a JSON report that this version can read; {because}") from error
    return report


def fault_text(error: ValidationError) -> str:
    """The first of its faults, with the place: `run.mode: Field required`."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {validation_text(first['msg'])}"


def utc_text(when: datetime | None) -> str | None:
    """ISO 8601 in UTC to the second, ending in Z; years have four digits, which `strftime` doesn't guarantee on every system."""
    return when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z" if when else None


def _plain(value: Any) -> Any:
    """The value with times as text, and null for numbers that aren't finite."""
    if isinstance(value, datetime):
        return utc_text(value)
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _frame_json(report: Report) -> dict[str, Any]:
    """The report without its findings."""
    run, savings = report.run, report.savings
    metrics = sum(row.metrics for row in report.coverage)
    frame = ReportDocument(
        schema=1,
        run=RunRow(
            id=run.id,
            started_at=run.started_at,
            finished_at=run.finished_at,
            mode=run.mode,
            version=run.version,
            policy_sha256=run.policy_sha256,
            paused_until=run.pause.until if run.pause else None,
            report_tags=run.report_tags,
            budgets=run.budgets,
            currency=run.currency,
            cost=RunCost(metrics_requested=metrics, calls=report.totals.calls, gb_seconds=run.gb_seconds),
        ),
        coverage=tuple(replace(row, calls=dict(sorted(row.calls.items()))) for row in report.coverage),
        savings={"month_to_date": _saved_row(savings.month), "last_30_days": _saved_row(savings.recent)} if savings else None,
        totals=report.totals,
        findings=(),
    )
    return document_json(frame, {"findings": True})


def _saved_row(saved: Saved) -> SavedRow:
    return SavedRow(
        since=saved.since,
        saved_usd=saved.ours.saved_usd,
        prompted_usd=saved.prompted.saved_usd,
        unpriced_hours=saved.ours.unpriced_hours,
    )


def finding_row(finding: Finding, now: datetime) -> FindingRow:
    """One finding in the report of a run that finished `now`."""
    case, step, outcome = finding.case, finding.step, finding.outcome
    resource, verdict, price, share = case.resource, case.verdict, case.price, finding.host_share
    hosted = HostShare(source=share.source, as_of=share.as_of, own=share.own, usd_per_hour=share.usd_per_hour) if share else None
    return FindingRow(
        id=resource.id,
        kind=resource.kind,
        name=resource.name,
        cloud=resource.target.cloud,
        account=resource.target.account,
        account_name=resource.target.account_name,
        region=resource.region,
        size=resource.size or None,
        status=resource.status or None,
        created=resource.created,
        changed=resource.changed,
        state=verdict.state,
        confidence=verdict.confidence,
        because=verdict.because,
        idle_for_s=int(finding.idle_for.total_seconds()) if finding.idle_for else None,
        last_busy=verdict.last_busy,
        rule=case.rule.name,
        rule_detail=_rule_row(case.rule),
        rule_notes=case.rule.notes,
        tags=resource.tags,
        owner=case.owner,
        usd_per_hour=price.usd_per_hour if price else None,
        price=PriceSource(source=price.source, as_of=price.as_of, own=price.own) if price else None,
        host_share=hosted,
        wasted_usd=finding.wasted_usd,
        saves_usd_per_hour=case.saves_usd_per_hour.get(step.name),
        step=step.name,
        step_because=step.because,
        outcome=outcome.result,
        outcome_because=outcome.because,
        error=outcome.error,
        next=finding.next,
        could=finding.could,
        memory=_memory(finding, now),
        evidence=tuple(map(_evidence_row, case.evidence)),
    )


def _rule_row(rule: Rule) -> RuleRow:
    hours, after = rule.hours, rule.delete_after
    on = office_hours.hours_text(hours) if hours else ""
    return RuleRow(
        action=rule.action,
        idle_after=duration.policy_duration(rule.idle_after),
        grace=f"{rule.business_days.count}bd" if rule.business_days else duration.policy_duration(rule.grace),
        then=ThenRow(action="delete", after=duration.policy_duration(after)) if after else None,
        freezes=rule.freezes,
        waits_because=rule.waits_because,
        hours=HoursRow(on=on, tz=hours.tz, start=hours.restart, force=hours.force, except_=hours.calendars) if hours else None,
    )


def _memory(finding: Finding, now: datetime) -> dict[str, datetime | None] | None:
    """The dates that the ledger has; None if it has nothing. A snooze that is over is none."""
    record, snooze = finding.record or NO_RECORD, finding.snooze
    if finding.record is None and snooze is None:
        return None
    until = snooze.until if snooze and snooze.until and snooze.until > now else None
    warned_at = record.notice.warned_at if record.notice else None
    return {"idle_since": record.idle_since, "warned_at": warned_at, "snoozed_until": until}


def _evidence_row(row: Evidence) -> Evidence:
    """Its figures as a report has them. A signal that counts at any value has no level."""
    peak = None if row.peak is None or not isfinite(row.peak) else round(row.peak, 4)
    return replace(row, slots=(), peak=peak, busy_above=_plain(row.busy_above))
