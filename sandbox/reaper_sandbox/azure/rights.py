"""What the simulated identity may do: everything, unless a guard from here says otherwise. Resource Graph asks the same guards, row by row.

server.rules.append(deny("Microsoft.MachineLearningServices/workspaces/computes/read", ".*/workspaces/vision"))
server.rules.append(only(*the_actions_of_a_role))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import Any

from reaper_sandbox.azure.fault import Fault
from reaper_sandbox.azure.refusal import unauthorized
from reaper_sandbox.azure.request import Request

UNGOVERNED = ("", "Microsoft.ResourceGraph/resources/read", "Microsoft.Communication/emails/action")
"""Actions that no role assignment is needed for here: a query of Resource Graph itself only ever leaves rows out."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A guard. With `grants` what matches is all that may be done; without, what matches may not. `texts`: the actions as written."""

    actions: tuple[re.Pattern[str], ...]
    scope: re.Pattern[str]
    grants: bool = False
    texts: tuple[str, ...] = ()

    def covers(self, action: str, scope: str) -> bool:
        """Whether this guard refuses `action` at `scope`."""
        if action in UNGOVERNED:
            return False
        hit = any(p.fullmatch(action) for p in self.actions) and self.scope.fullmatch(scope) is not None
        return hit != self.grants

    def __call__(self, request: Request) -> Fault | None:
        """403 with the action and scope, or None."""
        if not self.covers(request.action, request.scope):
            return None
        reply = unauthorized(request.action, request.scope).reply
        return Fault(answer=lambda _: reply)


def deny(action: str, scope: str = ".*") -> Limit:
    """Refuses what matches: `action` may have `*` in it, `scope` is a pattern for the whole scope; case does not matter."""
    return Limit(_patterns([action]), re.compile(scope, re.I | re.S), texts=(action,))


def only(*actions: str, scope: str = ".*") -> Limit:
    """Grants these actions (with `*`) where `scope` matches, and nothing else."""
    return Limit(_patterns(actions), re.compile(scope, re.I | re.S), grants=True, texts=actions)


def refuses(rules: Sequence[Callable[[Request], Any]], action: str, scope: str) -> bool:
    """Whether any of the guards refuses `action` at `scope`."""
    return any(isinstance(rule, Limit) and rule.covers(action, scope) for rule in list(rules))


def _patterns(actions: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(translate(action), re.I) for action in actions)
