"""What a run needs beyond the clouds to tell people: the ledger, the opened channels, and who signs keep-links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from reaper import secret_store
from reaper.coverage import failure_row
from reaper.errors import CloudError, SettingsError
from reaper.ledger import opening
from reaper.ledger.port import Ledger
from reaper.model import Coverage
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import ChannelContext, OpenChannel
from reaper.notices.channels.deployment import with_deployment_channels
from reaper.notices.message import Audience
from reaper.policy import secret_grants
from reaper.policy.schema import Policy
from reaper.snooze import links
from reaper.snooze.links import LinkSigner


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcludeContext:
    """`offer` is None where no page serves keep-links: messages then offer the tag alone. `troubles`: what could not be opened, for the
    report. `places`: where ledger and manifests are, by setting, for the commands in mails to admins.
    """

    ledger: Ledger
    channels: Sequence[OpenChannel]
    links: LinkSigner | None
    clock: Callable[[], datetime]
    troubles: tuple[Coverage, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)


def open(address: str | None, policy: Policy, environ: Mapping[str, str], clock: Callable[[], datetime]) -> ConcludeContext:
    """The desk that the policy's channels and the environment describe. Raises SettingsError where there is no channel at all."""
    specs = with_deployment_channels(policy.channels, environ)
    if not specs:
        raise SettingsError(
            "every mode above audit needs a channel: name one under `channels:` in the policy, or set REAPER_TOPIC; `reaper notify test` tries it"
        )
    if not any(Audience.OWNERS in spec.readers for spec in specs):
        raise SettingsError(
            "every mode above audit needs a channel for owners, such as {type: ses, from: reaper@example.com}: those there are for admins only"
        )
    _granted(policy, environ)
    means = ChannelContext(read_secret=lambda ref: secret_store.read_for_policy(ref, environ), clock=clock)
    links, troubles = _links(environ, clock())
    return ConcludeContext(
        ledger=opening.open_ledger(address, environ),
        channels=delivery.open_channels(specs, means),
        links=links,
        clock=clock,
        troubles=troubles,
    )


def _granted(policy: Policy, environ: Mapping[str, str]) -> None:
    """Raises SettingsError where the policy names a secret that was not set aside for it: a run that could not tell owners is not begun."""
    for index, spec in enumerate(policy.channels):
        ref = getattr(spec, "secret", None)
        if ref and (because := secret_grants.forbidden_because(ref, environ)):
            raise SettingsError(f"channels[{index}].secret: {because}")


def _links(environ: Mapping[str, str], now: datetime) -> tuple[LinkSigner | None, tuple[Coverage, ...]]:
    """Who signs keep-links. Keys that cannot be read now must not keep a sweep from telling: messages then offer the tag."""
    try:
        return links.open_signer(environ, now), ()
    except CloudError as error:
        return None, (failure_row("keep-links", error),)
