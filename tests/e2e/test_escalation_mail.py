"""The example policy in fast motion: six weeks of daily sweeps on the sandbox, and the mails of a real SMTP server."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from e2e.post import NOW, Serve, smtp
from reaper.model import Mode
from reaper.policy.file import load_policy
from reaper.run import run
from reaper.settings import Settings
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.server import Server

EXAMPLE = (Path(__file__).parents[2] / "policies/escalation.yaml").read_text()
DAY = timedelta(days=1)
JO, DANA, LEE, ADMINS = "jo@example.com", "dana@example.com", "lee@example.com", "ml-admins@example.com"


def test_a_manager_gets_one_mail_in_each_series_of_reminders(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    inbox = serve()
    listed = EXAMPLE.replace("owner, email]", f"owner, email], domains: [example.com], fallback: {ADMINS}")
    policy = load_policy(f"{listed}channels:\n{smtp(inbox, tls='none')}")
    sent: list[tuple[int, str, str]] = []
    with Server(NOW) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        account = Account(server)
        for name, owner, manager in (("quiet", JO, LEE), ("silent", DANA, "boss@elsewhere.test")):
            account.endpoint(name, tags={"owner": owner, "Manager": manager})
            account.alive(name, "AllTraffic", NOW - 20 * DAY, NOW + 60 * DAY)
        for day in range(42):
            if day == 26:
                account.invoked("quiet", "AllTraffic", NOW + 25 * DAY)
            now: datetime = NOW + day * DAY
            server.now = now
            settings = Settings(mode=Mode.NOTIFY, cloud="aws", regions=("us-east-1",), ledger=f"sqlite://{tmp_path}/ledger.db")
            report = run(settings, policy, lambda now=now: now)
            sent += [(day, people[0], str(mail["Subject"])) for mail, people, _, _ in inbox.mails if people[0] != ADMINS]
            sent += [(day, ADMINS, str(m["Subject"])) for m, p, _, _ in inbox.mails if p[0] == ADMINS and "Escal" in m["Subject"]]
            inbox.mails.clear()
            said = [row.error for row in report.coverage if row.kind == "escalations"]
            assert bool(said) == (day == 14), day
    escalated = [(day, to) for day, to, subject in sent if subject.startswith("Escalation")]
    assert escalated == [(14, LEE), (14, ADMINS), (41, LEE), (41, ADMINS)], "used on day 25, so another series begins on day 27"
    assert [day for day, to, _ in sent if to == JO] == [0, 7, 14, 21, 27, 34, 41]
    assert [day for day, to, _ in sent if to == DANA] == [0, 7, 14, 21, 28, 35]
    assert {to for _, to, _ in sent} == {JO, DANA, LEE, ADMINS}
    assert (14, LEE, "Escalation: 1 idle ML resource costs $2.76 a day despite reminders: quiet") in sent
