"""One permission in one place, and how the permissions of many places become a few lines. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from reaper.doctor.check import NETWORK_ADVICE, Check, CheckStatus, ok, to_fix, unknown, unreachable_advice
from reaper.errors import CloudError, Reason
from reaper.text import count_noun, first_few

GrantLine = Callable[[str], str]
"""The command that grants the permission of that name in the place that was asked."""


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


def right_of_call(permission: str, place: str, error: CloudError | None, grant: GrantLine) -> Right:
    """What the reply to a harmless call says about its permission. To ask for something that doesn't exist is no refusal."""
    if error is None or error.reason is Reason.GONE:
        return Right(permission=permission, place=place)
    if error.reason is Reason.DENIED:
        missing = error.missing or permission
        text = str(error).removeprefix(f"{error.operation}: ")
        return Right(
            permission=permission, place=place, status=CheckStatus.FIX, because=text, fix=grant(missing), missing=missing
        )
    if error.reason is Reason.UNREACHABLE:
        return Right(
            permission=permission, place=place, status=CheckStatus.FIX, because=str(error), fix=unreachable_advice(error)
        )
    return Right(permission=permission, place=place, status=CheckStatus.UNKNOWN, because=str(error))


def rights_checks(name: str, rights: Sequence[Right], what: str) -> Iterable[Check]:
    """One line for everything that is there, one for each permission that is missing, and one for each reason to know nothing.

    A permission that takes a command of its own in each place has as many lines. `what` says what the rights are for: `reading`.
    """
    there = [right for right in rights if right.status is CheckStatus.OK]
    if there:
        permissions = count_noun(len({right.permission for right in there}), "permission")
        yield ok(name, f"{permissions} for {what} granted in {_places(there)}")
    for group in _groups(right for right in rights if right.status is CheckStatus.FIX):
        first = group[0]
        yield to_fix(name, f"{_named(group)} in {_places(group)}: {first.because}", first.fix or NETWORK_ADVICE, first.missing)
    for group in _groups(right for right in rights if right.status is CheckStatus.UNKNOWN):
        yield unknown(
            name, f"{_named(group)} in {_places(group)}: {group[0].because}", fix=group[0].fix, missing=group[0].missing
        )


def _groups(rights: Iterable[Right]) -> list[list[Right]]:
    """What is missing is grouped by permission over all places with the same command; everything else by its reason over all permissions."""
    groups: dict[tuple[object, ...], list[Right]] = {}
    for right in rights:
        is_missing = right.status is CheckStatus.FIX and right.missing is not None
        groups.setdefault((right.missing, right.fix) if is_missing else (right.because, right.missing), []).append(right)
    return list(groups.values())


def _named(group: Sequence[Right]) -> str:
    """`iam:PassRole`, or `13 permissions for acting (a, b, c and 10 more)`."""
    names = sorted({right.permission for right in group})
    return names[0] if len(names) == 1 else f"{len(names)} permissions ({first_few(names)})"


def _places(group: Sequence[Right]) -> str:
    return first_few(sorted({right.place for right in group}))
