"""Texts in blobs, kept by Azurite, reached with a bearer token as in Azure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from azure.storage.blob import BlobServiceClient

import azurite
from azure import tokens
from azure.conftest import NOW
from reaper.azure import store
from reaper.azure.credential import credential
from reaper.errors import SettingsError
from reaper.sandbox.azure import identity


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    authority = trustme.CA()
    mine = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    mine.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "cert.pem").write_bytes(b"".join(part.bytes() for part in mine.cert_chain_pems))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("IDENTITY_HEADER", identity.SECRET)
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
    try:
        with tokens.endpoint() as address, azurite.blobs(tmp_path / "cert.pem", tmp_path / "key.pem") as url:
            monkeypatch.setenv("IDENTITY_ENDPOINT", address)
            with BlobServiceClient(url, credential=credential()) as service:
                service.create_container("reports")
            yield url
    except azurite.Missing as why:
        pytest.skip(f"{why}: blobs were NOT tried")


def test_a_report_is_stored_by_day_and_read_back_from_the_address_that_was_given(account: str):
    stored = store.write_report(f"{account}/reports/daily", "run1", NOW, '{"ü": 1}')
    assert stored == f"{account}/reports/daily/2026/11/21/run1.json"
    assert store.read(stored) == '{"ü": 1}'


def test_what_azure_says_of_a_missing_blob_or_container_is_told(account: str):
    with pytest.raises(SettingsError, match=r"REAPER_POLICY=.*cannot be read: The specified blob does not exist"):
        store.read(f"{account}/reports/policy.yaml")
    with pytest.raises(
        SettingsError, match=r"REAPER_REPORTS=.*the report cannot be stored: The specified container does not exist"
    ):
        store.write_report(f"{account}/elsewhere", "run1", NOW, "{}")


def test_a_report_is_never_written_over(account: str):
    store.write_report(f"{account}/reports", "run1", NOW, "{}")
    with pytest.raises(SettingsError, match="already exists"):
        store.write_report(f"{account}/reports", "run1", NOW, "{}")


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("https://acme.blob.core.windows.net/reports", ("https://acme.blob.core.windows.net", "reports", "")),
        ("https://acme.blob.core.windows.net/reports/daily/ml/", ("https://acme.blob.core.windows.net", "reports", "daily/ml")),
        ("https://127.0.0.1:10000/devstoreaccount1/reports/x", ("https://127.0.0.1:10000/devstoreaccount1", "reports", "x")),
    ],
)
def test_a_container_is_found_in_its_address(place: str, expected: tuple[str, str, str]):
    assert store._place(place) == expected


@pytest.mark.parametrize(
    "place", ["http://acme.blob.core.windows.net/reports", "https://acme.blob.core.windows.net", "reports", "s3://x/y"]
)
def test_what_is_no_container_is_refused(place: str):
    with pytest.raises(SettingsError, match="is not an address such as"):
        store.write_report(place, "run", NOW, "{}")


def test_a_signature_is_never_shown():
    with pytest.raises(SettingsError) as caught:
        store.read("https://acme.blob.core.windows.net/policies?sv=1&sig=secret")
    assert "secret" not in str(caught.value)
