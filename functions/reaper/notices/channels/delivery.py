"""Where messages go. Each channel is one file with one class whose `send` gives a receipt or raises CloudError; SDKs load when it is opened.

A notice counts as given when a channel said that it took it, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import Any, Protocol

from reaper.errors import CloudError, ReaperError, Reason
from reaper.notices.message import Audience, Message

MODULE_BY_TYPE = {
    "smtp": ("reaper.notices.channels.smtp", "cli"),
    "webhook": ("reaper.notices.channels.webhook", "cli"),
    "apprise": ("reaper.notices.channels.apprise", "chat"),
    "folder": ("reaper.notices.channels.folder", "cli"),
    "sns": ("reaper.aws.channels.sns", "aws"),
    "ses": ("reaper.aws.channels.ses", "aws"),
    "acs": ("reaper.azure.channels.acs", "azure"),
}
"""By type: the module, and the extra it comes with."""


class Sender(Protocol):
    """What every channel can do."""

    def send(self, message: Message) -> str:
        """Send it; gives the receipt of whoever took it. Raises CloudError, and nothing else, where nobody did."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelContext:
    """What channels need from outside: how to read a secret by where it is kept, and the clock for signatures and dates."""

    read_secret: Callable[[str], str]
    clock: Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenChannel:
    """One opened channel: what the report calls it, whom it is for, and the sender."""

    name: str
    readers: frozenset[Audience]
    sender: Sender


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailableChannel:
    """What stands for a channel that could not be opened, so that the others are used all the same."""

    error: CloudError

    def send(self, message: Message) -> str:
        """Refuses it."""
        raise self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of one message on one channel: a receipt or an error."""

    message: Message
    channel: str
    receipt: str | None = None
    error: CloudError | None = None


def open_channels(specs: Sequence[Any], means: ChannelContext) -> list[OpenChannel]:
    """The channels of a policy, in its order; nothing is connected or read yet. One that cannot be opened refuses each message, saying why."""
    return [
        OpenChannel(name=spec.name or spec.type, readers=frozenset(spec.readers), sender=_open_sender(spec, means))
        for spec in specs
    ]


def deliver_all(messages: Iterable[Message], lines: Sequence[OpenChannel]) -> list[Delivery]:
    """Every message on every channel that is for its readers. A channel that cannot be reached is not tried again for the others."""
    done: list[Delivery] = []
    dead: dict[int, CloudError] = {}
    for message in messages:
        for index, line in enumerate(lines):
            if message.audience in line.readers:
                done.append(deliver_one(message, line, dead.get(index)))
                error = done[-1].error
                if error is not None and error.reason is Reason.UNREACHABLE:
                    dead[index] = error
    return done


def receipts_by_id(deliveries: Iterable[Delivery]) -> Mapping[str, str]:
    """By resource id, the first receipt of a message to its owner: these notices count, and no others."""
    receipts: dict[str, str] = {}
    for done in deliveries:
        if done.receipt is not None and done.message.audience is Audience.OWNERS:
            for resource_id in done.message.resource_ids:
                receipts.setdefault(resource_id, f"{done.channel}: {done.receipt}"[:200])
    return receipts


def errors_by_id(deliveries: Iterable[Delivery]) -> Mapping[str, str]:
    """By resource id, which channels did not take the message to its owner and why: to be told even where another one took it."""
    refused: dict[str, dict[str, None]] = {}
    for done in deliveries:
        if done.error is not None and done.message.audience is Audience.OWNERS:
            for resource_id in done.message.resource_ids:
                refused.setdefault(resource_id, {})[f"{done.channel}: {done.error}"] = None
    return {resource_id: "; ".join(said) for resource_id, said in refused.items()}


def deliver_one(message: Message, line: OpenChannel, dead: CloudError | None = None) -> Delivery:
    """One message on one channel, whoever it is for; `dead` is why the channel is not even tried."""
    if dead is not None:
        return Delivery(message=message, channel=line.name, error=dead)
    try:
        return Delivery(message=message, channel=line.name, receipt=line.sender.send(message))
    except CloudError as error:
        return Delivery(message=message, channel=line.name, error=error)
    except (ReaperError, OSError, ValueError) as error:
        refused = CloudError(Reason.REFUSED, f"channel {line.name}", f"it could not be sent ({error!r})")
        return Delivery(message=message, channel=line.name, error=refused)


def _open_sender(spec: Any, means: ChannelContext) -> Sender:
    module, extra = MODULE_BY_TYPE[spec.type]
    try:
        sender: Sender = import_module(module).CHANNEL(spec, means)
    except ImportError as error:
        why = f"it needs the extra `{extra}`: pip install 'ml-idle-reaper[{extra}]' ({error})"
        return UnavailableChannel(error=CloudError(Reason.REFUSED, f"channel {spec.type}", why))
    return sender
