"""Office hours of a rule for more kinds: what can't be started again is protected by them, and its nights are no reason for a mail."""

from __future__ import annotations

import pytest

from on_azure import enforcing
from on_azure.conftest import DAY, DEPLOYMENT, HOUR, LONG_AGO
from on_azure.enforcing import Enforcement
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace

DAILY = "[{{name: office, idle_after: {idle_after}, hours: {{on: '{on}', tz: UTC}}}}]"


def deployment_used(server: Server, vision: Workspace, capacity: int, days: range) -> Enforcement:
    """A deployment that was and will be used from 09:00 to 16:00 UTC on these days from today."""
    chat = vision.endpoint("chat", created=LONG_AGO)
    blue = chat.deployment("blue", capacity=capacity, created=LONG_AGO).tagged(owner="ada@example.com")
    chat.traffic(blue=100)
    today = server.world.now.replace(hour=0, minute=0, second=0, microsecond=0)
    signals.capacity(blue, since=LONG_AGO, until=today + 40 * DAY)
    for day in days:
        signals.requests(blue, 5, since=today + day * DAY + 9 * HOUR, until=today + day * DAY + 16 * HOUR)
    return Enforcement(server, DEPLOYMENT)


def under_hours(monkeypatch: pytest.MonkeyPatch, idle_after: str, on: str = "mon-fri 07:00-19:00") -> None:
    rules = DAILY.format(idle_after=idle_after, on=on).replace("{", "{{").replace("}", "}}")
    head, _, tail = enforcing.POLICY.partition("rules:")
    monkeypatch.setattr(enforcing, "POLICY", f"{head}rules: {rules}\n{tail.partition(chr(10))[2]}")


@pytest.mark.parametrize("idle_after", ["1h", "8h"])
@pytest.mark.parametrize("capacity", [1, 3], ids=["can't be stopped", "can be scaled in"])
def test_a_deployment_that_is_used_daily_gets_no_mail(server, vision, monkeypatch, idle_after: str, capacity: int):
    under_hours(monkeypatch, idle_after)
    one = deployment_used(server, vision, capacity, range(-4, 10))
    one.later(hours=19)
    for _ in range(8):
        one.sweep()
        one.later(days=1)
    assert one.mails() == []


def test_a_deployment_that_is_silent_in_its_hours_is_told(server, vision, monkeypatch):
    under_hours(monkeypatch, "8h")
    one = deployment_used(server, vision, 1, range(-4, 1))
    for _ in range(8):
        one.sweep()
        one.later(hours=12)
    assert len(one.mails()) == 1


def test_hours_that_never_close_silence_no_notice(server, vision, monkeypatch):
    under_hours(monkeypatch, "8h", "mon-sun 00:00-24:00")
    one = deployment_used(server, vision, 1, range(-4, -1))
    one.later(hours=1)
    one.sweep()
    assert len(one.mails()) == 1
