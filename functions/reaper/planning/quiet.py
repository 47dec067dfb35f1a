"""First notices that aren't sent, because their mail is about too little money, and notices that wait for the hours of `notices.send`. Pure.

Actions stay, so this only takes actions away: without a notice there is none. Nothing is recorded as notified.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime

from reaper.case import Step
from reaper.handover import Decision
from reaper.model import ACTIONS, NOTICES, HoldReason, Mode, StepName
from reaper.notices.owner_notice import notice_address
from reaper.planning.holding import Planned
from reaper.planning.possible_actions import is_in_weekly_summary
from reaper.policy import office_hours, send_window
from reaper.policy.schema import Policy
from reaper.report.run_report import finding_of
from reaper.text import format_usd


def without_unsent(planned: list[Planned], policy: Policy, mode: Mode, opens_at: datetime | None) -> list[Planned]:
    """The plan without the notices that aren't sent in this run. `opens_at`: when notices go out next; None if they go out now."""
    planned = _above_floor(planned, policy, mode)
    return [_waiting(each, policy, opens_at) for each in planned] if opens_at else planned


def _above_floor(planned: list[Planned], policy: Policy, mode: Mode) -> list[Planned]:
    """The plan without the first notices in mails about less than `notify_above` a day. What has no price counts as above it."""
    if policy.notify_above is None:
        return planned
    mails: dict[tuple[str, bool], list[float | None]] = defaultdict(list)
    addresses = [_address(each.decision, policy, mode) for each in planned]
    for each, address in zip(planned, addresses, strict=True):
        if address:
            mails[address].append(each.decision.case.usd_per_hour)
    below = {to: 24 * sum(usd or 0 for usd in costs) for to, costs in mails.items() if None not in costs}
    return [
        _below_floor(each, below[address], address[1], policy)
        if address in below and each.decision.step.name is StepName.WARN and below[address] < policy.notify_above.usd_per_day
        else each
        for each, address in zip(planned, addresses, strict=True)
    ]


def _address(decision: Decision, policy: Policy, mode: Mode) -> tuple[str, bool] | None:
    """Where this run's mail about it would go, and whether that is its owner; None if it is in none."""
    case, step = decision.reported_case, decision.step
    is_told = step.name in ACTIONS and (mode.acts or mode is Mode.AUDIT) and not is_in_weekly_summary(case, step.name)
    found = notice_address(finding_of(case, step, decision.outcome), policy.owners) if is_told or step.name in NOTICES else None
    return (found[0].lower(), found[1]) if found else None


def _below_floor(planned: Planned, usd_per_day: float, to_owner: bool, policy: Policy) -> Planned:
    floor = policy.notify_above.usd_per_day if policy.notify_above else 0.0
    worth, least = (format_usd(usd, currency=policy.prices.shown_in).removesuffix(".00") for usd in (usd_per_day, floor))
    whose = "its owner's notice" if to_owner else "the notice about what has no known owner"
    below = f"below notify_above: {least} a day"
    return replace(_unsent(planned, f"{whose} is worth {worth} a day, {below}", below), is_blocked=True)


def _waiting(planned: Planned, policy: Policy, opens_at: datetime) -> Planned:
    """The plan of one resource without a notice that waits until notices go out again."""
    hours = send_window.send_hours(policy)
    if planned.decision.step.name not in NOTICES or hours is None:
        return planned
    opens = f"{opens_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    because = f"its notice waits until {opens}, because notices are sent {office_hours.hours_text(hours)} {hours.tz} only"
    return _unsent(planned, because, f"waiting until {opens}")


def _unsent(planned: Planned, because: str, briefly: str) -> Planned:
    held = planned.decision.step.name
    step = Step(name=StepName.NONE, because=because, held=held, hold_reasons=(HoldReason(because=briefly),))
    return replace(planned, decision=replace(planned.decision, step=step))
