"""Everything this product raises on purpose, as one small tree.

* ReaperError
  x SettingsError     an invalid setting, flag or event: no sweep was run
  x PolicyError       a policy that doesn't validate: no sweep was run
  x CloudError        one call to a cloud that failed, with the permission that was missing
  x ActionWithdrawn   an action that isn't begun, or isn't continued (`acting`)
  x ConcludeTakenOver another process is concluding the run by now (`workflow`)
  x InvalidLink       an invalid snooze link (`snooze.links`)
* KeyboardInterrupt
  x Interrupted       Ctrl-C, with what was done until then
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

ODD_REPLY_ERRORS = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RuntimeError,
    AssertionError,
    EOFError,
    StopIteration,
    OSError,
)
"""Errors that code runs into if a reply or a broken connection is so odd that no boundary has noticed.

Any other exception ends the run, MemoryError above all: no result after it could be trusted.
"""
NO_SIGN_IN = "NoSignIn"
"""The code of a failure to sign in: the credentials are there, and can't be used."""
LEFT_ALONE = "LeftAlone"
"""The code of the refusal to undo an action on a resource that was recreated or changed since: running it again changes nothing."""
NAMED_PERMISSION = re.compile(r"not authorized to perform: ([\w-]+:\w+)(?: on resource: (arn:[^\s\"]+))?")
"""How AWS names what it refuses: the permission, and the resource that it is about."""
OBSTACLE = re.compile(
    r"explicit deny in an? [\w -]+?(?:policy|boundary)(?:: arn:[^\s\"]+)?|no (?!identity-based)[\w -]+? (?:policy|boundary) allows|deny assignment"
)
"""How a cloud names what refuses whatever is granted: a service control policy, a permissions boundary, a resource's own policy.

https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
"""


class ReaperError(Exception):
    """Root of the tree; the command line shows its text and exits with status 2."""


class Interrupted(KeyboardInterrupt):
    """A person ended the command. The text says what was done and what wasn't."""


@contextmanager
def interrupted_as(text: str) -> Iterator[None]:
    """Raises Interrupted with this text if a person ends the command meanwhile."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise Interrupted(text) from interrupt


class SettingsError(ReaperError):
    """A setting, flag or event key has a value that can't be used. The text names the key, the value and what was expected."""


