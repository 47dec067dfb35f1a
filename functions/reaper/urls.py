"""Parts of an address. Python's urlsplit raises ValueError for some texts, such as `https://[x`, and those may come from other people."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

NO_ADDRESS = SplitResult("", "", "", "", "")


def split_address(text: str) -> SplitResult:
    """The parts of an address; without scheme and host for text that is no address."""
    try:
        return urlsplit(text)
    except ValueError:
        return NO_ADDRESS


def is_loopback(host: str | None) -> bool:
    """Whether the host is this machine: `localhost`, or an address such as 127.0.0.1 and ::1."""
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False
