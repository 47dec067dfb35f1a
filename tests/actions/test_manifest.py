"""Manifests are stored once, read back as they were, and nothing else is taken for one."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fakes.builders import NOW, TARGET
from reaper.actions import manifest
from reaper.actions.contract import Manifest
from reaper.errors import CloudError, SettingsError
from reaper.model import StepName

SAVED = Manifest(
    id="arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn",
    kind="sagemaker-endpoint",
    name="churn",
    target=TARGET,
    region="us-east-1",
    action=StepName.DELETE,
    run="run-1",
    at=NOW,
    undo_state={"config": {"Variants": [{"Count": 3, "Weight": 0.5, "Shadow": None}]}, "tags": {"owner": "<ü>"}},
)


@pytest.fixture
def archive(tmp_path: Path) -> manifest.Archive:
    return manifest.open_archive(str(tmp_path / "kept"), {})


def test_a_manifest_comes_back_as_it_was(archive):
    address = archive.store_manifest(SAVED, 3)
    assert archive.read_manifest(address) == SAVED
    assert archive.manifests_of_run("run-1") == [(address, SAVED)]
    assert archive.manifests_of_run("run-2") == []


def test_a_manifest_is_never_overwritten(archive):
    address = archive.store_manifest(SAVED, 3)
    with pytest.raises(CloudError, match="can't be written"):
        archive.store_manifest(SAVED, 3)
    assert archive.read_manifest(address) == SAVED


def test_only_its_user_can_read_a_manifest(archive):
    address = Path(archive.store_manifest(SAVED, 3))
    assert stat.S_IMODE(address.stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CloudError, match="can't be written"):
        manifest.open_archive(str(tmp_path / "file"), {}).store_manifest(SAVED, 3)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', "null"])
def test_a_text_that_is_no_manifest_is_an_error_with_its_address(text):
    with pytest.raises(CloudError, match=r"s3://b/m\.json isn't a manifest"):
        manifest.parse_manifest(text, "s3://b/m.json")


@pytest.mark.parametrize("place", ["gs://bucket", "https://a.blob.core.windows.net/kept?sig=x"])
def test_a_place_that_cannot_be_one_is_refused(place):
    with pytest.raises(SettingsError, match="REAPER_MANIFESTS"):
        manifest.open_archive(place, {})


def test_without_a_place_it_is_beside_the_users_own_ledger():
    assert manifest.open_archive(None, {"XDG_STATE_HOME": "/state"}).place == "/state/ml-idle-reaper/manifests"


S3, BLOB = "s3://bucket/manifests", "https://acme.blob.core.windows.net/manifests/team a"


@pytest.mark.parametrize(
    ("place", "address", "inside"),
    [
        (S3, f"{S3}/run-1/x.json", True),
        (f"{S3}/", f"{S3}/run-1/x.json", True),
        ("s3://bucket", "s3://bucket/run-1/x.json", True),
        (S3, "s3://bucket/manifests2/run-1/x.json", False),
        (S3, "s3://bucket/reports/x.json", False),
        (S3, "s3://evil/manifests/run-1/x.json", False),
        (S3, f"{S3}/../reports/x.json", False),
        (S3, "https://evil.example/manifests/run-1/x.json", False),
        (S3, "/tmp/x.json", False),
        (BLOB, "https://acme.blob.core.windows.net/manifests/team%20a/run-1/x.json", True),
        (BLOB, "https://evil.blob.core.windows.net/manifests/team%20a/run-1/x.json", False),
        (BLOB, "https://acme.blob.core.windows.net/manifests/team%20a/%2e%2e/x.json", False),
        (BLOB, f"{BLOB}/run-1/x.json?sig=x", False),
        (BLOB, BLOB, False),
        ("/kept", "/kept/run-1/x.json", True),
        ("/kept", "/kept/../etc/x.json", False),
        ("/kept", "/kept2/x.json", False),
        ("/kept", f"{S3}/run-1/x.json", False),
        ("/kept", "/kept/a\0b", False),
    ],
)
def test_which_addresses_lie_in_the_place(place: str, address: str, inside: bool):
    assert manifest.Archive(place=place, store=manifest.FolderStore()).contains(address) is inside


def test_an_address_in_the_ledger_is_read_only_inside_the_place(archive, tmp_path):
    address = archive.store_manifest(SAVED, 3)
    assert archive.read_own_manifest(address) == SAVED
    elsewhere = manifest.open_archive(str(tmp_path / "elsewhere"), {}).store_manifest(SAVED, 3)
    with pytest.raises(CloudError, match=r"isn't in REAPER_MANIFESTS.*--manifest"):
        archive.read_own_manifest(elsewhere)
    assert archive.read_manifest(elsewhere) == SAVED, "a person may name it"
