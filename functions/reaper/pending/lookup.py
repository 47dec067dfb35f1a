"""Finds the resource that a person means by its ID, its name, or a part that only one has. Never by similarity. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from shlex import quote

from reaper.ledger.rows import comparable_id
from reaper.text import clean_line

ID_PREFIXES = ("arn:", "/")
CUT = "…"
"""What a table puts in place of the middle of a long name."""
MAX_CANDIDATES = 20


def is_id(wanted: str) -> bool:
    """Whether it is a whole ID, an ARN or an ARM ID, and not a name."""
    return wanted.lower().startswith(ID_PREFIXES)


def find_ids(wanted: str, names: Mapping[str, str]) -> list[str]:
    """The IDs that may be meant, of those in `names`, by ID. The ID itself wins over names, and a whole name over parts.

    A part is one of the name, or the end of the ID: an account that only one of them is in names nothing.
    """
    if is_id(wanted):
        key = comparable_id(wanted)
        return [known for known in names if comparable_id(known) == key] or [i for i in names if i.lower() == wanted.lower()]
    if exact := [known for known, name in names.items() if name == wanted]:
        return exact
    pieces = [re.escape(piece) for piece in wanted.strip().split(CUT)]
    if not any(pieces):
        return []
    pattern = re.compile(".+".join(pieces), re.IGNORECASE)
    if CUT in wanted:
        return [known for known, name in names.items() if pattern.fullmatch(name)]
    return [known for known, name in names.items() if pattern.search(name) or known.lower().endswith(wanted.lower())]


def candidate_lines(command: str, ids: Sequence[str]) -> str:
    """The command for each of them, to choose one and paste it."""
    lines = [f"  {command} {quote(clean_line(known, len(known)))}" for known in sorted(ids)[:MAX_CANDIDATES]]
    more = [f"  and {len(ids) - MAX_CANDIDATES} more"] if len(ids) > MAX_CANDIDATES else []
    return "\n".join([*lines, *more])