class PolicyError(ReaperError):
    """A policy does not validate. The text has one line per problem: file:line, key, value, what was expected, the nearest valid key."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Reason(StrEnum):
    """What went wrong with one call."""

    DENIED = "denied"
    THROTTLED = "throttled"
    GONE = "gone"
    UNREADABLE = "garbled"
    PARTIAL = "partial"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"


UNCERTAIN_REASONS = frozenset({Reason.UNREACHABLE, Reason.UNREADABLE, Reason.PARTIAL})
"""Failures after which a call may have been carried out all the same, unless the session knows better."""


class CloudError(ReaperError):
    """One failed call. `operation` is spelled as the permission it needs (`sagemaker:ListEndpoints`); `missing` is set when denied.

    `may_have_been_made`: the call may have been carried out although it failed: 408, 5xx, a broken connection, an unreadable reply.
    """

    def __init__(
        self,
        reason: Reason,
        operation: str,
        text: str,
        *,
        code: str = "",
        missing: str | None = None,
        may_have_been_made: bool | None = None,
    ) -> None:
        # A reply may have half of a surrogate pair, which no ledger, report or mail can be written with.
        super().__init__(f"{operation}: {text}".encode(errors="replace").decode())
        self.reason = reason
        self.operation = operation
        self.code = code
        self.missing = missing
        self.may_have_been_made = reason in UNCERTAIN_REASONS if may_have_been_made is None else may_have_been_made

    @classmethod
    def left_alone(cls, operation: str, because: str) -> CloudError:
        """The refusal to undo an action on a resource that was recreated or changed since."""
        return cls(Reason.REFUSED, operation, f"{because}, so the reaper left it alone", code=LEFT_ALONE)

    def reworded(self, text: str, reason: Reason | None = None) -> CloudError:
        """The same failure in other words: its operation, code, permission and whether the call may have been made stay."""
        return CloudError(
            reason or self.reason,
            self.operation,
            text,
            code=self.code,
            missing=self.missing,
            may_have_been_made=self.may_have_been_made,
        )


MAX_PAGES_WITHOUT_NEWS = 500


@dataclass(slots=True)
class Paging:
    """The pages of one list. What is seen of it ends it: a token that comes again, or 500 pages in a row without a new row."""

    operation: str
    _tokens: set[object] = field(default_factory=set)
    _rows: set[int] = field(default_factory=set)
    _without_news: int = 0

    def follow(self, token: object, rows: Iterable[object]) -> None:
        """Before the next page, by this token, after one with these rows. Raises CloudError."""
        if not isinstance(token, str) or token in self._tokens:
            text = "the same page came twice, or its token for the next one is invalid"
            raise CloudError(Reason.UNREADABLE, self.operation, text)
        self._tokens.add(token)
        names = {hash(_row_name(row)) for row in rows} - self._rows
        self._rows |= names
        self._without_news = 0 if names else self._without_news + 1
        if self._without_news >= MAX_PAGES_WITHOUT_NEWS:
            text = f"{self._without_news} pages in a row had nothing new, so the list doesn't end"
            raise CloudError(Reason.UNREADABLE, self.operation, text)


def _row_name(row: object) -> str:
    """What tells a row from others; the values of a metric are many, and its ID tells it."""
    if not isinstance(row, dict):
        return repr(row)
    return repr(row.get("id") or [value for value in row.values() if not isinstance(value, list) or len(value) <= 30])


@contextmanager
def gone_as_partial() -> Iterator[None]:
    """If something isn't found inside, it is something other than the resource itself, so the resource must not count as gone."""
    try:
        yield
    except CloudError as error:
        if error.reason is not Reason.GONE:
            raise
        raise error.reworded(str(error).removeprefix(f"{error.operation}: "), Reason.PARTIAL) from error


@contextmanager
def odd_replies_as_errors(operation: str) -> Iterator[None]:
    """Turn the failure of code on an odd reply into a CloudError of `operation`."""
    try:
        yield
    except ODD_REPLY_ERRORS as error:
        raise odd_reply(operation, error) from error


def odd_reply(operation: str, error: Exception) -> CloudError:
    """The failure of code on an odd reply as a CloudError of `operation`."""
    return CloudError(Reason.UNREADABLE, operation, f"a reply couldn't be understood ({error!r})")


class ActionWithdrawn(ReaperError):
    """No changing call, or no further one, may be made for this action: something isn't as it was when it was decided. The text is the reason."""


@contextmanager
def errors_as_withdrawal(because: str) -> Iterator[None]:
    """Turn a failed call into ActionWithdrawn: what can't be known allows no action."""
    try:
        yield
    except CloudError as error:
        raise ActionWithdrawn(f"{because}: {error}") from error


class ConcludeTakenOver(ReaperError):
    """Another process has claimed to conclude the run since. This one may send no further message; what it sent is in the ledger."""


def named_permission(text: str) -> str | None:
    """The permission that AWS's refusal names. It may be that of another service, such as a bucket's key; None if it names none."""
    named = NAMED_PERMISSION.search(text)
    return named[1] if named else None


def obstacle_advice(text: str, missing: str) -> str | None:
    """What to do about a refusal that no grant mends; None if a grant may."""
    if named := OBSTACLE.search(text):
        return f"No grant helps, because of what the refusal names: {named[0]}. Ask those who manage that to allow {missing}."
    return None


def refused_resource(text: str) -> str:
    """The ARN that AWS's refusal is about; empty if it names none."""
    named = NAMED_PERMISSION.search(text)
    return named[2] or "" if named else ""
