"""Whom to tell, and how we know: policy tags, then what the cloud says of the people, then the fallback. Pure.

An address is used only if its domain is on the policy's list: a tag must not turn the product into a mail relay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reaper.message import deliverable
from reaper.model import Owner, Resource


def owner(resource: Resource, tags: Sequence[str], domains: Sequence[str], fallback: str | None) -> Owner:
    """The first address of the chain whose domain is allowed, with its source; else the fallback, which says what was passed over."""
    passed_over = None
    for source, value in _candidates(resource, tags):
        if deliverable(value, domains, None):
            return Owner(address=value, source=source)
        passed_over = (
            passed_over or f"{source} names {value[:80]!r}, which is not an address in {', '.join(domains) or 'owners.domains'}"
        )
    source = f"fallback; {passed_over}" if passed_over else "fallback"
    return Owner(address=fallback, source=source if fallback else f"nobody: {passed_over or 'no tag and no fallback'}")


def _candidates(resource: Resource, tags: Sequence[str]) -> Iterable[tuple[str, str]]:
    by_key = {key.lower(): (key, value) for key, value in (resource.tags or {}).items()}
    for wanted in tags:
        key, value = by_key.get(wanted.lower(), ("", ""))
        if value.strip():
            yield f"tag {key}", value.strip()
    for source, value in resource.people.items():
        yield source, value.strip()
