"""What goes back over the wire: a result or a refusal, in the words of the protocol that the call was made in.

Error shapes: https://smithy.io/2.0/aws/protocols/index.html
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4
from xml.sax.saxutils import escape

import cbor2

from reaper_sandbox.aws.call import Call

QUERY_COMPATIBLE = {"cloudwatch"}
"""Services that once spoke the query protocol and still name its error codes in a header."""


class Refusal(Exception):
    """The service says no: `code` as the SDK shows it, `message`, HTTP `status`."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.status = code, message, status


def invalid(message: str) -> Refusal:
    """A ValidationException, which is what SageMaker says to almost everything."""
    return Refusal("ValidationException", message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An HTTP response."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


def result(call: Call, data: Mapping[str, Any]) -> Reply:
    """A success. `data` may hold aware datetimes and float arrays; members that are None are left out."""
    if call.protocol == "cbor":
        return Reply(headers=_headers(call), body=_cbor(_full(data)))
    if call.protocol == "query":
        body = f"<{call.operation}Response><{call.operation}Result>{_xml(_full(data))}</{call.operation}Result></{call.operation}Response>"
        return Reply(headers=_headers(call), body=body.encode())
    if call.protocol == "ec2":
        body = f"<{call.operation}Response>{_xml(_full(data), 'item')}</{call.operation}Response>"
        return Reply(headers=_headers(call), body=body.encode())
    return Reply(headers=_headers(call), body=json.dumps(_full(data), default=_plain).encode())


def refusal(call: Call, error: Refusal) -> Reply:
    """An error in the call's protocol."""
    extra: dict[str, str] = {}
    if call.service in QUERY_COMPATIBLE and call.protocol in ("cbor", "json"):
        extra = {"x-amzn-query-error": f"{error.code};{'Sender' if error.status < 500 else 'Receiver'}"}
    if call.protocol == "cbor":
        body = _cbor({"__type": error.code, "message": error.message})
    elif call.protocol in ("json", "rest-json"):
        extra |= {"x-amzn-ErrorType": error.code}
        body = json.dumps({"__type": error.code, "message": error.message, "Message": error.message}).encode()
    else:
        body = _xml_error(call.protocol, error).encode()
    return Reply(status=error.status, headers=_headers(call) | extra, body=body)


def nothing(call: Call) -> Reply:
    """A success that says nothing at all."""
    if call.protocol == "rest-xml":
        return Reply(headers=_headers(call))
    if call.protocol == "ec2":
        return Reply(headers=_headers(call), body=f"<{call.operation}Response/>".encode())
    return result(call, {})


def garbage(call: Call) -> Reply:
    """HTTP 200 with a body that is cut off in the middle of nowhere."""
    body = {"cbor": b"<html><body>Bad gate", "json": b'{"Endpoints": [{"Endp', "rest-json": b'{"Name": '}.get(
        call.protocol, b"<Resu<lt"
    )
    return Reply(headers=_headers(call), body=body)


def _headers(call: Call) -> dict[str, str]:
    kinds = {"cbor": "application/cbor", "json": "application/x-amz-json-1.1", "rest-json": "application/json"}
    headers = {"Content-Type": kinds.get(call.protocol, "text/xml"), "x-amzn-RequestId": str(uuid4())}
    return headers | {"smithy-protocol": "rpc-v2-cbor"} if call.protocol == "cbor" else headers


def _full(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _full(value) for key, value in data.items() if value is not None}
    if isinstance(data, (list, tuple)):
        return [_full(value) for value in data] if data and not isinstance(data[0], (datetime, float)) else data
    return data


def _cbor(data: Any) -> bytes:
    return cbor2.dumps(data, datetime_as_timestamp=True, default=lambda encoder, floats: encoder.encode(floats.tolist()))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, array):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in JSON")


def _xml(value: Any, row: str = "member") -> str:
    if isinstance(value, Mapping):
        return "".join(f"<{key}>{_xml(one, row)}</{key}>" for key, one in value.items())
    if isinstance(value, (list, tuple, array)):
        return "".join(f"<{row}>{_xml(one, row)}</{row}>" for one in value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return escape(str(value).lower() if isinstance(value, bool) else str(value))


def _xml_error(protocol: str, error: Refusal) -> str:
    detail = f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
    if protocol == "rest-xml":
        return f'<?xml version="1.0" encoding="UTF-8"?><Error>{detail}<RequestId>{uuid4()}</RequestId></Error>'
    if protocol == "ec2":
        return f"<Response><Errors><Error>{detail}</Error></Errors><RequestID>{uuid4()}</RequestID></Response>"
    side = "Sender" if error.status < 500 else "Receiver"
    return f"<ErrorResponse><Error><Type>{side}</Type>{detail}</Error><RequestId>{uuid4()}</RequestId></ErrorResponse>"
