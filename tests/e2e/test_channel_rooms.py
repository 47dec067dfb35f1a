"""Slack and Teams at the wire: what is posted, what each answer means, and that the webhook's URL stays secret."""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from e2e.post import HEAD, NOW, Posts, digest, error, opened, receipt, sent, summary
from e2e.test_doctor_channels import examined, of
from fakes.fake_deployment import POLICY, FakeDeployment, policy
from fakes.snooze_requests import KEYS, desk
from reaper import registry
from reaper.cli import notify
from reaper.conclude import conclude
from reaper.decide import decide
from reaper.doctor.check import CheckStatus
from reaper.errors import CloudError, Reason
from reaper.model import Mode
from reaper.notices.blocks import LISTS
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import ChannelContext
from reaper.observe import observe
from reaper.policy import lint
from reaper.policy.parse import parse_policy
from reaper.run import run_phases
from reaper.snooze.handler import handle_request
from reaper.snooze.links import LinkSigner
from reaper.snooze.pages import Request
from reaper.stores import secret_store

SECRETS = ("T0CANARY1", "B0CANARY22", "canaryCANARYcanary33", "canary%2Fsignature44")
PATH = "/services/T0CANARY1/B0CANARY22/canaryCANARYcanary33?api-version=1&sp=%2Ftriggers&sig=canary%2Fsignature44"
OK = (200, {}, b"ok")
ACCEPTED = (202, {}, b"")
PAGE = (200, {"Content-Type": "text/html"}, b"<!DOCTYPE html><title>Sign in</title>")
SERVICES = pytest.mark.parametrize("service", ["slack", "teams"])


def line(service: str, extra: str = "") -> str:
    return f"  - {{type: {service}, secret: env:REAPER_SECRET_ROOM, for: [owners, admins]{extra}}}\n"


def room(service: str, url: str) -> list[delivery.OpenChannel]:
    return opened(line(service), REAPER_SECRET_ROOM=f"{url}{PATH}")


@pytest.mark.parametrize(
    ("service", "answer", "expected"),
    [
        ("slack", OK, "accepted (HTTP 200)"),
        ("teams", ACCEPTED, "accepted, which isn't proof of delivery (HTTP 202)"),
    ],
)
def test_a_room_gets_a_card_and_an_honest_receipt(posts: Posts, service: str, answer: Any, expected: str):
    posts.answer = answer
    assert receipt(room(service, posts.url)) == expected
    [(path, headers, body)] = posts.got
    assert (path, headers["content-type"]) == (PATH, "application/json; charset=utf-8")
    assert ("blocks" if service == "slack" else "attachments") in json.loads(body)
    assert "churn-scoring" in body.decode()


@pytest.mark.parametrize(
    ("service", "status", "body", "reason"),
    [
        ("slack", 403, b"invalid_token", Reason.DENIED),
        ("slack", 404, b"no_service", Reason.REFUSED),
        ("slack", 410, b"channel_is_archived", Reason.REFUSED),
        ("slack", 200, b"invalid_payload", Reason.REFUSED),
        ("teams", 401, b'{"error": {"code": "DirectApiAuthorizationRequired"}}', Reason.DENIED),
        ("teams", 404, b'{"error": {"code": "WorkflowNotFound"}}', Reason.REFUSED),
    ],
)
def test_a_refusal_is_told_with_its_fix_and_ends_the_run(posts: Posts, service: str, status: int, body: bytes, reason: Reason):
    posts.answer = (status, {}, body)
    lines = room(service, posts.url)
    failed = error(lines)
    assert (failed.reason, failed.code) == (reason, str(status))
    assert body.decode() in str(failed)
    assert "check " in str(failed) or "create " in str(failed)
    assert error(lines, summary()) is failed
    assert len(posts.got) == 1


@SERVICES
@pytest.mark.parametrize("status", [400, 409, 413, 422, 429])
def test_a_refused_message_leaves_the_room_open_for_others(posts: Posts, service: str, status: int):
    posts.first, posts.answer = [(status, {}, b"invalid_blocks")], OK
    lines = room(service, posts.url)
    failed = error(lines)
    assert failed.code == str(status)
    assert "invalid_blocks" in str(failed)
    assert receipt(lines, summary())


@SERVICES
@pytest.mark.parametrize("status", [301, 302, 307, 401, 403, 404, 410])
def test_a_refused_webhook_closes_the_room_for_the_run(posts: Posts, service: str, status: int):
    posts.first, posts.answer = [(status, {}, b"no")], OK
    lines = room(service, posts.url)
    assert error(lines).code == str(status)
    assert error(lines, summary()).code == str(status)
    assert len(posts.got) == 1


