"""Wheel and source distribution: exactly what they need, and the wheel runs in a clean environment as `uvx` and `pipx` make one."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest

from deploy import release, sam, sbom
from reaper_sandbox.aws.server import Server

ROOT = sam.ROOT
PACKAGES = {"reaper": ROOT / "functions/reaper", "reaper_sandbox": ROOT / "sandbox/reaper_sandbox"}
VERSION = sbom.our_version()
INFO = f"ml_idle_reaper-{VERSION}.dist-info"
SHARED = f"ml_idle_reaper-{VERSION}.data/data/share/ml-idle-reaper"


def files(folder: Path) -> set[str]:
    """What is in a folder of sources, by its path there."""
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    release.build_distributions(folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    [path] = dist.glob("*.whl")
    return path


def test_the_wheel_has_both_packages_the_policies_and_nothing_else(wheel: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    about = {
        f"{INFO}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt", "licenses/LICENSE")
    }
    code = {f"{package}/{name}" for package, folder in PACKAGES.items() for name in files(folder)}
    assert names == code | about | {f"{SHARED}/policies/{name}" for name in files(ROOT / "policies")}
    assert {"reaper/py.typed", "reaper/data/prices/azure-vm.json.gz", "reaper_sandbox/demo/__init__.py"} <= names


def test_the_source_has_what_the_wheel_is_built_from_and_nothing_else(dist: Path):
    [path] = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    code = {f"{folder.relative_to(ROOT).as_posix()}/{name}" for folder in PACKAGES.values() for name in files(folder)}
    policies = {f"policies/{name}" for name in files(ROOT / "policies")}
    about = {"CHANGELOG.md", "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "SECURITY.md", "pyproject.toml", "setup.cfg"}
    assert {name for name in names if ".egg-info/" not in name} == code | policies | about


def uvx(wheel: Path, folder: Path, extra: str, *command: str) -> subprocess.CompletedProcess[str]:
    """What `uvx --from 'WHEEL[EXTRA]' COMMAND` does, with the pinned packages that are in uv's cache already."""
    tool = [
        sam.UV,
        "tool",
        "run",
        "--offline",
        "--isolated",
        "--python",
        sys.executable,
        "--constraints",
        ROOT / "constraints.txt",
    ]
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "AZURE_", "REAPER_", "PYTHON"))}
    return subprocess.run(
        [*tool, "--from", f"{wheel}[{extra}]", *command], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("extra", ["cli", "aws", "azure"])
def test_the_command_runs_from_the_wheel_with_each_extra(wheel: Path, tmp_path: Path, extra: str):
    shown = uvx(wheel, tmp_path, extra, "reaper", "--help")
    assert shown.returncode == 0, shown.stderr
    assert "sweep" in shown.stdout


def test_the_demo_runs_from_the_wheel_with_no_clone_around(wheel: Path, tmp_path: Path):
    shown = uvx(wheel, tmp_path, "demo", "reaper", "demo", "--output", "out")
    assert shown.returncode == 0, shown.stderr
    assert {"report.html", "report.json"} <= {path.name for path in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize(("tag", "why"), [("v9.9.9", "but functions/reaper/__init__.py says"), (VERSION, "the tag is")])
def test_a_tag_that_is_not_the_version_stops_the_release(tag: str, why: str):
    with pytest.raises(ValueError, match=why):
        release.check_tag(tag, VERSION)


def test_a_version_without_a_section_in_the_changelog_is_not_released():
    with pytest.raises(ValueError, match=r"no section \[99\.0\.0\]"):
        release.check_tag("v99.0.0", "99.0.0")


def test_the_same_bundle_is_packed_into_the_same_bytes(tmp_path: Path):
    made = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        (folder / "sub").mkdir(parents=True)
        for name in ("b", "a", "sub/c")[:: 1 if number == 1 else -1]:
            (folder / name).write_text(name)
            os.utime(folder / name, (number * 10**9, number * 10**9))
        release.zip_folder(folder, tmp_path / f"{number}.zip")
        made.append((tmp_path / f"{number}.zip").read_bytes())
    assert made[0] == made[1]
    assert zipfile.ZipFile(tmp_path / "1.zip").namelist() == ["a", "b", "sub/c"]


def test_the_released_template_is_ours_with_the_built_bundle(tmp_path: Path):
    path = tmp_path / "template.yaml"
    path.write_text(release.packed_template("bundle.zip"))
    assert path.read_text().replace("CodeUri: bundle.zip", "CodeUri: functions/") == (ROOT / "template.yaml").read_text()
    assert "CodeUri: functions" not in path.read_text()


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    try:
        release.make_release(folder)
    except sam.Missing as why:
        pytest.skip(str(why))
    return folder


def test_sam_deploys_a_release_without_a_build(released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What it does first with a template: it uploads each function's code as it is."""
    with Server(datetime.now(UTC)) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        storage = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1")
        storage.create_bucket(Bucket="code")
        written = tmp_path / "packed.yaml"
        done = sam.sam(
            "package",
            "--template-file",
            str(released / "template.yaml"),
            "--s3-bucket",
            "code",
            "--output-template-file",
            str(written),
        )
        assert done.returncode == 0, done.stderr
        [uploaded] = storage.list_objects_v2(Bucket="code")["Contents"]
        code = storage.get_object(Bucket="code", Key=uploaded["Key"])["Body"].read()
    assert code == next(released.glob("ml-idle-reaper-lambda-*.zip")).read_bytes()
    assert written.read_text().count(f"CodeUri: s3://code/{uploaded['Key']}") == (ROOT / "template.yaml").read_text().count(
        "CodeUri:"
    )


def test_a_release_has_every_file_that_the_guide_lists(released: Path):
    assert {path.name for path in released.iterdir()} == {
        f"ml_idle_reaper-{VERSION}-py3-none-any.whl",
        f"ml_idle_reaper-{VERSION}.tar.gz",
        f"ml-idle-reaper-lambda-{VERSION}.zip",
        f"ml-idle-reaper-functions-{VERSION}.zip",
        "sbom-functions.json",
        "sbom-lambda.json",
        "template.yaml",
    }
    names = zipfile.ZipFile(released / f"ml-idle-reaper-lambda-{VERSION}.zip").namelist()
    assert {"reaper/aws/functions/sweep.py", "pydantic/__init__.py"} <= set(names)
    app = zipfile.ZipFile(released / f"ml-idle-reaper-functions-{VERSION}.zip").namelist()
    assert {"host.json", "function_app.py", "requirements.txt", "functions/reaper/azure/functions/triggers.py"} <= set(app)
    assert not [name for name in app if name.startswith(("tests", "sandbox", "docs"))]
