"""A run over many accounts: what it keeps in memory while it goes from a few of them to the next."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from typing import Any

import pytest

from on_aws.conftest import DAY, NOW
from reaper.aws.session import CloudSession
from reaper.model import Status
from reaper.policy.file import load_policy
from reaper.run import ACCOUNTS_AT_ONCE, run
from reaper.settings import Settings
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.organization import Organization
from reaper_sandbox.aws.server import Server

MEMBERS = [str(200_000_000_000 + number) for number in range(2 * ACCOUNTS_AT_ONCE + 3)]
SETTINGS = Settings(cloud="aws", organization=True, regions=("us-east-1",), kinds=("sagemaker-endpoint",))


@pytest.fixture
def members(server: Server) -> list[str]:
    """Members with one idle endpoint each, more than are ever open at once."""
    made = server.world.organization = Organization()
    for account_id in MEMBERS:
        made.add(account_id, f"team-{account_id[-2:]}")
        account = Account(server, account_id, "us-east-1")
        account.endpoint(f"idle-{account_id}")
        account.alive(f"idle-{account_id}", "AllTraffic", NOW - 15 * DAY, NOW)
    return MEMBERS


def open_sessions() -> list[CloudSession]:
    """The sessions of members that are in memory now."""
    gc.collect()
    found: list[Any] = gc.get_objects()
    return [each for each in found if isinstance(each, CloudSession) and each.target.account in MEMBERS]


@dataclass
class Watch:
    """Gets the progress of a run, and looks into the memory whenever a few accounts more have been opened."""

    accounts: int = 0
    most: int = 0
    loaders: set[int] = field(default_factory=set)

    def __call__(self, text: str) -> None:
        self.accounts += text.startswith("account ")
        if text.startswith("account ") and self.accounts % ACCOUNTS_AT_ONCE == 0:
            sessions = open_sessions()
            self.most = max(self.most, len({session.target.account for session in sessions}))
            self.loaders |= {id(session._session._session.get_component("data_loader")) for session in sessions}


def test_accounts_are_freed_once_they_are_observed(members: list[str]):
    watch = Watch()
    report = run(SETTINGS, load_policy("version: 1"), lambda: NOW, watch)
    assert sorted(f.case.resource.target.account for f in report.findings) == sorted(members)
    assert {row.status for row in report.coverage} == {Status.OK}
    assert 0 < watch.most <= ACCOUNTS_AT_ONCE
    assert open_sessions() == []


def test_all_sessions_share_the_descriptions_of_services(members: list[str]):
    watch = Watch()
    run(SETTINGS, load_policy("version: 1"), lambda: NOW, watch)
    assert len(watch.loaders) == 1
