"""How to add an extra to this very installation. No registry has this package, so a name alone would install a stranger's.

Where a package came from: https://packaging.python.org/en/latest/specifications/direct-url/
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

from reaper import __version__

DISTRIBUTION = "ml-idle-reaper"


def install_command(*extras: str) -> str:
    """`/home/me/.venv/bin/python -m pip install '/home/me/reaper[demo]'`: the clone or wheel that this was installed from.

    If that isn't known, as in a bundle, both ways are named.
    """
    from importlib.metadata import Distribution  # slow to load, and only needed when something is missing
    from urllib.request import url2pathname

    python, added = quote(sys.executable), f"[{','.join(extras)}]"
    pip = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    found = next(iter(Distribution.discover(name=DISTRIBUTION)), None)
    origin = json.loads((found and found.read_text("direct_url.json")) or '{"url": ""}')
    path = url2pathname(origin["url"].removeprefix("file://"))
    if origin["url"].startswith("file://") and Path(path).exists():
        editable = "--editable " if origin.get("dir_info", {}).get("editable") else ""
        return f"{pip} {editable}{quote(path + added)}"
    return f"{pip} '.{added}' in a clone, or 'ml_idle_reaper-{__version__}-py3-none-any.whl{added}' in the folder of that file"