@SERVICES
@pytest.mark.parametrize("answer", [(500, {}, b"oops"), (0, {}, b"")], ids=["500", "nothing"])
def test_a_service_that_is_down_is_tried_again_then_given_up(posts: Posts, service: str, answer: Any):
    posts.answer = answer
    lines = room(service, posts.url)
    deliveries = sent(lines, *[digest()] * 5)
    assert {d.error.reason for d in deliveries if d.error} == {Reason.UNREACHABLE}
    assert len(posts.got) == delivery.MAX_MISSES
    posts.answer = OK
    assert receipt(lines)


@SERVICES
@pytest.mark.parametrize(
    ("answer", "says"),
    [((302, {"Location": "/elsewhere"}, b""), "answered 302"), (PAGE, "answered 200 (a web page)")],
    ids=["a redirect", "a login page"],
)
def test_an_answer_of_something_in_between_is_no_acceptance(posts: Posts, service: str, answer: Any, says: str):
    posts.answer = answer
    lines = room(service, posts.url)
    failed = error(lines)
    assert says in str(failed)
    assert "that isn't the service's own answer" in str(failed)
    assert error(lines) is failed
    assert len(posts.got) == 1


@SERVICES
def test_a_notice_too_long_for_a_card_is_refused_and_hides_no_other(posts: Posts, service: str):
    """It would count for resources that the card doesn't name."""
    posts.answer = OK
    lines = room(service, posts.url)
    item = digest().card.entries[0]
    long = replace(digest(), card=replace(digest().card, entries=(item,) * 200))
    assert "too long for a card" in str(error(lines, long))
    assert posts.got == []
    assert receipt(lines)
    assert receipt(lines, replace(summary(), card=replace(long.card, entries=(replace(item, rank=LISTS),) * 200)))


@SERVICES
def test_a_throttled_card_is_posted_once_more(posts: Posts, service: str):
    posts.first, posts.answer = [(429, {"Retry-After": "0"}, b"rate_limited")], OK
    assert receipt(room(service, posts.url)).startswith("accepted")
    assert len(posts.got) == 2


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        pytest.param("3600", None, id="longer than any wait"),
        pytest.param("9", timedelta(seconds=5), id="longer than the time left"),
        pytest.param("Sat, 21 Nov 2026 10:17:02 GMT", None, id="not in seconds"),
    ],
)
def test_a_throttled_card_waits_for_the_next_run(posts: Posts, asked: str, left: timedelta | None):
    posts.answer = (429, {"Retry-After": asked}, b"rate_limited")
    specs = parse_policy(HEAD + line("slack"), "policy", registry.kind_names()).channels
    context = ChannelContext(
        read_secret=lambda ref: f"{posts.url}{PATH}", clock=lambda: NOW, deadline=NOW + left if left else None
    )
    failed = error(delivery.open_channels(specs, context))
    assert failed.reason is Reason.THROTTLED
    assert "the next message is tried again" in str(failed)
    assert len(posts.got) == 1


def told(channels: Sequence[delivery.OpenChannel]) -> str:
    """All that an error of a send could put into a log or a report."""
    [failed] = sent(list(channels))
    assert failed.error is not None
    return f"{failed.error!r} {failed.error} {''.join(traceback.format_exception(failed.error))} {failed.error.missing}"


@SERVICES
@pytest.mark.parametrize("status", [0, 302, 400, 401, 403, 404, 410, 429, 500])
def test_no_failure_repeats_the_webhooks_url(posts: Posts, service: str, status: int):
    """Even if the service's answer does."""
    posts.answer = (
        status,
        {"Location": f"{posts.url}{PATH}"},
        f"no such page: {PATH} {PATH.rpartition('=')[2]} {SECRETS[2]}".encode(),
    )
    for url in (posts.url, "http://127.0.0.1:1"):
        text = told(room(service, url))
        assert [secret for secret in (*SECRETS, "canary/signature44") if secret in text] == []


BAD_URLS = {
    "slack": [
        "canaryCANARYcanary33",
        "http://hooks.slack.com/services/canaryCANARYcanary33",
        "https://hooks.slack.com.evil.example/services/canaryCANARYcanary33",
        "https://hooks.slack.com@evil.example/services/canaryCANARYcanary33",
        "https://user:canaryCANARYcanary33@hooks.slack.com/services/x",
        "https://hooks.slack.com/services/canaryCANARYcanary33\nx",
        "https://hooks.slack.com/services/canaryCANARYcanary33é",
        "https://[canaryCANARYcanary33",
        "https://contoso.webhook.office.com/webhookb2/canaryCANARYcanary33",
    ],
    "teams": [
        "https://hooks.slack.com/services/canaryCANARYcanary33",
        "https://contoso.webhook.office.com/webhookb2/canaryCANARYcanary33",
        "https://outlook.office.com/webhook/canaryCANARYcanary33",
        "https://environment.api.powerplatform.com.evil.example/canaryCANARYcanary33",
        "https://evillogic.azure.com/canaryCANARYcanary33",
        "http://x.environment.api.powerplatform.com/canaryCANARYcanary33",
    ],
}


