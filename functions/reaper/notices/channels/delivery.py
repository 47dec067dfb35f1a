"""Delivers messages. Each channel is one file with one class whose `send` returns a receipt or raises CloudError; SDKs load when it is opened.

A notice counts once a channel has accepted it, not before. Where its readers have mail, only an accepted mail counts.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from reaper.errors import NO_SIGN_IN, CloudError, ReaperError, Reason, SettingsError
from reaper.extras import install_command
from reaper.notices.message import Audience, Message
from reaper.policy.channel_settings import Acs, Sns
from reaper.text import validation_text
from reaper.urls import ca_bundle

MODULE_BY_TYPE = {
    "smtp": ("reaper.notices.channels.smtp", "cli"),
    "webhook": ("reaper.notices.channels.webhook", "cli"),
    "slack": ("reaper.notices.channels.rooms", "cli"),
    "teams": ("reaper.notices.channels.rooms", "cli"),
    "apprise": ("reaper.notices.channels.apprise", "chat"),
    "folder": ("reaper.notices.channels.folder", "cli"),
    "sns": ("reaper.aws.channels.sns", "aws"),
    "ses": ("reaper.aws.channels.ses", "aws"),
    "acs": ("reaper.azure.channels.acs", "azure"),
}
"""By type: the module, and the extra it comes with."""
Spec = TypeVar("Spec", bound=BaseModel)
MAX_MISSES = 3
"""Messages in a row for which a channel may be unreachable; after that it isn't tried again in this run."""


class Sender(Protocol):
    """What every channel can do."""

    def send(self, message: Message) -> str:
        """Send it and return the service's receipt. Raises CloudError, and nothing else, if it isn't accepted."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelContext:
    """What channels need from outside: a way to read a secret by its place, the clock, and until when one may wait."""

    read_secret: Callable[[str], str]
    clock: Callable[[], datetime]
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenChannel:
    """Its name in reports, its readers, and the sender, or why there is none. `is_mail`: it goes to addresses. `to`: the admins'."""

    name: str
    readers: frozenset[Audience]
    sender: Sender | CloudError
    is_mail: bool = False
    to: tuple[str, ...] = ()


Misses = dict[OpenChannel, list[CloudError]]
"""Why a channel couldn't be reached, for each message since the last one that it answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The result of one message on one channel: a receipt or an error. `counts`: whether its readers know once there is a receipt."""

    message: Message
    channel: str
    receipt: str | None = None
    error: CloudError | None = None
    counts: bool = True


def open_channels(specs: Sequence[Any], context: ChannelContext) -> list[OpenChannel]:
    """The channels of a policy, in its order; nothing is connected or read yet. One that can't be opened refuses each message with the reason."""
    channels = []
    for spec in specs:
        module, extra = MODULE_BY_TYPE[spec.type]
        try:
            sender: Sender | CloudError = import_module(module).Channel(spec, context)
        except ImportError as error:
            why = f"it needs an extra: {install_command(extra)} ({error})"
            sender = CloudError(Reason.REFUSED, f"channel {spec.type}", why)
        channel = OpenChannel(
            name=spec.name or spec.type,
            readers=frozenset(spec.readers),
            sender=sender,
            is_mail=spec.is_mail,
            to=tuple(getattr(spec, "to", ())),
        )
        channels.append(channel)
    return channels


def deliver(message: Message, channels: Sequence[OpenChannel], misses: Misses) -> list[Delivery]:
    """The message on every channel that is for its readers, but for those with MAX_MISSES. `misses` is brought up to date.

    Mail goes first, to each of the admins' addresses on its own. A room gets what is for an owner only after an accepted mail, if owners have mail.
    """
    mine = [channel for channel in channels if message.audience in channel.readers]
    mails = [channel for channel in mine if channel.is_mail]
    to_owner = message.audience is Audience.OWNERS
    addressed = [(channel, to) for channel in mails for to in dict.fromkeys((not to_owner and channel.to) or [message.to])]
    sent = [_tried(replace(message, to=to), channel, misses) for channel, to in addressed]
    if mails and to_owner and first_receipt(sent) is None:
        return sent
    return sent + [replace(_tried(message, room, misses), counts=not mails) for room in mine if not room.is_mail]


def first_receipt(deliveries: Iterable[Delivery]) -> str | None:
    """The first receipt that counts, with its channel; None if there is none."""
    return next((f"{d.channel}: {d.receipt}"[:200] for d in deliveries if d.receipt is not None and d.counts), None)


def receipts_by_id(deliveries: Iterable[Delivery]) -> Mapping[str, str]:
    """By resource id, the first receipt of a message to its owner: only these notices count."""
    receipts: dict[str, str] = {}
    for delivery in deliveries:
        if (receipt := first_receipt([delivery])) and delivery.message.audience is Audience.OWNERS:
            for resource_id in delivery.message.resource_ids:
                receipts.setdefault(resource_id, receipt)
    return receipts


