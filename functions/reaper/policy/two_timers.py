"""`then`: a rule's second timer, the delete of what still costs money after a stop. Its keys, and what makes no sense in it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from reaper.duration import policy_duration
from reaper.kind import Kind
from reaper.model import Ceiling, StepName
from reaper.policy.values import BusinessDayCount, Length, Section
from reaper.policy.yaml_lines import KeyPath

if TYPE_CHECKING:
    from reaper.policy.schema import Policy, RuleSpec


class Then(Section):
    """What follows a stop that leaves a cost, or that can do nothing."""

    action: Literal["delete"] = Field(description="always delete, for kinds that can be deleted", examples=["delete"])
    after: Length = Field(
        description="how long after the notice of it, the stop and the last use or change; not shorter than the grace",
        examples=["14d"],
    )


def delete_after(policy: Policy, spec: RuleSpec | None) -> timedelta | None:
    """When `then` deletes what the rule stopped; None if it doesn't. A rule that isn't about stops, or has office hours, inherits none."""
    sets_it = spec is not None and "then" in spec.model_fields_set
    then = spec.then if spec and sets_it else policy.defaults.then
    action = (spec.action if spec else None) or policy.defaults.action
    return then.after if then and action is Ceiling.STOP and not (spec and spec.hours) else None


def then_problems(policy: Policy) -> Iterator[tuple[KeyPath, str]]:
    """Where the file asks for a `then` that makes no sense: its key, and what to write instead."""
    specs: list[tuple[KeyPath, RuleSpec | None]] = [(("defaults",), None)]
    specs += [(("rules", index), spec) for index, spec in enumerate(policy.rules)]
    for path, spec in specs:
        section = spec or policy.defaults
        action, grace = section.action or policy.defaults.action, section.grace or policy.defaults.grace
        days = f"{grace.count}bd, at least " if isinstance(grace, BusinessDayCount) else ""
        grace = grace.least if isinstance(grace, BusinessDayCount) else grace
        after = delete_after(policy, spec)
        if section.then and action is not Ceiling.STOP:
            why = "deletes after its own grace" if action is Ceiling.DELETE else "stops nothing that a delete could follow"
            yield (*path, "then"), f"not valid with `action: {action}`, which {why}; write `action: stop`, or remove then"
        elif section.then and spec and spec.hours:
            yield (*path, "then"), "not valid with hours, which stop it every day; remove one of them"
        elif after and after < grace:
            most, least = policy_duration(after), policy_duration(grace)
            if section.then:
                yield (*path, "then", "after"), f"{most} is shorter than the grace ({days}{least}); write {least} or more"
            elif section.grace:
                fix = f"write {most} or less, or give the rule a then of its own"
                yield (*path, "grace"), f"{least} is longer than then.after in the defaults ({most}); {fix}"


def is_deleted_by_then(kind: Kind[Any]) -> bool:
    """Whether `then` may delete resources of the kind: a stop leaves a cost, and the kind can be deleted."""
    return StepName.DELETE in kind.actions and bool(kind.actions[StepName.STOP].still_billed)
