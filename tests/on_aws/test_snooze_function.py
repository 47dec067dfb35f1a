from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import boto3
import pytest

from fakes.histories import history_of
from fakes.records import a_record
from reaper.aws.functions import snooze
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import Visit, VisitResource
from reaper.record import Record, Snooze
from reaper.snooze.links import Keys, sign_link
from reaper.snooze.pages import snooze_end
from reaper_sandbox.aws.fault import denied, on
from reaper_sandbox.aws.server import Server

ID = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn"
HOST = "abcdefghijklmnopqrstuvwxyz123456.lambda-url.us-east-1.on.aws"
SECRET = "ml-idle-reaper/keep-links"
FIRST, SECOND = "1" * 64, "2" * 64


@dataclass(frozen=True)
class Context:
    """What Lambda says of an invocation."""

    function_name: str = "snooze"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:snooze"
    aws_request_id: str = "52fdfc07-2182-154f-163f-5f0f9a621d72"


def event(
    method: str, query: str = "", body: bytes | None = None, *, encoded: bool = True, path: str = "/keep"
) -> dict[str, Any]:
    """A function URL's event, payload format 2.0, as a browser's request makes it."""
    request: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "cookies": ["session=1"],
        "headers": {
            "accept": "text/html,application/xhtml+xml",
            "accept-language": "de-DE,de;q=0.9",
            "host": HOST,
            "sec-fetch-mode": "navigate",
            "user-agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
            "x-amzn-tls-version": "TLSv1.3",
            "x-amzn-trace-id": "Root=1-691f0000-000000000000000000000001",
            "x-forwarded-for": "203.0.113.7",
            "x-forwarded-port": "443",
            "x-forwarded-proto": "https",
        },
        "requestContext": {
            "accountId": "anonymous",
            "apiId": HOST.partition(".")[0],
            "domainName": HOST,
            "domainPrefix": HOST.partition(".")[0],
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "203.0.113.7",
                "userAgent": "Mozilla/5.0",
            },
            "requestId": "a5f2e1d0-0000-4000-8000-000000000001",
            "routeKey": "$default",
            "stage": "$default",
            "time": "21/Nov/2026:10:17:00 +0000",
            "timeEpoch": 1795256220000,
        },
        "isBase64Encoded": body is not None and encoded,
    }
    if body is not None:
        request["headers"] |= {"content-type": "application/x-www-form-urlencoded", "content-length": str(len(body))}
        request["body"] = b64encode(body).decode() if encoded else body.decode()
    return request


def with_http(**changed: object) -> dict[str, Any]:
    """A request of which one field has a type that no request has."""
    request = event("GET", "t=a")
    request["requestContext"]["http"] |= changed
    return request


def ring(current: str, **keys: str) -> str:
    return json.dumps({"current": current, **keys})


