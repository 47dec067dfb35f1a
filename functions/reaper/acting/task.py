"""One action to carry out, with everything that it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from reaper import registry
from reaper.acting.contract import ActionFunctions
from reaper.acting.manifest import Archive
from reaper.calendars.resolve import FreshFreezes
from reaper.errors import ReaperError, odd_replies_as_errors
from reaper.finding import Finding
from reaper.kind import Kind
from reaper.ledger.lease import RunLeases
from reaper.ledger.ledger import Ledger
from reaper.model import Run, StepName
from reaper.policy.schema import Policy
from reaper.prices import PriceBook
from reaper.sessions import CloudSession

OPERATION = "act"
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActContext:
    """What acting on one target needs. `leases`: those that this process keeps alive meanwhile.

    `policy_sha256`: the hash of the policy as it is now, if it may have changed since the run began. `freezes`: reads its freezes again.
    """

    session: CloudSession
    policy: Policy
    ledger: Ledger
    archive: Archive
    clock: Callable[[], datetime]
    leases: RunLeases
    prices: PriceBook = field(default_factory=PriceBook)
    deadline: datetime | None = None
    policy_sha256: str | None = None
    freezes: FreshFreezes | None = None
    kind: Callable[[str], Kind[Any]] = registry.kind
    action_functions: Callable[[str], ActionFunctions[Any]] = registry.action_functions


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One action on one resource. `session` is its own: its calls are counted there. `errors` collects what fails."""

    finding: Finding
    run: Run
    context: ActContext
    session: CloudSession
    kind: Kind[Any]
    functions: ActionFunctions[Any]
    errors: list[ReaperError] = field(default_factory=list)

    @property
    def action(self) -> StepName:
        """What its finding asks for."""
        return self.finding.step.name

    def ask(self, function: Callable[..., Answer], *arguments: Any) -> Answer:
        """What a function of the kind returns in a fresh session. Raises CloudError, also if it stumbles over an odd reply."""
        with odd_replies_as_errors(OPERATION):
            return function(fresh_session(self.session), *arguments)


def fresh_session(session: CloudSession) -> CloudSession:
    """The same session with nothing remembered and no errors yet; its calls are counted together with those of `session`."""
    fresh = session.without_cache()
    fresh.calls = session.calls
    return fresh
