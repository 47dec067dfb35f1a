"""The snooze links in the notices of one run: for each mail one signed address, which opens all of its resources, or one preselected."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reaper import urls
from reaper.case import is_stopped_by_hours
from reaper.errors import SettingsError
from reaper.finding import Finding, can_be_kept
from reaper.ledger.rows import Visit, VisitResource
from reaper.model import State, StepName
from reaper.prices import price_basis
from reaper.snooze import keys
from reaper.snooze.keys import PAGE_PATH, Keys, sign_link
from reaper.text import DOLLARS, Currency, tidy_line

LINK_VALID_FOR = timedelta(days=30)
"""How long a link is valid: longer than a holiday. The next notice brings a new link."""
MAX_NAME = 100
"""Characters of a name or a place on the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSigner:
    """What signs links: the page's address without its path (`base`), the keys, the page's currency, and where random IDs come from."""

    base: str
    keys: Keys
    currency: Currency = DOLLARS
    new_id: Callable[[], str] = lambda: secrets.token_urlsafe(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailLinks:
    """The links of one mail: the visit that must be stored before they work, and the address that opens it."""

    visit: Visit
    address: str

    def to_keep(self, resource_id: str) -> str | None:
        """The link with this resource preselected; None if the mail can't keep it."""
        numbers = [number for number, each in enumerate(self.visit.resources, 1) if each.id == resource_id]
        return f"{self.address}&r={numbers[0]}" if numbers else None


def open_signer(environ: Mapping[str, str], now: datetime) -> LinkSigner | None:
    """The signer that REAPER_SNOOZE_URL and REAPER_SNOOZE_KEYS describe; None if no address is set: notices then offer only the tag.

    Only the page with the same REAPER_DEPLOYMENT accepts the links. Raises SettingsError for an address that isn't https (http only on this machine) and for invalid keys, CloudError for unreadable ones.
    """
    base = environ.get("REAPER_SNOOZE_URL", "").strip()
    if not base:
        return None
    where = environ.get("REAPER_SNOOZE_KEYS", "").strip()
    if not where:
        raise SettingsError("REAPER_SNOOZE_URL is set but REAPER_SNOOZE_KEYS is not; set both, or links can't be signed")
    return LinkSigner(base=_require_public_address(base), keys=keys.open_keyring(where, environ).keys(now))


def open_visit(
    signer: LinkSigner, now: datetime, address: str, is_owner: bool, tz: str, findings: Sequence[Finding]
) -> MailLinks | None:
    """The links of a mail to `address`; None if it is about nothing that can be kept. Stores nothing."""
    resources = tuple(_visit_resource(finding, now) for finding in findings if _may_be_kept(finding))
    if not resources:
        return None
    new, end, currency = signer.new_id(), now + LINK_VALID_FOR, signer.currency
    visit = Visit(
        id=new,
        address=address,
        is_owner=is_owner,
        sent_at=now,
        expires=end,
        tz=tz,
        resources=resources,
        currency=currency.code,
        rate=currency.rate,
        basis=price_basis(findings, currency),
    )
    return MailLinks(visit=visit, address=link_address(signer.base, sign_link(new, end, signer.keys)))


def link_address(base: str, token: str) -> str:
    """The link in a notice; `base` is REAPER_SNOOZE_URL."""
    return f"{base.rstrip('/')}{PAGE_PATH}?t={token}"


def _may_be_kept(finding: Finding) -> bool:
    """Whether it is idle or gets a notice about office hours, and wasn't acted on, or something is to follow."""
    has_notice = finding.step.name in {StepName.WARN, StepName.REMIND}
    by_hours = has_notice and is_stopped_by_hours(finding.case)
    return can_be_kept(finding) and (finding.case.verdict.state is State.IDLE or by_hours)


def _visit_resource(finding: Finding, now: datetime) -> VisitResource:
    resource = finding.case.resource
    place = {"aws": "AWS account", "azure": "Azure subscription"}.get(resource.target.cloud, resource.target.cloud)
    return VisitResource(
        id=resource.id,
        kind=resource.kind,
        name=tidy_line(resource.name, MAX_NAME) or "(no name)",
        where=tidy_line(f"{place} {resource.target.account}, {resource.region}", MAX_NAME),
        max_days=finding.case.rule.snooze_max // timedelta(days=1),
        usd_per_hour=finding.case.price.usd_per_hour if finding.case.price else None,
        idle_since=finding.idle_since,
    )


def _require_public_address(base: str) -> str:
    parts = urls.split_address(base)
    local = parts.scheme == "http" and urls.is_loopback(parts.hostname)
    if not (parts.scheme == "https" or local) or not parts.hostname or parts.query or parts.fragment:
        raise SettingsError(f"REAPER_SNOOZE_URL={base!r}: expected https://host or https://host/path")
    return base
