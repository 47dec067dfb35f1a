"""CloudWatch loses Invocations and keeps CPU: eight busy endpoints look idle. Weeks in fast motion, with the real SDK over the sandbox's wire.

No owner of a busy endpoint gets an untrue date that isn't taken back, and no busy endpoint is scaled in.
"""

from __future__ import annotations

import email
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email import policy as mail_policy
from pathlib import Path

import pytest

from reaper.model import Mode, StepName
from reaper.policy.file import load_policy
from reaper.run import run
from reaper.settings import Settings
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

START = datetime(2026, 11, 2, 10, 17, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
BUSY, IDLE = [f"busy-{n}" for n in range(8)], ["idle-0", "idle-1"]
POLICY = """
version: 1
defaults: {{action: stop, idle_after: 24h, grace: 3d, remind_every: 7d}}
limits: {{max_share: 100%}}
owners: {{tags: [owner], domains: [example.com], fallback: admins@example.com}}
channels: [{{type: folder, path: "{folder}"}}]
"""


@dataclass
class Story:
    """Eight endpoints that get a request an hour, and two that never do, each with an owner of its own."""

    server: Server
    settings: Settings
    home: Path
    outages: list[tuple[datetime, datetime]] = field(default_factory=list)

    @property
    def account(self) -> Account:
        return Account(self.server)

    def live(self, length: timedelta, every: timedelta = 6 * HOUR) -> None:
        """Sweep every few hours. The requests of each hour arrive at once, but those of an outage."""
        for _ in range(length // every):
            for hour in range(every // HOUR):
                self._request(self.server.now + hour * HOUR)
            self.server.now += every
            assert self.settings.policy
            report = run(self.settings, load_policy(self.settings.policy), lambda: self.server.now)
            busy = [f for f in report.findings if f.case.resource.name in BUSY]
            assert not [f for f in busy if f.step.name in {StepName.STOP, StepName.DELETE}], [f.step for f in busy]

    def learn(self) -> None:
        """Days that show the breaker what is usual, and in which no action is announced."""
        self.settings = replace(self.settings, mode=Mode.NOTIFY)
        self.live(4 * DAY)
        self.settings = replace(self.settings, mode=Mode.ENFORCE)

    def _request(self, when: datetime) -> None:
        if not any(start <= when < end for start, end in self.outages):
            for name in BUSY:
                self.account.invoked(name, "AllTraffic", when)

    def lose_invocations(self, length: timedelta) -> None:
        """From now on CloudWatch gets no Invocations, and goes on with CPU."""
        self.outages.append((self.server.now, self.server.now + length))

    def backfill(self) -> None:
        """What was lost arrives after all."""
        start, end = self.outages.pop()
        for hour in range((min(end, self.server.now) - start) // HOUR):
            self._request(start + hour * HOUR)

    def mails(self, name: str) -> list[tuple[str, str]]:
        """The subject and text of what an endpoint's owner got."""
        found = []
        for path in sorted((self.home / "mails").glob("*.eml")):
            message = email.message_from_bytes(path.read_bytes(), policy=mail_policy.default)
            if message["To"] == f"{name}@example.com":
                body = message.get_body(("plain",))
                found.append((str(message["Subject"]), body.get_content() if body else ""))
        return found

    def dated(self) -> list[str]:
        """The busy endpoints whose owners read a date."""
        return [name for name in BUSY if any("on or after" in text for _, text in self.mails(name))]

    def corrected(self) -> list[str]:
        """The busy endpoints whose owners got exactly one correction."""
        counts = {name: sum(subject.startswith("Correction:") for subject, _ in self.mails(name)) for name in BUSY}
        assert set(counts.values()) <= {0, 1}
        return [name for name, count in counts.items() if count]

    def instances(self, names: list[str]) -> set[int]:
        return {self.account.contents.endpoints[name].variants[0].count for name in names}


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    for name in [n for n in os.environ if n.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))]:
        monkeypatch.delenv(name)
    with Server(START) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        account = Account(server)
        for name in BUSY + IDLE:
            account.endpoint(name, variants=(Variant(count=3),), tags={"owner": f"{name}@example.com"})
            account.alive(name, "AllTraffic", START - 20 * DAY, START + 60 * DAY)
        settings = Settings(
            mode=Mode.ENFORCE,
            cloud="aws",
            regions=("us-east-1",),
            kinds=("sagemaker-endpoint",),
            policy=POLICY.format(folder=tmp_path / "mails"),
            ledger=f"sqlite://{tmp_path}/ledger.db",
            manifests=str(tmp_path / "manifests"),
        )
        story = Story(server=server, settings=settings, home=tmp_path)
        for hour in range(-20 * 24, 0):
            story._request(START + hour * HOUR)
        yield story


def test_an_outage_of_one_metric_sends_no_untrue_date(story: Story):
    story.learn()
    story.live(DAY)
    story.lose_invocations(30 * DAY)
    story.live(4 * DAY)
    assert (story.dated(), story.instances(BUSY)) == ([], {3})
    texts = {name: [text for _, text in story.mails(name)] for name in BUSY}
    assert {len(found) for found in texts.values()} == {1}, "after two days, without a date"
    assert all("which may be a fault in the metrics" in text for [text] in texts.values())
    story.backfill()
    story.live(DAY)
    assert story.corrected() == BUSY, "their owners are told that it was wrong"
    assert story.instances(BUSY) == {3}


def test_after_an_outage_idle_endpoints_get_a_new_notice_and_grace(story: Story):
    story.learn()
    story.live(DAY)
    story.lose_invocations(2 * DAY)
    story.live(2 * DAY)
    notices = {name: len(story.mails(name)) for name in IDLE}
    story.live(DAY)
    assert {name: len(story.mails(name)) - count for name, count in notices.items()} == dict.fromkeys(IDLE, 1)
    story.live(DAY)
    assert story.instances(IDLE) == {3}
    story.live(2 * DAY)
    assert (story.instances(IDLE), story.instances(BUSY)) == ({1}, {3})


def test_an_outage_before_the_breaker_knows_the_fleet_is_taken_back(story: Story):
    story.lose_invocations(30 * DAY)
    story.live(30 * HOUR, every=30 * HOUR)
    assert story.dated() == BUSY, "no earlier sweep shows what is usual"
    story.backfill()
    story.live(3 * DAY)
    assert story.corrected() == BUSY
    story.live(4 * DAY)
    assert (story.corrected(), story.instances(BUSY), story.instances(IDLE)) == (BUSY, {3}, {1})


def test_metrics_that_arrive_days_later_take_a_notice_back_too(story: Story):
    """By then a look at what is in use needs the last day only: it is read further back because of its notice."""
    story.lose_invocations(30 * HOUR)
    story.live(30 * HOUR, every=30 * HOUR)
    assert story.dated() == BUSY
    story.live(4 * DAY)
    assert (story.corrected(), story.instances(BUSY)) == ([], {3})
    story.backfill()
    story.live(12 * HOUR)
    assert story.corrected() == BUSY
