"""What `make` says on a machine without what it needs, how `make demo` leads to the command, and where `.ci/run` tests."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def python_without_venv(tmp_path: Path) -> Path:
    """A Python as Debian's package python3 alone: its module ensurepip isn't there."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "ensurepip.py").write_text("raise ModuleNotFoundError(\"No module named 'ensurepip'\")")
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(hidden))} exec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    return python


def test_without_venv_make_names_the_package_and_leaves_nothing(python_without_venv: Path, tmp_path: Path):
    made = tmp_path / ".venv"
    done = subprocess.run(
        ["make", f"PYTHON={python_without_venv}", f"VENV={made}", f"{made}/bin/uv"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].endswith(f"install it with: apt install python{VERSION}-venv")
    assert "Traceback" not in done.stderr
    assert not made.exists()


def test_the_demo_ends_with_the_line_that_makes_reaper_a_command(tmp_path: Path):
    plan = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", f"VENV={tmp_path}", "demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    shown = subprocess.run(["sh", "-c", plan[plan.index("printf") :]], capture_output=True, text=True, check=True).stdout
    path, completion = [line.strip() for line in shown.splitlines() if line.startswith("    ")]
    assert completion == "reaper --install-completion"
    lines = f"{path.replace(f'{ROOT}/{tmp_path}/bin', str(Path(sys.executable).parent))}\nreaper --version"
    found = subprocess.run(["sh", "-c", lines], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout.split()[0]) == (0, "reaper")


def test_ci_tests_in_an_odd_folder_zone_and_language(tmp_path: Path):
    for name, script in {"make": 'printf "%s|" "$*" "$PWD" "$TZ" "$LANG" "$LANGUAGE" && ls Makefile', "chromium": ":"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run([ROOT / ".ci/run"], env=environ, capture_output=True, text=True, check=True)
    check, test = (line.split("|") for line in done.stdout.splitlines())
    assert (check[0], test[0]) == ("check", "test")
    assert check[1:] == test[1:]
    assert (len(check[1]), " " in check[1], check[2:]) == (100, True, ["Asia/Kolkata", "de_DE.UTF-8", "de", "Makefile"])
    assert not Path(check[1]).exists(), "it is removed in the end"
