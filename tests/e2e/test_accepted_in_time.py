"""`policies/accepted.yaml` in fast motion: accepted, so exempt; about to expire; expired, so its owner is notified; then stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.policy import default
from pathlib import Path

import pytest

from fakes.fake_deployment import POLICY, FakeDeployment, policy
from reaper.errors import CloudError, Reason
from reaper.finding import Report
from reaper.ledger import opening
from reaper.model import Mode
from reaper.notices.message import Audience
from reaper.policy.file import PolicySource, load_policy
from reaper.policy.schema import Policy
from reaper.report import csv, explain, html, json, markdown, text
from reaper.run import HandedOver, run, run_phases
from reaper.settings import Settings
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

EXAMPLE = (Path(__file__).parents[2] / "policies" / "accepted.yaml").read_text()
NOW = datetime(2027, 1, 10, 10, 17, tzinfo=UTC)
DAY = timedelta(days=1)
SAID = "accepted until 2027-01-31 by Lee, platform team: the demo for the trade fair"
SUBJECT = "The acceptance of kind sagemaker-endpoint, name demo-* by Lee, platform team"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in [n for n in os.environ if n.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))]:
        monkeypatch.delenv(name)
    with Server(NOW) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        account = Account(server)
        account.endpoint("demo-fair", variants=(Variant(count=3),), tags={"owner": "ana@example.com"})
        account.alive("demo-fair", "AllTraffic", NOW - 20 * DAY, NOW + 60 * DAY)
        account.endpoint("neighbor", tags={"reaper:keep": "true"})
        yield server


class World:
    """A deployment in mode enforce, with a clock, a ledger and a folder of mails."""

    def __init__(self, server: Server, home: Path) -> None:
        self.server, self.home, self.now = server, home, NOW
        self.settings = Settings(
            mode=Mode.ENFORCE,
            cloud="aws",
            regions=("us-east-1",),
            ledger=f"sqlite://{home}/ledger.db",
            manifests=str(home / "manifests"),
        )

    @property
    def source(self) -> PolicySource:
        owners = "domains: [example.com], fallback: admins@example.com"
        channels = f'channels: [{{type: folder, path: "{self.home}/mails", for: [owners, admins]}}]\n'
        example = EXAMPLE.replace("owner, email]}", f"owner, email], {owners}}}")
        return load_policy(f"{example}limits: {{max_share: 100%}}\n{channels}")

    def sweep(self) -> Report:
        self.server.now = self.now
        report = run(self.settings, self.source, lambda: self.now)
        assert all(row.status == "ok" for row in report.coverage), report.coverage
        return report

    def days_until(self, last: datetime) -> list[tuple[str, str]]:
        """A sweep every day up to that day: the days on which something was done about the endpoint, and what."""
        steps = []
        while self.now < last:
            self.now += DAY
            [step] = [f.step.name.value for f in self.sweep().findings if f.case.resource.name == "demo-fair"]
            steps += [(f"{self.now:%d %b}", step)] if step != "none" else []
        return steps

    def explained(self, report: Report) -> str:
        ledger = opening.open_ledger(self.settings.ledger, os.environ)
        records = {id_: ledger.record(id_, self.now) for id_ in (f.case.resource.id for f in report.findings)}
        known = explain.ExplainContext(policy=self.source.policy, now=self.now, records=records)
        return explain.render(report, "demo-fair", known) or ""

    def mails(self, to: str) -> list[str]:
        """The mails to that address as text, the oldest first."""
        messages = [message_from_bytes(file.read_bytes(), policy=default) for file in (self.home / "mails").glob("*.eml")]
        messages.sort(key=lambda message: message["Date"].datetime)
        return [f"{m['Date'].datetime:%d %b} {m.get_body(['plain']).get_content()}" for m in messages if m["To"] == to]


def test_an_accepted_endpoint_is_exempt_then_notified_then_stopped(aws: Server, tmp_path: Path):
    here = World(aws, tmp_path)
    variant = lambda: Account(aws).contents.endpoints["demo-fair"].variants[0]  # noqa: E731
    first = here.sweep()
    [finding] = [f for f in first.findings if f.case.resource.name == "demo-fair"]
    assert (finding.case.verdict.state, finding.case.verdict.because, finding.step.name) == ("exempt", SAID, "none")
    for rendered in (csv, html, json):
        assert SAID in "".join(rendered.render(first))
    shown = here.explained(first)
    assert f"  protected {SAID}\n" in shown
    assert f"verdict   exempt: {SAID}" in shown
    assert f"stop, not allowed because it is protected: {SAID}" in shown
    unmatched = "The acceptance of account 123456789012, tag env=prod by ticket OPS-1234 matched nothing in this sweep."
    assert first.run.acceptances == {f"{unmatched} Correct it or remove it.": False}
    assert here.days_until(NOW + 21 * DAY) == []
    assert (here.mails("ana@example.com"), variant().count) == ([], 3)
    [soon] = here.mails("admins@example.com")
    assert soon.startswith("18 Jan")
    assert f"- {SUBJECT} expires after 2027-01-31. Renew it, or its resources get notices again." in soon
    assert f"- {unmatched}" in soon

    assert here.days_until(NOW + 22 * DAY) == [("01 Feb", "warn")]
    expired = f"{SUBJECT} expired on 2027-01-31. Remove it or renew it."
    last = here.mails("admins@example.com")[-1]
    assert last.startswith("01 Feb")
    assert f"- {expired}" in last
    assert last.count(SUBJECT) == 1, "what has expired isn't also called unmatched"
    [notice] = here.mails("ana@example.com")
    assert notice.startswith("01 Feb")
    assert "Thu 4 Feb 2027, 10:17 UTC" in notice
    for rendered in (text, markdown):
        assert expired in " ".join(rendered.render(here.sweep()).replace("\\", "").split())
    assert SAID not in here.explained(here.sweep())
    assert here.days_until(NOW + 25 * DAY) == [("04 Feb", "stop")]
    assert variant().count == 1


def accepting(match: str, until: str = "9999-12-31") -> Policy:
    return policy(f"{POLICY}accept: [{{match: {match}, until: {until}, reason: a demo, by: Lee}}]\n")


def test_the_check_before_an_action_refuses_what_is_accepted():
    deployment = FakeDeployment()
    deployment.cloud.add("a")

    def accept_before_acting(value: HandedOver) -> HandedOver:
        deployment.policy = accepting("{name: a}")
        return value

    deployment.sweep()
    deployment.hand_over = accept_before_acting
    [finding] = deployment.sweep_after(days=3).findings
    assert (finding.step.name, finding.outcome.result, deployment.cloud.log) == ("stop", "refused", [])
    assert "accepted until 9999-12-31 by Lee: a demo" in (finding.outcome.because or "")


def test_after_an_acceptance_the_old_notice_counts_no_more():
    deployment = FakeDeployment()
    deployment.cloud.add("a")
    step = lambda report: report.findings[0].step.name.value  # noqa: E731
    assert step(deployment.sweep()) == "warn"
    deployment.policy = accepting("{name: a}", f"{deployment.now + 2 * DAY:%Y-%m-%d}")
    assert [step(deployment.sweep_after(days=1)) for _ in range(6)] == ["none", "none", "warn", "none", "none", "stop"]


def test_mail_page_and_card_of_the_summary_say_what_expired():
    deployment = FakeDeployment(policy=accepting("{name: a}", "2020-01-31"))
    deployment.sweep()
    [summary] = [message for message in deployment.channel.messages if message.audience is Audience.ADMINS]
    expired = "The acceptance of name a by Lee expired on 2020-01-31. Remove it or renew it."
    assert f"- {expired}" in summary.text
    assert expired in summary.html
    assert summary.card
    assert expired in summary.card.lines


def test_only_a_complete_sweep_says_that_nothing_matched():
    deployment = FakeDeployment(policy=accepting("{name: gone}"))
    deployment.cloud.add("a")
    unmatched = "The acceptance of name gone by Lee matched nothing in this sweep. Correct it or remove it."
    assert deployment.sweep().run.acceptances == {unmatched: False}
    opened = deployment.open_run()
    of_one = replace(opened, conclude=replace(opened.conclude, notices_only=True))
    assert run_phases(of_one, deployment.hand_over).run.acceptances == {}
    deployment.cloud.fail_on = denied
    assert deployment.sweep_after(hours=1).run.acceptances == {}


def denied(call: str, name: str) -> None:
    if call == "observe":
        raise CloudError(Reason.DENIED, call, "not allowed")
