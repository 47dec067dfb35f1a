"""Everything that a release has: wheel, source distribution, both bundles, the template for the built one, and the bills of materials.

usage: release.py FOLDER [TAG]      TAG, such as v1.2.3, must be the version of this tree

The same commit makes the same bundles, byte for byte, wherever the same wheels can be downloaded.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from deploy import sam, sbom

FUNCTIONS_PATHS = ("host.json", "function_app.py", "requirements.txt", "functions")
"""What docs/deploy-azure.md publishes."""
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time of every file in a bundle: the earliest that a zip file can hold."""


def check_tag(tag: str, version: str) -> None:
    """Raises ValueError if the tag isn't the version, or the changelog has no section about it."""
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag}, but functions/reaper/__init__.py says {version}")
    if f"\n## [{version}]" not in (sam.ROOT / "CHANGELOG.md").read_text():
        raise ValueError(f"CHANGELOG.md has no section [{version}]")


def build_distributions(folder: Path) -> None:
    """The wheel and the source distribution, with the pinned setuptools of this environment."""
    command = [
        sam.UV,
        "build",
        "--quiet",
        "--no-build-isolation",
        "--offline",
        "--python",
        sys.executable,
        "--out-dir",
        folder,
        sam.ROOT,
    ]
    subprocess.run(command, check=True)
    (folder / ".gitignore").unlink(missing_ok=True)


def zip_folder(source: Path, target: Path) -> None:
    """All files of a folder, in the order of their names, readable by all and without a time of their own."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in source.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(source).as_posix(), EARLIEST)
            entry.external_attr = (0o755 if path.stat().st_mode & 0o100 else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())


def zip_functions(target: Path) -> None:
    """The function app, as docs/deploy-azure.md publishes it."""
    subprocess.run(["git", "archive", "--format=zip", f"--output={target}", "HEAD", *FUNCTIONS_PATHS], cwd=sam.ROOT, check=True)


def packed_template(bundle: str) -> str:
    """The template with the built bundle instead of the source, so that `sam deploy` needs no build."""
    text = (sam.ROOT / "template.yaml").read_text()
    return text.replace("CodeUri: functions/\n", f"CodeUri: {bundle}\n")


def make_release(folder: Path) -> None:
    """All of it. Raises sam.Missing without the Python that the function runs on."""
    version = sbom.our_version()
    folder.mkdir(parents=True, exist_ok=True)
    build_distributions(folder)
    bundle = folder / f"ml-idle-reaper-lambda-{version}.zip"
    zip_folder(sam.bundle(), bundle)
    (folder / "template.yaml").write_text(packed_template(bundle.name))
    zip_functions(folder / f"ml-idle-reaper-functions-{version}.zip")
    sbom.write_bills(folder)


if __name__ == "__main__":
    try:
        if re.fullmatch(r"\S+", tag := "".join(sys.argv[2:])):
            check_tag(tag, sbom.our_version())
        make_release(Path(sys.argv[1]))
    except (ValueError, sam.Missing) as error:
        sys.exit(str(error))
    print("\n".join(sorted(path.name for path in Path(sys.argv[1]).iterdir())))
