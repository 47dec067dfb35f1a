"""The certificates that TLS connections trust: the file or folder in REQUESTS_CA_BUNDLE, else Python's own.

https://requests.readthedocs.io/en/latest/user/advanced/#ssl-cert-verification
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path


def tls_context() -> ssl.SSLContext:
    """A context that checks certificates and host names."""
    bundle = os.environ.get("REQUESTS_CA_BUNDLE")
    if not bundle:
        return ssl.create_default_context()
    folder = Path(bundle).is_dir()
    return ssl.create_default_context(capath=bundle if folder else None, cafile=None if folder else bundle)
