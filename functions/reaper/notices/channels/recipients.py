"""Who gets a message by mail: the owner it is for, or the admins of the channel. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from reaper.errors import CloudError, Reason
from reaper.notices.message import Audience, Message, is_plain_address


def recipient_addresses(message: Message, admins: Sequence[str], operation: str) -> list[str]:
    """The addresses, each once. Raises CloudError where there is none or one is not plain."""
    people = list(dict.fromkeys(admins)) if message.audience is Audience.ADMINS and admins else [message.to]
    if not all(is_plain_address(address) for address in people):
        raise CloudError(
            Reason.REFUSED, operation, "nobody to send it to: give the channel a `to`, or the policy an owners.fallback"
        )
    return people