@pytest.fixture
def store(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """The table and the secret as the template makes them, and a function that has not started yet."""
    boto3.client("dynamodb").create_table(
        TableName="reaper-ledger",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "sk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    )
    boto3.client("secretsmanager").create_secret(Name=SECRET, SecretString=ring("k1", k1=FIRST))
    monkeypatch.setenv("REAPER_LEDGER", "dynamodb://reaper-ledger")
    monkeypatch.setenv("REAPER_SNOOZE_KEYS", f"secretsmanager:{SECRET}")
    snooze._snooze_handler.cache_clear()
    ledger = opening.open_ledger("dynamodb://reaper-ledger", {})
    ledger.add_visit(VISIT)
    ledger.write_record(ID, a_record(idle_since=NOW - timedelta(days=9), warned_at=NOW), 0, NOW)
    server.calls.clear()
    yield ledger
    snooze._snooze_handler.cache_clear()


NOW = datetime.now(UTC)
VISIT = Visit(
    id="one-mail-one-visit-one",
    address="jo@example.com",
    is_owner=True,
    sent_at=NOW,
    expires=NOW + timedelta(days=14),
    tz="UTC",
    resources=(VisitResource(id=ID, kind="sagemaker-endpoint", name="churn", where="", max_days=30),),
)


STACK = "arn:aws:cloudformation:us-east-1:123456789012:stack/reaper"


def token(secret: str = FIRST, key: str = "k1", stack: str = "") -> str:
    return sign_link(VISIT.id, VISIT.expires, Keys(current=key, ring={key: secret.encode()}, deployment=stack))


def call(request: dict[str, Any]) -> dict[str, Any]:
    return snooze.handler(request, Context())


def form(**fields: str) -> bytes:
    return urlencode({"t": token(), "r": "1", "days": "7", "reason": "", "name": ""} | fields).encode()


def snoozed(store: Ledger) -> Snooze:
    return store.snooze(ID, datetime.now(UTC))


def record(store: Ledger) -> Record:
    return store.record(ID, datetime.now(UTC))


def test_a_get_through_the_url_shows_the_page_and_writes_nothing(store: Ledger, server: Server):
    reply = call(event("GET", f"t={token()}"))
    assert reply["statusCode"] == 200
    assert reply["isBase64Encoded"] is False
    assert reply["headers"]["content-type"] == "text/html; charset=utf-8"
    assert "Keep “churn”?" in reply["body"]
    assert {c.action for c in server.calls} == {"secretsmanager:GetSecretValue", "dynamodb:GetItem", "dynamodb:BatchGetItem"}
    json.dumps(reply)


@pytest.mark.parametrize(
    "encoded", [pytest.param(True, id="in base64, as browsers' forms arrive"), pytest.param(False, id="as text")]
)
def test_a_post_through_the_url_snoozes_the_resource(store: Ledger, encoded: bool):
    before = datetime.now(UTC)
    reply = call(event("POST", body=form(reason="für Ōsaka"), encoded=encoded))
    assert reply["statusCode"] == 200
    assert snoozed(store).until in {snooze_end(before, 7), snooze_end(datetime.now(UTC), 7)}
    assert (snoozed(store).reason, record(store).notice.warned_at) == ("für Ōsaka", NOW)
    assert [entry.what for entry in history_of(store, ID)] == ["kept"]


def test_two_concurrent_snoozes_keep_the_longer_one(store: Ledger):
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(call, [event("POST", body=form(days=days)) for days in ("1", "2", "3", "4")]))
    assert [reply["statusCode"] for reply in replies] == [200] * 4
    assert snoozed(store).until in {snooze_end(NOW, 4), snooze_end(datetime.now(UTC), 4)}
    assert (snoozed(store).version, record(store).version) == (len(history_of(store, ID)), 1)
    assert record(store).notice.warned_at == NOW


def test_the_snooze_function_calls_only_what_its_role_grants(store: Ledger, server: Server):
    call(event("GET", f"t={token()}"))
    call(event("POST", body=form()))
    call(event("POST", body=form(days="1", shorten="yes")))
    call(event("POST", body=form(do="disown")))
    assert {c.action for c in server.calls} == set(snooze.PERMISSIONS)
    assert snoozed(store).disowned_by == "jo@example.com"


def test_the_secret_is_read_once_for_many_requests(store: Ledger, server: Server):
    for _ in range(5):
        call(event("GET", f"t={token()}"))
    assert [c.action for c in server.calls].count("secretsmanager:GetSecretValue") == 1


def test_a_rotated_key_is_read_without_a_new_deployment(store: Ledger):
    gate, later = snooze._snooze_handler(), NOW + timedelta(seconds=31)
    assert gate.handle(snooze.parse_request(event("GET", f"t={token()}")), NOW).status == 200
    boto3.client("secretsmanager").put_secret_value(SecretId=SECRET, SecretString=ring("k2", k1=FIRST, k2=SECOND))
    for link in (token(SECOND, "k2"), token()):
        assert gate.handle(snooze.parse_request(event("GET", f"t={link}")), later).status == 200


def test_forged_links_get_403_and_cause_no_ledger_read(store: Ledger, server: Server):
    for bad in ("", "x", token()[:-1], token("3" * 64)):
        assert call(event("GET", f"t={bad}"))["statusCode"] == 403
    assert not any(c.action.startswith("dynamodb:") for c in server.calls)


def test_a_key_from_the_environment_is_accepted(store: Ledger, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REAPER_SNOOZE_KEYS", "env:KEEP_KEYS")
    monkeypatch.setenv("KEEP_KEYS", ring("k1", k1=SECOND))
    assert call(event("GET", f"t={token(SECOND)}"))["statusCode"] == 200


def test_a_denied_secret_gives_503_and_logs_the_permission(store: Ledger, server: Server, caplog: pytest.LogCaptureFixture):
    server.rules.append(on("GetSecretValue", denied()))
    reply = call(event("GET", f"t={token()}"))
    assert (reply["statusCode"], "reaper:keep-until=" in reply["body"]) == (503, True)
    assert "secretsmanager:GetSecretValue" not in reply["body"]
    assert "secretsmanager:GetSecretValue" in caplog.records[-1].__dict__["note"]


@pytest.mark.parametrize("action", ["BatchGetItem", "PutItem"])
def test_a_denied_table_gives_503_and_offers_the_tag(store: Ledger, server: Server, action: str):
    server.rules.append(on(action, denied()))
    reply = call(event("POST", body=form()))
    assert (reply["statusCode"], "reaper:keep-until=" in reply["body"]) == (503, True)
    server.rules.clear()
    assert snoozed(store).until is None


def test_the_log_names_the_event_and_no_token(store: Ledger, caplog: pytest.LogCaptureFixture):
    call(event("GET", f"t={token()}"))
    call(event("POST", body=form()))
    call(event("GET", "t=forged"))
    log = str([record.__dict__ for record in caplog.records])
    assert token()[-43:] not in log
    assert "snoozed until" in log
    assert "refused: not in the form of a link" in log


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({}, id="an empty test event"),
        pytest.param({"requestContext": {"http": {}}}, id="half a request"),
        pytest.param({**event("GET"), "headers": None}, id="no headers"),
        pytest.param({**event("POST", body=b"x"), "body": "%%%"}, id="broken base64"),
        pytest.param({**event("POST", body=b"x"), "isBase64Encoded": "x", "body": "%%%"}, id="base64 or not"),
        pytest.param({**event("POST", body=b"x"), "isBase64Encoded": 1}, id="encoded once"),
        pytest.param({**event("POST"), "body": 5}, id="a body that is a number"),
        pytest.param({**event("POST"), "body": 0}, id="a body that is nothing"),
        pytest.param({**event("POST"), "body": ["a"]}, id="a list of bodies"),
        pytest.param(with_http(method=[]), id="a list of methods"),
        pytest.param(with_http(method=5), id="a method that is a number"),
        pytest.param(with_http(sourceIp=None), id="a source that is null"),
        pytest.param(with_http(sourceIp=5), id="a source that is a number"),
        pytest.param({**event("GET"), "requestContext": {"http": "GET"}}, id="a text for the method and all"),
        pytest.param({**event("GET"), "requestContext": None}, id="no context"),
        pytest.param({**event("GET"), "rawPath": None}, id="a path that is null"),
        pytest.param({**event("GET"), "rawPath": 5}, id="a path that is a number"),
        pytest.param({**event("GET"), "rawQueryString": 5}, id="a query that is a number"),
        pytest.param({**event("GET"), "rawQueryString": ["a"]}, id="a list of queries"),
        pytest.param({**event("GET"), "headers": ["host"]}, id="a list of headers"),
        pytest.param({**event("GET"), "headers": {"host": 5}}, id="a header that is a number"),
        pytest.param([], id="a list"),
        pytest.param("event", id="a text"),
        pytest.param(None, id="nothing"),
    ],
)
def test_an_event_that_is_not_a_request_gives_400(
    store: Ledger, server: Server, odd: dict[str, Any], caplog: pytest.LogCaptureFixture
):
    reply = call(odd)
    assert (reply["statusCode"], reply["headers"]["content-type"]) == (400, "text/html; charset=utf-8")
    assert ["through its URL only" in r.__dict__["note"] for r in caplog.records] == [True]
    assert server.calls == []


