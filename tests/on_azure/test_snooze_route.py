from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import azure.functions as func
import pytest

from reaper.azure.functions import triggers
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import Visit, VisitResource
from reaper.snooze import links as snooze_keys
from reaper.snooze.links import sign_link
from reaper.snooze.pages import snooze_end

ID = (
    "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/rg/providers/Microsoft.MachineLearningServices"
    "/workspaces/ws/onlineEndpoints/churn/deployments/blue"
)
SECRET = "s" * 43
NOW = datetime.now(UTC)
VISIT = Visit(
    id="one-mail-one-visit-one",
    address="jo@example.com",
    is_owner=True,
    sent_at=NOW,
    expires=NOW + timedelta(days=14),
    tz="UTC",
    resources=(VisitResource(id=ID, kind="azureml-online-deployment", name="churn/blue", where="", max_days=30),),
)
SITE = "https://reaper-x.azurewebsites.net/api/keep"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Ledger]:
    """A deployment's settings, a route that has not started yet, and the ledger behind it."""
    where = f"sqlite://{tmp_path}/ledger.db"
    monkeypatch.setenv("REAPER_LEDGER", where)
    monkeypatch.setenv("REAPER_SNOOZE_KEYS", "env:KEEP_KEYS")
    monkeypatch.setenv("KEEP_KEYS", SECRET)
    triggers._snooze_handler.cache_clear()
    ledger = opening.open_ledger(where, {})
    ledger.add_visit(VISIT)
    yield ledger
    ledger.close()
    triggers._snooze_handler.cache_clear()


def token(environ: dict[str, str] | None = None) -> str:
    """A link as a sweep with these settings signs it."""
    keys = snooze_keys.open_keyring("env:KEEP_KEYS", environ or {"KEEP_KEYS": SECRET}).keys(NOW)
    return sign_link(VISIT.id, VISIT.expires, keys)


def request(method: str, query: str = "", body: bytes = b"", **headers: str) -> func.HttpRequest:
    """As the host hands it over: header names in its own case, the address with the app's route prefix."""
    all_headers = {"X-Forwarded-For": "198.51.100.9, 203.0.113.7:51034", "Host": "reaper-x.azurewebsites.net", **headers}
    return func.HttpRequest(method=method, url=f"{SITE}{'?' if query else ''}{query}", headers=all_headers, body=body)


def call(http_request: func.HttpRequest) -> func.HttpResponse:
    return triggers.handle_snooze_request(http_request)


def test_a_get_shows_the_page_and_writes_nothing(store: Ledger):
    reply = call(request("GET", f"t={token()}"))
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "Keep “churn/blue”?" in reply.get_body().decode()
    assert 'action="keep"' in reply.get_body().decode(), "relative, so that it stays under /api"
    assert ID not in store.recall([ID], NOW)


def test_a_post_keeps_the_resource(store: Ledger):
    body = urlencode({"t": token(), "r": 1, "days": "7", "reason": "für Ōsaka"}).encode()
    before = datetime.now(UTC)
    reply = call(request("POST", body=body, **{"Content-Type": "application/x-www-form-urlencoded"}))
    snooze = store.snooze(ID, NOW)
    assert reply.status_code == 200
    assert snooze.until in {snooze_end(before, 7), snooze_end(datetime.now(UTC), 7)}
    assert snooze.reason == "für Ōsaka"


def test_head_has_the_headers_and_no_page(store: Ledger):
    reply = call(request("HEAD", f"t={token()}"))
    assert (reply.status_code, reply.get_body()) == (200, b"")


