"""Channels, links and clocks as `reaper doctor` examines them: nothing is ever sent, posted or kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import trustme

from e2e.post import HEAD, PASSWORD, Serve, login, tls
from reaper import registry
from reaper.doctor import access, channels
from reaper.doctor.check import Check, CheckStatus, DoctorContext, Opened
from reaper.ledger import opening
from reaper.model import Mode
from reaper.policy.file import PolicySource
from reaper.policy.parse import parse_policy
from reaper.settings import Settings
from reaper.snooze.handler import open_handler
from reaper.snooze.pages import Request
from reaper_sandbox.azure.fault import denied, on
from reaper_sandbox.azure.server import Server as Azure

NOW = datetime.now(UTC)
KEYS = "k" * 40


def context(mode: Mode = Mode.NOTIFY, clock: datetime = NOW, **environ: str) -> DoctorContext:
    return DoctorContext(settings=Settings(mode=mode), environ=environ, clock=lambda: clock, kinds=registry.kinds())


def examined(text: str, mode: Mode = Mode.NOTIFY, **environ: str) -> list[Check]:
    """The checks of a policy's channels."""
    policy = parse_policy(HEAD + text, "policy", registry.kind_names())
    return list(
        channels.examine_channels(
            replace(context(mode, **environ), opened=Opened(policy=PolicySource(name="p", text="", policy=policy)))
        )
    )


def of(checks: list[Check], status: CheckStatus) -> list[str]:
    return [check.because for check in checks if check.status is status]


@contextmanager
def web(answer: Any) -> Iterator[tuple[str, list[tuple[str, str, int]]]]:
    """A server whose `answer(path)` returns status and body, and what was asked of it: method, path, length of the body."""
    asked: list[tuple[str, str, int]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.command, self.path, int(self.headers.get("Content-Length") or 0)))
            status, body = answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_OPTIONS = do_POST = do_GET

        def log_message(self, *parts: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


SMTP = "- {{type: smtp, host: localhost, port: {port}, from: reaper@example.com, user: reaper, secret: env:REAPER_SECRET_MAIL}}\n"


def test_a_mail_server_is_greeted_and_gets_no_mail(serve: Serve, authority: trustme.CA):
    inbox = serve(tls_context=tls(authority), require_starttls=True, authenticator=login, auth_required=True)
    checks = examined(SMTP.format(port=inbox.port), REAPER_SECRET_MAIL=PASSWORD)
    assert of(checks, CheckStatus.FIX) == []
    assert "logged in as reaper" in of(checks, CheckStatus.OK)[-1]
    assert inbox.mails == []


@pytest.mark.parametrize(
    ("password", "missing"), [("wrong", "a valid login"), ("", None)], ids=["a wrong password", "no password"]
)
def test_a_login_that_fails_needs_mending(serve: Serve, authority: trustme.CA, password: str, missing: str | None):
    inbox = serve(tls_context=tls(authority), require_starttls=True, authenticator=login, auth_required=True)
    checks = examined(SMTP.format(port=inbox.port), **({"REAPER_SECRET_MAIL": password} if password else {}))
    assert of(checks, CheckStatus.FIX)
    assert {check.missing for check in checks if check.status is CheckStatus.FIX} == {missing}


def test_a_mail_server_out_of_reach_needs_mending():
    [check] = examined("- {type: smtp, host: localhost, port: 1, from: reaper@example.com}\n")
    assert check.status is CheckStatus.FIX


@pytest.mark.parametrize(
    ("status", "result"), [(200, CheckStatus.OK), (405, CheckStatus.OK), (404, CheckStatus.OK), (503, CheckStatus.FIX)]
)
def test_a_webhook_is_asked_for_its_options_and_gets_no_message(status: int, result: CheckStatus):
    with web(lambda path: (status, b"")) as (url, asked):
        checks = examined(
            f'- {{type: webhook, url: "{url}/hook", secret: env:REAPER_SECRET_HOOK}}\n', REAPER_SECRET_HOOK="s" * 40
        )
    assert checks[-1].status is result
    assert asked == [("OPTIONS", "/hook", 0)]


def test_a_chat_is_known_by_its_address_only():
    with web(lambda path: (200, b"")) as (url, asked):
        [check] = examined(f'- {{type: apprise, url: "{url.replace("http", "json")}/"}}\n')[1:] or [None]
    assert asked == []
    assert check.status is CheckStatus.UNKNOWN
    assert "reaper notify test" in str(check.fix)


def test_no_channel_for_owners_needs_mending_above_audit(tmp_path):
    text = f'- {{type: folder, path: "{tmp_path}", for: admins}}\n'
    assert "no channel is for owners" in of(examined(text), CheckStatus.FIX)[0]
    assert of(examined(text, Mode.AUDIT), CheckStatus.FIX) == []


def test_one_broken_channel_hides_no_other(tmp_path):
    text = f'- {{type: smtp, host: localhost, port: 1, from: r@example.com}}\n- {{type: folder, path: "{tmp_path}"}}\n'
    assert [check.status for check in examined(text)] == [CheckStatus.FIX, CheckStatus.OK]


ACS = "- {{type: acs, endpoint: '{url}', from: DoNotReply@example.com}}\n"


def test_the_communication_service_is_asked_and_sends_nothing(azure: Azure):
    [check] = examined(ACS.format(url=azure.url))
    assert check.status is CheckStatus.OK, check
    assert azure.mails == []
    assert [request.method for request in azure.requests] == ["GET"]


def test_a_refused_identity_needs_a_role_at_the_communication_service(azure: Azure):
    azure.rules.append(on("GET", "/emails/.*", denied()))
    [check] = examined(ACS.format(url=azure.url))
    assert (check.status, check.missing) == (CheckStatus.FIX, "Microsoft.Communication/emails/action")


@contextmanager
def page(environ: dict[str, str]) -> Iterator[str]:
    """The true snooze page behind HTTP."""
    handler = open_handler(environ)

    def answer(path: str) -> tuple[int, bytes]:
        place, _, query = path.partition("?")
        reply = handler.handle(Request(method="GET", path=place, query=query, source_ip="127.0.0.1"), datetime.now(UTC))
        return reply.status, reply.body.encode()

    with web(answer) as (url, _):
        yield url


def linked(url: str, **environ: str) -> list[Check]:
    settings = {"REAPER_SNOOZE_URL": url, "REAPER_SNOOZE_KEYS": "env:KEYS", "KEYS": KEYS, "REAPER_DEPLOYMENT": "stack-1"}
    return list(channels.examine_links(context(clock=datetime.now(UTC), **{**settings, **environ})))


@pytest.fixture
def page_environ(tmp_path) -> dict[str, str]:
    ledger = f"sqlite://{tmp_path}/ledger.db"
    opening.ensure_format(opening.open_ledger(ledger, {}))
    return {"REAPER_LEDGER": ledger, "REAPER_SNOOZE_KEYS": "env:KEYS", "KEYS": KEYS, "REAPER_DEPLOYMENT": "stack-1"}


def test_the_page_accepts_a_link_that_was_signed_here(page_environ):
    with page(page_environ) as url:
        checks = linked(url)
    assert [check.status for check in checks] == [CheckStatus.OK] * 3
    ledger = opening.open_ledger(page_environ["REAPER_LEDGER"], {})
    assert [row.key.name for row in ledger.store.scan()] == ["format"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"KEYS": "x" * 40}, id="other keys"),
        pytest.param({"REAPER_DEPLOYMENT": "stack-2"}, id="another deployment"),
        pytest.param({"REAPER_LEDGER": "sqlite:///proc/none/ledger.db"}, id="no ledger"),
    ],
)
def test_a_page_that_refuses_our_links_needs_mending(page_environ, change: dict[str, str]):
    with page({**page_environ, **change}) as url:
        checks = linked(url)
    assert [(check.check, check.status) for check in checks][-1] == ("links.page", CheckStatus.FIX)


