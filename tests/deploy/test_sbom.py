from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from deploy import sbom


def written(folder: Path) -> dict[str, bytes]:
    """What the script writes, by file name."""
    subprocess.run([sys.executable, str(Path(sbom.__file__)), str(folder)], check=True)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def pinned(path: Path) -> set[tuple[str, str, str]]:
    """Name, version and hash of everything in a lock file, read line by line and not as the script does."""
    pins, name, version = set(), "", ""
    for line in path.read_text().splitlines():
        if "==" in line and not line.startswith(" "):
            name, version = line.partition(";")[0].strip(" \\").split("==")
        pins |= {(name, version, digest) for digest in re.findall(r"--hash=sha256:(\w+)", line)}
    return pins


@pytest.mark.parametrize("bundle", sbom.BUNDLES)
def test_a_bill_is_valid_against_its_own_specification(bundle: str):
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(sbom.bill(bundle))) is None


@pytest.mark.parametrize("bundle", sbom.BUNDLES)
def test_a_bill_names_all_that_the_lock_file_pins_and_nothing_else(bundle: str):
    components = sbom.bill(bundle)["components"]
    hashes = {(c["name"], c["version"], h["content"]) for c in components for h in c["hashes"]}
    assert hashes == pinned(sbom.BUNDLES[bundle])
    assert {h["alg"] for c in components for h in c["hashes"]} == {"SHA-256"}
    assert all(c["purl"] == f"pkg:pypi/{c['name']}@{c['version']}" for c in components)


def test_a_bill_says_which_python_gets_what():
    marked = {c["bom-ref"]: c["properties"][0]["value"] for c in sbom.bill("functions")["components"] if "properties" in c}
    lines = sbom.BUNDLES["functions"].read_text().splitlines()
    assert marked
    assert all(any(line.startswith(ref) and marker in line for line in lines) for ref, marker in marked.items())
    assert len(marked) == sum(" ; " in line for line in lines)


def test_bills_are_the_same_byte_for_byte_whenever_they_are_made(tmp_path: Path):
    first, second = written(tmp_path / "1"), written(tmp_path / "2")
    assert first == second
    assert sorted(first) == ["sbom-functions.json", "sbom-lambda.json"]
    serials = {json.loads(text)["serialNumber"] for text in first.values()}
    assert len(serials) == 2


def test_every_licence_is_known_and_none_is_left_from_what_is_gone():
    names = {c["name"] for bundle in sbom.BUNDLES for c in sbom.bill(bundle)["components"]}
    assert set(sbom.LICENCES) == names


@pytest.mark.parametrize("name", sbom.LICENCES)
def test_a_licence_is_what_the_package_says_of_itself(name: str):
    own_metadata, ours = metadata.metadata(name), sbom.LICENCES[name]
    expression = own_metadata.get("License-Expression") or (own_metadata.get("License") or "").partition("\n")[0].removesuffix(
        " License"
    )
    family = ours.partition("-")[0]
    assert expression in {ours, *ours.split(" AND ")} or any(
        family in c for c in own_metadata.get_all("Classifier", []) if "License" in c
    )


def test_a_line_without_hashes_is_refused(tmp_path: Path):
    (tmp_path / "lock.txt").write_text("jinja2==3.1.6\n")
    with pytest.raises(ValueError, match="no pinned requirement"):
        list(sbom.locked(tmp_path / "lock.txt"))
