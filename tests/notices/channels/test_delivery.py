from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.builders import NOW
from reaper.errors import CloudError, Reason
from reaper.extras import install_command
from reaper.notices.channels.delivery import ChannelContext, Delivery, deliver_one, errors_by_id, receipts_by_id
from reaper.notices.channels.delivery import open_channels as opened
from reaper.notices.message import Audience, Message
from reaper.policy.channel_settings import Apprise, Folder

TOLD = Message(to="lee@example.com", subject="s", text="t", html="h", audience=Audience.OWNERS, resource_ids=("a", "b"))
REFUSED = CloudError(Reason.DENIED, "smtp:LOGIN", "login refused")


def test_a_failed_channel_is_named_for_every_resource():
    deliveries = [
        Delivery(message=TOLD, channel="ses", receipt="0102"),
        Delivery(message=TOLD, channel="smtp", error=REFUSED),
        Delivery(message=replace(TOLD, resource_ids=("b",)), channel="smtp", error=REFUSED),
        Delivery(message=replace(TOLD, resource_ids=("c",)), channel="ses", receipt="0103"),
    ]
    assert receipts_by_id(deliveries) == {"a": "ses: 0102", "b": "ses: 0102", "c": "ses: 0103"}
    assert errors_by_id(deliveries) == dict.fromkeys("ab", f"smtp: {REFUSED}")


def test_a_lost_summary_does_not_affect_owner_receipts():
    assert errors_by_id([Delivery(message=replace(TOLD, audience=Audience.ADMINS), channel="sns", error=REFUSED)]) == {}


def test_an_unavailable_channel_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "apprise", None)
    monkeypatch.delitem(sys.modules, "reaper.notices.channels.apprise", raising=False)
    specs = [Apprise(type="apprise", url="json://localhost"), Folder(type="folder", path=str(tmp_path))]
    lines = opened(specs, ChannelContext(read_secret=lambda ref: "", clock=lambda: NOW))
    shut, open_delivery = [deliver_one(TOLD, line) for line in lines]
    assert f"it needs an extra: {install_command('chat')} (" in str(shut.error)
    assert open_delivery.receipt
    assert len(list(tmp_path.glob("*.eml"))) == 1
