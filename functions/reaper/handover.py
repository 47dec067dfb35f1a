"""What the phases hand over: frozen data that can be written as JSON and read again.

It contains no callable, session, memory or infinite float. What only a kind knows of a resource (`Resource.details`) is read as the kind's
own type, so nothing here names a kind. A run's version is the product's: decide and act refuse what another version observed.

What a run read is true for a while only, and people use their resources meanwhile, so each phase refuses a run that is too old. Its age counts
from its start. An audit changes nothing and sends nothing to owners, so it may take any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from reaper import registry
from reaper.case import Case, Coverage
from reaper.finding import Finding, Outcome
from reaper.ledger.rows import adapter, parse_document, unreadable
from reaper.limits.holds import Breaker, KindInTarget
from reaper.model import Resource, Run, Target, Time
from reaper.pending.unfinished import Unfinished

OPERATION = "workflow"
OBSERVE_WITHIN = timedelta(minutes=30)
"""What observe hasn't read by then is a failed row of the coverage, and the next run reads it first."""
DECIDE_WITHIN = timedelta(minutes=60)
"""What decide gets later than that is a failed row, and nothing there is decided."""
ACT_WITHIN = timedelta(minutes=120)
"""Act begins nothing after that."""
SHARE_OF_ALL, SHARE_OF_STEP = 0.7, 0.9
"""How much of its time a process may observe: one that carries out all phases, and a workflow's step, which only has to store the part then."""
ACT_MARGIN = timedelta(minutes=2)
"""The time that an action needs before the deadline: enough to finish it, and to notify and record everything afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What `observe` read: every case in these targets, and the coverage of each kind."""

    run: Run
    targets: tuple[Target, ...]
    coverage: tuple[Coverage, ...]
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What `decide` decided of a whole run. `findings`: what is idle, remembered, on hours or on a host.

    `leased`: the targets that this run has to itself. `unreported`: actions of earlier runs that no mail has reported yet. `unusual`: the places
    whose idle share says nothing about what is usual. `jumps`: those that stand, for the admins. `interrupted`: actions that may be
    half done, and that act puts back. `coverage`: what failed in deciding, and rows that replace those of a part that was refused.
    `by_plan`: only what a plan file asks for is carried out.
    """

    run: Run
    decided_at: Time
    leased: tuple[Target, ...]
    findings: tuple[Finding, ...]
    unreported: tuple[Unfinished, ...] = ()
    unusual: tuple[KindInTarget, ...] = ()
    interrupted: tuple[Unfinished, ...] = ()
    jumps: tuple[Breaker, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    by_plan: bool = False

    def for_target(self, target: Target) -> Decided:
        """What `act` needs for one target."""
        return replace(
            self,
            leased=tuple(leased for leased in self.leased if leased == target),
            findings=tuple(f for f in self.findings if f.case.resource.target == target),
            unreported=(),
            unusual=(),
            interrupted=tuple(each for each in self.interrupted if each.target == target),
            jumps=(),
            coverage=(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """What `act` did on one target: the outcomes by resource id, the API calls by kind and permission, and a row for each failure.

    `settled`: interrupted actions of earlier runs that were settled, whose owners have no mail yet.
    """

    run: Run
    target: Target
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    calls: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    coverage: tuple[Coverage, ...] = ()
    settled: tuple[Unfinished, ...] = ()


def dump(value: Observed | Decided | Acted) -> str:
    """The value as JSON."""
    form: Any = type(value)
    return adapter(form).dump_json(value).decode()


def load_observed(text: str, name: str = "the part") -> Observed:
    """What `dump` wrote of an Observed. Raises CloudError that names it for anything else."""
    observed = parse_document(Observed, text, name, operation=OPERATION)
    with unreadable(name, operation=OPERATION):
        return replace(observed, cases=tuple(map(_with_details, observed.cases)))


def load_decided(text: str, name: str = "the part") -> Decided:
    """What `dump` wrote of a Decided. Raises CloudError for anything else."""
    decided = parse_document(Decided, text, name, operation=OPERATION)
    with unreadable(name, operation=OPERATION):
        return replace(decided, findings=tuple(replace(f, case=_with_details(f.case)) for f in decided.findings))


def load_acted(text: str, name: str = "the part") -> Acted:
    """What `dump` wrote of an Acted. Raises CloudError for anything else."""
    return parse_document(Acted, text, name, operation=OPERATION)


def _with_details(case: Case) -> Case:
    """The case with its resource's details as its kind's own type."""
    return replace(case, resource=_read_resources(case.resource))


def _read_resources(value: Any) -> Any:
    """The value, with the details of every resource in its fields and tuples as their kind's own type."""
    if isinstance(value, Resource):
        if (kind := registry.find_kind(value.kind)) is None:
            raise ValueError(f"this version has no kind {value.kind!r}")
        if value.details is None or kind.details is None:
            return value
        return replace(value, details=_read_resources(adapter(kind.details).validate_python(value.details)))
    if isinstance(value, tuple):
        return tuple(map(_read_resources, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _read_resources(getattr(value, f.name)) for f in fields(value) if f.init})
    return value


def observe_deadline(run: Run, now: datetime, deadline: datetime | None, share: float = SHARE_OF_ALL) -> datetime | None:
    """When observe, which begins `now`, has to end: after its share of the time until `deadline`, or OBSERVE_WITHIN, whichever is earlier.

    A workflow's step may begin long after its run.
    """
    ends = now + (deadline - now) * share if deadline else None
    limit = run.started_at + OBSERVE_WITHIN if run.mode.writes else None
    return min((moment for moment in (ends, limit) if moment), default=None)


def too_old(run: Run, now: datetime, limit: timedelta) -> str | None:
    """Why nothing may be decided or begun any more, this long after the run began; None if it may."""
    if not run.mode.writes or now - run.started_at <= limit:
        return None
    return f"the run began more than {limit // timedelta(minutes=1)} minutes ago; the next run decides again"


def no_time_to_act(run: Run, now: datetime, deadline: datetime | None) -> str | None:
    """Why no action may begin any more, or None. `deadline`: when the process will be ended."""
    if deadline and now > deadline - ACT_MARGIN:
        return "this run's time is nearly over; the next sweep carries it out"
    return too_old(run, now, ACT_WITHIN)
