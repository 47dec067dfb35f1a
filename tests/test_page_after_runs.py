"""What the page of a mail shows after later runs, whose clocks move on from phase to phase."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from typing import Any

import pytest

from fakes.builders import HOUR
from fakes.fake_deployment import POLICY, FakeDeployment, policy
from fakes.snooze_requests import KEYS, desk
from reaper.acting import restore
from reaper.notices.message import Audience
from reaper.run import run_phases
from reaper.snooze.handler import handle_request
from reaper.snooze.links import LinkSigner
from reaper.snooze.pages import Request

SIGNER = LinkSigner(base="https://keep.example.com", keys=KEYS)
THEN = POLICY.replace("remind_every: 7d", "remind_every: 7d, then: {action: delete, after: 14d}")


def sweep(deployment: FakeDeployment, **after: Any) -> list[str]:
    """A sweep after so much time; a minute passes before each phase. The texts of the mails to owners."""

    def later(data: Any) -> Any:
        deployment.now += timedelta(minutes=1)
        return data

    deployment.now += timedelta(**after)
    deployment.channel.messages.clear()
    opened = deployment.open_run()
    run_phases(replace(opened, conclude=replace(opened.conclude, links=SIGNER)), later)
    return [m.text for m in deployment.channel.messages if m.audience is Audience.OWNERS]


def page(deployment: FakeDeployment, mail: str) -> str:
    [token] = set(re.findall(r"/keep\?t=([\w.-]+)", mail))
    request = Request(method="GET", path="/keep", query=f"t={token}")
    return unescape(handle_request(request, desk(deployment.ledger, now=deployment.now)).body)


@pytest.fixture
def deployment() -> FakeDeployment:
    deployment = FakeDeployment(policy=policy(THEN))
    deployment.cloud.add("churn", variants=2, least=1, tags={"owner": "jo@example.com"})
    return deployment


def test_a_link_shows_what_came_after_its_own_mail(deployment: FakeDeployment):
    [first] = sweep(deployment)
    assert "wasted" in page(deployment, first)
    [about_it] = sweep(deployment, days=4)
    assert re.search(r"Scaled in on .*To undo this", page(deployment, first))
    assert "wasted" not in page(deployment, first)
    assert "checked" in page(deployment, about_it), "its delete by `then` is still to come"
    assert "Scaled in" not in page(deployment, about_it), "that mail said so itself"
    restore.restore_resource(deployment.cloud.id("churn"), deployment.restore_context())
    assert "Scaled in" not in page(deployment, first)
    assert "Changed or restored on" in page(deployment, first)


def test_a_link_shows_use_and_silence_and_nothing_is_written_again(deployment: FakeDeployment):
    [mail] = sweep(deployment)
    thing, before = deployment.cloud.things["churn"], deployment.record("churn").version

    def versions_after(hours: int) -> list[int]:
        """By how many writes the record is ahead, after each of three sweeps."""
        found = []
        for _ in range(3):
            sweep(deployment, hours=hours)
            found.append(deployment.record("churn").version - before)
        return found

    assert versions_after(1) == [0, 0, 0]
    thing.metric_gaps.append((deployment.now - HOUR, deployment.now + 3 * HOUR))
    assert versions_after(1) == [1, 1, 1]
    assert "its use isn't known" in page(deployment, mail)
    assert "wasted" not in page(deployment, mail)
    thing.metric_gaps.clear()
    sweep(deployment)
    assert "wasted" in page(deployment, mail)
    thing.uses.append(deployment.now)
    assert versions_after(2) == [3, 3, 3]
    assert "In use again on" in page(deployment, mail)
    sweep(deployment, days=5)
    assert re.search("Idle since .*wasted", page(deployment, mail))
