"""How to add an extra to this very installation. No registry has this package, so a name alone would install a stranger's.

Where a package came from: https://packaging.python.org/en/latest/specifications/direct-url/
"""

from __future__ import annotations

from shlex import quote

from reaper import __version__

DISTRIBUTION = "ml-idle-reaper"


def install_command(*extras: str) -> str:
    """`/home/me/.venv/bin/python -m pip install '/home/me/reaper[demo]'`, which works in any folder.

    If it isn't known where this came from, as in a bundle, it names a clone and a wheel.
    """
    import sys  # all of this loads only when something is missing
    from importlib.util import find_spec

    python = quote(sys.executable or "python3")
    pip = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    return f"{pip} {_requirement(','.join(extras))}"


def _requirement(extras: str) -> str:
    """The clone or wheel that this was installed from, with the extras."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    url = urlsplit(origin.get("url", ""))
    path = url2pathname(url.path)
    if url.scheme == "file" and Path(path).exists():
        editable = "--editable " if origin.get("dir_info", {}).get("editable") else ""
        return editable + quote(f"{path}[{extras}]")
    return f"'.[{extras}]' in a clone, or 'ml_idle_reaper-{__version__}-py3-none-any.whl[{extras}]' in the folder of that file"
