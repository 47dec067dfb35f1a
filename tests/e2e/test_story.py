"""Weeks in fast motion on both clouds, with the real SDKs against the sandboxes: who hears what, and when nobody hears anything."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fakes.histories import history_of
from reaper.errors import ReaperError, SettingsError
from reaper.finding import Finding, Report
from reaper.ledger import opening
from reaper.model import Mode
from reaper.policy.file import load_policy
from reaper.run import run
from reaper.settings import Settings
from reaper.snooze import handler
from reaper.snooze.pages import Request
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.server import Server as Aws
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.server import Server as Azure

NOW = datetime(2026, 11, 21, 10, 17, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
POLICY = """
version: 1
defaults: {{action: notify, idle_after: 24h, remind_every: 7d}}
owners: {{tags: [owner], domains: [example.com], fallback: admins@example.com}}
channels: [{{type: folder, path: "{folder}", for: owners}}]
"""
OWNER = "ana@example.com"


@dataclass
class Stage:
    """One silent resource on one cloud, a clock, a ledger, and the mails of every sweep in a folder of its own."""

    cloud: str
    set_clock: Callable[[datetime], None]
    use: Callable[[datetime], None]
    home: Path
    now: datetime = NOW
    sweeps: int = 0
    folders: list[Path] = field(default_factory=list)

    def at(self, moment: datetime) -> Stage:
        self.now = moment
        self.set_clock(moment)
        return self

    def sweep(self, folder: Path | None = None) -> Report:
        self.sweeps += 1
        self.folders.append(folder or self.home / f"mails-{self.sweeps}")
        settings = Settings(mode=Mode.NOTIFY, cloud=self.cloud, regions=("us-east-1",), ledger=f"sqlite://{self.home}/ledger.db")
        return run(settings, load_policy(POLICY.format(folder=self.folders[-1])), lambda: self.now)

    def mails(self) -> list[str]:
        """What the last sweep sent, as addresses."""
        return [message["To"] for message in self.messages()]

    def messages(self) -> list:
        return [message_from_bytes(path.read_bytes()) for path in sorted(self.folders[-1].glob("*.eml"))]

    def text(self) -> str:
        [message] = self.messages()
        return next(part for part in message.walk() if part.get_content_type() == "text/plain").get_payload(decode=True).decode()

    def snooze(self, days: int) -> int:
        """Click the link of the last mail and send the form."""
        link = urlsplit(re.search(r"https://keep\.example\.com/\S+", self.text())[0])
        door = handler.open_handler({**os.environ, "REAPER_LEDGER": f"sqlite://{self.home}/ledger.db"})
        shown = door.handle(Request(method="GET", path=link.path, query=link.query), self.now)
        token = re.search(r'name="t" value="([^"]+)"', shown.body)[1]
        return door.handle(
            Request(method="POST", path=link.path, body=f"t={token}&r=1&days={days}&reason=demo".encode()), self.now
        ).status


def one(report: Report) -> Finding:
    [finding] = report.findings
    return finding


@pytest.fixture(params=["aws", "azure"])
def stage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    for name in [n for n in os.environ if n.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("REAPER_SNOOZE_URL", "https://keep.example.com")
    monkeypatch.setenv("REAPER_SNOOZE_KEYS", "env:KEEP_KEYS")
    monkeypatch.setenv("KEEP_KEYS", "a-secret-of-more-than-thirty-two-characters")
    with (Aws if request.param == "aws" else Azure)(NOW) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        use = _on_aws(server) if request.param == "aws" else _on_azure(server)
        yield Stage(request.param, lambda moment: setattr(server, "now", moment), use, tmp_path)


def _on_aws(server: Aws) -> Callable[[datetime], None]:
    account = Account(server)
    account.endpoint("quiet", tags={"owner": OWNER})
    account.alive("quiet", "AllTraffic", NOW - 20 * DAY, NOW + 90 * DAY)
    return lambda when: account.invoked("quiet", "AllTraffic", when)


def _on_azure(server: Azure) -> Callable[[datetime], None]:
    cluster = server.subscription("11111111-1111-1111-1111-111111111111").workspace("vision").cluster("quiet")
    cluster.tagged({"owner": OWNER})
    signals.nodes(cluster, active=0, idle=1, since=NOW - 20 * DAY, until=NOW + 90 * DAY)
    return lambda when: signals.nodes(cluster, active=1, idle=0, since=when, until=when + timedelta(minutes=5))


def test_notice_reminder_and_new_notice_after_use(stage: Stage):
    first = one(stage.sweep())
    assert (first.step.name, first.outcome.result, stage.mails()) == ("warn", "done", [OWNER])
    for day in range(1, 7):
        assert one(stage.at(NOW + day * DAY).sweep()).step.name == "none", day
        assert stage.mails() == [], day
    assert one(stage.at(NOW + 7 * DAY).sweep()).step.name == "remind"
    assert stage.mails() == [OWNER]
    assert one(stage.at(NOW + 8 * DAY).sweep()).step.name == "none"
    stage.use(NOW + 9 * DAY - 3 * HOUR)
    used = one(stage.at(NOW + 9 * DAY).sweep())
    assert (used.case.verdict.state, used.step.name, stage.mails()) == ("active", "none", [])
    again = one(stage.at(NOW + 11 * DAY).sweep())
    assert (again.case.verdict.state, again.step.name, stage.mails()) == ("idle", "warn", [OWNER])


def test_hourly_sweeps_send_no_extra_notices(stage: Stage):
    recipients = []
    for hour in range(30):
        stage.at(NOW + hour * HOUR).sweep()
        recipients += stage.mails()
    assert recipients == [OWNER]


def test_a_snooze_silences_notices_until_it_ends(stage: Stage):
    stage.sweep()
    assert stage.snooze(days=3) == 200
    finding = one(stage.at(NOW + 2 * DAY).sweep())
    assert (finding.case.verdict.state, finding.step.name, stage.mails()) == ("exempt", "none", [])
    assert "snoozed until 2026-11-24" in finding.case.verdict.because
    assert "demo" in finding.case.verdict.because
    over = one(stage.at(NOW + 4 * DAY).sweep())
    assert (over.case.verdict.state, over.step.name, stage.mails()) == ("idle", "warn", [OWNER])


def test_two_concurrent_sweeps_send_one_notice(stage: Stage):
    reports: list[Report] = []
    folder = stage.home / "mails"
    threads = [threading.Thread(target=lambda: reports.append(stage.sweep(folder))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reports) == 2
    assert sorted(one(r).step.name for r in reports) == ["none", "warn"]
    assert [m["To"] for m in stage.messages()] == [OWNER]
    ledger = opening.open_ledger(f"sqlite://{stage.home}/ledger.db", {})
    assert [entry.what for entry in history_of(ledger, one(reports[0]).case.resource.id)] == ["warned"]


def test_a_refused_notice_is_a_failure_and_does_not_count(stage: Stage):
    blocked = stage.home / "blocked"
    blocked.write_text("not a folder")
    failed = stage.sweep(blocked)
    assert (one(failed).step.name, one(failed).outcome.result) == ("warn", "failed")
    assert "owner not notified" in one(failed).outcome.error
    assert [c.kind for c in failed.coverage if c.status == "failed"] == ["channel folder"]
    later = one(stage.at(NOW + HOUR).sweep())
    assert (later.step.name, later.outcome.result, stage.mails()) == ("warn", "done", [OWNER])


def rows(file: Path) -> list[str]:
    """All that a ledger holds. Its file may change without that, when an earlier connection closes."""
    with closing(sqlite3.connect(file)) as database:
        return list(database.iterdump())


def test_an_audit_reads_the_ledger_and_writes_nothing(stage: Stage):
    stage.sweep()
    before = rows(stage.home / "ledger.db")
    settings = Settings(cloud=stage.cloud, regions=("us-east-1",), ledger=f"sqlite://{stage.home}/ledger.db")
    report = run(settings, load_policy(POLICY.format(folder=stage.home / "never")), lambda: NOW + HOUR)
    assert (one(report).step.name, one(report).outcome.result) == ("none", "planned")
    assert not (stage.home / "never").exists()
    assert rows(stage.home / "ledger.db") == before


def test_a_run_without_channels_fails_before_the_sweep(stage: Stage):
    with pytest.raises(SettingsError, match="every mode above audit needs a channel: add one"):
        run(Settings(mode=Mode.NOTIFY, cloud=stage.cloud), load_policy("version: 1"), lambda: NOW)


def test_an_unavailable_ledger_ends_the_run_before_notices(stage: Stage):
    (stage.home / "ledger.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(ReaperError, match=r"ledger\.db"):
        stage.sweep()
    assert stage.mails() == []


def test_admins_get_a_new_summary_only_with_news(stage: Stage):
    both = POLICY.replace("for: owners", "for: [owners, admins]")
    recipients = []
    for hour in range(5):
        stage.at(NOW + hour * HOUR)
        folder = stage.home / f"hour-{hour}"
        settings = Settings(
            mode=Mode.NOTIFY, cloud=stage.cloud, regions=("us-east-1",), ledger=f"sqlite://{stage.home}/ledger.db"
        )
        run(settings, load_policy(both.format(folder=folder)), lambda: stage.now)
        recipients.append(sorted(path.name.rpartition("-")[0] for path in folder.glob("*.eml")))
    assert recipients == [["admins@example.com", OWNER], [], [], [], []]


def test_an_undeliverable_notice_is_a_coverage_failure(stage: Stage):
    nobody = POLICY.replace("domains: [example.com], fallback: admins@example.com", "domains: [elsewhere.test]")
    settings = Settings(mode=Mode.NOTIFY, cloud=stage.cloud, regions=("us-east-1",), ledger=f"sqlite://{stage.home}/ledger.db")
    report = run(settings, load_policy(nobody.format(folder=stage.home / "mails")), lambda: NOW)
    assert one(report).outcome.result == "failed"
    assert [c.kind for c in report.coverage if c.status == "failed"] == ["notices"]


def test_a_run_needs_a_channel_for_owners(stage: Stage):
    admins = POLICY.replace("for: owners", "for: admins")
    with pytest.raises(SettingsError, match="every mode above audit needs a channel for owners"):
        run(Settings(mode=Mode.NOTIFY, cloud=stage.cloud, ledger="memory:"), load_policy(admins.format(folder="x")), lambda: NOW)
