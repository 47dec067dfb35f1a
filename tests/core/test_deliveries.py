from __future__ import annotations

from dataclasses import replace

from reaper.channels import Delivery, given, missed
from reaper.errors import CloudError, Trouble
from reaper.message import Audience, Message

TOLD = Message(to="lee@example.com", subject="s", text="t", html="h", audience=Audience.OWNERS, resource_ids=("a", "b"))
REFUSED = CloudError(Trouble.DENIED, "smtp:LOGIN", "login refused")


def test_a_channel_that_failed_is_named_for_every_resource_although_the_notice_counts():
    done = [
        Delivery(message=TOLD, channel="ses", receipt="0102"),
        Delivery(message=TOLD, channel="smtp", error=REFUSED),
        Delivery(message=replace(TOLD, resource_ids=("b",)), channel="smtp", error=REFUSED),
        Delivery(message=replace(TOLD, resource_ids=("c",)), channel="ses", receipt="0103"),
    ]
    assert given(done) == {"a": "ses: 0102", "b": "ses: 0102", "c": "ses: 0103"}
    assert missed(done) == dict.fromkeys("ab", f"smtp: {REFUSED}")


def test_what_the_admins_missed_says_nothing_of_the_owners_notice():
    assert missed([Delivery(message=replace(TOLD, audience=Audience.ADMINS), channel="sns", error=REFUSED)]) == {}
