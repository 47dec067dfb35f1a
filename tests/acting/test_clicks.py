"""A person's click, kept in a row of its own, comes between any two reads of a run: whatever the run had read by then, nothing is stopped."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import DAY
from fakes.fake_deployment import FakeDeployment
from reaper.ledger.ledger import Ledger
from reaper.record import Snooze

READS = ("get", "get_many", "query", "scan")
SAYS: dict[str, Callable[[FakeDeployment], Snooze]] = {
    "keep it": lambda here: Snooze(until=here.now + 9 * DAY, at=here.now, by="lee@example.com"),
    "not mine": lambda here: Snooze(disowned_by="lee@example.com", disowned_at=here.now),
}


class Reads:
    """Counts the reads of a ledger's store, and calls `after` with the count right after each."""

    def __init__(self, ledger: Ledger) -> None:
        self.count, self.after = 0, lambda count: None
        for name in READS:
            self._wire(ledger.store, name)

    def _wire(self, store: Any, name: str) -> None:
        real = getattr(store, name)

        def read(*given: Any, **named: Any) -> Any:
            answer = real(*given, **named)
            self.count += 1
            self.after(self.count)
            return answer

        setattr(store, name, read)


def sweep_with_click(ledger: Ledger, reads: Reads, whose: str, says: str, at: int) -> int:
    """A run over an account of its own, with a click right after its read number `at`: how many reads it had done when it stopped something, or 0."""
    account = f"{at:012d}"
    deployment = FakeDeployment(ledger=ledger, accounts=(account,))
    if whose == "host":
        deployment.cloud.kind_name = "sagemaker-inference-component"
    deployment.cloud.accounts["home"] = account
    host = "home" if whose == "host" else ""
    deployment.cloud.add("churn", tags={"owner": "lee@example.com"}, account=account, host=host)
    deployment.sweep()
    deployment.now += timedelta(days=3)
    name, stopped = deployment.cloud.id("home" if whose == "host" else "churn"), [0]

    def click(count: int) -> None:
        if count == at:
            snooze = ledger.snooze(name, deployment.now)
            assert ledger.write_snooze(name, SAYS[says](deployment), snooze.version, deployment.now)

    deployment.cloud.on_action = lambda manifest, thing: stopped.append(reads.count)
    reads.count, reads.after = 0, click
    deployment.sweep()
    reads.after = lambda count: None
    return stopped[-1]


@pytest.mark.parametrize(("whose", "says"), [("own", "keep it"), ("own", "not mine"), ("host", "keep it")])
def test_a_click_between_any_two_reads_keeps_the_resource(ledger: Ledger, whose: str, says: str):
    reads = Reads(ledger)
    until = sweep_with_click(ledger, reads, whose, says, at=0)
    assert until > 5, "without a click it is stopped"
    # The permit's own read is the last one before the call.
    stopped = {at: sweep_with_click(ledger, reads, whose, says, at) for at in range(1, until)}
    assert {at: count for at, count in stopped.items() if count} == {}
