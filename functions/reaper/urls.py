"""Parts of an address, and the certificates to trust there. Python's urlsplit raises ValueError for some texts, such as `https://[x`, and those may come from other people."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from reaper.errors import NO_SIGN_IN, CloudError, Reason

CA_BUNDLE_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE")
"""Variables with the path of the certificates to trust: https://requests.readthedocs.io/en/latest/user/advanced/#ssl-cert-verification"""
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


def ca_bundle(environ: Mapping[str, str], variables: Collection[str] = CA_BUNDLE_VARIABLES) -> str | None:
    """The file or folder that the first of these variables names. Raises CloudError if that doesn't exist."""
    name = next((name for name in variables if environ.get(name)), None)
    if name and not os.path.exists(environ[name]):
        text = f"{name}={environ[name]!r}: no such file; it should contain the certificates to trust"
        raise CloudError(Reason.REFUSED, "sign in", text, code=NO_SIGN_IN)
    return environ[name] if name else None
