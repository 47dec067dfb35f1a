"""CONTRIBUTING leads through the house: every file and folder that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOMES = (ROOT, *(ROOT / home for home in ("functions/reaper", "functions/reaper/aws", "sandbox/reaper_sandbox")))


def test_every_path_in_contributing_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = {path for path in re.findall(r"`([\w.]+(?:/[\w.]+)*/?)`", text) if "/" in path}
    assert len(paths) > 40
    assert {path for path in paths if not any((home / f"{path}{end}").exists() for home in HOMES for end in ("", ".py"))} == set()