@pytest.mark.parametrize(("service", "url"), [(service, url) for service, urls in BAD_URLS.items() for url in urls])
def test_a_url_of_another_form_is_refused_and_not_repeated(service: str, url: str):
    text = told(opened(line(service), REAPER_SECRET_ROOM=url))
    assert "env:REAPER_SECRET_ROOM: " in text
    assert "canary" not in text
    assert ("which Microsoft has retired" in text) == ("office.com" in url)
    checks = examined(line(service), REAPER_SECRET_ROOM=url)
    assert [check.status for check in checks] == [CheckStatus.OK, CheckStatus.FIX]
    assert "canary" not in repr(checks)


@pytest.mark.parametrize(
    ("service", "host", "extra"),
    [
        ("slack", "hooks.slack.com", ""),
        ("slack", "chat.example.com", ", host: Chat.example.com"),
        ("teams", "f00.4.environment.api.powerplatform.com:443", ""),
        ("teams", "prod-12.westeurope.logic.azure.com:443", ""),
        ("teams", "prod-01.usgovtexas.logic.azure.us", ""),
        ("teams", "flow.example.com", ", host: flow.example.com"),
    ],
)
def test_doctor_reads_the_secret_and_posts_nothing(service: str, host: str, extra: str):
    """These hosts can't be reached here, so that any request would fail."""
    checks = examined(line(service, extra), REAPER_SECRET_ROOM=f"https://{host}{PATH}")
    assert of(checks, CheckStatus.OK) == [
        "its secret env:REAPER_SECRET_ROOM can be read",
        f"its secret has the form of a webhook at {host}; reaper notify test sends a sample",
    ]
    assert [secret for secret in SECRETS if secret in repr(checks)] == []


def test_notify_test_sends_a_sample_card_and_prints_receipts(posts: Posts):
    posts.answer = OK
    chosen = HEAD + line("slack", ", name: ops") + line("teams")
    environ = {"REAPER_SECRET_ROOM": f"{posts.url}{PATH}"}
    completed = CliRunner().invoke(notify.app, ["test", "--to", "dana@example.com", "--policy", chosen], env=environ)
    assert (completed.exit_code, completed.stdout.splitlines()) == (
        0,
        ["ops: accepted (HTTP 200)", "teams: accepted, which isn't proof of delivery (HTTP 200)"],
    )
    assert all("Everything in it is made up" in body.decode() for _, _, body in posts.got)
    posts.answer = (404, {}, f"no_service {PATH}".encode())
    failed = CliRunner().invoke(notify.app, ["test", "--to", "dana@example.com", "--policy", chosen], env=environ)
    assert failed.exit_code == 3
    assert "ops: FAILED slack:Post: 127.0.0.1:" in failed.output
    assert [secret for secret in SECRETS if secret in failed.output] == []


def test_policy_check_warns_if_owners_are_told_in_a_room_only():
    def warnings(channels: str) -> list[str]:
        text = HEAD + channels
        return lint.lint_policy(parse_policy(text, "p", registry.kind_names()), text, "p")

    [warning] = warnings(line("teams"))
    assert warning.startswith("p:4: owners get notices only by teams: an owner may not be in that room")
    assert warnings(line("teams") + "  - {type: ses, from: r@example.com, for: owners}\n") == []


SIGNER = LinkSigner(base="https://keep.example.com", keys=KEYS)


def in_rooms(posts: Posts) -> FakeDeployment:
    """A deployment whose owners get notices by mail and in a room."""
    deployment = FakeDeployment(policy=policy(f"{POLICY}channels:\n{line('slack')}"))
    read = lambda ref: secret_store.read_for_policy(ref, {"REAPER_SECRET_ROOM": f"{posts.url}{PATH}"})  # noqa: E731
    deployment.more += delivery.open_channels(deployment.policy.channels, ChannelContext(read_secret=read, clock=lambda: NOW))
    deployment.cloud.add("churn", tags={"owner": "jo@example.com"})
    return deployment


EXAMPLE = Path(__file__).parents[2] / "policies" / "chat.yaml"


