"""Who knows of a message: where its readers have mail, only those whose mail was accepted, whatever a room says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from aiosmtpd.controller import Controller

from e2e.post import Inbox, free_port
from fakes.builders import DAY, HOUR
from fakes.fake_deployment import POLICY, FakeChannel, FakeDeployment, finding_of, policy
from reaper.finding import Report
from reaper.model import Mode, Result, StepName
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import ChannelContext, OpenChannel
from reaper.notices.message import Audience, Message
from reaper.run import run_phases

ROOMS = {
    "slack": "{type: slack, secret: env:REAPER_SECRET_X, for: [owners, admins]}",
    "teams": "{type: teams, secret: env:REAPER_SECRET_X, for: [owners, admins]}",
    "sns": '{type: sns, topic: "arn:aws:sns:us-east-1:123456789012:owners", for: [owners, admins]}',
    "webhook": '{type: webhook, url: "https://hooks.example.com/x", secret: env:REAPER_SECRET_X, for: [owners, admins]}',
    "apprise": '{type: apprise, url: "json://localhost", for: [owners, admins]}',
}
MAILS = {
    "smtp": "{type: smtp, host: 127.0.0.1, port: 1, tls: none, from: r@example.com}",
    "ses": "{type: ses, from: r@example.com, region: us-east-1}",
    "acs": '{type: acs, endpoint: "http://127.0.0.1:1", from: r@example.com}',
    "folder": "{type: folder, path: /dev/null/mails}",
}


@dataclass
class Town:
    """A deployment with a real mail server, which runs or not, and a room beside it that accepts everything."""

    deployment: FakeDeployment
    inbox: Inbox = field(default_factory=Inbox)
    room: FakeChannel = field(default_factory=FakeChannel)
    port: int = field(default_factory=free_port)
    channels: str = ""
    is_down: bool = False

    def sweep(self, mode: Mode = Mode.ENFORCE) -> Report:
        """One sweep, with the mail server down or up."""
        opened = self.deployment.open_run(mode)
        context = replace(opened.conclude, channels=self.opened())
        if self.is_down:
            return run_phases(replace(opened, conclude=context), self.deployment.hand_over)
        server = Controller(self.inbox, hostname="127.0.0.1", port=self.port, ready_timeout=10)
        server.start()
        try:
            return run_phases(replace(opened, conclude=context), self.deployment.hand_over)
        finally:
            server.stop()

    def opened(self) -> list[OpenChannel]:
        """The policy's channels. What isn't mail is the room."""
        specs = policy(f"{POLICY}channels:\n{self.channels.format(port=self.port)}").channels
        context = ChannelContext(read_secret=lambda ref: "", clock=lambda: self.deployment.now)
        channels = delivery.open_channels(specs, context)
        return [each if each.is_mail else replace(each, sender=self.room) for each in channels]

    def mails_to(self, address: str) -> list[str]:
        """The subjects of the mails that were taken for that address."""
        return [str(mail["Subject"]) for mail, people, _, _ in self.inbox.mails if people == [address]]

    def cards(self, audience: Audience) -> list[Message]:
        """What the room got for those readers."""
        return [message for message in self.room.messages if message.audience is audience]

    def stopped(self) -> list[str]:
        return [name for action, name, _ in self.deployment.cloud.log if action in {StepName.STOP, StepName.DELETE}]


def line(text: str) -> str:
    """A line of a list of channels, in which only a port is filled in."""
    return f"  - {text}\n".replace("{", "{{").replace("}", "}}")


SLACK = line(ROOMS["slack"])
SMTP = "  - {{type: smtp, host: 127.0.0.1, port: {port}, tls: none, from: reaper@example.com}}\n"
TO_TWO = SMTP.replace("from:", 'to: ["bad@example.com", "ops@example.com"], from:')


def town(channels: str, rule: str = POLICY, count: int = 6) -> Town:
    """Six idle resources of one owner."""
    made = Town(FakeDeployment(policy=policy(rule)), channels=channels)
    for n in range(count):
        made.deployment.cloud.add(f"e-{n}", tags={"owner": "jo@example.com"})
    return made


@pytest.mark.parametrize("first", ["mail first", "room first"])
@pytest.mark.parametrize("kind", ROOMS)
def test_a_room_beside_a_refused_mail_announces_nothing(kind: str, first: str):
    room = line(ROOMS[kind])
    made = town(SMTP + room if first == "mail first" else room + SMTP)
    made.is_down = True
    report = made.sweep()
    assert {f.outcome.result for f in report.findings} == {Result.FAILED}
    assert made.cards(Audience.OWNERS) == []
    assert [row.kind for row in report.own_failures].count("channel smtp") == 1
    made.is_down = False
    made.deployment.now += 4 * DAY
    made.sweep()
    assert made.stopped() == []
    assert len(made.mails_to("jo@example.com")) == len(made.cards(Audience.OWNERS)) == 1
    made.deployment.now += 3 * DAY
    made.sweep()
    assert len(made.stopped()) == 6


@pytest.mark.parametrize("kind", MAILS)
def test_a_mail_channel_that_cannot_be_used_still_counts_as_one(kind: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    made = town(line(MAILS[kind]) + SLACK, count=1)
    made.is_down = True
    assert finding_of(made.sweep(), "e-0").outcome.result is Result.FAILED
    made.deployment.now += 4 * DAY
    made.sweep()
    assert made.stopped() == []
    assert made.cards(Audience.OWNERS) == []


def test_a_channel_that_could_not_be_opened_still_counts_as_mail(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(delivery.MODULE_BY_TYPE, "smtp", ("reaper.notices.channels.absent", "cli"))
    made = town(f"{SMTP}{SLACK}", count=1)
    report = made.sweep()
    assert finding_of(report, "e-0").outcome.result is Result.FAILED
    assert made.cards(Audience.OWNERS) == []


def test_without_mail_for_owners_a_room_counts():
    admins_only = SMTP.replace("from:", "for: admins, from:")
    made = town(f"{admins_only}{SLACK}", count=1)
    made.is_down = True
    made.sweep()
    made.deployment.now += 3 * DAY
    made.sweep()
    assert made.stopped() == ["e-0"]


def test_what_was_done_is_told_by_mail_not_by_a_room():
    made = town(f"{SMTP}{SLACK}", count=1)
    made.sweep()
    made.deployment.now += 3 * DAY
    made.is_down = True
    made.sweep()
    assert made.stopped() == ["e-0"]
    assert len(made.cards(Audience.OWNERS)) == 1
    assert made.deployment.record("e-0").act.notified_at is None
    made.is_down = False
    made.deployment.now += HOUR
    made.sweep()
    assert len(made.mails_to("jo@example.com")) == len(made.cards(Audience.OWNERS)) == 2
    assert made.deployment.record("e-0").act.notified_at == made.deployment.now


def test_a_room_that_refuses_a_card_after_the_mail_is_owed_nothing():
    made = town(f"{SMTP}{SLACK}", count=1)
    made.room.is_closed = True
    report = made.sweep()
    assert [row.kind for row in report.own_failures] == ["channel slack"]
    made.room.is_closed = False
    made.deployment.now += HOUR
    made.sweep()
    assert (len(made.mails_to("jo@example.com")), made.cards(Audience.OWNERS)) == (1, [])


# --- admins


def test_each_admin_has_a_mail_of_their_own_and_one_accepted_is_enough():
    made = town(TO_TWO, count=1)
    report = made.sweep()
    assert len(made.mails_to("ops@example.com")) == 1
    assert ["bad@example.com: 550" in str(row.error) for row in report.own_failures] == [True]
    made.deployment.now += HOUR
    assert made.sweep().own_failures == []
    assert len(made.mails_to("ops@example.com")) == 1


def test_admins_learn_by_mail_what_a_room_took_while_mail_was_down():
    made = town(f"{SMTP}{SLACK}", count=1)
    made.is_down = True
    made.sweep()
    assert len(made.cards(Audience.ADMINS)) == 1
    made.is_down = False
    made.deployment.now += HOUR
    made.sweep()
    assert len(made.mails_to("ml-admins@example.com")) == 1
    made.deployment.now += HOUR
    made.sweep()
    assert len(made.mails_to("ml-admins@example.com")) == 1


def test_each_refusal_of_a_summary_is_a_row_in_every_run_that_sends():
    refused = TO_TWO.replace("ops@", "bad.too@")
    made = town(refused, count=1)
    for _ in range(2):
        rows = [str(row.error) for row in made.sweep().own_failures if row.kind == "channel smtp"]
        assert [[name in row for row in rows] for name in ("bad@example.com", "bad.too@example.com")] == [
            [True, False],
            [False, True],
        ]
        made.deployment.now += HOUR


def test_without_mail_for_admins_a_room_counts():
    owners_only = SMTP.replace("from:", "for: owners, from:")
    made = town(f"{owners_only}{SLACK}", count=1)
    for _ in range(2):
        made.sweep()
        made.deployment.now += HOUR
    assert len(made.cards(Audience.ADMINS)) == 1
