"""Tags that protect from below: what lives inside a resource goes with it, so its own `reaper:*` tags block actions on the whole. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from reaper.model import Ceiling, StepName
from reaper.policy import tags

STACK_TAG = "aws:cloudformation:stack-name"
CEILING_OF_ACTION = {StepName.STOP: Ceiling.STOP, StepName.DELETE: Ceiling.DELETE}
TagsOfContained = Mapping[str, Mapping[str, str] | None]
"""Tags by name of what lives inside, None where they couldn't be read."""


def protected_inside(component_tags: TagsOfContained, now: datetime) -> dict[StepName, str]:
    """By action, the clause that says what inside forbids it; nothing for an action that nothing forbids."""
    forbidden: dict[StepName, str] = {}
    for name, own_tags in component_tags.items():
        for action, ceiling in CEILING_OF_ACTION.items():
            if action not in forbidden and (because := _forbidden_because(own_tags, ceiling, now)):
                forbidden[action] = f"{name} inside it is protected: {because}"
        if StepName.DELETE not in forbidden and (because := undeletable_because(own_tags)):
            forbidden[StepName.DELETE] = f"{name} inside it would be deleted too, but {because}"
    return forbidden


def undeletable_because(own_tags: Mapping[str, str] | None) -> str | None:
    """The clause that says why it must not be deleted here: reserved tags can't be restored, nor what they tie it to."""
    keys = sorted(key for key in own_tags or {} if key.lower().startswith("aws:"))
    if not keys:
        return None
    if stack := _stack_name(own_tags):
        return f"it belongs to stack {stack}; delete it in CloudFormation"
    return f"its tag {keys[0]} is reserved by AWS and couldn't be restored"


def stack_warning(own_tags: Mapping[str, str] | None) -> str:
    """What a stack may do to a scaled resource, to be added to a sentence; empty without a stack."""
    stack = _stack_name(own_tags)
    return f"; its stack {stack} may change it back" if stack else ""


def _stack_name(own_tags: Mapping[str, str] | None) -> str | None:
    return next((value for key, value in (own_tags or {}).items() if key.lower() == STACK_TAG), None)


def _forbidden_because(own_tags: Mapping[str, str] | None, ceiling: Ceiling, now: datetime) -> str | None:
    if own_tags is None:
        return "its tags couldn't be read"
    requests = tags.read_tags(own_tags, now)
    if requests.protected_because:
        return requests.protected_because
    below = requests.action is not None and requests.action.rank < ceiling.rank
    return f"tag reaper:action={requests.action} allows no more" if below else None
