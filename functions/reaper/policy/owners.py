"""Whom to tell, and how we know: policy tags, then what the cloud says of the people, then the fallback. Pure.

An address is used only if its domain is on the policy's list: a tag must not turn the product into a mail relay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from reaper.model import Claim, Owner, Resource
from reaper.notices.message import is_deliverable, is_plain_address


def owner(resource: Resource, tags: Sequence[str], domains: Sequence[str], fallback: str | None) -> Owner:
    """The first address of the chain whose domain is allowed, with its source; else the fallback, which says what was passed over.

    Where no domain of the chain is allowed, its first address is what the resource's owner is `claimed` to be.
    """
    named = list(_candidates(resource, tags))
    for source, value in named:
        if is_deliverable(value, domains, None):
            return Owner(address=value, source=source)
    allowed = ", ".join(domains) or "owners.domains"
    passed_over = [f"{source} names {value[:80]!r}, which is not an address in {allowed}" for source, value in named[:1]]
    claims = (Claim(address=value, source=source) for source, value in named if is_plain_address(value) and value != fallback)
    why = "; ".join(["fallback", *passed_over]) if fallback else f"nobody: {(*passed_over, 'no tag and no fallback')[0]}"
    return Owner(address=fallback, source=why, claimed=next(claims, None))


def shown(owner: Owner) -> str | None:
    """The owner for people: who is told, then who is said to own it but may not be mailed; None where neither is known."""
    if owner.claimed is None:
        return owner.address
    if owner.address is None:
        return f"{owner.claimed.address} (may not be mailed)"
    return f"{owner.address} ({owner.claimed.address} may not be mailed)"


def hint(owners: Iterable[Owner]) -> str | None:
    """What to set so that the owners whom nobody may mail can be told, naming the three commonest domains; None where there are none."""
    claiming = [owner for owner in owners if owner.claimed]
    claims = sorted({owner.claimed.address.lower() for owner in claiming if owner.claimed})
    found = Counter(address.rpartition("@")[2] for address in claims)
    if not claims:
        return None
    domains = ", ".join(domain for domain, _ in found.most_common(3)) + (", ..." if len(found) > 3 else "")
    many = "1 owner is named whose domain is" if len(claims) == 1 else f"{len(claims)} owners are named whose domains are"
    return (
        f"{many} not in the policy's owners.domains, so {_instead(claiming)}. If they are yours, set owners.domains: [{domains}]"
    )


def _instead(claiming: Iterable[Owner]) -> str:
    """Who gets their mail: the fallback, where the policy has one."""
    told = {owner.address for owner in claiming}
    if told == {None}:
        return "they cannot be told"
    [one] = told if len(told) == 1 else ["the fallback, where there is one,"]
    return f"{one} is told in their place"


def _candidates(resource: Resource, tags: Sequence[str]) -> Iterable[tuple[str, str]]:
    by_key = {key.lower(): (key, value) for key, value in (resource.tags or {}).items()}
    for wanted in tags:
        key, value = by_key.get(wanted.lower(), ("", ""))
        if value.strip():
            yield f"tag {key}", value.strip()
    for source, value in resource.people.items():
        yield source, value.strip()
