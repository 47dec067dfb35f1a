"""The Lambda function behind the snooze links: a function URL without authentication, because the signed token is the authentication.

Events and replies are of payload format 2.0: https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html#urls-payloads
"""

from __future__ import annotations

import logging
import os
from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from reaper.errors import SettingsError
from reaper.snooze import handler as snooze_handler
from reaper.snooze import pages
from reaper.snooze.pages import Reply, Request

PERMISSIONS = (
    "dynamodb:BatchGetItem",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "secretsmanager:GetSecretValue",
)
"""All that it needs: one table's records, snoozes and histories, and its own secret. Nothing that stops or deletes, nothing of SageMaker."""

logger = Logger(service="ml-idle-reaper")


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """One request: always a page. What is not a request and a deployment that can't work are one line in the log, never a trace.

    The alarm of the template counts the replies of 5xx.
    """
    try:
        request = parse_request(event)
        reply = _snooze_handler().handle(request, datetime.now(UTC))
    except SettingsError as error:
        request, reply = Request(method="", path=""), pages.invalid_request(str(error))
    if reply.note:
        log = {logging.INFO: logger.info, logging.WARNING: logger.warning, logging.ERROR: logger.error}[
            snooze_handler.log_level(reply)
        ]
        log("keep-link", method=request.method[:20], status=reply.status, source=request.source_ip, note=reply.note)
    return build_response(reply)


def parse_request(event: Mapping[str, Any]) -> Request:
    """What the event asks for. Raises SettingsError for an event that did not come through a function URL."""
    try:
        http = event["requestContext"]["http"]
        headers = event["headers"]
        return Request(
            method=_required_text(http, "method"),
            path=_required_text(event, "rawPath"),
            query=_optional_text(event, "rawQueryString"),
            headers={name.lower(): _required_text(headers, name) for name in headers},
            body=_event_body(event),
            source_ip=_required_text(http, "sourceIp"),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SettingsError(f"this function answers requests through its URL only; the event lacks or garbles {error}") from error


def _event_body(event: Mapping[str, Any]) -> bytes:
    body = _optional_text(event, "body")
    match event.get("isBase64Encoded"):
        case True:
            return b64decode(body, validate=True)
        case False | None:
            return body.encode("utf-8", "replace")
    raise TypeError("isBase64Encoded, which is neither true nor false")


def _optional_text(fields: Mapping[str, Any], name: str) -> str:
    return "" if fields.get(name) is None else _required_text(fields, name)


def _required_text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise TypeError(f"{name!r}, which is a {type(value).__name__} and not a string")
    return value


def build_response(reply: Reply) -> dict[str, Any]:
    """The reply as Lambda wants it."""
    return {"statusCode": reply.status, "headers": dict(reply.headers), "body": reply.body, "isBase64Encoded": False}


@cache
def _snooze_handler() -> snooze_handler.SnoozeHandler:
    return snooze_handler.open_handler(os.environ)
