"""The development installation is the same everywhere: pinned, by hash, for every Python and system that the project says it supports."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement

from deploy import sbom

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = [words[-1] for words in map(str.split, PROJECT["classifiers"]) if re.fullmatch(r"3\.\d+", words[-1])]
SYSTEMS = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}


def wanted(extra: str) -> list[Requirement]:
    """What an extra asks for, the extras that it names included."""
    requirements: list[Requirement] = []
    for text in PROJECT["optional-dependencies"][extra]:
        requirement = Requirement(text)
        own = requirement.name == PROJECT["name"]
        requirements += [r for name in sorted(requirement.extras) for r in wanted(name)] if own else [requirement]
    return requirements


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("extra", ["demo", "dev"])
def test_every_requirement_has_one_pin_that_fits_it(extra: str, python: str, system: str):
    markers = {
        "python_version": python,
        "python_full_version": f"{python}.1",
        "sys_platform": system,
        "platform_system": SYSTEMS[system],
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
    }
    pins = [p for p in sbom.locked(ROOT / "constraints.txt") if not p.marker or Marker(p.marker).evaluate(markers)]
    for requirement in [*map(Requirement, PROJECT["dependencies"]), *wanted(extra)]:
        if requirement.marker is None or requirement.marker.evaluate(markers):
            [pin] = [p for p in pins if p.name == re.sub(r"[-_.]+", "-", requirement.name).lower()]
            assert requirement.specifier.contains(pin.version, prereleases=True), f"{requirement}: run `make lock`"


@pytest.mark.parametrize("name", ["constraints.txt", "requirements.txt", "functions/requirements.txt"])
def test_no_lock_file_names_a_registry_or_an_option(name: str):
    lines = (ROOT / name).read_text().splitlines()
    assert [line for line in lines if "://" in line or line.startswith(("-", "#"))] == []


@pytest.mark.parametrize("target", [".venv/.dev", ".venv/.demo", ".venv/bin/uv"])
def test_make_installs_under_the_constraints(target: str, tmp_path: Path):
    plan = subprocess.run(
        ["make", "--dry-run", "--always-make", target], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    installs = [line for line in plan.splitlines() if "pip install" in line]
    assert installs
    assert all("--constraint constraints.txt" in line or "--require-hashes" in line for line in installs)


def test_make_takes_uvs_own_entry_and_nothing_else():
    [recipe] = [line.strip() for line in (ROOT / "Makefile").read_text().splitlines() if line.strip().startswith("sed ")]
    command = recipe.partition(" > ")[0].replace("$$", "$")
    taken = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    [entry] = (p for p in sbom.locked(ROOT / "constraints.txt") if p.name == "uv")
    assert re.findall(r"^\S+==", taken, re.M) == ["uv=="]
    assert tuple(re.findall(r"sha256:(\w+)", taken)) == entry.hashes
