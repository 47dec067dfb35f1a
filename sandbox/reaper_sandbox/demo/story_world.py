"""The world of the story: both simulated clouds under one clock, and the real product in enforce mode.

Sweeps, clicks and restores call the product itself. Nothing here decides anything.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime
from email import message_from_bytes
from email.message import Message
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from reaper.acting import manifest, restore
from reaper.finding import Report
from reaper.handover import Decided
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger
from reaper.model import Mode, Target
from reaper.policy.channel_settings import Folder
from reaper.policy.channel_settings import Room as RoomSpec
from reaper.policy.file import PolicySource, load_policy
from reaper.record import Record, Snooze
from reaper.run import HandedOver, open_run, run_phases
from reaper.sessions import CloudSession
from reaper.settings import Settings
from reaper.snooze import handler
from reaper.snooze.pages import Request
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.server import Server as Aws
from reaper_sandbox.azure.server import Server as Azure
from reaper_sandbox.demo import story_fleet
from reaper_sandbox.demo.story_room import Room, open_room
from reaper_sandbox.demo.sweep_demo import isolated_environment
from reaper_sandbox.shortcuts import sessions_of

SNOOZE_URL = "https://keep.example.com"
ROOM_SECRET = "REAPER_SECRET_ROOM"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A mail as written: recipient, subject and plain text."""

    to: str
    subject: str
    text: str


@dataclass(slots=True, kw_only=True)
class StoryWorld:
    """Both clouds, the clock, the admins' room in Slack, and the folder `home` with mails, manifests and ledger.

    `seen_mails` are the mails already read, `snapshots` the silent endpoints as they were at the beginning.
    """

    aws: Aws
    azure: Azure
    room: Room
    home: Path
    now: datetime = story_fleet.STORY_START
    reports: list[Report] = field(default_factory=list)
    seen_mails: set[Path] = field(default_factory=set)
    snapshots: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def aws_account(self) -> Account:
        """The AWS account."""
        return Account(self.aws, region=story_fleet.REGION)

    @property
    def settings(self) -> Settings:
        """Enforce mode over both clouds, with everything stored below `home`."""
        return Settings(
            mode=Mode.ENFORCE,
            cloud="all",
            subscriptions=(story_fleet.SUBSCRIPTION,),
            ledger=f"sqlite://{self.home}/ledger.db",
            manifests=str(self.home / "manifests"),
        )

    @property
    def source(self) -> PolicySource:
        """The policy, with its mails written to a folder and its admins also in Slack."""
        source = load_policy(story_fleet.STORY_POLICY)
        folder = Folder(type="folder", path=str(self.home / "mail"))
        room = RoomSpec(type="slack", secret=f"env:{ROOM_SECRET}")
        return replace(source, policy=source.policy.model_copy(update={"channels": [folder, room]}))

    def set_time(self, moment: datetime) -> None:
        """Set the clock, here and in both clouds."""
        self.now = self.aws.now = self.azure.now = moment

    def sweep(self, between: Callable[[], None] | None = None) -> Report:
        """One sweep of both clouds; `between` happens after everything was decided and before anything is acted on."""

        def hand_over(value: HandedOver) -> HandedOver:
            if between and isinstance(value, Decided):
                between()
            return value

        self.reports.append(run_phases(open_run(self.settings, self.source, lambda: self.now), hand_over))
        return self.reports[-1]

    def mails(self) -> list[Mail]:
        """The mails written since the last call, those to owners first."""
        new = sorted(set((self.home / "mail").glob("*.eml")) - self.seen_mails)
        self.seen_mails.update(new)
        mails = [_parse_mail(message_from_bytes(path.read_bytes())) for path in new]
        return sorted(mails, key=lambda mail: (mail.to == self.admins, mail.to))

    @property
    def admins(self) -> str:
        """The address that gets the summaries."""
        return str(self.source.policy.owners.fallback)

    def id_of(self, name: str) -> str:
        """The ID of a resource by its name, from the last report that lists it."""
        return next(f.case.resource.id for r in reversed(self.reports) for f in r.findings if f.case.resource.name == name)

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """The ledger that every sweep writes."""
        ledger = opening.open_ledger(self.settings.ledger, os.environ)
        try:
            yield ledger
        finally:
            ledger.close()

    def records(self) -> dict[str, Record]:
        """The records of everything in the last report, by name."""
        names = {f.case.resource.id: f.case.resource.name for f in self.reports[-1].findings}
        with self.ledger() as ledger:
            recalled = ledger.recall(names, self.now)
        return {name: recalled.record(resource_id) for resource_id, name in names.items() if resource_id in recalled}

    def kept(self, name: str) -> Snooze:
        """What a person said about the resource of that name."""
        [resource_id] = [f.case.resource.id for f in self.reports[-1].findings if f.case.resource.name == name]
        with self.ledger() as ledger:
            return ledger.snooze(resource_id, self.now)

    def snooze(self, name: str, days: int) -> str:
        """Open the link in the newest mail about `name` and send the form. Returns the heading of the page that answers."""
        link = urlsplit(self._newest_snooze_link(name))
        snooze_handler = handler.open_handler(os.environ)
        page = snooze_handler.handle(Request(method="GET", path=link.path, query=link.query), self.now)
        token = re.search(r'name="t" value="([^"]+)"', page.body)
        row = parse_qs(link.query).get("r", [""])[0]
        form = f"t={token[1] if token else ''}&r={row}&days={days}&reason=needed+for+the+audit".encode()
        body: str = snooze_handler.handle(Request(method="POST", path=link.path, body=form), self.now).body
        heading = re.search(r"<h1[^>]*>(.*?)</h1>", body, re.DOTALL)
        return unescape(re.sub(r"<[^>]+>", "", str(heading[1]))).strip() if heading else "an unreadable page"

    def restore(self, name: str, by: str) -> restore.RestoreResult:
        """Do what `reaper restore` does for that resource."""
        with self.ledger() as ledger:
            context = restore.RestoreContext(
                ledger=ledger,
                archive=manifest.open_archive(self.settings.manifests, os.environ),
                open_session=self._session_for,
                clock=lambda: self.now,
                by=by,
            )
            return restore.restore_resource(self.id_of(name), context)

    def _session_for(self, target: Target) -> CloudSession:
        return sessions_of(self.settings, target.cloud)[0]

    def _newest_snooze_link(self, name: str) -> str:
        newest = sorted((self.home / "mail").glob("*.eml"), key=lambda path: path.stat().st_mtime_ns)
        texts = [_parse_mail(message_from_bytes(path.read_bytes())).text for path in reversed(newest)]
        about: str = next(text.partition(f" {name}\n")[2] for text in texts if f" {name}\n" in text and SNOOZE_URL in text)
        return str(re.findall(rf"{SNOOZE_URL}\S+", about)[0])


