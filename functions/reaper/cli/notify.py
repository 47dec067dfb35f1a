"""`reaper notify`: the commands about messages. `cli` adds them to the command line."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reaper import secret_store, settings
from reaper.cli.options import current_time
from reaper.errors import SettingsError
from reaper.notices.channels import delivery
from reaper.notices.message import Message, is_deliverable
from reaper.policy import file

if TYPE_CHECKING:
    from reaper.policy.schema import Policy

app = typer.Typer(no_args_is_help=True, help="Try out the channels that messages go through.")


@app.callback()
def notify() -> None:
    """Try out the channels that messages go through."""


@app.command("test")
def send_sample(
    to: Annotated[str, typer.Option(help="Address the sample is for; its domain must be on owners.domains.", metavar="ADDRESS")],
    policy: Annotated[
        str | None, typer.Option(help="Policy file, s3://, ssm:, blob URL or inline YAML.", metavar="FILE|URI")
    ] = None,
    channel: Annotated[list[str] | None, typer.Option(help="Only the channels of that name or type.")] = None,
) -> None:
    """Send a sample of made-up findings through the policy's channels and print the receipts. Exit status 3 if any refused it."""
    from reaper.notices.channels.deployment import with_deployment_channels

    base = settings.from_env(os.environ)
    found = file.load_policy(base.policy if policy is None else policy).policy
    message = _sample_message(to, found)
    chosen = _selected_channels(with_deployment_channels(found.channels, os.environ), channel or [])
    means = delivery.ChannelContext(read_secret=lambda ref: secret_store.read_for_policy(ref, os.environ), clock=current_time)
    done = [delivery.deliver_one(message, line) for line in delivery.open_channels(chosen, means)]
    for one in done:
        sys.stdout.write(f"{one.channel}: {'FAILED ' + str(one.error) if one.error else one.receipt}\n")
    raise typer.Exit(3 if any(one.error for one in done) else 0)


def _selected_channels(there: list[Any], asked: list[str]) -> list[Any]:
    """The channels that are asked for by name or type, or all. Raises SettingsError where there is none, or none of that name."""
    if not there:
        raise SettingsError(
            "no channel to send through: name some under `channels:` in the policy, such as {type: folder, path: mails}"
        )
    for name in asked:
        if not any(name in {spec.name, spec.type} for spec in there):
            names = ", ".join(dict.fromkeys(spec.name or spec.type for spec in there))
            raise SettingsError(f"--channel {name!r}: there is no channel of that name or type; there are {names}")
    return [spec for spec in there if not asked or {spec.name, spec.type} & set(asked)]


def _sample_message(to: str, policy: Policy) -> Message:
    from reaper.cli import sample_notice

    if not is_deliverable(to, policy.owners.domains, policy.owners.fallback):
        domains = ", ".join(policy.owners.domains) or "none yet"
        raise SettingsError(f"--to {to!r}: mail goes only to owners.domains ({domains}) and to owners.fallback")
    return sample_notice.sample_message(to, current_time(), policy.owners.contact or policy.owners.fallback)