def test_a_bad_link_is_refused_and_logged_without_its_token(store: Ledger, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        assert call(request("GET", f"t={token()}x")).status_code == 403
    assert "403 from 203.0.113.7: refused" in caplog.text
    assert token()[-43:] not in caplog.text


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        pytest.param("203.0.113.7:51034", "203.0.113.7", id="with a port"),
        pytest.param("6.6.6.6, 203.0.113.7:51034", "203.0.113.7", id="what the client claims is not believed"),
        pytest.param("203.0.113.7", "203.0.113.7", id="without a port"),
        pytest.param("[2001:db8::1]:51034", "2001:db8::1", id="version 6 with a port"),
        pytest.param("2001:db8::1", "2001:db8::1", id="version 6"),
        pytest.param("", "", id="none, on one's own machine"),
        pytest.param("1.2.3.4\nERROR forged", "", id="something else"),
    ],
)
def test_the_source_is_what_the_front_end_saw(forwarded: str, address: str):
    assert triggers.client_ip(forwarded) == address


@pytest.mark.parametrize("environ", [{}, {"REAPER_SNOOZE_KEYS": " "}], ids=["no setting", "an empty one, as Bicep leaves it"])
def test_without_keys_there_is_no_route(environ: dict[str, str]):
    app = func.FunctionApp()
    triggers.register_route(app, environ)
    assert app.get_functions() == []


def test_the_route_is_anonymous_and_takes_what_the_page_needs():
    app = func.FunctionApp()
    triggers.register_route(app, {"REAPER_SNOOZE_KEYS": "env:KEEP_KEYS"})
    [function] = app.get_functions()
    trigger = function.get_trigger()
    assert (function.get_function_name(), trigger.route) == ("Keep", "keep")
    assert trigger.auth_level == func.AuthLevel.ANONYMOUS
    assert {str(getattr(m, "value", m)) for m in trigger.methods} == {"GET", "HEAD", "POST"}
    assert {b.name for b in function.get_bindings()} == {"req", "$return"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param({"REAPER_SNOOZE_KEYS": ""}, "REAPER_SNOOZE_KEYS is not set", id="keys taken away"),
        pytest.param({"REAPER_SNOOZE_KEYS": "vault:x"}, "expected secretsmanager", id="a place we do not know"),
        pytest.param({"KEEP_KEYS": ""}, "the environment variable KEEP_KEYS is not set", id="keys that are not there"),
        pytest.param({"KEEP_KEYS": "short"}, "5 bytes", id="a weak key"),
        pytest.param({"REAPER_LEDGER": ""}, "REAPER_LEDGER is not set", id="no ledger"),
        pytest.param({"REAPER_LEDGER": "table://x"}, "table://account/table", id="half a ledger"),
    ],
)
def test_a_deployment_that_cannot_work_is_a_503_and_one_line(
    store: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, changed: dict[str, str], message: str
):
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    assert call(request("GET", f"t={token()}")).status_code == 503
    [line] = [r for r in caplog.records if r.name == triggers.__name__]
    assert message in line.getMessage()
    assert (line.levelname, line.exc_info) == ("ERROR", None)


@pytest.mark.parametrize("url", [f"{SITE}?t=%", "https://[::1/api/keep?t=x#y", "https://[", ""])
def test_an_odd_address_is_refused_and_nothing_raised(store: Ledger, url: str):
    http_request = func.HttpRequest(method="GET", url=url, headers={"Host": "["}, body=b"")
    assert call(http_request).status_code == 403


def test_a_link_of_another_app_with_the_same_secret_is_refused(store: Ledger, monkeypatch: pytest.MonkeyPatch):
    mine = "/subscriptions/1/resourceGroups/rg/providers/Microsoft.Web/sites/reaper-x"
    monkeypatch.setenv("REAPER_DEPLOYMENT", mine)
    keys = {"KEEP_KEYS": SECRET, "REAPER_DEPLOYMENT": mine}
    assert call(request("GET", f"t={token(keys | {'REAPER_DEPLOYMENT': f'{mine}2'})}")).status_code == 403
    assert call(request("GET", f"t={token(keys)}")).status_code == 200
    assert call(request("GET", f"t={token(keys | {'REAPER_DEPLOYMENT': mine.upper()})}")).status_code == 200
    assert call(request("GET", f"t={token()}")).status_code == 403, "signed without REAPER_DEPLOYMENT"
