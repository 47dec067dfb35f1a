"""A check and its answer, as data: whether it is fine, why, and what mends it. And what an examination is given."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from importlib import import_module
from shlex import quote
from typing import TYPE_CHECKING, Any

from reaper.errors import CloudError, ReaperError, Reason, named_permission, obstacle_advice, refused_resource
from reaper.text import clean_line, count_noun, first_few

if TYPE_CHECKING:
    from reaper.kind import Kind
    from reaper.policy.file import PolicySource
    from reaper.report.json import ReportDocument
    from reaper.sessions import CloudSession
    from reaper.settings import Settings

SCHEMA, MAX_BECAUSE = 1, 600
KEYS = ("check", "status", "because", "fix", "missing")
NETWORK_ADVICE = "Check the network from here: proxy, firewall, DNS and private endpoints."
AGAIN = "Run reaper doctor again."
SIGN_IN = "Sign in: `aws configure sso` or `az login`. To see the reaper without any account: reaper demo"
SIGN_IN_AGAIN = "Sign in again, or get new temporary keys."
SIGN_INS = (SIGN_IN, SIGN_IN_AGAIN, "az login", "aws sso login")
SIGN_IN_ERRORS = re.compile(r"Credential|Token|SSO|Authentication")
"""In the names of the SDKs' errors about credentials, before anything is sent."""
SSO_ENDED = re.compile(r"\bSSO (?:session|token)|token from sso", re.IGNORECASE)
AZURE_ENDED = re.compile(r"AADSTS(?:50173|70008|70043|700082)|ExpiredAuthenticationToken")
ENDED = re.compile(
    rf"{SSO_ENDED.pattern}|{AZURE_ENDED.pattern}|ExpiredToken|RequestExpired|token (?:[\w-]+ ){{0,5}}expired", re.IGNORECASE
)
"""Said of a session that has ended."""


class CheckStatus(StrEnum):
    """`fix`: something needs mending. `unknown`: it couldn't be checked, which is no reason to mend anything."""

    OK = "ok"
    FIX = "fix"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One answer: a line of the result, or about one right, of which `rights_checks` makes a few lines.

    `fix`: a command to paste, or what to do. `missing`: exactly one permission, which may be the one that it takes to find out. `permission` and
    `place`: what right was asked for where; then `because` is a clause.
    """

    check: str = ""
    status: CheckStatus = CheckStatus.OK
    because: str = ""
    fix: str | None = None
    missing: str | None = None
    permission: str = ""
    place: str = ""


def _check(status: CheckStatus, check: str, because: str, fix: str | None = None, missing: str | None = None) -> Check:
    if status is CheckStatus.FIX and ENDED.search(because):
        because = f"the session has ended: {because}"
    return Check(check=check, status=status, because=clean_line(because, MAX_BECAUSE), fix=fix, missing=missing)


ok = partial(_check, CheckStatus.OK)
to_fix = partial(_check, CheckStatus.FIX)
unknown = partial(_check, CheckStatus.UNKNOWN)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorContext:
    """What is examined. `every`: how often a sweep should run. `report_file`: a saved report to read instead of the last one in REAPER_REPORTS.

    `includes_undo`: also what restore and undo need. `opened`: by the first round, for the second.
    """

    settings: Settings
    environ: Mapping[str, str]
    clock: Callable[[], datetime]
    kinds: Sequence[Kind[Any]]
    every: timedelta = timedelta(days=1)
    report_file: str | None = None
    includes_undo: bool = False
    opened: Opened = field(default_factory=Opened)

    def kinds_of(self, cloud: str) -> list[Kind[Any]]:
        """The enabled kinds of a cloud."""
        return [kind for kind in self.kinds if kind.cloud == cloud]

    def with_policy(self, line: str, option: str = "--policy ") -> str:
        """The line of a command that reads the policy. It names one that REAPER_POLICY doesn't."""
        where = self.settings.policy
        is_set = where is None or where == self.environ.get("REAPER_POLICY", "").strip() or not where.isprintable()
        return line if is_set else f"{line} {option}{quote(str(where))}"

    def reading_permissions(self, cloud: str) -> set[str]:
        """What these kinds need to be listed and observed."""
        return {permission for kind in self.kinds_of(cloud) for permission in kind.permissions}


def doctor_of(cloud: str) -> Any:
    """The part of the examination that only this cloud knows."""
    return import_module(f"reaper.{cloud}.doctor.checks")


def of_error(check: str, error: ReaperError, fix: str) -> Check:
    """The check of something that failed. What a cloud throttled, or answered oddly, proves nothing."""
    if isinstance(error, CloudError) and error.reason in {Reason.THROTTLED, Reason.UNREADABLE, Reason.PARTIAL}:
        return unknown(check, str(error), AGAIN)
    elsewhere = unasked_advice(error)
    return to_fix(check, str(error), elsewhere or fix, None if elsewhere else missing_permission(error))


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


