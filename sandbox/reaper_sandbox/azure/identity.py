"""Managed identity: the token endpoint of App Service and Functions, and the tokens it gives.

https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from reaper_sandbox.azure.refusal import PRINCIPAL, unauthenticated
from reaper_sandbox.azure.request import Reply, Request

SECRET = "sandbox"
SIGNATURE = "sandbox"
TENANT = "5b7c5a51-2f1b-4a43-9d1c-3f6f0a7d8e10"
NEVER = "4102444800"
"""2100-01-01: the SDKs compare it with the real clock, which the sandbox's own clock need not follow."""

MANAGEMENT = ("https://management.azure.com", "https://management.core.windows.net")
METRICS = ("https://metrics.monitor.azure.com",)
MAIL = ("https://communication.azure.com",)


def token(query: Mapping[str, str], headers: Mapping[str, str]) -> Reply:
    """`GET /msi/token?resource=…`: a token for that resource. 401 without the secret header, 400 without a resource."""
    if headers.get("x-identity-header") != SECRET:
        return Reply(status=401, body={"statusCode": 401, "message": "The header X-IDENTITY-HEADER is missing or wrong."})
    resource = query.get("resource")
    if not resource or query.get("api-version") != "2019-08-01":
        return Reply(status=400, body={"statusCode": 400, "message": "resource and api-version=2019-08-01 are required."})
    body = {"access_token": _token_for(resource), "expires_on": NEVER, "resource": resource, "token_type": "Bearer"}
    return Reply(body={**body, "client_id": query.get("client_id", "")})


def check(request: Request, audiences: tuple[str, ...]) -> None:
    """Raises Refused (401) unless the request carries a token of ours for one of `audiences`. Mail also takes its access key."""
    header = request.headers.get("authorization", "")
    if audiences == MAIL and header.startswith("HMAC-SHA256 "):
        return
    if not header.startswith("Bearer "):
        raise unauthenticated("Authentication failed. The 'Authorization' header is missing.")
    resource = _audience(header.removeprefix("Bearer "))
    if resource is None:
        raise unauthenticated("The access token is invalid.", "InvalidAuthenticationToken")
    if resource.rstrip("/") not in audiences:
        allowed = ",".join(f"'{a}/','{a}'" for a in audiences)
        raise unauthenticated(
            f"The access token has been obtained for wrong audience or resource '{resource}'. "
            f"It should exactly match with one of the allowed audiences {allowed}.",
            "InvalidAuthenticationTokenAudience",
        )


def _token_for(resource: str) -> str:
    """A token that says who it is for and what for, as true ones do, under a signature that only the sandbox takes."""
    claims = {"aud": resource, "oid": PRINCIPAL, "appid": PRINCIPAL, "tid": TENANT, "exp": int(NEVER)}
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts), SIGNATURE])


def _audience(token: str) -> str | None:
    try:
        _, payload, signature = token.split(".")
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return str(claims["aud"]) if signature == SIGNATURE else None
    except (ValueError, LookupError, TypeError):
        return None
