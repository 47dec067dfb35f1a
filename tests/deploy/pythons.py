"""Where the Pythons that Lambda and Azure Functions run are on this machine; a shim on PATH may be there and still not work."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path


@cache
def python(version: str) -> Path | None:
    """A working interpreter of that version, such as 3.13: from PATH, or from pyenv's versions; None without one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{version}")
    for candidate in [*([Path(on_path)] if on_path else []), *sorted(pyenv.glob(f"{version}*/bin/python"), reverse=True)]:
        completed = subprocess.run(
            [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True, check=False
        )
        if completed.stdout.strip() == version:
            return candidate
    return None
