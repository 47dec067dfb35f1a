"""`policies/two-timers.yaml` in fast motion on both clouds: a stop, the mail that names the delete, reminders, the delete, and its undo."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.policy import default
from pathlib import Path

import pytest

from reaper.acting import manifest, restore
from reaper.finding import Finding, Report
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger
from reaper.model import Mode
from reaper.policy.file import PolicySource, load_policy
from reaper.run import run
from reaper.settings import Settings
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server as Aws
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.server import Server as Azure
from reaper_sandbox.shortcuts import saved_since, sessions_of

EXAMPLE = (Path(__file__).parents[2] / "policies" / "two-timers.yaml").read_text()
NOW = datetime(2026, 11, 2, 10, 17, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
OWNER = "ana@example.com"


@dataclass
class World:
    """One idle endpoint or deployment on one cloud, with a clock, a ledger, an archive and a folder of mails."""

    cloud: str
    set_clock: Callable[[datetime], None]
    instances: Callable[[], int | None]
    use: Callable[[datetime], None]
    home: Path
    now: datetime = NOW

    @property
    def settings(self) -> Settings:
        places = {"ledger": f"sqlite://{self.home}/ledger.db", "manifests": str(self.home / "manifests")}
        return Settings(mode=Mode.ENFORCE, cloud=self.cloud, regions=("us-east-1",), **places)

    @property
    def source(self) -> PolicySource:
        owners = "domains: [example.com], fallback: admins@example.com"
        text = EXAMPLE.replace("owner, email]}", f"owner, email], {owners}}}")
        folder = f'channels: [{{type: folder, path: "{self.home}/mails", for: owners}}]\n'
        return load_policy(f"{text}limits: {{max_share: 100%}}\n{folder}")

    @property
    def ledger(self) -> Ledger:
        return opening.open_ledger(self.settings.ledger, os.environ)

    def sweep(self) -> Finding:
        [finding] = [f for f in self.look().findings if f.case.resource.name.endswith("quiet")]
        return finding

    def look(self) -> Report:
        self.set_clock(self.now)
        report = run(self.settings, self.source, lambda: self.now)
        assert all(row.status == "ok" for row in report.coverage), report.coverage
        return report

    def steps_until(self, last: datetime) -> list[tuple[int, str]]:
        """A sweep every day up to that day: the days since NOW and the steps that did something."""
        steps = []
        while self.now < last:
            self.now += DAY
            step = self.sweep().step.name.value
            steps += [((self.now - NOW).days, step)] if step != "none" else []
        return steps

    def mails(self) -> list[str]:
        """The mails as text, the oldest first."""
        messages = [message_from_bytes(file.read_bytes(), policy=default) for file in (self.home / "mails").glob("*.eml")]
        messages.sort(key=lambda message: message["Date"].datetime)
        return [f"Subject: {message['Subject']}\n{message.get_body(['plain']).get_content()}" for message in messages]

    def restore(self, resource_id: str) -> restore.RestoreResult:
        return restore.restore_resource(
            resource_id,
            restore.RestoreContext(
                ledger=self.ledger,
                archive=manifest.open_archive(self.settings.manifests, os.environ),
                open_session=lambda target: sessions_of(self.settings, target.cloud)[0],
                clock=lambda: self.now,
                by="lee",
            ),
        )


@pytest.fixture(params=["aws", "azure"])
def cloud(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Aws | Azure]]:
    for name in [n for n in os.environ if n.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))]:
        monkeypatch.delenv(name)
    with (Aws if request.param == "aws" else Azure)(NOW) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        yield request.param, server


def world(cloud: tuple[str, Aws | Azure], home: Path, count: int) -> World:
    name, server = cloud
    instances, use = _on_aws(server, count) if isinstance(server, Aws) else _on_azure(server, count)
    return World(name, lambda moment: setattr(server, "now", moment), instances, use, home)


Truth = tuple[Callable[[], int | None], Callable[[datetime], None]]
"""How many instances run, and how it is used."""


def _on_aws(server: Aws, count: int) -> Truth:
    account = Account(server)
    account.endpoint("quiet", variants=(Variant(count=count),), tags={"owner": OWNER})
    account.alive("quiet", "AllTraffic", NOW - 20 * DAY, NOW + 90 * DAY)
    account.endpoint("neighbor", tags={"reaper:keep": "true"})
    endpoints = account.contents.endpoints

    def instances() -> int | None:
        return endpoints["quiet"].variants[0].count if "quiet" in endpoints else None

    return instances, lambda when: account.invoked("quiet", "AllTraffic", when)


def _on_azure(server: Azure, count: int) -> Truth:
    workspace = server.subscription("11111111-1111-1111-1111-111111111111").workspace("vision")
    endpoint = workspace.endpoint("chat")
    one = endpoint.deployment("quiet", size="Standard_NC6s_v3", capacity=count).tagged({"owner": OWNER})
    workspace.endpoint("other").deployment("neighbor").tagged({"reaper:keep": "true"})
    signals.capacity(one, since=NOW - 20 * DAY, until=NOW + 90 * DAY)
    signals.requests(one, 0, since=NOW - 20 * DAY, until=NOW + 90 * DAY)

    def instances() -> int | None:
        body = server.world.estate.find(one.id)
        is_there = body and body["properties"]["provisioningState"] != "Deleting"
        return body["sku"]["capacity"] if body and is_there else None

    return instances, lambda when: signals.requests(one, 3, since=when, until=when + timedelta(minutes=1))


def test_a_stop_is_followed_by_a_delete_and_a_restore(cloud: tuple[str, Aws | Azure], tmp_path: Path):
    here = world(cloud, tmp_path, count=3)
    assert here.sweep().step.name == "warn"
    [first] = here.mails()
    assert "If it is still idle after that, it will be deleted, not before Thu 19 Nov 2026, 10:17 UTC." in first
    assert here.steps_until(NOW + 3 * DAY) == [(3, "stop")]
    assert here.instances() == 1
    second = here.mails()[-1]
    assert "it will be deleted from Thu 19 Nov" in second
    assert "It will be deleted on or after Thu 19 Nov 2026, 10:17 UTC unless it is used or kept before then." in second
    assert "reaper:keep-until=2026-11-12" in second
    assert here.steps_until(NOW + 16 * DAY) == [(10, "remind")]
    assert "Subject: Reminder: 1 idle ML resource" in here.mails()[-1]
    here.now = NOW + 17 * DAY
    deleted = here.sweep()
    assert (deleted.step.name, deleted.outcome.result, here.instances()) == ("delete", "done", None)
    here.now += 5 * DAY
    here.look()
    saved = saved_since(here.ledger, NOW, here.now).ours
    assert deleted.case.price
    per_instance = deleted.case.price.usd_per_hour
    assert saved.saved_usd == pytest.approx(per_instance * 24 * (2 * 19 + 5), rel=0.01), "each instance once, whatever ended it"
    undone = here.restore(deleted.case.resource.id)
    assert (undone.error, here.instances()) == (None, 1)


def test_one_instance_is_deleted_without_a_stop(cloud: tuple[str, Aws | Azure], tmp_path: Path):
    here = world(cloud, tmp_path, count=1)
    first = here.sweep()
    assert (first.step.name, first.next and first.next.step) == ("warn", "delete")
    assert "It will be deleted on or after Mon 16 Nov 2026, 10:17 UTC unless" in here.mails()[0]
    assert here.steps_until(NOW + 13 * DAY) == [(7, "remind")]
    assert here.instances() == 1
    assert here.steps_until(NOW + 14 * DAY) == [(14, "delete")]
    assert here.instances() is None


def test_use_after_the_stop_needs_a_new_notice_and_two_weeks(cloud: tuple[str, Aws | Azure], tmp_path: Path):
    here = world(cloud, tmp_path, count=2)
    here.sweep()
    assert here.steps_until(NOW + 15 * DAY) == [(3, "stop"), (10, "remind")]
    here.use(here.now + HOUR)
    assert here.steps_until(NOW + 31 * DAY) == [(17, "warn"), (24, "remind"), (31, "delete")]