def test_keys_that_cannot_be_read_and_a_page_out_of_reach_are_two_lines():
    checks = linked("http://127.0.0.1:1/", KEYS="short")
    assert [(check.check, check.status) for check in checks] == [
        ("links", CheckStatus.FIX),
        ("deployment", CheckStatus.OK),
        ("links.page", CheckStatus.FIX),
    ]


def test_links_that_no_deployment_accepts_need_a_name(page_environ):
    with page(page_environ) as url:
        checks = linked(url, REAPER_DEPLOYMENT="")
    assert ("deployment", CheckStatus.FIX) in [(check.check, check.status) for check in checks]


@pytest.mark.parametrize(
    ("skew", "status"),
    [(timedelta(minutes=1), CheckStatus.OK), (timedelta(minutes=-20), CheckStatus.FIX), (timedelta(hours=2), CheckStatus.FIX)],
)
def test_a_clock_that_is_off_needs_setting(moto: str, azure: Azure, skew: timedelta, status: CheckStatus):
    asked = context(clock=datetime.now(UTC) + skew)
    for cloud in ("aws", "azure"):
        [check] = access.examine_clock(asked, cloud)
        assert check.status is status, check


def test_no_clock_to_compare_with_proves_nothing(monkeypatch: pytest.MonkeyPatch, azure: Azure):
    monkeypatch.setenv("REAPER_ARM_ENDPOINT", "https://127.0.0.1:1")
    [check] = access.examine_clock(context(), "azure")
    assert check.status is CheckStatus.UNKNOWN
