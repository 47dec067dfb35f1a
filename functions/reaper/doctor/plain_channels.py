"""Mail servers, webhooks, chats and folders, examined without sending anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reaper import secret_store
from reaper.doctor import reach, stores
from reaper.doctor.check import Check, of_error, ok, to_fix, unknown
from reaper.doctor.context import DoctorContext
from reaper.errors import CloudError, ReaperError
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import ChannelContext
from reaper.urls import split_address

TEST_BY_MESSAGE = "reaper notify test --to you@example.com"


def examine(spec: Any, name: str, context: DoctorContext) -> Iterator[Check]:
    """Whether the channel could deliver."""
    yield from {"smtp": _examine_smtp, "webhook": _examine_webhook, "apprise": _examine_apprise, "folder": _examine_folder}[
        spec.type
    ](spec, name, context)


def _examine_smtp(spec: Any, name: str, context: DoctorContext) -> Iterator[Check]:
    """Connect, encrypt and log in, and hang up."""
    from reaper.notices.channels.smtp import Channel

    try:
        said = Channel(spec, _channel_context(context)).say_hello()
    except ReaperError as error:
        yield of_error(name, error, f"Check host, port, tls, user and secret of {spec.host}:{spec.port} in the policy.")
        return
    yield ok(name, f"{spec.host}:{spec.port} {said}")


def _examine_webhook(spec: Any, name: str, context: DoctorContext) -> Iterator[Check]:
    """OPTIONS carries no message. Any reply but a server's error shows that something listens."""
    host = split_address(spec.url).netloc
    try:
        status = reach.http_reply(spec.url, "OPTIONS").status
    except CloudError as error:
        yield of_error(name, error, "Check the webhook's url in the policy.")
        return
    if status >= 500:
        yield to_fix(name, f"{host} answered {status}", f"Check the service at {host}.")
        return
    yield ok(name, f"{host} answers ({status} to OPTIONS)")


def _examine_apprise(spec: Any, name: str, context: DoctorContext) -> Iterator[Check]:
    """Only a message would show whether the service takes it."""
    from reaper.notices.channels.apprise import Channel

    try:
        service = Channel(spec, _channel_context(context)).service_name()
    except ReaperError as error:
        yield of_error(name, error, "Check the Apprise address: https://github.com/caronc/apprise/wiki")
        return
    yield unknown(name, f"its address is valid ({service}); only a message would show whether it is accepted", TEST_BY_MESSAGE)


def _examine_folder(spec: Any, name: str, context: DoctorContext) -> Iterator[Check]:
    yield from stores.folder_checks(name, spec.path)


def _channel_context(context: DoctorContext) -> ChannelContext:
    return delivery.ChannelContext(
        read_secret=lambda ref: secret_store.read_for_policy(ref, context.environ), clock=context.clock
    )
