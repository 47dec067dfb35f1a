"""The console page of a resource, as an address that a mail can link to (`Kind.console_url`). Pure."""

from __future__ import annotations

from reaper import registry
from reaper.model import Resource

MAX_NAME_LENGTH = 300
"""Characters of a name; no cloud takes a longer one."""


def console_address(resource: Resource) -> str | None:
    """The https address of its page; None for a kind without a page that a link can lead to, and for an ID that is not as the cloud writes it."""
    if not resource.name.isprintable() or not 0 < len(resource.name) <= MAX_NAME_LENGTH:
        return None
    kind = registry.find_kind(resource.kind)
    return kind.console_url(resource) if kind else None
