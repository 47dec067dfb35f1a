"""Page tokens: opaque to the caller, and good for one operation only."""

from __future__ import annotations

import base64

from reaper_sandbox.aws.reply import Refusal


def write(operation: str, offset: int) -> str:
    """A token that says where the next page starts."""
    return base64.urlsafe_b64encode(f"{operation} {offset}".encode()).decode()


def read(text: str | None, operation: str, otherwise: Refusal) -> int:
    """Where the page starts; 0 without a token. Raises `otherwise` for a token that is not one of ours."""
    if not text:
        return 0
    try:
        name, _, offset = base64.urlsafe_b64decode(text.encode()).decode().partition(" ")
        if name == operation:
            return int(offset)
    except ValueError:
        raise otherwise from None
    raise otherwise
