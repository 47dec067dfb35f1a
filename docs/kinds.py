"""Writes docs/kinds.md from the kinds themselves. `--check` only says whether the file is up to date."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from reaper.model import Kind
from reaper.registry import kinds

PAGE = Path(__file__).with_name("kinds.md")
HEAD = """# Kinds

What a sweep knows, what it takes as use, and what it takes as proof that silence means something.
This page is made from the code by `make docs`.

`proven` idle: every activity signal was silent while the heartbeat was alive over the same hours. `likely` idle: only indirect evidence;
it leads to notices only. Without either the verdict is `unknown`, and `unknown` is never acted on.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(f"\n{section(kind)}" for kind in kinds())


def section(kind: Kind[Any]) -> str:
    """One kind."""
    permissions = "\n".join(f"- `{p}`" for p in kind.permissions)
    return (
        f"## `{kind.name}`\n\n{kind.title} ({kind.docs})\n\n"
        f"| | |\n| --- | --- |\n| activity | {kind.activity} |\n| heartbeat | {kind.heartbeat} |\n| otherwise | {kind.otherwise} |\n\n"
        f"Permissions:\n\n{permissions}\n"
    )


if __name__ == "__main__":
    if "--check" in sys.argv and (not PAGE.exists() or PAGE.read_text() != page()):
        sys.exit("docs/kinds.md is out of date: run `make docs`")
    PAGE.write_text(page())
