"""A throw-away certificate authority for 127.0.0.1, because the SDKs send bearer tokens over TLS only."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme


def issue(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """The CA's file in `folder` and the context of a server it vouches for."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    path = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path, context