def test_the_example_policy_tells_owners_and_admins_in_their_rooms(posts: Posts):
    posts.answer = OK
    text = EXAMPLE.read_text().replace("owners: {", "owners: {domains: [example.com], fallback: ml-admins@example.com, ")
    deployment = FakeDeployment(policy=policy(text))
    rooms = [spec for spec in deployment.policy.channels if spec.type in {"slack", "teams"}]
    read = lambda ref: f"{posts.url}/{'slack' if 'SLACK' in ref else 'teams'}"  # noqa: E731
    deployment.more += delivery.open_channels(rooms, ChannelContext(read_secret=read, clock=lambda: NOW))
    deployment.cloud.add("churn", tags={"owner": "jo@example.com"})
    deployment.sweep()
    assert [(path, "Owner: jo@example.com." in body.decode()) for path, _, body in posts.got] == [
        ("/slack", True),
        ("/slack", False),
        ("/teams", False),
    ]


def test_two_concludes_post_a_notice_and_a_summary_once(posts: Posts):
    posts.answer = OK
    deployment = in_rooms(posts)
    run = deployment.open_run(Mode.ENFORCE)
    context = replace(run.conclude, links=SIGNER)
    observed = observe(run.run, next(iter(run.observe)), run.run.started_at)
    decided = decide([observed], run.decide)
    reports = [conclude([observed], decided, [], context) for _ in range(2)]
    assert len(posts.got) == 2
    assert [row for made in reports for row in made.coverage if row.kind == "channel slack"] == []
    assert deployment.record("churn").notice.warned_at == NOW


def test_a_refused_room_is_one_row_and_hides_no_mail(posts: Posts):
    posts.answer = (404, {}, b"no_service")
    deployment = in_rooms(posts)
    deployment.cloud.add("ranker", tags={"owner": "lee@example.com"})
    report = deployment.sweep()
    [row] = [row for row in report.coverage if row.kind == "channel slack"]
    assert "answered 404 (no_service); create an incoming webhook" in str(row.error)
    assert len(posts.got) == 1
    assert deployment.record("churn").notice.warned_at == NOW
    assert [secret for secret in SECRETS if secret in repr(report)] == []


def test_a_rooms_link_keeps_and_can_do_nothing_else(posts: Posts):
    posts.answer = OK
    deployment = in_rooms(posts)
    opened_run = deployment.open_run(Mode.ENFORCE)
    run_phases(replace(opened_run, conclude=replace(opened_run.conclude, links=SIGNER)), deployment.hand_over)
    cards = [body.decode() for _, _, body in posts.got if b"/keep?t=" in body]
    [card] = cards
    token = card.partition("/keep?t=")[2].partition("|")[0]
    [mail] = [m for m in deployment.channel.messages if m.to == "jo@example.com"]
    assert mail.text.count("/keep?t=") >= 1
    assert token not in mail.text

    def send(form: str) -> Any:
        body = f"t={token}&r=1&{form}".encode()
        return handle_request(Request(method="POST", path="/keep", body=body), desk(deployment.ledger, now=deployment.now))

    page = handle_request(Request(method="GET", path="/keep", query=f"t={token}"), desk(deployment.ledger, now=deployment.now))
    assert page.status == 200
    assert "what was sent to a chat on" in page.body
    assert "jo@example.com" not in page.body
    assert "Not mine" not in page.body
    assert (send("do=disown").status, deployment.snooze("churn").disowned_by) == (400, None)
    assert send("days=7&name=Sam").status == 200
    week = deployment.snooze("churn")
    assert week.by == "Sam (the holder of the link)"
    send("days=1&shorten=yes")
    assert deployment.snooze("churn").until == week.until
    owners = replace(week, by="jo@example.com")
    assert deployment.ledger.write_snooze(deployment.cloud.id("churn"), owners, week.version, deployment.now)
    send("days=1&shorten=yes")
    assert deployment.snooze("churn").until == week.until


def test_a_card_without_its_page_in_the_ledger_has_no_link(posts: Posts):
    """If the ledger can't store what the link opens, the card offers the tag alone."""
    posts.answer = OK
    deployment = in_rooms(posts)

    def refuse(visit: Any) -> None:
        raise CloudError(Reason.REFUSED, "ledger", "full")

    deployment.ledger.add_visit = refuse  # type: ignore[method-assign]
    run = deployment.open_run(Mode.ENFORCE)
    observed = observe(run.run, next(iter(run.observe)), run.run.started_at)
    conclude([observed], decide([observed], run.decide), [], replace(run.conclude, links=SIGNER))
    assert len(posts.got) == 2
    assert not any(b"/keep?t=" in body for _, _, body in posts.got)
