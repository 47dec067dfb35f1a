"""A check and its result, as data: what was checked, whether it is fine, why, and the command that mends it.

A Right is one permission in one place; `rights_checks` makes a few checks of the rights of many places.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from shlex import quote
from typing import Any

from reaper.errors import CloudError, ReaperError, Reason, named_permission, obstacle_advice
from reaper.text import clean_line, count_noun, first_few

SCHEMA = 1
MAX_BECAUSE = 600
"""Characters of a reason."""
SIGN_IN = "Sign in: `aws configure sso` or `az login`. To see the reaper without any account: reaper demo"
SIGN_IN_ERRORS = re.compile(r"Credential|Token|SSO|Authentication")
"""In the names of the SDKs' errors about credentials, without which they don't send the request."""
SSO_ERRORS = re.compile(r"\bSSO (?:session|token)|token from sso", re.IGNORECASE)
"""What the SDK says of a session of IAM Identity Center that has ended."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """Whether one permission is there. `place`: the account or subscription. `because`: a clause, if it isn't surely there.

    `missing`: the permission that is missing, which may be the one that it takes to find out.
    """

    permission: str
    place: str
    status: CheckStatus = CheckStatus.OK
    because: str = ""
    fix: str | None = None
    missing: str | None = None


def _check(status: CheckStatus, check: str, because: str, fix: str | None = None, missing: str | None = None) -> Check:
    return Check(check=check, status=status, because=clean_line(because, MAX_BECAUSE), fix=fix, missing=missing)


ok = partial(_check, CheckStatus.OK)
to_fix = partial(_check, CheckStatus.FIX)
unknown = partial(_check, CheckStatus.UNKNOWN)


def of_error(check: str, error: ReaperError, fix: str) -> Check:
    """The check of something that failed. What a cloud throttled, or answered oddly, proves nothing."""
    if isinstance(error, CloudError):
        if error.reason in {Reason.THROTTLED, Reason.UNREADABLE, Reason.PARTIAL}:
            return unknown(check, str(error), "Run reaper doctor again.")
        if error.reason is Reason.UNREACHABLE:
            return to_fix(check, str(error), unreachable_advice(error))
        return to_fix(check, str(error), fix, error.missing)
    return to_fix(check, str(error), fix, missing_permission(error))


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
            return sign_in_advice(str(error))
        error = error.__cause__
    return NETWORK_ADVICE


def sign_in_advice(text: str, otherwise: str | None = None) -> str:
    """How to sign in: again, if the text says that a session of IAM Identity Center has ended. `otherwise`: what to do if it doesn't."""
    profile = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"
    return f"aws sso login --profile {quote(profile)}" if SSO_ERRORS.search(text) else otherwise or SIGN_IN


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
    return {"schema": SCHEMA, "checks": [{**asdict(check), "status": check.status.value} for check in checks]}


def asked_right(permission: str, place: str, ask: Callable[[], object], grant: Callable[[str], str]) -> Right:
    """What the reply to a harmless call says about its permission. `grant` makes the command that grants a permission in that place."""
    try:
        ask()
    except CloudError as error:
        return right_of_error(permission, place, error, grant)
    return Right(permission=permission, place=place)


def right_of_error(permission: str, place: str, error: CloudError, grant: Callable[[str], str]) -> Right:
    """What a failed call says about its permission. To ask for something that doesn't exist is no refusal."""
    right = partial(Right, permission=permission, place=place)
    if error.reason is Reason.GONE:
        return right()
    if error.reason is Reason.DENIED:
        missing, because = error.missing or permission, str(error).removeprefix(f"{error.operation}: ")
        fix = obstacle_advice(because, missing) or grant(missing)
        return right(status=CheckStatus.FIX, because=because, fix=fix, missing=missing)
    if error.reason is Reason.UNREACHABLE:
        return right(status=CheckStatus.FIX, because=str(error), fix=unreachable_advice(error))
    return right(status=CheckStatus.UNKNOWN, because=str(error))


def unasked_rights(permissions: Sequence[str], place: str, because: str, error: CloudError | None = None) -> list[Right]:
    """None of these could be asked for. `error`: what kept the doctor from it; a permission that it lacks for that is no sweep's."""
    missing = error.missing if error else None
    if error:
        because = f"{because}: {error}{'; only the doctor needs that permission' if missing else ''}"
    unknown_right = partial(Right, place=place, status=CheckStatus.UNKNOWN, because=because, missing=missing)
    return [unknown_right(permission=permission) for permission in permissions]


def rights_checks(name: str, rights: Sequence[Right], what: str) -> Iterator[Check]:
    """One line for everything that is there, one for each permission that is missing, and one for each reason to know nothing.

    A permission that takes a command of its own in each place has as many lines. `what` says what the rights are for: `reading`.
    """
    if there := [right for right in rights if right.status is CheckStatus.OK]:
        permissions = count_noun(len({right.permission for right in there}), "permission")
        yield ok(name, f"{permissions} for {what} granted in {_places(there)}")
    groups: dict[tuple[object, ...], list[Right]] = {}
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


def _places(group: Sequence[Right]) -> str:
    return first_few(sorted({right.place for right in group}))
