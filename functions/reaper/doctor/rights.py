"""The permissions that the enabled kinds need to be judged, and in mode enforce to be acted on; on request those of an undo."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from reaper import registry
from reaper.doctor.check import Check, ok, unknown
from reaper.doctor.context import MAX_ACCOUNTS, DoctorContext, Opened, doctor_of, one_per_account
from reaper.doctor.right import rights_checks
from reaper.model import ACTIONS, Ceiling, StepName
from reaper.sessions import CloudSession
from reaper.text import count_noun

if TYPE_CHECKING:
    from reaper.policy.schema import Policy


def examine_reading(context: DoctorContext, cloud: str, opened: Opened) -> Iterator[Check]:
    """Ask for a little of everything that a sweep reads. Metrics are `examine_metrics`."""
    doctor, sessions = doctor_of(cloud), opened.sessions.get(cloud, [])
    needed = sorted(reading_permissions(context, cloud) - set(doctor.METRIC_PERMISSIONS))
    rights = [right for session in one_per_account(sessions) for right in doctor.reading_rights(session.for_kind(), needed)]
    yield from rights_checks(f"reading.{cloud}", rights, "reading")
    accounts = len({session.target.account for session in sessions})
    if accounts > MAX_ACCOUNTS:
        because = f"the permissions in {count_noun(accounts - MAX_ACCOUNTS, 'more account')} weren't asked for, only in the first {MAX_ACCOUNTS}"
        yield unknown(f"reading.{cloud}", because, "The coverage of a sweep names what is missing in each account.")


def examine_metrics(context: DoctorContext, cloud: str, opened: Opened) -> Iterator[Check]:
    """Ask for metrics as a sweep does: in every region of the first account, and in one region of the others."""
    doctor = doctor_of(cloud)
    if not set(doctor.METRIC_PERMISSIONS) & reading_permissions(context, cloud):
        return
    sessions = _first_account_and_others(opened.sessions.get(cloud, []))
    rights = [right for session in sessions for right in doctor.metric_rights(session.for_kind(), context.clock())]
    yield from rights_checks(f"metrics.{cloud}", rights, "reading metrics")


def examine_acting(context: DoctorContext, cloud: str, opened: Opened) -> Iterator[Check]:
    """Ask whether the actions of mode enforce would be allowed, those that the policy can lead to. Nothing is tried."""
    if not context.settings.mode.acts:
        yield ok(f"acting.{cloud}", f"mode {context.settings.mode} needs no permission to act")
        return
    possible = _possible_actions(opened.policy.policy) if opened.policy else ACTIONS
    if not possible:
        yield ok(f"acting.{cloud}", "the policy allows no stop and no delete, so a sweep needs no permission to act")
        return
    specs = [spec for kind in context.kinds_of(cloud) for action, spec in kind.actions.items() if action in possible]
    needed = {permission for spec in specs for permission in spec.permissions} - reading_permissions(context, cloud)
    yield from _permitted(context, f"acting.{cloud}", needed, opened.sessions.get(cloud, []))


def examine_undoing(context: DoctorContext, cloud: str, opened: Opened) -> Iterator[Check]:
    """Ask whether this identity could restore what was stopped or deleted. Nothing is tried."""
    kinds = [kind for kind in context.kinds_of(cloud) if kind.actions]
    needed = {permission for kind in kinds for permission in registry.action_functions(kind.name).undo_permissions}
    needed -= reading_permissions(context, cloud)
    yield from _permitted(context, f"undoing.{cloud}", needed, opened.sessions.get(cloud, []))


def examine_workflow(context: DoctorContext) -> Iterator[Check]:
    """Whether the workflow that sweeps several accounts can be started and asked about, if the function starts one."""
    if context.settings.workflow:
        rights = doctor_of("aws").workflow_rights(context.settings.workflow)
        yield from rights_checks("workflow", rights, "the workflow")


def reading_permissions(context: DoctorContext, cloud: str) -> set[str]:
    """What a sweep of the enabled kinds reads with."""
    return {permission for kind in context.kinds_of(cloud) for permission in kind.permissions}


def _possible_actions(policy: Policy) -> Collection[StepName]:
    """The actions that a rule can lead to. Tags allow no more, and what is stopped may have to be started, because a tag may name hours."""
    ceilings = {policy.defaults.action, *(rule.action for rule in policy.rules)}
    if Ceiling.DELETE in ceilings:
        return ACTIONS
    return {StepName.STOP, StepName.START} if Ceiling.STOP in ceilings else ()


def _permitted(context: DoctorContext, name: str, needed: Collection[str], sessions: Sequence[CloudSession]) -> Iterator[Check]:
    doctor, role = doctor_of(name.partition(".")[2]), context.settings.role
    rights = [
        right for session in one_per_account(sessions) for right in doctor.acting_rights(session.for_kind(), sorted(needed), role)
    ]
    yield from rights_checks(name, rights, name.partition(".")[0])


def _first_account_and_others(sessions: Sequence[CloudSession]) -> list[CloudSession]:
    first = [session for session in sessions if session.target.account == sessions[0].target.account]
    return [*first, *list(one_per_account(sessions))[1:]]
