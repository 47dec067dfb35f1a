"""What earlier runs began and did not get to tell of: closed where nobody knows what became of it, and told as it stands.

An action leaves a hint before its first call, which is removed once its owner knows; whatever hints are left tell where a run ended early.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reaper import memory_updates, plan
from reaper.actions import intent
from reaper.errors import CloudError, Reason
from reaper.ledger.port import HistoryEntry, Ledger, Recalled, Unfinished
from reaper.ledger.stored_text import comparable_id
from reaper.model import (
    Case,
    Ceiling,
    Finding,
    Memory,
    Outcome,
    Owner,
    Resource,
    Result,
    Rule,
    State,
    Step,
    StepName,
    Target,
    Verdict,
)

AND_THE_REST = ", and the rest was announced"
TOLD_ENTRY = "told"
"""In the history: a channel accepted the mail about an action."""
WENT_ENTRY = "went"
"""In the history: it went with what it lived in, whose id the entry says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UntoldAction:
    """An action whose owner still has to be told: as a finding to mail about, the hint that led to it, and whether it was closed just now."""

    finding: Finding
    hint: Unfinished
    closed_now: bool


def unfinished_entry(finding: Finding, run: str, now: datetime) -> Unfinished:
    """The hint of an action of that run, as `intent` knows it again."""
    resource = finding.case.resource
    return Unfinished(
        target=resource.target,
        id=resource.id,
        kind=resource.kind,
        name=resource.name,
        region=resource.region,
        owner=finding.case.owner,
        action=finding.step.name,
        run=run,
        at=now,
    )


def read_unfinished(ledger: Ledger, targets: Iterable[Target], now: datetime) -> tuple[list[Unfinished], list[CloudError]]:
    """Every hint that earlier runs left at those targets, and what is wrong with hints that cannot be understood: these stay.

    Raises CloudError where the ledger does not answer.
    """
    found: list[Unfinished] = []
    unread: list[CloudError] = []
    for target in sorted(targets, key=str):
        try:
            found += ledger.unfinished(target, now)
        except CloudError as error:
            if error.reason is not Reason.UNREADABLE:
                raise
            unread.append(error)
    return found, unread


def close_and_list_untold(
    left: Sequence[Unfinished], findings: Sequence[Finding], memories: Recalled, ledger: Ledger, now: datetime
) -> tuple[Recalled, list[UntoldAction]]:
    """The memories with every open action closed by version, and what is to be told of them. Hints that lead nowhere are removed.

    Raises CloudError where the ledger cannot be written.
    """
    listed = {f.case.resource.id: f for f in findings}
    left = _as_listed(left, listed)
    known, closed = dict(memories), set()
    told = {*listed, *(entry.id for entry in left)}  # a host's row alone leads to no mail: it is closed when the host is listed
    for id_, memory in memories.items():
        if id_ in told and memory_updates.is_unfinished(memory):
            known[id_] = intent.close_unfinished(ledger, id_, memory, now)
            closed.add(id_)
    found: list[UntoldAction] = []
    for entry in [*left, *_missing_entries(closed, left, listed, known, ledger)]:
        if entry.id in memories.unreadable:
            continue
        memory = known.get(entry.id, Memory())
        one = UntoldAction(
            finding=_untold_finding(entry, memory, listed.get(entry.id)), hint=entry, closed_now=entry.id in closed
        )
        if (
            not intent.is_same_intent(memory, entry)
            or memory.last_action_told_at
            or memory.last_action_result is None
            or _is_in_weekly_summary(memory)
        ):
            ledger.remove_unfinished(entry.target, entry.id)
        elif said := _accepted_mail(entry, ledger):
            announced = said.because.endswith(AND_THE_REST)
            intent.record_owner_told(
                ledger, entry, said.when, change_after_mail(one.finding, said.by, said.when) if announced else unchanged
            )
            known |= ledger.recall([entry.id], now)
        else:
            found.append(one)
    return Recalled(known, {error_id: memories.error_of(error_id) for error_id in memories.unreadable}), found


def _as_listed(left: Iterable[Unfinished], listed: Collection[str]) -> list[Unfinished]:
    """Under the ids that the services spell today: an earlier run may have met another spelling."""
    spelled = {comparable_id(id_): id_ for id_ in listed}
    return [replace(entry, id=spelled.get(comparable_id(entry.id), entry.id)) for entry in left]


