"""The HTTP route of snooze links. It is anonymous, because the signed token is the authentication.

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
EVENT = "keep-link"
"""How the log's line begins. infra/modules/alerts.bicep looks for it."""


@blueprint.function_name("Keep")
@blueprint.route(route=PAGE_PATH.strip("/"), methods=["GET", "HEAD", "POST"], auth_level=func.AuthLevel.ANONYMOUS)
def handle_snooze_request(req: func.HttpRequest) -> func.HttpResponse:
    """One request to snooze a resource: always a page. A deployment that can't work is one line in the log, never a trace."""
    request = parse_request(req)
    reply = _snooze_handler().handle(request, datetime.now(UTC))
    if reply.note:
        log.log(
            handler.log_level(reply), "%s %s %s from %s: %s", EVENT, request.method, reply.status, request.source_ip, reply.note
        )
    return build_response(reply)


def register_route(app: func.FunctionApp, environ: Mapping[str, str]) -> None:
    """Serve the page if its keys are configured. Without keys no link is valid, and a missing route costs nothing and can't fail."""
    if environ.get("REAPER_SNOOZE_KEYS", "").strip():
        app.register_functions(blueprint)


def parse_request(req: func.HttpRequest) -> Request:
    """The request. Its path is the route's own, whatever prefix host.json adds; the rest of the address is untrusted."""
    headers = {name.lower(): value for name, value in req.headers.items()}
    return Request(
        method=req.method.upper(),
        path=PAGE_PATH,
        query=req.url.partition("?")[2].partition("#")[0],
        headers=headers,
        body=req.get_body(),
        source_ip=client_ip(headers.get("x-forwarded-for", "")),
    )


def client_ip(forwarded_for: str) -> str:
    """The address that Azure's front end saw; empty if there is none. It appends `address:port`; anything before that may be forged."""
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
    """The reply as the host expects it."""
    return func.HttpResponse(reply.body, status_code=reply.status, headers=dict(reply.headers))


@cache
def _snooze_handler() -> handler.SnoozeHandler:
    return handler.open_handler(os.environ)
