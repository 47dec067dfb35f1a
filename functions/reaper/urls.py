"""Parts of addresses. Python's urlsplit raises ValueError for texts such as `https://[x`, and other people's texts must not crash a run."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

NO_ADDRESS = SplitResult("", "", "", "", "")


def split_address(text: str) -> SplitResult:
    """The parts of an address. Anything else has no scheme and no host."""
    try:
        return urlsplit(text)
    except ValueError:
        return NO_ADDRESS
