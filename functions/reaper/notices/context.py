"""What concluding a run needs beyond the clouds: the ledger, the opened channels, and who signs snooze links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from reaper import secret_store
from reaper.case import Coverage
from reaper.coverage import failure_row
from reaper.errors import CloudError, SettingsError
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import ChannelContext, OpenChannel, with_deployment_channels
from reaper.notices.message import Audience
from reaper.policy import secret_grants
from reaper.policy.schema import Policy
from reaper.snooze import links
from reaper.snooze.links import LinkSigner


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcludeContext:
    """`ledger` is None if there is nothing to remember. `links` is None if no page serves snooze links: messages then offer the tag alone.

    `failures`: a row for what couldn't be opened. `location_settings`: where ledger and manifests are, for the commands in mails to admins.
    `deadline`: no message to an owner is sent after it. `notices_only`: the run is about single resources, so it records no statistics and
    sends the admins no summary. `outcomes_only`: why nothing is sent or remembered but what was done. `before_message`: called before each
    message; raises ReaperError if this process may send no more. `is_repeated`: a conclude without the time for every message fails, because it
    is repeated then, with new time.
    """

    policy: Policy
    ledger: Ledger | None
    clock: Callable[[], datetime]
    channels: Sequence[OpenChannel] = ()
    links: LinkSigner | None = None
    failures: tuple[Coverage, ...] = ()
    location_settings: Mapping[str, str] = field(default_factory=dict)
    deadline: datetime | None = None
    notices_only: bool = False
    outcomes_only: str | None = None
    before_message: Callable[[], None] = lambda: None
    is_repeated: bool = False


def open_context(
    address: str | None, policy: Policy, environ: Mapping[str, str], clock: Callable[[], datetime]
) -> ConcludeContext:
    """The context that the policy's channels and the environment describe. Raises SettingsError if there is no channel at all."""
    specs = with_deployment_channels(policy.channels, environ)
    if not specs:
        raise SettingsError(
            "every mode above audit needs a channel: add one under `channels:` in the policy, or set REAPER_TOPIC. "
            "`reaper notify test` tests it"
        )
    if not any(Audience.OWNERS in spec.readers for spec in specs):
        raise SettingsError(
            "every mode above audit needs a channel for owners, such as {type: ses, from: reaper@example.com}: "
            "the configured ones are for admins only"
        )
    _require_granted_secrets(policy, environ)
    channels = ChannelContext(read_secret=lambda ref: secret_store.read_for_policy(ref, environ), clock=clock)
    signer, failures = _open_signer(environ, clock())
    return ConcludeContext(
        policy=policy,
        ledger=opening.open_ledger(address, environ),
        channels=delivery.open_channels(specs, channels),
        links=signer,
        clock=clock,
        failures=failures,
    )


def _require_granted_secrets(policy: Policy, environ: Mapping[str, str]) -> None:
    """Raises SettingsError if the policy names a secret that was not granted to it: such a run couldn't notify owners."""
    for index, spec in enumerate(policy.channels):
        ref = getattr(spec, "secret", None)
        if ref and (because := secret_grants.forbidden_because(ref, environ)):
            raise SettingsError(f"channels[{index}].secret: {because}")


def _open_signer(environ: Mapping[str, str], now: datetime) -> tuple[LinkSigner | None, tuple[Coverage, ...]]:
    """Who signs snooze links. If the keys can't be read now, messages are sent all the same and offer the tag."""
    try:
        return links.open_signer(environ, now), ()
    except CloudError as error:
        return None, (failure_row("keep-links", error),)
