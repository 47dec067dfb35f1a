"""Tags that protect from below: what lives inside a resource goes with it, so its own `reaper:*` tags bar acts on the whole. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from reaper import tags
from reaper.model import Action, Move

ASKED = {Move.STOP: Action.STOP, Move.DELETE: Action.DELETE}
Inside = Mapping[str, Mapping[str, str] | None]
"""Tags by name of what lives inside, None where they could not be read."""


def kept(inside: Inside, now: datetime) -> dict[str, str]:
    """By move, the clause that says which one inside forbids it; nothing for a move that none forbids."""
    found: dict[str, str] = {}
    for name, own in inside.items():
        for move, action in ASKED.items():
            if move.value not in found and (because := _forbids(own, action, now)):
                found[move.value] = f"{name} inside it is protected: {because}"
    return found


def _forbids(own: Mapping[str, str] | None, asked: Action, now: datetime) -> str | None:
    if own is None:
        return "its tags could not be read"
    wishes = tags.read(own, now)
    if wishes.protected:
        return wishes.protected
    below = wishes.action is not None and wishes.action.rank < asked.rank
    return f"tag reaper:action={wishes.action} allows no more" if below else None