def change_after_mail(finding: Finding, receipt: str, when: datetime) -> Callable[[Memory], Memory]:
    """What a mail about an action that was accepted at `when` makes of its row: of a part, it is the notice for the rest."""
    leads_on = finding.outcome.part_done is not None and plan.may_act_on_rest(finding.case)
    return lambda memory: memory_updates.after_part_notice(finding.case, memory, receipt, when) if leads_on else memory


def history_reason(entry: Unfinished, *, rest: bool = False) -> str:
    """What the history says of a mail about that action, and that it announced the rest of it, where it did."""
    return f"of run {entry.run}: {entry.action}{AND_THE_REST if rest else ''}"


def closed_actions_error(found: Sequence[UntoldAction]) -> CloudError | None:
    """What the report says of the actions that were closed just now."""
    lost = [one for one in found if one.closed_now]
    if not lost:
        return None
    more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
    said = lost[0].finding.outcome.error
    return CloudError(
        Reason.PARTIAL, "act", f"{lost[0].hint.id}: {said}; `reaper restore {lost[0].hint.id}` brings it back{more}"
    )


def _is_in_weekly_summary(memory: Memory) -> bool:
    """Whether its owner hears of it in the weekly summary. A stop by hours leaves no hint, so one that did is told, whatever today's rule."""
    return memory.last_action is StepName.START and memory.last_action_result is Result.DONE


def _accepted_mail(entry: Unfinished, ledger: Ledger) -> HistoryEntry | None:
    """The mail about it that a channel accepted before its run ended, if there was one."""
    texts = {history_reason(entry), history_reason(entry, rest=True)}
    return next((e for e in ledger.history(entry.id) if e.what == TOLD_ENTRY and e.because in texts), None)


def unchanged(memory: Memory) -> Memory:
    """The row unchanged, for a mail that announced nothing more."""
    return memory


def _missing_entries(
    closed: Iterable[str], left: Sequence[Unfinished], listed: Mapping[str, Finding], known: Mapping[str, Memory], ledger: Ledger
) -> list[Unfinished]:
    """Hints for open actions that left none, as version 49f8b6c did, so that they are told of even if the mail fails today."""
    hinted = {entry.id for entry in left}
    made = []
    for id_ in sorted(set(closed) - hinted):
        memory, found = known[id_], listed.get(id_)
        if found is None or memory.last_action is None or memory.last_action_at is None:
            continue
        asked = replace(found, step=Step(name=memory.last_action, because=""))
        made.append(unfinished_entry(asked, memory.last_action_run or "", memory.last_action_at))
        ledger.add_unfinished(made[-1])
    return made


def _untold_finding(entry: Unfinished, memory: Memory, listed: Finding | None) -> Finding:
    base = listed or _unlisted_finding(entry)
    done, because = memory.last_action_result is Result.DONE, memory.last_action_because or ""
    left = "it is as an earlier run left it" if done else "an earlier run may have changed it"
    exempt = Verdict(state=State.EXEMPT, because=left)
    return replace(
        base,
        # Its mail goes to whoever owned it then, and must never count as a notice to whoever owns it now.
        case=replace(base.case, verdict=exempt, owner=entry.owner or base.case.owner, rule=_rule_with_mail(base.case.rule)),
        step=Step(name=entry.action, because="an earlier run did it and ended before its owner was told"),
        outcome=Outcome(
            result=memory.last_action_result or Result.FAILED,
            because=because if done else None,
            error=None if done else because,
            begun=True,
            part_done=memory.last_action_part,
        ),
        owner=Owner(address=entry.owner, source="its owner when it was done") if entry.owner else base.owner,
        wasted_usd=None,
        evidence=(),
    )


def _rule_with_mail(rule: Rule) -> Rule:
    """The rule, without the weekly summary being enough."""
    return replace(rule, hours=replace(rule.hours, by_rule=False)) if rule.hours else rule


def _unlisted_finding(entry: Unfinished) -> Finding:
    """A finding of what is no longer listed: no more is known of it than its hint says."""
    resource = Resource(kind=entry.kind, id=entry.id, name=entry.name, target=entry.target, region=entry.region, created=None)
    nothing = timedelta()
    rule = Rule(name="no rule", action=Ceiling.IGNORE, idle_after=nothing, grace=nothing, remind_every=nothing)
    case = Case(resource=resource, rule=rule, verdict=Verdict(state=State.EXEMPT, because="it is gone"), owner=entry.owner)
    return Finding(
        case=case,
        step=Step(name=StepName.NONE, because="it is gone"),
        outcome=Outcome(result=Result.PLANNED),
        owner=Owner(address=entry.owner, source="its owner when it was done"),
        price=None,
        wasted_usd=None,
        evidence=(),
    )
