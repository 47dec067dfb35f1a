"""Writes docs/kinds.md from the kinds themselves. `--check` only says whether the file is up to date."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from reaper.kind import ActionSpec, Kind
from reaper.model import StepName
from reaper.registry import action_functions, kinds

PAGE = Path(__file__).with_name("kinds.md")
HEAD = """# Kinds

What a sweep knows, what it takes as use, and what it takes as proof that silence means something.
This page is made from the code by `make docs`.

`proven` idle: every activity signal was silent while the heartbeat was alive over the same hours. `likely` idle: only indirect evidence;
it leads to notices only, unless a rule says `act_on: likely`. Without either the verdict is `unknown`, and `unknown` is never acted on.

What can be done to a resource is only ever done in mode `enforce`, and needs permissions of its own on top of those for reading.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(f"\n{section(kind)}" for kind in kinds())


def section(kind: Kind[Any]) -> str:
    """One kind."""
    permissions = "\n".join(f"- `{p}`" for p in kind.permissions)
    return (
        f"## `{kind.name}`\n\n{kind.title} ({kind.docs})\n\n"
        f"| | |\n| --- | --- |\n| activity | {kind.activity} |\n| heartbeat | {kind.heartbeat} |\n| otherwise | {kind.without_proof} |\n\n"
        f"Permissions:\n\n{permissions}\n{doing(kind)}"
    )


def doing(kind: Kind[Any]) -> str:
    """What can be done to it, how that is undone, and what each needs; a line for a kind that only tells."""
    if not kind.actions:
        return "\nNothing is ever done to it.\n"
    needed = ", ".join(f"`{p}`" for p in sorted(set(action_functions(kind.name).undo_permissions) - set(kind.permissions)))
    undoing = f"\nUndoing needs, beyond those for reading: {needed}\n" if needed else ""
    return "".join(_deed(move, deed) for move, deed in kind.actions.items()) + undoing


def _deed(move: StepName, deed: ActionSpec) -> str:
    permissions = ", ".join(f"`{p}`" for p in deed.permissions)
    return f"\n`{move}` {deed.effect}. Undoing it {deed.undo}. Needs: {permissions}\n"


if __name__ == "__main__":
    if "--check" in sys.argv and (not PAGE.exists() or PAGE.read_text() != page()):
        sys.exit("docs/kinds.md is out of date: run `make docs`")
    PAGE.write_text(page())
