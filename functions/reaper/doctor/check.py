"""A check and its result, as data: what was checked, whether it is fine, why, and the command that mends it. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from reaper.errors import CloudError, ReaperError, Reason, named_permission
from reaper.text import clean_line, count_noun

SCHEMA = 1
MAX_BECAUSE = 600
"""Characters of a reason."""
SIGN_IN = "Sign in: `aws configure sso` or `az login`. To see the reaper without any account: reaper demo"
SIGN_IN_ERRORS = re.compile(r"Credential|Token|SSO|Authentication")
"""In the names of the SDKs' errors about credentials, without which they don't send the request."""
NETWORK_ADVICE = "Check the network from here: proxy, firewall, DNS and private endpoints."


class CheckStatus(StrEnum):
    """`fix`: something needs mending. `unknown`: it couldn't be checked, which is no reason to mend anything."""

    OK = "ok"
    FIX = "fix"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the result. `fix` is a command to paste, or what to do; `missing` is exactly one permission."""

    check: str
    status: CheckStatus
    because: str
    fix: str | None = None
    missing: str | None = None


def ok(check: str, because: str) -> Check:
    """A check that found nothing to mend."""
    return Check(check=check, status=CheckStatus.OK, because=clean_line(because, MAX_BECAUSE))


def to_fix(check: str, because: str, fix: str, missing: str | None = None) -> Check:
    """A check that found something to mend."""
    return Check(check=check, status=CheckStatus.FIX, because=clean_line(because, MAX_BECAUSE), fix=fix, missing=missing)


def unknown(check: str, because: str, fix: str | None = None, missing: str | None = None) -> Check:
    """A check that couldn't be made."""
    return Check(check=check, status=CheckStatus.UNKNOWN, because=clean_line(because, MAX_BECAUSE), fix=fix, missing=missing)


def missing_permission(error: ReaperError) -> str | None:
    """The permission that an error names; None if it isn't about one."""
    for known in (error, error.__cause__):
        if isinstance(known, CloudError) and known.missing:
            return known.missing
    return named_permission(str(error))


def unreachable_advice(error: BaseException | None) -> str:
    """What to do about a service that couldn't be asked: sign in if the SDK lacked credentials, else check the network."""
    while error is not None:
        if SIGN_IN_ERRORS.search(type(error).__name__):
            return SIGN_IN
        error = error.__cause__
    return NETWORK_ADVICE


def of_error(check: str, error: ReaperError, fix: str) -> Check:
    """The check of something that failed. What a cloud throttled, or answered oddly, proves nothing."""
    if isinstance(error, CloudError):
        if error.reason in {Reason.THROTTLED, Reason.UNREADABLE, Reason.PARTIAL}:
            return unknown(check, str(error), "Run reaper doctor again.")
        if error.reason is Reason.UNREACHABLE:
            return to_fix(check, str(error), unreachable_advice(error))
        return to_fix(check, str(error), fix, error.missing)
    return to_fix(check, str(error), fix, missing_permission(error))


def exit_status(checks: Iterable[Check]) -> int:
    """1 if something needs mending, else 0."""
    return 1 if any(check.status is CheckStatus.FIX for check in checks) else 0


def summary_line(checks: Sequence[Check]) -> str:
    """`12 checks: 9 ok, 2 to fix, 1 unknown`."""
    counts = Counter(check.status for check in checks)
    words = {CheckStatus.OK: "ok", CheckStatus.FIX: "to fix", CheckStatus.UNKNOWN: "unknown"}
    parts = [f"{counts[status]} {words[status]}" for status in CheckStatus if counts[status]]
    return f"{count_noun(len(checks), 'check')}: {', '.join(parts)}"


def checks_json(checks: Iterable[Check]) -> dict[str, Any]:
    """The result as JSON, `schema: 1`."""
    return {"schema": SCHEMA, "checks": [{**asdict(check), "status": check.status.value} for check in checks]}
