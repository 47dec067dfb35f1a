"""Manifests are stored once, read back as they were, and nothing else is taken for one."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.builders import NOW, TARGET
from reaper.acting import manifest
from reaper.acting.contract import Manifest
from reaper.errors import CloudError, SettingsError
from reaper.model import StepName
from reaper.record import ManifestReference
from reaper.stores.texts import FolderTexts

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
    stored = archive.store_manifest(SAVED, 3)
    assert archive.read_manifest(stored) == SAVED
    assert archive.manifests_of_run("run-1") == [(stored, SAVED)]
    assert archive.manifests_of_run("run-2") == []


def test_a_manifest_is_never_overwritten(archive):
    stored = archive.store_manifest(SAVED, 3)
    with pytest.raises(CloudError, match="can't be written"):
        archive.store_manifest(SAVED, 3)
    assert archive.read_manifest(stored) == SAVED


def test_only_its_user_can_read_a_manifest(archive):
    address = Path(archive.store_manifest(SAVED, 3).address)
    assert stat.S_IMODE(address.stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CloudError, match="can't be written"):
        manifest.open_archive(str(tmp_path / "file"), {}).store_manifest(SAVED, 3)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', "null", "[" * 99_999])
def test_a_text_that_is_no_manifest_is_an_error_with_its_address(text):
    with pytest.raises(CloudError, match=r"the manifest s3://b/m\.json can't be read"):
        manifest.parse_manifest(text, "s3://b/m.json")


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"cosmos": 1}, "cosmos: Unexpected"),
        ({"schema": 2}, "schema: Input should be 1"),
        ({"schema": "1"}, "schema: Input should be 1"),
        ({"id": 5}, "id: "),
        ({"name": None}, "name: "),
        ({"at": "2026-11-24T10:00:00"}, "at: .*timezone"),
        ({"action": "explode"}, "action: "),
        ({"undo_state": []}, "undo_state: "),
        ({"target": {"cloud": "aws", "account": 5}}, "target.account: "),
        ({"target": {"cloud": "aws", "account": "5", "tenant": "t"}}, "target.tenant: "),
        ({"continued": [json.loads(manifest.manifest_json(SAVED))]}, "continued: "),
    ],
)
def test_a_manifest_with_an_odd_value_is_none(changes: dict[str, Any], because: str):
    text = json.dumps(json.loads(manifest.manifest_json(SAVED)) | changes)
    with pytest.raises(CloudError, match=because):
        manifest.parse_manifest(text, "s3://b/m.json")


@pytest.mark.parametrize("value", [NOW, float("nan"), float("inf"), ("a",), {1: "a"}, b"a"])
def test_what_would_come_back_as_something_else_is_not_stored(archive, value: object):
    with pytest.raises(CloudError, match="values that JSON can't hold"):
        archive.store_manifest(replace(SAVED, undo_state={"config": {"value": value}}), 3)
    assert archive.addresses_of_run("run-1") == []


def test_what_a_person_may_rename_is_not_stored():
    target = replace(SAVED.target, account_name="Vision", blocked_because="denied")
    assert manifest.manifest_json(replace(SAVED, target=target)) == manifest.manifest_json(SAVED)


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
    assert manifest.Archive(place=place, store=FolderTexts()).contains(address) is inside


def test_the_same_file_has_many_addresses(tmp_path):
    assert manifest.is_same_address(str(tmp_path / "run/one.json"), str(tmp_path / "run/../run/./one.json"))
    assert not manifest.is_same_address(str(tmp_path / "one.json"), str(tmp_path / "two.json"))


def test_a_manifest_elsewhere_is_neither_read_nor_named(archive, tmp_path):
    elsewhere = manifest.open_archive(str(tmp_path / "elsewhere"), {}).store_manifest(SAVED, 3)
    for read in (lambda: archive.read_manifest(elsewhere), lambda: archive.read_unproven(elsewhere.address)):
        with pytest.raises(CloudError, match="isn't in REAPER_MANIFESTS") as raised:
            read()
        assert elsewhere.address not in str(raised.value)


@pytest.mark.parametrize("change", [str.upper, lambda text: text.replace("\n", "\r\n"), lambda text: f"{text} "])
def test_one_changed_byte_is_another_manifest(archive, change):
    stored = archive.store_manifest(replace(SAVED, undo_state={}, name="churn"), 3)
    Path(stored.address).write_bytes(change(Path(stored.address).read_text()).encode())
    with pytest.raises(CloudError):
        archive.read_manifest(stored)


def chained(archive: manifest.Archive, **changes: object) -> tuple[ManifestReference, Manifest]:
    """A stored first part, and the second one, which goes on with it."""
    first = archive.store_manifest(replace(SAVED, **changes), 3)
    previous = {"address": first.address, "sha256": first.sha256}
    return first, replace(SAVED, run="run-2", undo_state={"part": 2, "previous": previous})


def test_every_link_of_a_chain_is_checked(archive):
    first, second = chained(archive)
    assert archive.with_continued(second).continued == (SAVED,)
    Path(first.address).write_text(manifest.manifest_json(replace(SAVED, name="other")))
    with pytest.raises(CloudError, match="isn't as the reaper stored it"):
        archive.with_continued(second)


@pytest.mark.parametrize("changes", [{"id": f"{SAVED.id}-2"}, {"kind": "sagemaker-notebook"}], ids=["another ID", "another kind"])
def test_a_chain_stays_with_its_resource(archive, changes):
    with pytest.raises(CloudError, match="is about"):
        archive.with_continued(chained(archive, **changes)[1])
