"""What an owner can paste into a shell: the tag that keeps a resource, the lines that stop it and that undo a stop. Pure.

The lines themselves are the kinds' own (`Kind.commands`, `keep_line`, `undo_line`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from shlex import quote

from reaper import registry
from reaper.case import Blocked, Case
from reaper.kind import Command, account_of, is_pasteable
from reaper.model import Resource, StepName

KEEP_DAYS = 7
RESTORE_COMMAND = "reaper restore"
LOCATION_SETTINGS = ("REAPER_LEDGER", "REAPER_MANIFESTS")
"""The settings that tell a command where the deployment's ledger and manifests are."""


def keep_tag(now: datetime) -> str:
    """`reaper:keep-until=2026-11-28`: a week from now, its whole day included."""
    return f"reaper:keep-until={now + timedelta(days=KEEP_DAYS):%Y-%m-%d}"


def keep_command(resource: Resource, now: datetime) -> str | None:
    """The command that puts that tag on; None if the cloud's tool can't tag this kind."""
    kind, (key, _, day) = registry.find_kind(resource.kind), keep_tag(now).partition("=")
    return kind.keep_line(resource, key, day) if kind and _has_pasteable_names(resource) else None


def place(resource: Resource) -> str:
    """The account or workspace that people know it by: `account 123456789012`."""
    kind = registry.find_kind(resource.kind)
    return kind.place(resource) if kind else account_of(resource)


def undo_command(resource: Resource) -> str | None:
    """The command that undoes a stop."""
    if not _has_pasteable_names(resource):
        return None
    kind = registry.find_kind(resource.kind)
    return (kind.undo_line(resource) if kind else None) or restore_command(resource.id)


def stop_command(case: Case) -> Command | None:
    """What its owner can run to stop paying for it; None if the kind has no such command or it is blocked.

    Deleting is offered only for what can't be stopped.
    """
    kind = registry.find_kind(case.resource.kind)
    offered = [action for action in (StepName.STOP, StepName.DELETE) if _may_offer(case, action)]
    make = kind.commands.get(offered[0]) if kind and offered else None
    return make(case.resource) if make and _has_pasteable_names(case.resource) else None


def _may_offer(case: Case, action: StepName) -> bool:
    """Whether its owner may make the action. What the reaper did not read blocks the reaper, not a person who deletes their own resource."""
    blocked = case.blocked.get(action, Blocked(because="its kind has no such action"))
    return blocked is None or (action is StepName.DELETE and blocked.not_read)


def restore_command(resource_id: str) -> str | None:
    """The command that undoes the last action on it, with all that lived in it; None for an ID that can't stand in a line that people paste."""
    return f"{RESTORE_COMMAND} {quote(resource_id)}" if is_pasteable(resource_id) else None


def needs_admin(command: str) -> bool:
    """Whether owners can't run it: restoring takes the deployment's ledger and manifests, and the right to write."""
    return command.startswith(f"{RESTORE_COMMAND} ")


def with_settings(command: str, places: Mapping[str, str]) -> str:
    """The command with the ledger and the manifests that it has to be run with; otherwise it would read the reader's own.

    An address that may carry a key or a signature is not written into a mail, nor one that another process can't open.
    """
    named = {name: places.get(name, "") for name in LOCATION_SETTINGS}
    settings = [
        f"{name}={quote(value)} "
        for name, value in named.items()
        if value and value.isprintable() and not set(value) & set("?@") and not value.startswith("memory:")
    ]
    return f"{''.join(settings)}{command}"


def _has_pasteable_names(resource: Resource) -> bool:
    return is_pasteable(resource.id, resource.name, resource.region)
