"""The owner of a resource: from the policy's tags, then the people that the cloud names, then the fallback. Pure.

An address is used only if its domain is on the policy's list: a tag must not turn the product into a mail relay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from reaper.case import Case, Claim, Owner
from reaper.model import Resource
from reaper.notices.message import is_deliverable, is_plain_address
from reaper.policy.tags import tag_values
from reaper.record import MAX_CLOCK_SKEW, Snooze

SEVERAL = "several addresses; name one in it"
"""What is wrong with a tag of several addresses."""


def owner(resource: Resource, tags: Sequence[str], domains: Sequence[str], fallback: str | None) -> Owner:
    """The first candidate whose domain is allowed; else the fallback, whose source names the rejected one, which is then `claimed`."""
    candidates = list(_candidates(resource, tags))
    for source, value in candidates:
        if is_deliverable(value, domains, None):
            return Owner(address=value, source=source)
    allowed = ", ".join(domains) or "owners.domains"
    rejected = [
        f"{source} names {value[:80]!r}, which is {SEVERAL if value.count('@') > 1 else f'not an address in {allowed}'}"
        for source, value in candidates[:1]
    ]
    claims = (
        Claim(address=value, source=source) for source, value in candidates if is_plain_address(value) and value != fallback
    )
    source = "; ".join(["fallback", *rejected]) if fallback else f"no owner: {(*rejected, 'no tag and no fallback')[0]}"
    return Owner(address=fallback, source=source, claimed=next(claims, None))


def with_present_owner(case: Case, snooze: Snooze, fallback: str | None) -> Case:
    """The case with its present owner: the one that was found; the fallback if that one said that it isn't theirs."""
    found = case.owner.address
    if not is_disowned(case.resource, snooze, found):
        return case
    source = f"{'fallback' if fallback else 'no owner'}; {found} said it isn't theirs"
    return replace(case, owner=Owner(address=fallback, source=source, disowned_by=found))


def is_disowned(resource: Resource, snooze: Snooze, address: str | None) -> bool:
    """Whether this address, as the one found, said that it isn't theirs, about this very resource and not an earlier one with the same ID."""
    at, created = snooze.disowned_at, resource.created
    if at is None or address is None or (created is not None and created > at + MAX_CLOCK_SKEW):
        return False
    return (snooze.disowned_by or "").casefold() == address.casefold()


def shown(owner: Owner) -> str | None:
    """The owner as reports show it: the address, then a claimed owner who may not be mailed. None if both are unknown."""
    if owner.claimed is None:
        return owner.address
    if owner.address is None:
        return f"{owner.claimed.address} (may not be mailed)"
    return f"{owner.address} ({owner.claimed.address} may not be mailed)"


def hint(owners: Iterable[Owner]) -> str | None:
    """How to make claimed owners reachable, with their three most common domains; None if there are no claimed owners."""
    claiming = [owner for owner in owners if owner.claimed]
    claims = sorted({owner.claimed.address.lower() for owner in claiming if owner.claimed})
    counts = Counter(address.rpartition("@")[2] for address in claims)
    if not claims:
        return None
    domains = ", ".join(domain for domain, _ in counts.most_common(3)) + (", ..." if len(counts) > 3 else "")
    subject = "The domain of 1 owner is" if len(claims) == 1 else f"The domains of {len(claims)} owners are"
    return f"{subject} not in the policy's owners.domains, so {_consequence(claiming)}. If they are yours, set owners.domains: [{domains}]"


def _consequence(claiming: Iterable[Owner]) -> str:
    """Who gets the mail of claimed owners: the policy's fallback, if it's set."""
    recipients = {owner.address for owner in claiming}
    if recipients == {None}:
        return "they get no notices"
    if len(recipients) == 1:
        return f"{recipients.pop()} gets their notices"
    return "owners.fallback, if set, gets their notices"


def _candidates(resource: Resource, tags: Sequence[str]) -> Iterable[tuple[str, str]]:
    for key, value in chain.from_iterable(tag_values(resource.tags, wanted) for wanted in tags):
        yield f"tag {key}", value.strip()
    for source, value in resource.people.items():
        yield source, value.strip()
