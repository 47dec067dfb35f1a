"""Which workspaces share computes: a hub and its projects, each naming the other, in one of several spellings or not at all.

https://learn.microsoft.com/azure/machine-learning/concept-hub-workspace
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from reaper.azure.workspaces import STANDALONE_KINDS, Workspace, comparable_id

HUB, PROJECT = "hub", "project"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The ids of the workspaces whose jobs may run on the computes of one; `unseen`: why those of others may do so, too.

    `home` is the same for all of a family, whose lists repeat each other's computes.
    """

    home: str
    job_workspaces: tuple[str, ...]
    unseen_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleWorkspaces:
    """All workspaces in sight by key, what each is linked to in either direction, and what each names that is nowhere in sight.

    `hubs` has the hub of each that names one in sight. `strays` may belong to any hub: those that cannot be read, and what may be a project of
    which no hub is known. `unsorted` do not even say what they are, so what is plainly a hub may be theirs. `hidden`: some rows are lost
    altogether. `narrow`: other resource groups may not be read.
    """

    workspaces: Mapping[str, Workspace]
    links: Mapping[str, set[str]]
    missing_projects: Mapping[str, tuple[str, ...]]
    hub_of: Mapping[str, str]
    strays: tuple[str, ...]
    unsorted: tuple[str, ...] = ()
    has_hidden_rows: bool = False
    is_restricted: bool = False


def link_workspaces(
    spaces: Sequence[Workspace], *, has_hidden_rows: bool = False, is_restricted: bool = False
) -> VisibleWorkspaces:
    """The workspaces and how they hang together, with what the list of them lacks."""
    by_key = {space.key: space for space in spaces}
    hubs = {key: hub for key, space in by_key.items() if (hub := _hub_key(space, by_key))}
    links: dict[str, set[str]] = defaultdict(set)
    lost: dict[str, tuple[str, ...]] = {}
    for key, space in by_key.items():
        named = {one: _project_key(one, space, by_key) for one in space.projects}
        lost[key] = tuple(one for one, meant in named.items() if meant is None)
        for other in filter(None, (*named.values(), hubs.get(key))):
            links[key].add(other)
            links[other].add(key)
    strays = tuple(
        key for key, space in by_key.items() if space.is_unreadable or (key not in hubs and _is_stray(space, links[key]))
    )
    unsorted = tuple(
        key for key, space in by_key.items() if not (links[key] or space.hub or space.kind in {HUB, PROJECT, *STANDALONE_KINDS})
    )
    return VisibleWorkspaces(
        workspaces=by_key,
        links=links,
        missing_projects=lost,
        hub_of=hubs,
        strays=strays,
        unsorted=unsorted,
        has_hidden_rows=has_hidden_rows,
        is_restricted=is_restricted,
    )


def family_of(space: Workspace, seen: VisibleWorkspaces) -> Family:
    """All that `space`, which is in sight, shares its computes with, as far as links lead. What cannot be told is a reason to judge none of them."""
    members = _linked_keys(space.key, seen.links)
    if not space.shares_computes and len(members) == 1:
        return Family(home=space.key, job_workspaces=(space.id,))
    is_hub = any(seen.workspaces[key].kind == HUB or seen.workspaces[key].projects for key in members)
    users = tuple(seen.workspaces[key].id for key in dict.fromkeys([*members, *seen.strays, *(seen.unsorted if is_hub else ())]))
    unseen = (
        _own_hub_unknown_because(space, seen)
        or _hub_unseen_because(members, seen)
        or _projects_unseen_because(members, seen)
        or _groups_unseen_because(members, seen)
    )
    return Family(home=min(members), job_workspaces=users, unseen_because=unseen)


def _project_key(text: str, hub: Workspace, by_key: Mapping[str, Workspace]) -> str | None:
    """The key of the project that a hub names by `text`; None where it is not in sight.

    An id or a workspace's own number is plain. A mere name may be another workspace's, unless that names the hub in its turn.
    """
    if text in by_key:
        return text
    found = [
        key
        for key, space in by_key.items()
        if text == (space.guid or "").lower() or (text == space.name.lower() and space.hub == hub.key)
    ]
    return found[0] if len(found) == 1 else None


def _hub_key(space: Workspace, by_key: Mapping[str, Workspace]) -> str | None:
    """The key of the hub that a project names by its id or its number; None where it names none, or none in sight."""
    if space.hub is None or space.hub in by_key:
        return space.hub
    found = [key for key, other in by_key.items() if other.guid and comparable_id(other.guid) == space.hub]
    return found[0] if len(found) == 1 else None


def _is_stray(space: Workspace, linked: Collection[str]) -> bool:
    """Whether it may be a project of any hub in sight: no hub is known of it, or the one it names is nowhere in its own subscription."""
    if space.hub:
        home = "/".join(space.key.split("/")[:3]) + "/"
        return not space.hub.startswith("/subscriptions/") or space.hub.startswith(home)
    return not linked and space.kind == PROJECT


def _linked_keys(key: str, links: Mapping[str, set[str]]) -> list[str]:
    """The key itself, and all that it is linked to, directly or by way of others."""
    found, left = {key: None}, [key]
    while left:
        for other in sorted(links.get(left.pop(), ())):
            if other not in found:
                found[other] = None
                left.append(other)
    return list(found)


def _own_hub_unknown_because(space: Workspace, seen: VisibleWorkspaces) -> str | None:
    if seen.has_hidden_rows:
        return "a workspace cannot be read at all, and may be a project whose jobs run on it"
    if space.key in seen.strays and (space.is_unreadable or space.kind == PROJECT):
        return f"which hub its workspace {space.name} belongs to is not known, so neither is whose jobs may run on it"
    return None


def _hub_unseen_because(members: Iterable[str], seen: VisibleWorkspaces) -> str | None:
    """A hub names its projects, a project its hub only: where the hub is out of sight, so may be any of its projects."""
    for key in members:
        hub = seen.workspaces[key].hub
        if hub and (key not in seen.hub_of or seen.workspaces[seen.hub_of[key]].is_unreadable):
            return (
                f"it belongs to the hub {_last_segment(hub)}, which is out of sight, and so may be projects whose jobs run on it"
            )
    return None


def _groups_unseen_because(members: Iterable[str], seen: VisibleWorkspaces) -> str | None:
    """Where other resource groups may not be read, only a hub that names its projects says that there are no others."""
    silent = [space.name for space in map(seen.workspaces.__getitem__, members) if space.kind != PROJECT and not space.projects]
    if not seen.is_restricted or not silent:
        return None
    return f"its workspace {silent[0]} names no projects, and resource groups that may have some cannot be read"


def _projects_unseen_because(members: Iterable[str], seen: VisibleWorkspaces) -> str | None:
    lost = [_last_segment(one) for key in members for one in seen.missing_projects[key]]
    more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
    named = f"{', '.join(lost[:3])}{more}"
    return f"it belongs to a hub whose projects {named} are out of sight, and so are their jobs" if lost else None


def _last_segment(id_: str) -> str:
    return id_.rpartition("/")[2]
