"""Manifests are stored once, read back as they were, and nothing else is taken for one."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from core.fakes import NOW, TARGET
from reaper import manifest
from reaper.acts import Manifest
from reaper.errors import CloudError, SettingsError
from reaper.model import Move

SAVED = Manifest(
    id="arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn",
    kind="sagemaker-endpoint",
    name="churn",
    target=TARGET,
    region="us-east-1",
    move=Move.DELETE,
    run="run-1",
    at=NOW,
    record={"config": {"Variants": [{"Count": 3, "Weight": 0.5, "Shadow": None}]}, "tags": {"owner": "<ü>"}},
)


@pytest.fixture
def archive(tmp_path: Path) -> manifest.Archive:
    return manifest.open(str(tmp_path / "kept"), {})


def test_a_manifest_comes_back_as_it_was(archive):
    address = archive.keep(SAVED, 3)
    assert archive.at(address) == SAVED
    assert archive.of_run("run-1") == [(address, SAVED)]
    assert archive.of_run("run-2") == []


def test_a_manifest_is_never_overwritten(archive):
    address = archive.keep(SAVED, 3)
    with pytest.raises(CloudError, match="cannot be written"):
        archive.keep(SAVED, 3)
    assert archive.at(address) == SAVED


def test_only_its_user_can_read_it(archive):
    address = Path(archive.keep(SAVED, 3))
    assert stat.S_IMODE(address.stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CloudError, match="cannot be written"):
        manifest.open(str(tmp_path / "file"), {}).keep(SAVED, 3)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', "null"])
def test_what_is_no_manifest_is_an_error_that_names_it(text):
    with pytest.raises(CloudError, match=r"s3://b/m\.json is no manifest"):
        manifest.parse(text, "s3://b/m.json")


@pytest.mark.parametrize("place", ["gs://bucket", "https://a.blob.core.windows.net/kept?sig=x"])
def test_a_place_that_cannot_be_one_is_refused(place):
    with pytest.raises(SettingsError, match="REAPER_MANIFESTS"):
        manifest.open(place, {})


def test_without_a_place_it_is_beside_the_users_own_ledger():
    assert manifest.open(None, {"XDG_STATE_HOME": "/state"}).place == "/state/ml-idle-reaper/manifests"
