"""The Azure bundle as a deployment makes it: the app's files, and beside them what requirements.txt names, for the worker's Python."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements.txt"
UV = Path(sys.executable).with_name("uv")


class Missing(Exception):
    """The bundle cannot be made here; the text says why."""


def app(folder: Path) -> Path:
    """The app's own files, copied: what is deployed, without tests."""
    for name in ("host.json", "function_app.py", "requirements.txt"):
        shutil.copy(ROOT / name, folder / name)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "functions", folder / "functions", ignore=ignored)
    return folder


def packages(python: Path, *more: str) -> Path:
    """The folder with the locked requirements and `more`, installed once for this Python. Raises Missing where that fails."""
    version = subprocess.run([python, "-VV"], capture_output=True, text=True, check=True).stdout
    name = hashlib.sha256("\0".join([version, REQUIREMENTS.read_text(), *more]).encode()).hexdigest()[:12]
    folder = ROOT / "build" / f"functions-{name}"
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix="functions-", dir=folder.parent))
        _install(python, fresh, "--require-hashes", "-r", str(REQUIREMENTS))
        _install(python, fresh, *more)
        # Two test runs at once may both get here; the first one's folder is as good.
        if not folder.exists():
            fresh.rename(folder)
    return folder


def _install(python: Path, folder: Path, *what: str) -> None:
    if not what:
        return
    command = [UV, "pip", "install", "--quiet", "--no-config", "--python", python, "--target", folder, *what]
    completed = subprocess.run(
        command, env={**os.environ, "UV_PYTHON_DOWNLOADS": "never"}, capture_output=True, text=True, timeout=240, check=False
    )
    if completed.returncode:
        raise Missing(f"uv pip install failed: {completed.stderr.strip()[-300:]}")