def missing_permission(error: ReaperError) -> str | None:
    """The permission that an error names; None if it isn't about one."""
    known = (one.missing for one in (error, error.__cause__) if isinstance(one, CloudError) and one.missing)
    return next(known, None) or named_permission(str(error))


def unasked_advice(error: ReaperError) -> str | None:
    """What to do about an error that says nothing of what was asked: sign in, or check the network. None if it does say something."""
    is_unreachable = isinstance(error, CloudError) and error.reason is Reason.UNREACHABLE
    causes: list[BaseException] = [error]
    while is_unreachable and (cause := causes[-1].__cause__):
        causes.append(cause)
    if ENDED.search(str(error)) or any(SIGN_IN_ERRORS.search(type(cause).__name__) for cause in causes):
        return sign_in_advice(str(error))
    return NETWORK_ADVICE if is_unreachable else None


def sign_in_advice(text: str, otherwise: str | None = None) -> str:
    """How to sign in: again, if the text says that the session has ended. `otherwise`: what to do if it doesn't."""
    if SSO_ENDED.search(text):
        return f"aws sso login --profile {quote(os.environ.get('AWS_PROFILE') or os.environ.get('AWS_DEFAULT_PROFILE') or 'default')}"
    if ENDED.search(text):
        return "az login" if AZURE_ENDED.search(text) else SIGN_IN_AGAIN
    return otherwise or SIGN_IN


def exit_status(checks: Iterable[Check]) -> int:
    """1 if something needs mending, else 0."""
    return int(any(check.status is CheckStatus.FIX for check in checks))


def summary_line(checks: Sequence[Check]) -> str:
    """`12 checks: 9 ok, 2 to fix, 1 unknown`."""
    counts = Counter("to fix" if check.status is CheckStatus.FIX else check.status.value for check in checks)
    parts = [f"{counts[words]} {words}" for words in ("ok", "to fix", "unknown") if counts[words]]
    return f"{count_noun(len(checks), 'check')}: {', '.join(parts)}"


def checks_json(checks: Iterable[Check]) -> dict[str, Any]:
    """The result as JSON, `schema: 1`."""
    return {"schema": SCHEMA, "checks": [{key: getattr(check, key) for key in KEYS} for check in checks]}


def asked_right(permission: str, place: str, ask: Callable[[], object], grant: Callable[[str], str]) -> Check:
    """What the reply to a harmless call says about its permission. To ask for something that doesn't exist is no refusal.

    `grant` makes the command that grants a permission in that place.
    """
    right = Check(permission=permission, place=place)
    try:
        ask()
    except CloudError as error:
        because = str(error)
        if error.reason is Reason.DENIED:
            missing, because = error.missing or permission, because.removeprefix(f"{error.operation}: ")
            fix = obstacle_advice(because, missing) or grant(missing)
            return replace(right, status=CheckStatus.FIX, because=because, fix=fix, missing=missing)
        if error.reason is not Reason.GONE:
            advice = unasked_advice(error)
            return replace(right, status=CheckStatus.FIX if advice else CheckStatus.UNKNOWN, because=because, fix=advice)
    return right


def unasked_rights(permissions: Sequence[str], place: str, because: str, error: CloudError | None = None) -> list[Check]:
    """None of these could be asked for. `error`: what kept the doctor from it; a permission that it lacks for that is no sweep's."""
    missing = error.missing if error else None
    if error:
        because = f"{because}: {error}{'; only the doctor needs that permission' if missing else ''}"
    right = Check(place=place, status=CheckStatus.UNKNOWN, because=because, missing=missing)
    return [replace(right, permission=permission) for permission in permissions]


def rights_checks(name: str, rights: Sequence[Check], what: str) -> Iterator[Check]:
    """One line for everything that is there, one for each permission that is missing, and one for each reason to know nothing.

    A permission that takes a command of its own in each place has as many lines. `what` says what the rights are for: `reading`.
    """
    if there := [right for right in rights if right.status is CheckStatus.OK]:
        permissions = count_noun(len({right.permission for right in there}), "permission")
        yield ok(name, f"{permissions} for {what} granted in {_places(there)}")
    groups: dict[tuple[object, ...], list[Check]] = {}
    for right in rights:
        # What is missing is grouped by permission over all places with the same command; everything else by its reason.
        is_missing = right.status is CheckStatus.FIX and right.missing is not None
        by = (right.missing, right.fix) if is_missing else (right.because, right.missing)
        groups.setdefault((right.status, is_missing, *by), []).append(right)
    for status, check in ((CheckStatus.FIX, to_fix), (CheckStatus.UNKNOWN, unknown)):
        for group in (group for group in groups.values() if group[0].status is status):
            first, names = group[0], sorted({right.permission for right in group})
            named = names[0] if len(names) == 1 else f"{len(names)} permissions ({first_few(names)})"
            yield check(name, f"{named} in {_places(group)}: {first.because}", first.fix, first.missing)


def _places(group: Sequence[Check]) -> str:
    return first_few(sorted({right.place for right in group}))
