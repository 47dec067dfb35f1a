"""Webhook and chats: what is posted, how it is signed, and what cannot be done to a room."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest

from e2e.post import NOW, Posts, digest, error, opened, receipt
from reaper.errors import Reason
from reaper.notices.message import Message


def test_a_webhook_is_signed_with_its_time(posts: Posts):
    lines = opened(
        f"  - {{type: webhook, url: '{posts.url}/hook', secret: 'env:REAPER_SECRET_KEY', for: owners}}\n",
        REAPER_SECRET_KEY="s3cret",
    )
    assert receipt(lines) == "HTTP 200 req-7"
    [(path, headers, body)] = posts.got
    stamp, signature = (part.partition("=")[2] for part in headers["reaper-signature"].split(","))
    assert path == "/hook"
    assert int(stamp) == int(NOW.timestamp())
    assert signature == hmac.new(b"s3cret", f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    body_json = json.loads(body)
    assert (body_json["schema"], body_json["to"], body_json["subject"]) == (1, "dana@example.com", digest().subject)
    assert body_json["resources"] == list(digest().resource_ids)
    assert "s3cret" not in body.decode()


@pytest.mark.parametrize(
    ("status", "headers", "trouble"),
    [
        (500, {}, Reason.REFUSED),
        (401, {}, Reason.DENIED),
        (429, {"Retry-After": "9"}, Reason.THROTTLED),
        (302, {"Location": "/elsewhere"}, Reason.REFUSED),
    ],
)
def test_a_webhook_follows_no_redirect_and_reports_failures(status: int, headers: dict[str, str], trouble: Reason, posts: Posts):
    posts.answer = (status, headers, b"no")
    failed = error(
        opened(
            f"  - {{type: webhook, url: '{posts.url}/hook', secret: 'env:REAPER_SECRET_KEY', for: owners}}\n",
            REAPER_SECRET_KEY="k",
        )
    )
    assert failed.reason is trouble
    assert [path for path, _, _ in posts.got] == ["/hook"]


def test_apprise_sends_subject_and_text(posts: Posts):
    address = posts.url.replace("http", "json") + "/chat"
    assert receipt(opened(f"  - {{type: apprise, url: '{address}', for: owners}}\n")) == "accepted by JSON"
    sent_json = json.loads(posts.got[0][2])
    assert sent_json["title"] == digest().subject
    assert "churn-scoring" in sent_json["message"]
    assert "Keep it: https://sample.invalid/keep?t=v1.k.sample" in sent_json["message"]


def test_a_chat_address_stays_secret(posts: Posts):
    posts.answer = (500, {}, b"no")
    address = posts.url.replace("http://", "json://user:hunter2@")
    failed = error(opened("  - {type: apprise, secret: 'env:REAPER_SECRET_CHAT', for: owners}\n", REAPER_SECRET_CHAT=address))
    assert "did not accept the message" in str(failed)
    assert "hunter2" not in str(failed)
    assert "hunter2" not in str(
        error(opened("  - {type: apprise, secret: 'env:REAPER_SECRET_CHAT', for: owners}\n", REAPER_SECRET_CHAT="hunter2://x"))
    )


@pytest.mark.parametrize("channel", ["apprise", "webhook"])
def test_a_resource_name_makes_no_masked_link_in_a_chat(posts: Posts, channel: str):
    line = {
        "apprise": f"{{type: apprise, url: '{posts.url.replace('http', 'json')}', for: owners}}",
        "webhook": f"{{type: webhook, url: '{posts.url}', secret: env:REAPER_SECRET_KEY, for: owners}}",
    }[channel]
    masked = "[Keep it](http://evil.example) <http://evil.example|Keep it>"
    assert receipt(
        opened(f"  - {line}\n", REAPER_SECRET_KEY="k"), Message(to="dana@example.com", subject=masked, text=masked, html="")
    )
    sent_text = posts.got[0][2].decode()
    assert "evil.example" in sent_text
    assert not any(mask in sent_text for mask in ("](http", "<http"))


def test_a_resource_name_cannot_mention_a_whole_channel(posts: Posts):
    address = posts.url.replace("http", "json")
    loud = Message(to="dana@example.com", subject="@everyone", text="<!channel> @here <@U123> ok@example.com", html="")
    assert receipt(opened(f"  - {{type: apprise, url: '{address}', for: owners}}\n"), loud)
    sent_json = json.loads(posts.got[0][2])
    assert not any(ring in sent_json["title"] + sent_json["message"] for ring in ("@everyone", "<!channel", "@here", "<@U123"))
    assert "ok@example.com" in sent_json["message"]