@pytest.mark.parametrize("setting", ["REAPER_LEDGER", "REAPER_SNOOZE_KEYS"])
def test_a_broken_deployment_gives_503_without_a_traceback(
    store: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, setting: str
):
    monkeypatch.delenv(setting)
    assert call(event("GET", f"t={token()}"))["statusCode"] == 503
    [line] = caplog.records
    assert f"{setting} is not set" in line.__dict__["note"]
    assert (line.levelname, line.exc_info) == ("ERROR", None)


def test_path_rate_and_form_are_checked_before_the_secret(store: Ledger, server: Server):
    requests = [event("GET", f"t={token()}", path="/"), event("PUT", f"t={token()}"), event("GET"), event("POST", body=b"x=1")]
    assert [call(one)["statusCode"] for one in requests] == [404, 405, 403, 403]
    assert [call(event("GET", "t=x"))["statusCode"] for _ in range(60)][-1] == 429
    assert call(event("GET", f"t={token()}"))["statusCode"] == 429
    assert server.calls == []


def test_a_denied_secret_is_read_once_a_minute(store: Ledger, server: Server):
    server.rules.append(on("GetSecretValue", denied()))
    gate, request = snooze._snooze_handler(), snooze.parse_request(event("GET", f"t={token()}"))
    statuses = [gate.handle(request, NOW + timedelta(seconds=second)).status for second in range(0, 60, 6)]
    assert statuses == [503] * 10
    assert len(server.calls) == 1
    server.rules.clear()
    assert gate.handle(request, NOW + timedelta(seconds=60)).status == 200


def test_a_link_of_another_stack_with_the_same_secret_is_refused(store: Ledger, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REAPER_DEPLOYMENT", f"{STACK}/11111111-aaaa")
    assert call(event("GET", f"t={token(stack=f'{STACK}/22222222-bbbb')}"))["statusCode"] == 403
    assert call(event("GET", f"t={token(stack=f'{STACK}/11111111-aaaa')}"))["statusCode"] == 200
    assert call(event("GET", f"t={token()}"))["statusCode"] == 403, "signed without REAPER_DEPLOYMENT"


def test_one_clients_requests_are_limited(store: Ledger):
    statuses = [call(event("GET", "t=guess"))["statusCode"] for _ in range(70)]
    assert statuses[:60] == [403] * 60
    assert 429 in statuses[60:]