def errors_by_id(deliveries: Iterable[Delivery]) -> Mapping[str, str]:
    """By resource id, which channels refused the message to its owner and why: reported even if another channel accepted it."""
    errors: dict[str, dict[str, None]] = {}
    for delivery in deliveries:
        if delivery.error is not None and delivery.message.audience is Audience.OWNERS:
            for resource_id in delivery.message.resource_ids:
                errors.setdefault(resource_id, {})[f"{delivery.channel}: {delivery.error}"] = None
    return {resource_id: "; ".join(texts) for resource_id, texts in errors.items()}


def deliver_one(message: Message, channel: OpenChannel, unreachable: CloudError | None = None) -> Delivery:
    """One message on one channel, regardless of its readers. `unreachable`: why the channel isn't tried at all."""
    sender = unreachable or channel.sender
    if isinstance(sender, CloudError):
        return Delivery(message=message, channel=channel.name, error=sender)
    try:
        return Delivery(message=message, channel=channel.name, receipt=sender.send(message))
    except CloudError as error:
        return Delivery(message=message, channel=channel.name, error=error)
    except (ReaperError, OSError, ValueError) as error:
        refused = CloudError(Reason.REFUSED, f"channel {channel.name}", f"the message couldn't be sent ({error!r})")
        return Delivery(message=message, channel=channel.name, error=refused)


def _tried(message: Message, channel: OpenChannel, misses: Misses) -> Delivery:
    errors = misses.get(channel, [])
    delivery = deliver_one(message, channel, errors[-1] if len(errors) >= MAX_MISSES else None)
    unreachable = delivery.error is not None and delivery.error.reason is Reason.UNREACHABLE
    misses[channel] = [*errors, delivery.error] if delivery.error and unreachable else []
    return delivery


def with_deployment_channels(declared: Sequence[Any], environ: Mapping[str, str]) -> list[Any]:
    """The policy's channels, and those that a deployment brings: REAPER_EMAIL_ENDPOINT, _SENDER and _TO, and REAPER_TOPIC.

    The latter are all that there is if the policy names no channel. If it does, they still carry the admins' summary, so that the address given
    at deployment gets it, unless the policy has a channel of the same type for admins. Raises SettingsError if a setting can't be used.
    """
    values = {name: value.strip() for name, value in environ.items() if value.strip()}
    channels: list[Acs | Sns] = []
    if endpoint := values.get("REAPER_EMAIL_ENDPOINT"):
        to = [address.strip() for address in values.get("REAPER_EMAIL_TO", "").split(",") if address.strip()]
        channels.append(mail_channel(endpoint, values.get("REAPER_EMAIL_SENDER", ""), to))
    if topic := values.get("REAPER_TOPIC"):
        channels.append(topic_channel(topic))
    if not declared:
        return list(channels)
    for_admins = {spec.type for spec in declared if Audience.ADMINS in spec.readers}
    only_admins = {"readers": [Audience.ADMINS]}
    more = [spec for spec in channels if spec.type not in for_admins]
    return [*declared, *(s.model_copy(update={**only_admins, "name": f"{s.type} of the deployment"}) for s in more)]


def topic_channel(arn: str) -> Sns:
    """The channel of REAPER_TOPIC, for admins. Raises SettingsError if that is no topic."""
    return _validated(Sns, {"type": "sns", "topic": arn, "for": [Audience.ADMINS]})


def mail_channel(endpoint: str, sender: str, to: Sequence[str]) -> Acs:
    """The channel of REAPER_EMAIL_ENDPOINT, _SENDER and _TO. Raises SettingsError if one of them can't be used."""
    return _validated(Acs, {"type": "acs", "endpoint": endpoint, "from": sender, "to": list(to)})


def _validated(model: type[Spec], values: Mapping[str, Any]) -> Spec:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"REAPER_EMAIL_… or REAPER_TOPIC: {where}: {validation_text(first['msg'])}") from None


def tls_context() -> ssl.SSLContext:
    """A context that checks certificates and host names, with the file or folder that REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE or AWS_CA_BUNDLE names,
    else Python's own certificates. Raises CloudError for one that can't be used.
    """
    bundle = ca_bundle(os.environ)
    is_folder = bundle is not None and Path(bundle).is_dir()
    try:
        return ssl.create_default_context(capath=bundle if is_folder else None, cafile=None if is_folder else bundle)
    except OSError as error:
        raise CloudError(Reason.REFUSED, "tls", f"{bundle}: no certificates to trust: {error}", code=NO_SIGN_IN) from error
