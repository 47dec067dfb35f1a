"""A sweep without a ledger over real sessions, as an audit makes it, and the look right before an action, for tests of what kinds see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fakes.memory_ledger import InMemoryLedger
from reaper import __version__
from reaper.acting import look
from reaper.acting.look import ActContext, Task
from reaper.case import Case
from reaper.decide import DecideContext
from reaper.finding import Report
from reaper.kind import Kind
from reaper.model import Mode, Resource, Run
from reaper.notices.context import ConcludeContext
from reaper.observe import ObserveContext
from reaper.observing.cache import ConfigurationCache
from reaper.policy.schema import Policy
from reaper.prices import PriceBook
from reaper.run import OpenRun, run_phases
from reaper.sessions import CloudSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOrder:
    """What to sweep with, and when."""

    policy: Policy
    now: datetime
    prices: PriceBook = field(default_factory=PriceBook)
    cache: ConfigurationCache | None = None


def sweep(sessions: Sequence[CloudSession], kinds: Sequence[Kind[Any]], order: SweepOrder) -> Report:
    """The report of an audit that remembers nothing."""
    clock = lambda: order.now  # noqa: E731
    opened = OpenRun(
        run=Run(id="run", started_at=order.now, mode=Mode.AUDIT, version=__version__, policy_sha256="0" * 64),
        observe=[
            ObserveContext(
                sessions=sessions, kinds=kinds, policy=order.policy, clock=clock, prices=order.prices, cache=order.cache
            )
        ],
        decide=DecideContext(policy=order.policy, ledger=None, clock=clock),
        act=None,
        conclude=ConcludeContext(policy=order.policy, ledger=None, clock=clock),
    )
    return run_phases(opened)


def assess_again(session: CloudSession, kind: Kind[Any], resource: Resource, order: SweepOrder) -> Case:
    """The case of one resource right before an action."""
    context = ActContext(
        session=session,
        policy=order.policy,
        ledger=InMemoryLedger(),
        archive=None,
        clock=lambda: order.now,
        leases=None,
        prices=order.prices,
    )
    task = Task(
        finding=None,
        run=None,
        context=context,
        session=session,
        kind=kind,
        functions=None,
    )
    return look.assess_again(resource, task)
