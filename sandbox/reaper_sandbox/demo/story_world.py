"""Where the story happens: both pretend clouds under one clock that is stepped on, and the real product in mode enforce.

A sweep is `run`, a click is `gate`, a restore is `restore`: nothing here decides or pretends anything.
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
from urllib.parse import urlsplit

from reaper.snooze import handler
from reaper.ledger import port
from reaper.actions import manifest, restore
from reaper.policy.channel_settings import Folder
from reaper.sessions import sessions_of
from reaper.ledger.port import Ledger
from reaper.model import Finding, Memory, Mode, Report, Target
from reaper.handover import Decided
from reaper.run import HandedOver, open_run, run_phases
from reaper_sandbox.demo import story_fleet
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.server import Server as Aws
from reaper_sandbox.azure.server import Server as Azure
from reaper_sandbox.demo.sweep_demo import isolated_environment
from reaper.settings import Settings
from reaper.snooze.record import Request
from reaper.policy.file import PolicySource, load_policy
from reaper.sessions import CloudSession

SNOOZE_URL = "https://keep.example.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A mail as it was written: to whom, about what, and its plain text."""

    to: str
    subject: str
    text: str


@dataclass(slots=True, kw_only=True)
class StoryWorld:
    """Both clouds, the clock, and the folder `home` with mails, manifests and ledger.

    `seen` are the mails read so far, `restored` what was brought back when, `portraits` what each quiet endpoint was at the beginning.
    """

    aws: Aws
    azure: Azure
    home: Path
    now: datetime = story_fleet.STORY_START
    reports: list[Report] = field(default_factory=list)
    seen_mails: set[Path] = field(default_factory=set)
    restored: list[tuple[str, datetime]] = field(default_factory=list)
    snapshots: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def aws_account(self) -> Account:
        """The AWS account."""
        return Account(self.aws, region=story_fleet.REGION)

    @property
    def settings(self) -> Settings:
        """Mode enforce over both clouds, everything kept below `home`."""
        return Settings(
            mode=Mode.ENFORCE,
            cloud="all",
            subscriptions=(story_fleet.SUBSCRIPTION,),
            ledger=f"sqlite://{self.home}/ledger.db",
            manifests=str(self.home / "manifests"),
        )

    @property
    def source(self) -> PolicySource:
        """The policy, its mails going to a folder."""
        found = load_policy(story_fleet.STORY_POLICY)
        folder = Folder(type="folder", path=str(self.home / "mail"))
        return replace(found, policy=found.policy.model_copy(update={"channels": [folder]}))

    def set_time(self, moment: datetime) -> None:
        """Steps the clock, here and in both clouds."""
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
        """The mails that were written since this was asked last, those to owners first."""
        new = sorted(set((self.home / "mail").glob("*.eml")) - self.seen_mails)
        self.seen_mails.update(new)
        found = [_parse_mail(message_from_bytes(path.read_bytes())) for path in new]
        return sorted(found, key=lambda mail: (mail.to == self.admins, mail.to))

    @property
    def admins(self) -> str:
        """The address that gets the summaries."""
        return str(self.source.policy.owners.fallback)

    def id_of(self, name: str) -> str:
        """The id of the resource of that name, as the last report that has it spells it."""
        return next(f.case.resource.id for r in reversed(self.reports) for f in r.findings if f.case.resource.name == name)

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """The ledger that every sweep writes."""
        kept = port.open_ledger(self.settings.ledger, os.environ)
        try:
            yield kept
        finally:
            kept.close()

    def memories(self) -> dict[str, Memory]:
        """What the ledger knows of everything in the last report, by name."""
        found = {f.case.resource.id: f.case.resource.name for f in self.reports[-1].findings}
        with self.ledger() as kept:
            return {found[id_]: memory for id_, memory in kept.recall(found, self.now).items()}

    def snooze(self, name: str, days: int) -> str:
        """Opens the link in the newest mail about `name` and sends the form; gives the heading of the page that comes back."""
        link = urlsplit(self._newest_snooze_link(name))
        door = handler.open_handler(os.environ)
        shown = door.handle(Request(method="GET", path=link.path, query=link.query), self.now)
        found = re.search(r'name="t" value="([^"]+)"', shown.body)
        form = f"t={found[1] if found else ''}&days={days}&reason=needed+for+the+audit".encode()
        body: str = door.handle(Request(method="POST", path=link.path, body=form), self.now).body
        heading = re.search(r"<h1[^>]*>(.*?)</h1>", body, re.DOTALL)
        return unescape(re.sub(r"<[^>]+>", "", str(heading[1]))).strip() if heading else "nothing that can be read"

    def restore(self, name: str, by: str) -> restore.RestoreResult:
        """What `reaper restore` does for that resource."""
        with self.ledger() as kept:
            bench = restore.RestoreContext(
                ledger=kept,
                archive=manifest.open_archive(self.settings.manifests, os.environ),
                open_session=self._session_for,
                clock=lambda: self.now,
                by=by,
            )
            self.restored.append((name, self.now))
            return restore.restore_resource(self.id_of(name), bench)

    def _session_for(self, target: Target) -> CloudSession:
        return sessions_of(self.settings, target.cloud)[0]

    def _newest_snooze_link(self, name: str) -> str:
        newest = sorted((self.home / "mail").glob("*.eml"), key=lambda path: path.stat().st_mtime_ns)
        texts = [_parse_mail(message_from_bytes(path.read_bytes())).text for path in reversed(newest)]
        about: str = next(text.partition(f" {name}\n")[2] for text in texts if f" {name}\n" in text and SNOOZE_URL in text)
        return str(re.findall(rf"{SNOOZE_URL}\S+", about)[0])


@contextmanager
def story_world(home: Path) -> Iterator[StoryWorld]:
    """Both clouds, filled and serving, and an environment that leads there and nowhere else; as it was before, afterwards."""
    with ExitStack() as stack:
        aws, azure = stack.enter_context(Aws(story_fleet.STORY_START)), stack.enter_context(Azure(story_fleet.STORY_START))
        story_fleet.set_up_clouds(aws, azure)
        found = StoryWorld(aws=aws, azure=azure, home=home)
        found.snapshots = {
            name: deepcopy(story_fleet.endpoint_snapshot(found.aws_account, name)) for name in story_fleet.SILENT_ENDPOINTS
        }
        links = {
            "REAPER_SNOOZE_URL": SNOOZE_URL,
            "REAPER_SNOOZE_KEYS": "env:STORY_KEYS",
            "STORY_KEYS": secrets.token_urlsafe(48),
            "REAPER_LEDGER": found.settings.ledger or "",
        }
        stack.enter_context(isolated_environment(aws.env | azure.env | links))
        yield found


def _parse_mail(message: Message) -> Mail:
    plain = next(part for part in message.walk() if part.get_content_type() == "text/plain")
    text = plain.get_payload(decode=True)
    return Mail(
        to=str(message["To"]),
        subject=" ".join(str(message["Subject"]).split()),
        text=text.decode() if isinstance(text, bytes) else "",
    )
