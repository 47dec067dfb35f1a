"""Tags that protect from below: what lives inside a resource goes with it, so its own `reaper:*` tags bar acts on the whole. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from reaper.model import Ceiling, StepName
from reaper.policy import tags

STACK_TAG = "aws:cloudformation:stack-name"
CEILING_OF_ACTION = {StepName.STOP: Ceiling.STOP, StepName.DELETE: Ceiling.DELETE}
TagsOfContained = Mapping[str, Mapping[str, str] | None]
"""Tags by name of what lives inside, None where they could not be read."""


def protected_inside(inside: TagsOfContained, now: datetime) -> dict[StepName, str]:
    """By move, the clause that says which one inside forbids it; nothing for a move that none forbids."""
    found: dict[StepName, str] = {}
    for name, own in inside.items():
        for move, action in CEILING_OF_ACTION.items():
            if move not in found and (because := _forbidden_because(own, action, now)):
                found[move] = f"{name} inside it is protected: {because}"
        if StepName.DELETE not in found and (because := undeletable_because(own)):
            found[StepName.DELETE] = f"{name} inside it would be deleted too, but {because}"
    return found


def undeletable_because(own: Mapping[str, str] | None) -> str | None:
    """The clause that says why it must not be deleted here: tags that AWS keeps for itself cannot be put back, nor what they tie it to."""
    keys = sorted(key for key in own or {} if key.lower().startswith("aws:"))
    if not keys:
        return None
    if stack := _stack_name(own):
        return f"it belongs to stack {stack}; delete it in CloudFormation"
    return f"its tag {keys[0]} is reserved by AWS and could not be restored"


def stack_warning(own: Mapping[str, str] | None) -> str:
    """What a stack may do to what is only scaled, to be added to a sentence; "" where none manages it."""
    stack = _stack_name(own)
    return f"; its stack {stack} may change it back" if stack else ""


def _stack_name(own: Mapping[str, str] | None) -> str | None:
    return next((value for key, value in (own or {}).items() if key.lower() == STACK_TAG), None)


def _forbidden_because(own: Mapping[str, str] | None, asked: Ceiling, now: datetime) -> str | None:
    if own is None:
        return "its tags could not be read"
    wishes = tags.read_tags(own, now)
    if wishes.protected_because:
        return wishes.protected_because
    below = wishes.action is not None and wishes.action.rank < asked.rank
    return f"tag reaper:action={wishes.action} allows no more" if below else None
