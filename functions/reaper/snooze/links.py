"""The snooze links in the notices of one run: one for each idle resource, signed with the current key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from reaper import urls
from reaper.case import Finding
from reaper.errors import SettingsError
from reaper.model import State, StepName
from reaper.planning import possible_actions
from reaper.snooze import keys
from reaper.snooze.request import PAGE_PATH
from reaper.snooze.token import Keys, SnoozeLink, sign_link

LINK_VALID_FOR = timedelta(days=30)
"""How long a link is valid: longer than a holiday. The next notice brings a new link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSigner:
    """What signs links: the address of the page without its path (`base`), and the keys."""

    base: str
    keys: Keys


def open_signer(environ: Mapping[str, str], now: datetime) -> LinkSigner | None:
    """The signer that REAPER_SNOOZE_URL and REAPER_SNOOZE_KEYS describe; None if no address is set: notices then offer only the tag.

    If REAPER_DEPLOYMENT is set, only that deployment's page accepts the links, else every page with the same secret. Raises
    SettingsError for an address that isn't https (http only on this machine) and for invalid keys, CloudError for unreadable ones.
    """
    base = environ.get("REAPER_SNOOZE_URL", "").strip()
    if not base:
        return None
    where = environ.get("REAPER_SNOOZE_KEYS", "").strip()
    if not where:
        raise SettingsError("REAPER_SNOOZE_URL is set but REAPER_SNOOZE_KEYS is not; set both, or links can't be signed")
    return LinkSigner(base=_require_public_address(base), keys=keys.open_keyring(where, environ).keys(now))


def links_by_resource(findings: Iterable[Finding], signer: LinkSigner, now: datetime) -> dict[str, str]:
    """The link of each resource that is idle or gets a notice about office hours, by its ID.

    A resource whose ID is too long for a link has none: its owner can only use the tag.
    """
    links = {}
    for finding in findings:
        has_hours_notice = possible_actions.is_stopped_by_hours(finding.case) and finding.step.name in {
            StepName.WARN,
            StepName.REMIND,
        }
        if finding.case.verdict.state is State.IDLE or has_hours_notice:
            try:
                token = sign_link(_link_for(finding, signer, now), signer.keys)
            except ValueError:
                continue
            links[finding.case.resource.id] = link_address(signer.base, token)
    return links


def link_address(base: str, token: str) -> str:
    """The link in a notice; `base` is REAPER_SNOOZE_URL."""
    return f"{base.rstrip('/')}{PAGE_PATH}?t={token}"


def _link_for(finding: Finding, signer: LinkSigner, now: datetime) -> SnoozeLink:
    resource, verdict = finding.case.resource, finding.case.verdict
    place = {"aws": "AWS account", "azure": "Azure subscription"}.get(resource.target.cloud, resource.target.cloud)
    return SnoozeLink(
        resource=resource.id,
        expires=now + LINK_VALID_FOR,
        max_days=finding.case.rule.snooze_max // timedelta(days=1),
        kind=resource.kind,
        name=resource.name,
        where=f"{place} {resource.target.account}, {resource.region}",
        owner=finding.owner.address or "",
        usd_per_hour=finding.price.usd_per_hour if finding.price else None,
        idle_since=now - verdict.idle_for if verdict.idle_for else None,
    )


def _require_public_address(base: str) -> str:
    parts = urls.split_address(base)
    local = parts.scheme == "http" and urls.is_loopback(parts.hostname)
    if not (parts.scheme == "https" or local) or not parts.hostname or parts.query or parts.fragment:
        raise SettingsError(f"REAPER_SNOOZE_URL={base!r}: expected https://host or https://host/path")
    return base
