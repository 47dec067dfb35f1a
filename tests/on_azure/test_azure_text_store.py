"""Texts in blobs, kept by Azurite, reached with a bearer token as in Azure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from azure.core.exceptions import ServiceRequestError
from azure.storage.blob import BlobServiceClient, generate_blob_sas

import azurite
from fakes import run_stores
from on_azure import tokens
from on_azure.conftest import DAY, NOW
from reaper.azure.session import new_credential
from reaper.azure.stores import texts
from reaper.calendars.resolve import resolve_calendars
from reaper.errors import CloudError, PolicyError, Reason, SettingsError
from reaper.policy import file
from reaper_sandbox.azure import identity
from reaper_sandbox.azure.fault import error, on
from reaper_sandbox.azure.server import Server


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    authority = trustme.CA()
    mine = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    mine.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "cert.pem").write_bytes(b"".join(part.bytes() for part in mine.cert_chain_pems))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("REAPER_ARM_ENDPOINT", "https://127.0.0.1:1")
    monkeypatch.setenv("IDENTITY_HEADER", identity.SECRET)
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
    try:
        with tokens.endpoint() as address, azurite.blobs(tmp_path / "cert.pem", tmp_path / "key.pem") as url:
            monkeypatch.setenv("IDENTITY_ENDPOINT", address)
            with BlobServiceClient(url, credential=new_credential()) as service:
                service.create_container("reports")
            yield url
    except azurite.Missing as why:
        pytest.skip(f"{why}: blobs were NOT tried")


def test_a_report_is_stored_by_day_and_read_from_its_address(account: str):
    stored = texts.write_report(f"{account}/reports/daily", "run1", NOW, '{"ü": 1}')
    assert stored == f"{account}/reports/daily/2026/11/21/run1.json"
    assert texts.read_bytes(stored, 99).decode() == '{"ü": 1}'


def test_a_missing_blob_or_container_is_reported_in_azures_words(account: str):
    with pytest.raises(SettingsError, match=r"https:.*can't be read: The specified blob does not exist"):
        texts.read_bytes(f"{account}/reports/policy.yaml", 99)
    with pytest.raises(
        SettingsError, match=r"REAPER_REPORTS=.*the report can't be stored: The specified container does not exist"
    ):
        texts.write_report(f"{account}/elsewhere", "run1", NOW, "{}")


def test_no_more_of_a_policy_is_fetched_than_requested(account: str, caplog: pytest.LogCaptureFixture):
    with BlobServiceClient(account, credential=new_credential()) as service:
        service.get_blob_client("reports", "policy.yaml").upload_blob(b"version: 1\n" + b"#" * 1_000_000)
        service.get_blob_client("reports", "empty.yaml").upload_blob(b"")
        service.get_blob_client("reports", "fits.yaml").upload_blob(b"version: 1\n")
    with caplog.at_level("INFO", logger="azure.core.pipeline.policies.http_logging_policy"):
        assert texts.read_bytes(f"{account}/reports/policy.yaml", 11) == b"version: 1\n"
    assert "11" in (lengths := re.findall(r"'content-length': '(\d+)'", caplog.text, re.IGNORECASE))
    assert max(map(int, lengths)) < 100_000
    assert texts.read_bytes(f"{account}/reports/empty.yaml", 11) == b""
    assert file.load_policy(f"{account}/reports/fits.yaml").text == "version: 1\n"
    with pytest.raises(PolicyError, match="longer than 262,144 bytes"):
        file.load_policy(f"{account}/reports/policy.yaml")


@pytest.mark.parametrize("text", [b"version: 2\n", b"#" * 300_000, b"\xff"], ids=["not valid", "too long", "no text"])
def test_an_error_about_a_policy_hides_its_signature(account: str, text: bytes):
    with BlobServiceClient(account, credential=new_credential()) as service:
        service.get_blob_client("reports", "policy.yaml").upload_blob(text)
    signature = generate_blob_sas(
        azurite.ACCOUNT, "reports", "policy.yaml", account_key=azurite.KEY, permission="r", expiry=datetime.now(UTC) + DAY
    )
    with pytest.raises(PolicyError, match=r"^https://127.0.0.1:\d+/devstoreaccount1/reports/policy.yaml:1: ") as caught:
        file.load_policy(f"{account}/reports/policy.yaml?{signature}")
    assert "sig=" not in str(caught.value)


def test_a_calendar_in_a_blob_is_read_and_its_signature_never_said(account: str, caplog: pytest.LogCaptureFixture):
    event = b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20261224\nEND:VEVENT\nEND:VCALENDAR\n"
    with BlobServiceClient(account, credential=new_credential()) as service:
        service.get_blob_client("reports", "company.ics").upload_blob(event)
        service.get_blob_client("reports", "login.ics").upload_blob(b"<html>Sign in</html>")
    urls = {name: f"{account}/reports/{name}.ics" for name in ("company", "login", "gone")}
    signature = generate_blob_sas(
        azurite.ACCOUNT, "reports", "login.ics", account_key=azurite.KEY, permission="r", expiry=datetime.now(UTC) + DAY
    )
    specs = ", ".join(f'{name}: {{ics: "{url}{"" if name == "company" else f"?{signature}"}"}}' for name, url in urls.items())
    policy = file.load_policy(f"version: 1\ncalendars: {{{specs}}}\n").policy
    with caplog.at_level("INFO"):
        read = resolve_calendars(policy, None, NOW)
    assert [day.isoformat() for day in read["company"].days] == ["2026-12-24"]
    assert read["login"].unreadable_because == f"{urls['login']}: it isn't an iCalendar file: it is a web page"
    assert str(read["gone"].unreadable_because).startswith(f"iCalendar file {urls['gone']}: can't be read: ")
    assert signature.rpartition("sig=")[2] not in f"{read}{caplog.text}"


def test_the_first_report_of_a_run_stays(account: str):
    first = texts.write_report(f"{account}/reports", "run1", NOW, "{}")
    assert texts.write_report(f"{account}/reports", "run1", NOW, '{"other": 1}') == first
    assert texts.read_report(f"{account}/reports", "run1", first) == "{}"


@pytest.mark.parametrize(
    ("place", "address"),
    [
        pytest.param("reports", "manifests/2026/11/21/run1.json", id="another container"),
        pytest.param("reports/daily", "reports/2026/11/21/run1.json", id="another folder"),
        pytest.param("reports", "reports/2026/11/21/run2.json", id="another run"),
        pytest.param("reports", "reports/2026/11/21/run1.json?sig=x", id="a signature"),
        pytest.param("reports", "reports/../manifests/2026/11/21/run1.json", id="dots"),
    ],
)
def test_only_the_reports_of_a_run_are_read_as_its_report(account: str, place: str, address: str):
    with pytest.raises(CloudError, match="is no report of run run1"):
        texts.read_report(f"{account}/{place}", "run1", f"{account}/{address}")


def test_a_report_whose_reply_was_lost_is_stored(account: str):
    """The SDK tries again, and Azure refuses the second try because the first one succeeded."""
    first = texts.write_report(f"{account}/reports", "run1", NOW, "{}")
    assert texts.write_report(f"{account}/reports", "run1", NOW, "{}") == first


def test_a_text_is_stored_listed_and_never_overwritten(account: str):
    place = f"{account}/reports/manifests/"
    first = texts.write(place, "run 1/ä+%41-delete.json", '{"ü": 1}')
    second = texts.write(place, "run 1/b.json", "{}")
    texts.write(place, "run 10/c.json", "{}")
    assert texts.read_text(first) == '{"ü": 1}'
    assert texts.list_texts(f"{account}/reports/manifests/run 1") == [second, first]
    assert len(texts.list_texts(f"{account}/reports")) == 3
    assert texts.list_texts(f"{account}/reports/nowhere") == []
    with pytest.raises(CloudError, match="already exists") as caught:
        texts.write(place, "run 1/b.json", "other")
    assert caught.value.reason is Reason.REFUSED
    assert texts.read_text(second) == "{}"
    assert texts.write(place, "run 1/b.json", "{}") == second


def test_an_error_of_a_manifest_store_is_reported(account: str):
    operation = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
    with pytest.raises(CloudError, match="The specified container does not exist") as caught:
        texts.write(f"{account}/elsewhere", "a.json", "{}")
    assert (caught.value.reason, caught.value.operation) == (Reason.GONE, f"{operation}/write")
    with pytest.raises(CloudError, match="The specified blob does not exist") as caught:
        texts.read_text(f"{account}/reports/a.json")
    assert (caught.value.reason, caught.value.operation) == (Reason.GONE, f"{operation}/read")
    with pytest.raises(CloudError) as caught:
        texts.list_texts(f"{account}/elsewhere")
    assert caught.value.reason is Reason.GONE


@pytest.mark.parametrize("run", ["", "/", "//", "  /", "#", "#run1", "?x"])
def test_a_run_without_a_name_lists_nothing_rather_than_everything(account: str, run: str):
    texts.write(f"{account}/reports/manifests", "run1/a.json", "{}")
    with pytest.raises(CloudError, match="names nothing to be listed"):
        texts.list_texts(f"{account}/reports/manifests/{run}")


@pytest.mark.parametrize("place", ["http://acme.blob.core.windows.net/reports", "https://acme.blob.core.windows.net", "reports"])
def test_an_invalid_place_for_manifests_is_reported(place: str):
    for call in (
        lambda: texts.write(place, "a", "{}"),
        lambda: texts.list_texts(place),
        lambda: texts.read_text(place),
    ):
        with pytest.raises(CloudError, match="is not an address such as"):
            call()


def test_a_refusal_of_a_storage_account_is_reported(server: Server):
    server.rules.append(on(".*", ".*/denied.*", error(403, "AuthorizationPermissionMismatch", "not permitted")))
    with pytest.raises(CloudError) as caught:
        texts.write(f"{server.url}/account/denied", "a.json", "{}")
    assert (caught.value.reason, caught.value.missing) == (Reason.DENIED, caught.value.operation)
    assert texts._reason_of(ServiceRequestError("no route")) is Reason.UNREACHABLE


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("https://acme.blob.core.windows.net/reports", ("https://acme.blob.core.windows.net", "reports", "")),
        ("https://acme.blob.core.windows.net/reports/daily/ml/", ("https://acme.blob.core.windows.net", "reports", "daily/ml")),
        ("https://127.0.0.1:10000/devstoreaccount1/reports/x", ("https://127.0.0.1:10000/devstoreaccount1", "reports", "x")),
    ],
)
def test_a_container_is_found_in_its_address(place: str, expected: tuple[str, str, str]):
    assert texts._split_address(place) == expected


@pytest.mark.parametrize(
    "place", ["http://acme.blob.core.windows.net/reports", "https://acme.blob.core.windows.net", "reports", "s3://x/y"]
)
def test_an_address_without_a_container_is_refused(place: str):
    with pytest.raises(SettingsError, match="is not an address such as"):
        texts.write_report(place, "run", NOW, "{}")


def test_a_signature_is_never_shown():
    with pytest.raises(SettingsError) as caught:
        texts.read_bytes("https://acme.blob.core.windows.net/policies?sv=1&sig=secret", 99)
    assert "secret" not in str(caught.value)


def test_a_run_is_stored_in_a_container(account: str):
    run_stores.check_store(f"{account}/reports/runs/")
    run_stores.check_missing_place(f"{account}/elsewhere/runs")
