"""Managed identity: the token endpoint of App Service and Functions, and the tokens it gives.

https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from reaper_sandbox.azure.refusal import unauthenticated
from reaper_sandbox.azure.request import Reply, Request

SECRET = "sandbox"
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
    signed = base64.urlsafe_b64encode(resource.encode()).decode()
    body = {"access_token": f"sandbox.{signed}", "expires_on": NEVER, "resource": resource, "token_type": "Bearer"}
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


def _audience(token: str) -> str | None:
    head, _, rest = token.partition(".")
    try:
        return base64.urlsafe_b64decode(rest).decode() if head == "sandbox" else None
    except (binascii.Error, UnicodeDecodeError):
        return None
