"""One API call as it came over the wire: which service, which operation, where, with what parameters.

Protocols: https://smithy.io/2.0/aws/protocols/index.html. Service names are IAM prefixes:
https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import cbor2

from reaper_sandbox.aws import rest

PREFIXES = {
    "monitoring": "cloudwatch",
    "tagging": "tag",
    "email": "ses",
    "resourcegroupstaggingapi": "tag",
    "eventbridge": "events",
}
"""IAM prefix by the name that the request is signed for, where the two differ."""

ACTIONS = {
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:ListObjects": "s3:ListBucket",
    "s3:HeadObject": "s3:GetObject",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:CreateMultipartUpload": "s3:PutObject",
    "s3:UploadPart": "s3:PutObject",
    "s3:CompleteMultipartUpload": "s3:PutObject",
    "lambda:Invoke": "lambda:InvokeFunction",
}
"""IAM action by operation, where the two differ."""

_CREDENTIAL = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/aws4_request")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`service` is the IAM prefix, `protocol` one of json, cbor, query, ec2, rest-json, rest-xml.

    `key` is the access key that signed it, which tells one principal from another; `headers` have lower-case names.
    """

    service: str
    operation: str
    region: str
    params: dict[str, Any] = field(default_factory=dict)
    account: str = "123456789012"
    protocol: str = "json"
    key: str = field(default="", compare=False)
    headers: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def action(self) -> str:
        """The IAM action that the call needs, such as `sagemaker:ListEndpoints`."""
        name = f"{self.service}:{self.operation}"
        return ACTIONS.get(name, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The HTTP request, its headers' names lower-cased."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


def read(request: Request, account_of: Callable[[str], str]) -> Call:
    """The call that `request` makes; `account_of` knows whose an access key is. Raises ValueError or CBORDecodeError if the body can't be read.

    Parameters are as the SDK sent them in json and cbor, and best effort elsewhere (names as on the wire, numbers as text).
    """
    signed = _CREDENTIAL.search(request.headers.get("authorization", ""))
    key, region, name = signed.groups() if signed else ("", "us-east-1", "s3")
    body = gzip.decompress(request.body) if request.headers.get("content-encoding") == "gzip" else request.body
    service = PREFIXES.get(name, name)

    def call(operation: str, params: Any, protocol: str) -> Call:
        return Call(
            service=service, operation=operation, region=region, params=params, protocol=protocol, account=account_of(key),
            key=key, headers=request.headers,
        )  # fmt: skip

    if match := re.search(r"/service/[^/]+/operation/(\w+)$", request.path):
        return call(match[1], cbor2.loads(body) if body else {}, "cbor")
    if target := request.headers.get("x-amz-target"):
        return call(target.rsplit(".", 1)[-1], json.loads(body or b"{}"), "json")
    if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        params = query_params(body.decode())
        return call(str(params.pop("Action", "")), params, "ec2" if service == "ec2" else "query")
    operation, params, protocol = rest.match(name, request.method, request.path, request.query, request.headers, body)
    return call(operation, params, protocol)


def query_params(form: str) -> dict[str, Any]:
    """The nested parameters that a query-protocol form spells flat: `Tags.member.1.Key=a` becomes `{"Tags": [{"Key": "a"}]}`."""
    tree: dict[str, Any] = {}
    for name, value in parse_qsl(form, keep_blank_values=True):
        steps = [s for s in name.split(".") if s not in ("member", "entry")]
        place = tree
        for step in steps[:-1]:
            if not isinstance(place.get(step), dict):
                place[step] = {}
            place = place[step]
        place[steps[-1]] = value
    tree.pop("Version", None)
    listed: dict[str, Any] = _listed(tree)
    return listed


def _listed(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node and all(key.isdigit() for key in node):
        return [_listed(node[key]) for key in sorted(node, key=int)]
    return {key: _listed(value) for key, value in node.items()}