@contextmanager
def story_world(home: Path) -> Iterator[StoryWorld]:
    """Both clouds, filled and running, in an environment that leads to them only. Restores the environment afterwards."""
    with ExitStack() as stack:
        aws, azure = stack.enter_context(Aws(story_fleet.STORY_START)), stack.enter_context(Azure(story_fleet.STORY_START))
        story_fleet.set_up_clouds(aws, azure)
        world = StoryWorld(aws=aws, azure=azure, room=stack.enter_context(open_room()), home=home)
        world.snapshots = {
            name: deepcopy(story_fleet.endpoint_snapshot(world.aws_account, name)) for name in story_fleet.SILENT_ENDPOINTS
        }
        links = {
            "REAPER_SNOOZE_URL": SNOOZE_URL,
            "REAPER_SNOOZE_KEYS": "env:STORY_KEYS",
            "STORY_KEYS": secrets.token_urlsafe(48),
            ROOM_SECRET: world.room.url,
            "REAPER_LEDGER": world.settings.ledger or "",
        }
        stack.enter_context(isolated_environment(aws.env | azure.env | links))
        yield world


def _parse_mail(message: Message) -> Mail:
    plain = next(part for part in message.walk() if part.get_content_type() == "text/plain")
    text = plain.get_payload(decode=True)
    return Mail(
        to=str(message["To"]),
        subject=" ".join(str(message["Subject"]).split()),
        text=text.decode() if isinstance(text, bytes) else "",
    )
