"""`policies/quiet-notices.yaml` in fast motion: a sweep every few hours over a weekend, mails in working hours only, outcomes at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from reaper.finding import Report, is_done
from reaper.model import Mode
from reaper.policy.file import load_policy
from reaper.report import explain
from reaper.report.explain import ExplainContext
from reaper.run import run
from reaper.settings import Settings
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

EXAMPLE = (Path(__file__).parents[2] / "policies" / "quiet-notices.yaml").read_text()
FRIDAY = datetime(2026, 11, 20, 15, 0, tzinfo=UTC)
"""An hour before notices stop for the weekend."""
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
BERLIN = ZoneInfo("Europe/Berlin")
SMALL = Variant(instance="ml.t2.medium", count=2)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in [n for n in os.environ if n.startswith(("AWS_", "REAPER_"))]:
        monkeypatch.delenv(name)
    with Server(FRIDAY - 10 * DAY) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        yield server


def text(home: Path) -> str:
    owners = "domains: [example.com], fallback: admins@example.com"
    folder = f'channels: [{{type: folder, path: "{home}/mails", for: owners}}]\n'
    example = EXAMPLE.replace("owner, email]}", f"owner, email], {owners}}}").replace("grace: 3d", "grace: 60h")
    return f"{example}limits: {{max_share: 100%}}\n{folder}"


def sweep(server: Server, now: datetime, home: Path, mode: Mode = Mode.ENFORCE) -> Report:
    server.now = now
    places = {"ledger": f"sqlite://{home}/ledger.db", "manifests": str(home / "manifests")}
    chosen = Settings(mode=mode, cloud="aws", regions=("us-east-1",), **places)
    report = run(chosen, load_policy(text(home)), lambda: now)
    assert all(row.status == "ok" for row in report.coverage), report.coverage
    return report


def mails(home: Path) -> list[str]:
    return sorted(message_from_bytes(f.read_bytes(), policy=default)["Subject"] for f in (home / "mails").glob("*.eml"))


def fleet(server: Server) -> None:
    """Ana has something large, Lee something small, both used until Friday at noon less a day."""
    account = Account(server)
    for name, owner, variant in (("large", "ana", Variant(count=3)), ("small", "lee", SMALL)):
        account.endpoint(name, variants=(variant,), tags={"owner": f"{owner}@example.com"})
        account.alive(name, "AllTraffic", FRIDAY - 20 * DAY, FRIDAY + 40 * DAY)
        account.invoked(name, "AllTraffic", FRIDAY - 18 * HOUR)


def test_a_weekend_is_quiet_and_the_date_counts_from_the_mail_on_monday(server: Server, tmp_path: Path):
    fleet(server)
    sent: dict[datetime, list[str]] = {}
    stops: list[tuple[str, datetime]] = []
    now = FRIDAY
    while now < FRIDAY + 14 * DAY:
        before = mails(tmp_path)
        report = sweep(server, now, tmp_path)
        stops += [(f.case.resource.name, now) for f in report.findings if is_done(f)]
        if new := [subject for subject in mails(tmp_path) if subject not in before]:
            sent[now] = new
        now += 5 * HOUR
    first, stop = next(iter(sent)), stops[0][1]
    assert (first.astimezone(BERLIN).strftime("%a %H"), [name for name, _ in stops]) == ("Mon 09", ["large"])
    assert timedelta(0) <= stop - (first + 60 * HOUR) < 5 * HOUR, "the grace counts from the mail"
    assert stop in sent, "the outcome is told at once"
    assert stop.astimezone(BERLIN).hour not in range(9, 17), "at night"
    others = [when.astimezone(BERLIN) for when in sent if when != stop]
    assert all(when.weekday() < 5 and 9 <= when.hour < 17 for when in others)
    assert not [subject for subjects in sent.values() for subject in subjects if "small" in subject]


def test_explain_says_why_no_owner_was_notified(server: Server, tmp_path: Path):
    fleet(server)
    now = FRIDAY + DAY
    report = sweep(server, now, tmp_path, Mode.AUDIT)
    known = ExplainContext(policy=load_policy(text(tmp_path)).policy, now=now, histories=lambda _: [])
    large, small = (" ".join((explain.render(report, name, known) or "").split()) for name in ("large", "small"))
    assert "step none: its notice waits until 2026-11-23 08:00 UTC" in large
    assert "next stop on or after 2026-11-25T20:00:00Z" in large
    because = "its owner's notice is worth $2.69 a day, below notify_above: $5 a day"
    assert f"next stop, blocked because {because}" in small
    assert f"step none: {because}" in small
