"""The keep-links that go into the messages of one sweep: for every idle resource one, signed with the current key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from reaper import enrolment, urls
from reaper.errors import SettingsError
from reaper.model import Finding, State, StepName
from reaper.snooze import keys, record
from reaper.snooze.token import Keys, SnoozeLink, sign_link

LINK_VALID_FOR = timedelta(days=30)
"""How long a link holds: longer than a holiday, and the next notice brings a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSigner:
    """Where links lead (`base`, an address without the page's own path), who signs them, and for how long they hold."""

    base: str
    keys: Keys
    valid_for: timedelta = LINK_VALID_FOR


def open_signer(environ: Mapping[str, str], now: datetime) -> LinkSigner | None:
    """What REAPER_SNOOZE_URL and REAPER_SNOOZE_KEYS describe; None without an address: messages then offer the tag alone.

    With REAPER_DEPLOYMENT the links are good at the page of that deployment and nowhere else; without it, wherever the secret is.
    Raises SettingsError for an address that is not https (http only to this machine) and for keys that cannot be used, CloudError for
    keys that cannot be read.
    """
    base = environ.get("REAPER_SNOOZE_URL", "").strip()
    if not base:
        return None
    where = environ.get("REAPER_SNOOZE_KEYS", "").strip()
    if not where:
        raise SettingsError("REAPER_SNOOZE_URL is set, but REAPER_SNOOZE_KEYS is not: links cannot be signed")
    return LinkSigner(base=_require_public_address(base), keys=keys.open_keyring(where, environ).keys(now))


def links_by_resource(findings: Iterable[Finding], offer: LinkSigner, now: datetime) -> dict[str, str]:
    """The link of each resource that is idle, or whose owner is told of its office hours, by its id. One whose id is too long for a link has none, and only the tag remains for it."""
    found = {}
    for finding in findings:
        by_hours = enrolment.is_stopped_by_hours(finding.case) and finding.step.name in {StepName.WARN, StepName.REMIND}
        if finding.case.verdict.state is State.IDLE or by_hours:
            try:
                found[finding.case.resource.id] = record.link_address(
                    offer.base, sign_link(_link_for(finding, offer, now), offer.keys)
                )
            except ValueError:
                continue
    return found


def _link_for(finding: Finding, offer: LinkSigner, now: datetime) -> SnoozeLink:
    resource, verdict = finding.case.resource, finding.case.verdict
    place = {"aws": "AWS account", "azure": "Azure subscription"}.get(resource.target.cloud, resource.target.cloud)
    return SnoozeLink(
        resource=resource.id,
        expires=now + offer.valid_for,
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
