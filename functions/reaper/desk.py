"""What a run needs beyond the clouds to tell people: the ledger, the opened channels, and who signs keep-links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from reaper import channels, grant, ledger, offer, secret
from reaper.channels import Line, Means
from reaper.channels.implied import implied
from reaper.errors import CloudError, SettingsError
from reaper.gap import gap
from reaper.ledger import Ledger
from reaper.message import Audience
from reaper.model import Coverage
from reaper.offer import Offer
from reaper.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """`offer` is None where no page serves keep-links: messages then offer the tag alone. `troubles`: what could not be opened, for the
    report. `places`: where ledger and manifests are, by setting, for the commands in mails to admins.
    """

    ledger: Ledger
    lines: Sequence[Line]
    offer: Offer | None
    clock: Callable[[], datetime]
    troubles: tuple[Coverage, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)


def open(address: str | None, policy: Policy, environ: Mapping[str, str], clock: Callable[[], datetime]) -> Desk:
    """The desk that the policy's channels and the environment describe. Raises SettingsError where there is no channel at all."""
    specs = implied(policy.channels, environ)
    if not specs:
        raise SettingsError(
            "every mode above audit needs a channel: name one under `channels:` in the policy, or set REAPER_TOPIC; `reaper notify test` tries it"
        )
    if not any(Audience.OWNERS in spec.readers for spec in specs):
        raise SettingsError(
            "every mode above audit needs a channel for owners, such as {type: ses, from: reaper@example.com}: those there are for admins only"
        )
    _granted(policy, environ)
    means = Means(secret=lambda ref: secret.read_for_policy(ref, environ), clock=clock)
    links, troubles = _links(environ, clock())
    return Desk(
        ledger=ledger.open(address, environ), lines=channels.open(specs, means), offer=links, clock=clock, troubles=troubles
    )


def _granted(policy: Policy, environ: Mapping[str, str]) -> None:
    """Raises SettingsError where the policy names a secret that was not set aside for it: a run that could not tell owners is not begun."""
    for index, spec in enumerate(policy.channels):
        ref = getattr(spec, "secret", None)
        if ref and (because := grant.barred(ref, environ)):
            raise SettingsError(f"channels[{index}].secret: {because}")


def _links(environ: Mapping[str, str], now: datetime) -> tuple[Offer | None, tuple[Coverage, ...]]:
    """Who signs keep-links. Keys that cannot be read now must not keep a sweep from telling: messages then offer the tag."""
    try:
        return offer.open(environ, now), ()
    except CloudError as error:
        return None, (gap("keep-links", error),)
