"""The SAM command line in an environment of its own, because it pins an older boto3; and the bundle that it builds.

usage: sam.py      builds the bundle and tells its size
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNTIME = "3.13"
UV = ROOT / ".venv/bin/uv"
HOME = ROOT / ".venv-sam"
BUILD = ROOT / "build" / os.environ.get("PYTEST_XDIST_WORKER", "")
"""One folder for each process that tests run in, because one would replace what the other is using."""
RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
"""What all processes of one test run share, and no two runs."""


class Missing(Exception):
    """Something that this machine does not have, and the reason to skip loudly."""


def sam(*arguments: str, paths: list[Path] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the SAM command line; installs it on first use. Raises Missing where it cannot be installed."""
    program = HOME / "bin/sam"
    if not program.exists():
        _install()
    path = os.pathsep.join([*(str(p) for p in paths or []), os.environ["PATH"]])
    environ = {**os.environ, "PATH": path, "SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": "us-east-1"}
    return subprocess.run([program, *arguments], cwd=ROOT, env=environ, capture_output=True, text=True, check=False)


@cache
def bundle() -> Path:
    """One of the functions, all of which have the same code, built under build/ once in each test run. Raises Missing without their Python."""
    return _once(ROOT / "build/sam", _build) / "SweepFunction"


@cache
def bundle_for_here() -> Path:
    """The same files, with the packages that are compiled for the processor of this machine. Raises Missing."""
    deployed = bundle()
    return _once(ROOT / "build/sam-here", lambda out: _for_here(deployed, out))


def _once(out: Path, build: Callable[[Path], None]) -> Path:
    built = out.with_suffix(".run")
    with _locked("bundle"):
        if not RUN or not built.exists() or built.read_text() != RUN:
            built.unlink(missing_ok=True)
            build(out)
            built.write_text(RUN)
    return out


def _build(out: Path) -> None:
    from deploy.pythons import python

    interpreter = python(RUNTIME)
    if interpreter is None:
        raise Missing(f"Python {RUNTIME}, which the function runs on, is not on this machine")
    shims = BUILD / "bin"
    shims.mkdir(parents=True, exist_ok=True)
    _link(shims / f"python{RUNTIME}", interpreter)
    completed = sam("build", "--template", "template.yaml", "--build-dir", str(out), "--config-env", "none", paths=[shims])
    if completed.returncode:
        raise RuntimeError(f"sam build failed:\n{completed.stdout}{completed.stderr}")


def _for_here(deployed: Path, out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(deployed, out)
    compiled = list(out.rglob("*.so"))
    for file in compiled:
        file.unlink()
    names = {file.relative_to(out).parts[0] for file in compiled}
    pins = [home.name.removesuffix(".dist-info").replace("-", "==") for home in out.glob("*.dist-info")]
    wanted = [pin for pin in pins if pin.split("==")[0] in names]
    assert len(wanted) == len(names), (wanted, names)
    where = ["--target", out, "--python-version", RUNTIME, "--python-platform", f"{platform.machine()}-manylinux_2_28"]
    subprocess.run([UV, "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", *where, *wanted], check=True)


def megabytes(folder: Path) -> float:
    """The size of all files in a folder, as Lambda counts it, in units of 1,048,576 bytes."""
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 2**20


def _install() -> None:
    with _locked("sam"):
        install(HOME, "aws-sam-cli>=1.145", "bin/sam")


@contextmanager
def _locked(name: str) -> Iterator[None]:
    """One process after the other."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (ROOT / "build" / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(home: Path, requirement: str, program: str) -> None:
    """An environment of its own with that package, unless its program is there. Raises Missing where it cannot be installed."""
    if (home / program).exists():
        return
    made = subprocess.run([sys.executable, "-m", "venv", home], capture_output=True, text=True, check=False)
    command = [UV, "pip", "install", "--quiet", "--python", home / "bin/python", requirement]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode or completed.returncode:
        raise Missing(f"{requirement} cannot be installed: {made.stderr}{completed.stderr}")


def _link(link: Path, target: Path) -> None:
    """A script rather than a symbolic link: a linked interpreter looks for its library beside the link."""
    link.write_text(f'#!/bin/sh\nexec "{target}" "$@"\n')
    link.chmod(0o755)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    try:
        built = bundle()
    except Missing as why:
        sys.exit(str(why))
    print(f"{built.relative_to(ROOT)}: {megabytes(built):.1f} MB unzipped")
