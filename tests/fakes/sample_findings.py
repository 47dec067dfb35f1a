"""Findings, occasions and reports for the tests of messages."""

from __future__ import annotations

from typing import Any

from fakes.builders import DAY, NOW, resource, rule
from reaper.case import Case, Coverage, Owner, Price
from reaper.finding import Finding, FinishedRun, Outcome, Report, Step
from reaper.model import Confidence, Mode, Result, State, StepName, Verdict
from reaper.notices.forecast import NoticeContext
from reaper.notices.message import Message
from reaper.policy.schema import Owners

OWNERS = Owners(domains=["example.com"], fallback="ml-admins@example.com")
CLIPPED = 102_000
"""Bytes of HTML above which Gmail hides the rest."""


def finding(name: str = "churn", usd: float | None = 2.0, address: str | None = "lee@example.com", **overrides: Any) -> Finding:
    """An endpoint idle for nine days, whose owner is due a first notice."""
    thing = overrides.pop("resource", None) or resource(id=f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/{name}", name=name)
    verdict = Verdict(
        state=overrides.pop("state", State.IDLE),
        because=overrides.pop("because", "no activity in Invocations for 9 days, while CPUUtilization reported every hour"),
        idle_for=9 * DAY,
        last_busy=NOW - 9 * DAY,
        confidence=overrides.pop("confidence", Confidence.PROVEN),
    )
    price = None if usd is None else Price(usd_per_hour=usd, source="test", as_of="2026-11-20")
    fields: dict[str, Any] = {
        "case": Case(
            resource=thing,
            rule=overrides.pop("rule", rule()),
            verdict=verdict,
            usd_per_hour=usd,
            owner=overrides.pop("owner", Owner(address=address, source="tag owner")),
            price=overrides.pop("price", price),
            evidence=overrides.pop("evidence", ()),
            blocked=overrides.pop("acts", {StepName.STOP: None, StepName.DELETE: None}),
            saves_usd_per_hour={} if usd is None else {StepName.STOP: usd / 2, StepName.DELETE: usd},
        ),
        "step": Step(name=overrides.pop("move", StepName.WARN), because="idle under the rule"),
        "outcome": Outcome(result=Result.PLANNED),
        "idle_since": NOW - 9 * DAY,
        "idle_for": 9 * DAY,
        "wasted_usd": None if usd is None else usd * 9 * 24,
    }
    return Finding(**{**fields, **overrides})


def occasion(**fields: Any) -> NoticeContext:
    return NoticeContext(**{"now": NOW, "mode": Mode.ENFORCE, "owners": OWNERS, **fields})


def report(*findings: Finding, coverage: tuple[Coverage, ...] = ()) -> Report:
    run = FinishedRun(id="r1", started_at=NOW, finished_at=NOW, mode=Mode.NOTIFY, version="0", policy_sha256="0" * 64)
    return Report(run=run, coverage=coverage, findings=findings)


def only(messages: list[Message]) -> Message:
    [message] = messages
    return message
