"""The recipients of a mail: the owner, or the channel's admins. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from reaper.errors import CloudError, Reason
from reaper.notices.message import Audience, Message, is_plain_address


def recipient_addresses(message: Message, admins: Sequence[str], operation: str) -> list[str]:
    """The addresses, each once. Raises CloudError if there are none or if one is not plain."""
    addresses = list(dict.fromkeys(admins)) if message.audience is Audience.ADMINS and admins else [message.to]
    if not all(is_plain_address(address) for address in addresses):
        raise CloudError(Reason.REFUSED, operation, "no recipient: set the channel's `to`, or owners.fallback in the policy")
    return addresses
