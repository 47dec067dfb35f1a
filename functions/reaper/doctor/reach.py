"""Whether an address on the web answers, without posting anything to it."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPMessage
from typing import IO

from reaper import __version__
from reaper.errors import CloudError, Reason
from reaper.notices.channels import delivery
from reaper.urls import split_address

TIMEOUT_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """The status of a reply, and when it was sent, if it says so."""

    status: int
    date: datetime | None


def http_reply(url: str, method: str) -> HttpReply:
    """The reply to a request without a body and without credentials; redirects are not followed. Raises CloudError if nothing answers."""
    parts = split_address(url)
    if parts.scheme not in {"http", "https"}:
        raise CloudError(Reason.REFUSED, "http", f"{parts.netloc or 'the address'} isn't on the web")
    request = urllib.request.Request(url, method=method, headers={"User-Agent": f"ml-idle-reaper/{__version__} doctor"})
    opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=delivery.tls_context()))
    try:
        with opener.open(request, timeout=TIMEOUT_S) as reply:
            return HttpReply(status=int(reply.status), date=_parse_date(reply.headers.get("Date")))
    except urllib.error.HTTPError as error:
        error.close()
        return HttpReply(status=int(error.code), date=_parse_date(error.headers.get("Date")))
    except (OSError, HTTPException, ValueError) as error:
        raise CloudError(Reason.UNREACHABLE, "http", f"{parts.netloc}: {error}") from error


def _parse_date(text: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(text) if text else None
    except ValueError:
        return None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Never follow."""
