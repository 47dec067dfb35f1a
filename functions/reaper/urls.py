"""Addresses apart. Python's urlsplit raises ValueError for some texts, such as `https://[x`; where those come from others, that is a crash."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

NO_ADDRESS = SplitResult("", "", "", "", "")


def split_address(text: str) -> SplitResult:
    """The parts of an address. What is none at all has no scheme and no host."""
    try:
        return urlsplit(text)
    except ValueError:
        return NO_ADDRESS
