"""What an examination is given, and what its first round has opened for the second."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

from reaper.doctor.check import missing_permission
from reaper.errors import ReaperError, obstacle_advice, refused_resource
from reaper.kind import Kind
from reaper.policy.file import PolicySource
from reaper.report.json import ReportDocument
from reaper.sessions import CloudSession
from reaper.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorContext:
    """What is examined. `every`: how often a sweep should run. `report_file`: a saved report to read instead of the last one in REAPER_REPORTS.

    `includes_undo`: also what restore and undo need.
    """

    settings: Settings
    environ: Mapping[str, str]
    clock: Callable[[], datetime]
    kinds: Sequence[Kind[Any]]
    every: timedelta = timedelta(days=1)
    report_file: str | None = None
    includes_undo: bool = False

    def kinds_of(self, cloud: str) -> list[Kind[Any]]:
        """The enabled kinds of a cloud."""
        return [kind for kind in self.kinds if kind.cloud == cloud]

    def reading_permissions(self, cloud: str) -> set[str]:
        """What these kinds need to be listed and observed."""
        return {permission for kind in self.kinds_of(cloud) for permission in kind.permissions}


@dataclass(slots=True, kw_only=True)
class Opened:
    """What the first round opened: sessions by cloud, the policy, and the last report. None: it couldn't be read, or there is none.

    `stored`: the last report in REAPER_REPORTS, which alone says when a sweep ran. `report` may be a file from any other sweep.
    `has_unread_reports`: that day has more reports than were read, so one of them may be newer.
    """

    sessions: dict[str, list[CloudSession]] = field(default_factory=dict)
    policy: PolicySource | None = None
    report: ReportDocument | None = None
    stored: ReportDocument | None = None
    has_unread_reports: bool = False


def doctor_of(cloud: str) -> Any:
    """The part of the examination that only this cloud knows."""
    return import_module(f"reaper.{cloud}.doctor.checks")


def advice_for(error: ReaperError, address: str, otherwise: str) -> str:
    """The command that grants what `error` says is missing on the store, secret or topic at `address`; else `otherwise`.

    A store or secret may be refused by the key that encrypts it, which no setting names: then the error says which key that is.
    """
    missing = missing_permission(error)
    if missing is None or (":" not in missing and "/" not in missing):
        return otherwise
    if obstacle := obstacle_advice(str(error), missing):
        return obstacle
    try:
        resource = refused_resource(str(error)) if missing.startswith("kms:") else address
        return str(doctor_of("azure" if "/" in missing else "aws").own_grant_line(missing, resource))
    except (ImportError, ReaperError):
        return f"Allow this identity {missing}."
