"""`reaper notify`: a test of the notification channels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from reaper import settings
from reaper.cli.options import PolicyOption, current_time
from reaper.cli.output import print_result
from reaper.errors import SettingsError
from reaper.policy.file import load_policy
from reaper.stores import secret_store

if TYPE_CHECKING:
    from reaper.policy.channel_settings import Channel

app = typer.Typer(no_args_is_help=True, help="Test the notification channels.")


@app.callback()
def notify() -> None:
    """Test the notification channels."""


@app.command("test")
def send_sample(
    to: Annotated[str, typer.Option(help="Recipient of the sample; its domain must be in owners.domains", metavar="ADDRESS")],
    policy: PolicyOption = None,
    channel: Annotated[list[str] | None, typer.Option(help="Channel to test, by name or type. Default: all")] = None,
) -> None:
    """Send a sample notice through each channel and print the receipts. Exits with 3 if any channel fails."""
    from reaper.cli import sample
    from reaper.notices.channels import delivery
    from reaper.notices.message import is_deliverable

    base = settings.from_env(os.environ)
    chosen = load_policy(base.policy if policy is None else policy).policy
    owners = chosen.owners
    if not is_deliverable(to, owners.domains, owners.fallback):
        domains = ", ".join(owners.domains) or "empty"
        raise SettingsError(f"--to {to!r}: mail goes only to owners.domains ({domains}) and owners.fallback; use one of these")
    message = sample.sample_message(to, current_time(), owners.contact or owners.fallback)
    channels = _selected_channels(delivery.with_deployment_channels(chosen.channels, os.environ), channel or [])
    context = delivery.ChannelContext(read_secret=lambda ref: secret_store.read_for_policy(ref, os.environ), clock=current_time)
    deliveries = [delivery.deliver_one(message, opened) for opened in delivery.open_channels(channels, context)]
    for result in deliveries:
        print_result(f"{result.channel}: {f'FAILED {result.error}' if result.error else result.receipt}")
    raise typer.Exit(3 if any(result.error for result in deliveries) else 0)


def _selected_channels(channels: Sequence[Channel], names: Sequence[str]) -> list[Channel]:
    """The channels of those names or types, or all if `names` is empty. Raises SettingsError if a name fits none."""
    if not channels:
        raise SettingsError("no channels; add one under `channels:` in the policy, such as {type: folder, path: mails}")
    for name in names:
        if not any(name in {channel.name, channel.type} for channel in channels):
            known = ", ".join(dict.fromkeys(channel.name or channel.type for channel in channels))
            raise SettingsError(f"--channel {name!r}: no channel has this name or type; use {known}")
    return [channel for channel in channels if not names or {channel.name, channel.type} & set(names)]
