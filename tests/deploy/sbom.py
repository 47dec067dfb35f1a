"""The software bills of materials of both bundles, in CycloneDX 1.6, from their lock files alone: no registry is asked, nothing is installed.

usage: sbom.py FOLDER

The same lock files give the same bytes: no time, and a serial number that is made of the content. A component's hashes are those of every
file of that version that the lock file lets in. https://cyclonedx.org/docs/1.6/json/
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT = Path(__file__).parents[2]
BUNDLES = {"lambda": ROOT / "functions/requirements.txt", "functions": ROOT / "requirements.txt"}
OURS, OUR_LICENCE = "ml-idle-reaper", "Apache-2.0"
MARKER = f"{OURS}:environment-marker"
"""The property of a component that only some Pythons get; PEP 508 says how to read it."""
LICENCES = {
    "aiohappyeyeballs": "PSF-2.0",
    "aiohttp": "Apache-2.0 AND MIT",
    "aiosignal": "Apache-2.0",
    "annotated-types": "MIT",
    "attrs": "MIT",
    "aws-lambda-powertools": "MIT AND MIT-0",
    "azure-common": "MIT",
    "azure-communication-email": "MIT",
    "azure-core": "MIT",
    "azure-data-tables": "MIT",
    "azure-functions": "MIT",
    "azure-functions-durable": "MIT",
    "azure-identity": "MIT",
    "azure-mgmt-core": "MIT",
    "azure-mgmt-machinelearningservices": "MIT",
    "azure-monitor-querymetrics": "MIT",
    "azure-storage-blob": "MIT",
    "certifi": "MPL-2.0",
    "cffi": "MIT-0",
    "charset-normalizer": "MIT",
    "cryptography": "Apache-2.0 OR BSD-3-Clause",
    "frozenlist": "Apache-2.0",
    "furl": "Unlicense",
    "holidays": "MIT",
    "icalendar": "BSD-2-Clause",
    "idna": "BSD-3-Clause",
    "isodate": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "jmespath": "MIT",
    "markupsafe": "BSD-3-Clause",
    "msal": "MIT",
    "msal-extensions": "MIT",
    "multidict": "Apache-2.0",
    "opentelemetry-api": "Apache-2.0",
    "opentelemetry-sdk": "Apache-2.0",
    "opentelemetry-semantic-conventions": "Apache-2.0",
    "orderedmultidict": "Unlicense",
    "propcache": "Apache-2.0",
    "pycparser": "BSD-3-Clause",
    "pydantic": "MIT",
    "pydantic-core": "MIT",
    "pyjwt": "MIT",
    "python-dateutil": "Apache-2.0 OR BSD-3-Clause",
    "pyyaml": "MIT",
    "requests": "Apache-2.0",
    "six": "MIT",
    "typing-extensions": "PSF-2.0",
    "typing-inspection": "MIT",
    "tzdata": "Apache-2.0",
    "urllib3": "MIT",
    "werkzeug": "BSD-3-Clause",
    "yarl": "Apache-2.0",
}
"""What each package's own metadata say, as SPDX: lock files have no licences. A test compares them with what is installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """One entry of a lock file."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def locked(path: Path) -> Iterator[Locked]:
    """The entries of a lock file, in its order. Raises ValueError for a line that is no pinned requirement with hashes."""
    for entry in path.read_text().replace("\\\n", " ").splitlines():
        if not entry.strip():
            continue
        match = re.fullmatch(r"([a-z0-9-]+)==(\S+)\s*(?:;\s*(.*?))?((?:\s+--hash=sha256:[0-9a-f]{64})+)", entry.strip())
        if not match:
            raise ValueError(f"{path}: {entry[:80]!r} is no pinned requirement with hashes")
        hashes = tuple(re.findall(r"sha256:([0-9a-f]{64})", match[4]))
        yield Locked(name=match[1], version=match[2], marker=(match[3] or "").strip(), hashes=hashes)


def bill(bundle: str) -> dict[str, Any]:
    """The bill of materials of `lambda` or `functions`."""
    root = Component(
        type=ComponentType.APPLICATION,
        name=OURS,
        version=our_version(),
        bom_ref=OURS,
        licenses=[_licence(OUR_LICENCE)],
        properties=[Property(name=f"{OURS}:bundle", value=bundle)],
    )
    parts = [_component(entry) for entry in locked(BUNDLES[bundle])]
    bom = Bom(components=parts)
    bom.metadata.component = root
    bom.register_dependency(root, parts)
    made: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    # The library always adds both: when, and a random number.
    del made["metadata"]["timestamp"], made["serialNumber"]
    made["serialNumber"] = uuid5(NAMESPACE_URL, json.dumps(made, sort_keys=True)).urn
    return made


def _component(entry: Locked) -> Component:
    return Component(
        type=ComponentType.LIBRARY,
        name=entry.name,
        version=entry.version,
        bom_ref=f"{entry.name}=={entry.version}",
        purl=PackageURL(type="pypi", name=entry.name, version=entry.version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in entry.hashes],
        licenses=[_licence(LICENCES[entry.name])],
        properties=[Property(name=MARKER, value=entry.marker)] if entry.marker else [],
    )


def _licence(spdx: str) -> DisjunctiveLicense | LicenseExpression:
    return LicenseExpression(spdx) if " " in spdx else DisjunctiveLicense(id=spdx)


def our_version() -> str:
    """The version of this tree."""
    match = re.search(r'__version__ = "([^"]+)"', (ROOT / "functions/reaper/__init__.py").read_text())
    assert match
    return match[1]


def write_bills(folder: Path) -> None:
    """Both bills, one file each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in BUNDLES:
        (folder / f"sbom-{name}.json").write_text(json.dumps(bill(name), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    write_bills(Path(sys.argv[1]))
