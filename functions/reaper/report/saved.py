"""The JSON report as `reaper explain` reads it: what a file has, and each finding's part of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasPath, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from reaper.calendars.freezes import Freeze
from reaper.case import Coverage, Evidence, Owner, Price
from reaper.errors import SettingsError
from reaper.model import NextAction, Status
from reaper.text import Currency, validation_text

EMPTY_TEXTS = ("subject", "source", "as_of")


def _empty_for_null(row: Any) -> Any:
    """The row; null becomes empty: a signal of all that it names has no subject."""
    return {**row, **{name: "" for name in EMPTY_TEXTS if name in row and row[name] is None}} if isinstance(row, dict) else row


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
    except_: tuple[str, ...] = Field(alias="except")


class SavedThen(_Section):
    """`then` as written in a policy."""

    action: str
    after: str


class SavedRule(_Section):
    """`rule_detail`."""

    action: str
    idle_after: str
    grace: str
    then: SavedThen | None
    freezes: tuple[Freeze, ...]
    waits_because: str | None
    hours: SavedHours | None


class SavedFinding(_Section):
    """One finding: the keys that an explanation needs. `memory`: the dates that it has."""

    id: str
    kind: str
    name: str
    account: str
    account_name: str | None
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
    next: NextAction | None
    memory: dict[str, AwareDatetime | None] | None
    evidence: tuple[Annotated[Evidence, BeforeValidator(_empty_for_null)], ...]


class SavedRun(_Section):
    """When and how the report was made."""

    metrics_requested: int = Field(validation_alias=AliasPath("cost", "metrics_requested"))
    id: str
    started_at: AwareDatetime
    mode: str
    policy_sha256: str
    currency: Annotated[Currency, BeforeValidator(_empty_for_null)]


class SavedReport(_Section):
    """The report."""

    schema_: Literal[1] = Field(alias="schema")
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
        return SavedReport.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        because = f"write one with `reaper sweep --format json`: {place}: {validation_text(first['msg'])}"
        raise SettingsError(f"{where}: not a JSON report that this version can read; {because}") from error
