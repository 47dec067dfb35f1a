"""The HTTP route behind the keep-links, anonymous, because the signed token is the authentication.

https://learn.microsoft.com/en-us/azure/azure-functions/functions-bindings-http-webhook-trigger?pivots=programming-language-python
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from ipaddress import ip_address

import azure.functions as func

from reaper.snooze import handler
from reaper.snooze.request import PAGE_PATH, Reply, Request

blueprint = func.Blueprint()  # type: ignore[no-untyped-call]
log = logging.getLogger(__name__)


@blueprint.function_name("Keep")
@blueprint.route(route=PAGE_PATH.strip("/"), methods=["GET", "HEAD", "POST"], auth_level=func.AuthLevel.ANONYMOUS)
def handle_snooze_request(req: func.HttpRequest) -> func.HttpResponse:
    """One request to keep a resource: always a page. A deployment that cannot work is one line in the log, never a trace."""
    asked = parse_request(req)
    reply = _snooze_handler().handle(asked, datetime.now(UTC))
    if reply.note:
        log.log(handler.log_level(reply), "keep-link %s %s from %s: %s", asked.method, reply.status, asked.source_ip, reply.note)
    return build_response(reply)


def register_route(app: func.FunctionApp, environ: Mapping[str, str]) -> None:
    """Serve the page where its keys are configured. Without keys no link is good, and what is not there costs nothing and fails nobody."""
    if environ.get("REAPER_SNOOZE_KEYS", "").strip():
        app.register_functions(blueprint)


def parse_request(asked: func.HttpRequest) -> Request:
    """What was asked for. The path is the route's own, whatever prefix host.json puts before it; the rest of the address is a stranger's."""
    headers = {name.lower(): value for name, value in asked.headers.items()}
    return Request(
        method=asked.method.upper(),
        path=PAGE_PATH,
        query=asked.url.partition("?")[2].partition("#")[0],
        headers=headers,
        body=asked.get_body(),
        source_ip=client_ip(headers.get("x-forwarded-for", "")),
    )


def client_ip(forwarded_for: str) -> str:
    """The address that Azure's own front end saw, empty without one. It appends `address:port`; what stands before is anybody's claim."""
    last = forwarded_for.rpartition(",")[2].strip()
    if last.startswith("["):
        last = last[1:].partition("]")[0]
    elif last.count(":") == 1:
        last = last.partition(":")[0]
    try:
        return str(ip_address(last))
    except ValueError:
        return ""


def build_response(reply: Reply) -> func.HttpResponse:
    """The reply as the host wants it."""
    return func.HttpResponse(reply.body, status_code=reply.status, headers=dict(reply.headers))


@cache
def _snooze_handler() -> handler.SnoozeHandler:
    return handler.open_handler(os.environ)
