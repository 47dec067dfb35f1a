"""Which operation of a REST service a request means: the URI templates of botocore's own service models, the most specific one first.

Templates: https://smithy.io/2.0/spec/http-bindings.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote

import botocore.session
from botocore.exceptions import UnknownServiceError
from botocore.model import OperationModel

MODELS = {"ses": "sesv2", "email": "sesv2"}
"""botocore's name of a service, where it is not the name that requests are signed for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Route:
    operation: str
    method: str
    path: re.Pattern[str]
    names: tuple[str, ...]
    query: dict[str, str]
    required_query: dict[str, str]
    query_names: dict[str, str]
    required_headers: tuple[str, ...]


def match(
    service: str, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
) -> tuple[str, dict[str, Any], str]:
    """Operation, parameters (those of path, query and a JSON body) and protocol; the operation is `METHOD /path` where none fits."""
    protocol, routes = _routes(service)
    arguments = dict(parse_qsl(query, keep_blank_values=True))
    for route in routes:
        path_match = route.path.fullmatch(path)
        if (
            path_match
            and route.method == method
            and all(arguments.get(k) == v for k, v in route.query.items())
            and all(k in arguments for k in route.required_query)
            and all(h in headers for h in route.required_headers)
        ):
            params: dict[str, Any] = {n: unquote(v) for n, v in zip(route.names, path_match.groups(), strict=True)}
            params |= {name: arguments[key] for key, name in route.query_names.items() if key in arguments}
            return route.operation, params | _document(protocol, body), protocol
    return f"{method} {path}", _document(protocol, body), protocol


def _document(protocol: str, body: bytes) -> dict[str, Any]:
    if protocol != "rest-json" or not body:
        return {}
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


@cache
def _routes(service: str) -> tuple[str, list[_Route]]:
    session = botocore.session.get_session()
    try:
        model = session.get_service_model(MODELS.get(service, service))
    except UnknownServiceError:
        return "rest-json", []
    routes = [_route(model.operation_model(name)) for name in model.operation_names]
    routes.sort(
        key=lambda r: (-len(r.query), -len(r.required_query), -len(r.required_headers), -len(r.path.pattern), r.operation)
    )
    return str(model.metadata.get("protocol", "rest-json")), routes


def _route(operation: OperationModel) -> _Route:
    template, _, query = str(operation.http.get("requestUri", "/")).partition("?")
    names = re.findall(r"\{(\w+)\+?\}", template)
    pattern = "".join(
        re.escape(piece) if not piece.startswith("{") else ("(.+)" if piece.endswith("+}") else "([^/]+)")
        for piece in re.split(r"(\{\w+\+?\})", template)
    )
    shape = operation.input_shape
    places = {name: (m.serialization.get("location"), m.serialization.get("name", name)) for name, m in _members(shape).items()}
    required = set(shape.required_members) if shape else set()
    return _Route(
        operation=operation.name,
        method=operation.http.get("method", "POST"),
        path=re.compile(pattern.rstrip("/") + "/?" if pattern != "/" else "/"),
        names=tuple(names),
        query={k: v for k, v in parse_qsl(query, keep_blank_values=True) if k != "x-id"},
        required_query={wire: name for name, (where, wire) in places.items() if where == "querystring" and name in required},
        query_names={wire: name for name, (where, wire) in places.items() if where == "querystring"},
        required_headers=tuple(wire.lower() for name, (where, wire) in places.items() if where == "header" and name in required),
    )


def _members(shape: Any) -> dict[str, Any]:
    return dict(shape.members) if shape else {}
