"""What the policy would do now with each judged resource. Pure: carrying a plan out is somebody else's job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reaper.duration import text
from reaper.model import Action, Case, Memory, Move, State, Step


def plan(cases: Iterable[Case], memories: Mapping[str, Memory]) -> list[Step]:
    """One step per case, in the same order. `memories` is keyed by resource id; a resource without one was never warned about."""
    return [_step(case, memories.get(case.resource.id, Memory())) for case in cases]


def may_move(case: Case) -> bool:
    """The one predicate: only an idle resource that nothing protects can lead to anything but `none`."""
    return case.verdict.state is State.IDLE and case.rule.protected is None and case.rule.action is not Action.IGNORE


def _step(case: Case, memory: Memory) -> Step:
    if not may_move(case):
        return Step(move=Move.NONE, because=f"nothing to do: it is {case.verdict.state}")
    if memory.warned_at is not None:
        return Step(move=Move.NONE, because="its owner has been told about this idle spell")
    notes = "".join(f"; {note}" for note in case.rule.notes)
    return Step(move=Move.WARN, because=f"idle for more than {text(case.rule.idle_after)} under {case.rule.name}{notes}")
