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
    """The IDs of the workspaces whose jobs may run on the computes of one. `unseen_because`: why jobs of others may too.

    `home`: the same for all members of a family, whose lists repeat each other's computes.
    """

    home: str
    job_workspaces: tuple[str, ...]
    unseen_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleWorkspaces:
    """All visible workspaces by key, the links of each in both directions, and the projects it names that aren't visible.

    `hub_of`: the visible hub that a workspace names. `strays` may belong to any hub: unreadable ones, and possible projects without a known
    hub. `unsorted`: of an unknown kind, so any hub may be theirs. `has_hidden_rows`: some rows are lost altogether. `is_restricted`: other
    resource groups may not be read.
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
    """The workspaces with their links, and with what their list lacks."""
    by_key = {space.key: space for space in spaces}
    hubs = {key: hub for key, space in by_key.items() if (hub := _hub_key(space, by_key))}
    links: dict[str, set[str]] = defaultdict(set)
    missing: dict[str, tuple[str, ...]] = {}
    for key, space in by_key.items():
        projects = {text: _project_key(text, space, by_key) for text in space.projects}
        missing[key] = tuple(text for text, project in projects.items() if project is None)
        for other in filter(None, (*projects.values(), hubs.get(key))):
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
        missing_projects=missing,
        hub_of=hubs,
        strays=strays,
        unsorted=unsorted,
        has_hidden_rows=has_hidden_rows,
        is_restricted=is_restricted,
    )


def family_of(space: Workspace, visible: VisibleWorkspaces) -> Family:
    """All workspaces that the visible `space` shares its computes with, as far as links lead. Any doubt is a reason to judge none of them."""
    members = _linked_keys(space.key, visible.links)
    if not space.shares_computes and len(members) == 1:
        return Family(home=space.key, job_workspaces=(space.id,))
    is_hub = any(visible.workspaces[key].kind == HUB or visible.workspaces[key].projects for key in members)
    users = tuple(
        visible.workspaces[key].id for key in dict.fromkeys([*members, *visible.strays, *(visible.unsorted if is_hub else ())])
    )
    unseen = (
        _own_hub_unknown_because(space, visible)
        or _hub_unseen_because(members, visible)
        or _projects_unseen_because(members, visible)
        or _groups_unseen_because(members, visible)
    )
    return Family(home=min(members), job_workspaces=users, unseen_because=unseen)


def _project_key(text: str, hub: Workspace, by_key: Mapping[str, Workspace]) -> str | None:
    """The key of the project that a hub names by `text`; None if it isn't visible.

    An ID or a workspace's number is unambiguous. A mere name may be another workspace's, unless that one names the hub too.
    """
    if text in by_key:
        return text
    matches = [
        key
        for key, space in by_key.items()
        if text == (space.guid or "").lower() or (text == space.name.lower() and space.hub == hub.key)
    ]
    return matches[0] if len(matches) == 1 else None


def _hub_key(space: Workspace, by_key: Mapping[str, Workspace]) -> str | None:
    """The key of the visible hub that a project names by its ID or number; None if there is none."""
    if space.hub is None or space.hub in by_key:
        return space.hub
    matches = [key for key, other in by_key.items() if other.guid and comparable_id(other.guid) == space.hub]
    return matches[0] if len(matches) == 1 else None


def _is_stray(space: Workspace, linked: Collection[str]) -> bool:
    """Whether it may be a project of any visible hub: it names no hub, or one that isn't in its own subscription's list."""
    if space.hub:
        home = "/".join(space.key.split("/")[:3]) + "/"
        return not space.hub.startswith("/subscriptions/") or space.hub.startswith(home)
    return not linked and space.kind == PROJECT


def _linked_keys(key: str, links: Mapping[str, set[str]]) -> list[str]:
    """The key itself, and all keys it is linked to, directly or indirectly."""
    known, to_visit = {key: None}, [key]
    while to_visit:
        for other in sorted(links.get(to_visit.pop(), ())):
            if other not in known:
                known[other] = None
                to_visit.append(other)
    return list(known)


def _own_hub_unknown_because(space: Workspace, visible: VisibleWorkspaces) -> str | None:
    if visible.has_hidden_rows:
        return "a workspace can't be read at all, and may be a project whose jobs run on it"
    if space.key in visible.strays and (space.is_unreadable or space.kind == PROJECT):
        return f"the hub of its workspace {space.name} is unknown, so other projects' jobs may run on it"
    return None


def _hub_unseen_because(members: Iterable[str], visible: VisibleWorkspaces) -> str | None:
    """A hub names its projects, a project only its hub: if the hub isn't visible, any of its projects may not be either."""
    for key in members:
        hub = visible.workspaces[key].hub
        if hub and (key not in visible.hub_of or visible.workspaces[visible.hub_of[key]].is_unreadable):
            return f"its hub {_last_segment(hub)} isn't visible, and neither may be projects whose jobs run on it"
    return None


def _groups_unseen_because(members: Iterable[str], visible: VisibleWorkspaces) -> str | None:
    """If other resource groups may not be read, only a hub that names its projects shows that there are no others."""
    silent = [
        space.name for space in map(visible.workspaces.__getitem__, members) if space.kind != PROJECT and not space.projects
    ]
    if not visible.is_restricted or not silent:
        return None
    return f"its workspace {silent[0]} names no projects, and resource groups that may have some can't be read"


def _projects_unseen_because(members: Iterable[str], visible: VisibleWorkspaces) -> str | None:
    missing = [_last_segment(project) for key in members for project in visible.missing_projects[key]]
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    names = f"{', '.join(missing[:3])}{more}"
    return f"its hub's projects {names} aren't visible, and neither are their jobs" if missing else None


def _last_segment(id_: str) -> str:
    return id_.rpartition("/")[2]
