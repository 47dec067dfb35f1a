"""Resource Manager's refusals, in its own shapes and sentences.

https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting/common-deployment-errors
"""

from __future__ import annotations

from reaper_sandbox.azure.request import Json, Refused, Reply

PRINCIPAL = "7d1c6a52-3f0e-4b7e-9a44-5d2b8e0f6c11"
"""The object id of the simulated managed identity; its client id is the same here."""


def refused(status: int, code: str, message: str, **headers: str) -> Refused:
    """Any refusal in the usual envelope. Header names are written with underscores."""
    body: Json = {"error": {"code": code, "message": message}}
    return Refused(Reply(status=status, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()}))


def bad(message: str, code: str = "BadRequest") -> Refused:
    """400."""
    return refused(400, code, message)


def conflict(message: str) -> Refused:
    """409, which Azure ML also uses for a wrong state."""
    return refused(409, "Conflict", message)


def unauthorized(action: str, scope: str) -> Refused:
    """403 with the sentence that names the missing action and the scope."""
    return refused(
        403,
        "AuthorizationFailed",
        f"The client '{PRINCIPAL}' with object id '{PRINCIPAL}' does not have authorization to perform action '{action}' over scope "
        f"'{scope}' or the scope is invalid. If access was recently granted, please refresh your credentials.",
    )


def unlinked(action: str, scope: str, missing: str, linked: str) -> Refused:
    """403 for an action that is allowed, whose body names a resource on which another one is not."""
    return refused(
        403,
        "LinkedAuthorizationFailed",
        f"The client '{PRINCIPAL}' with object id '{PRINCIPAL}' has permission to perform action '{action}' on scope '{scope}'; however, it "
        f"does not have permission to perform action(s) '{missing}' on the linked scope(s) '{linked}' or the linked scope(s) are invalid.",
    )


def unauthenticated(message: str, code: str = "AuthenticationFailed") -> Refused:
    """401 with the challenge that the SDKs read."""
    challenge = f'Bearer authorization_uri="https://login.microsoftonline.com/common", error="invalid_token", error_description="{message}"'
    return refused(401, code, message, WWW_Authenticate=challenge)


def throttled(seconds: int, message: str = "The request was throttled.") -> Refused:
    """429 with Retry-After."""
    return refused(429, "TooManyRequests", message, Retry_After=str(seconds))


def no_subscription(subscription: str) -> Refused:
    """404 for an unknown subscription."""
    return refused(404, "SubscriptionNotFound", f"The subscription '{subscription}' could not be found.")


def read_only(subscription: str) -> Refused:
    """409 for a change in a subscription that is Warned, Disabled or Expired. Azure refuses everything but reading and deleting there."""
    return refused(
        409,
        "ReadOnlyDisabledSubscription",
        f"The subscription '{subscription}' is disabled and therefore marked as read only. You cannot perform any write actions on this "
        "subscription until it is re-enabled.",
    )


def no_management_group(name: str) -> Refused:
    """404 for an unknown management group."""
    return refused(404, "NotFound", f"'/providers/Microsoft.Management/managementGroups/{name}' not found")


def no_group(group: str) -> Refused:
    """404 for a resource group."""
    return refused(404, "ResourceGroupNotFound", f"Resource group '{group}' could not be found.")


def no_resource(type_and_name: str, group: str) -> Refused:
    """404 for a resource; `type_and_name` such as `Microsoft.X/things/one`."""
    return refused(
        404,
        "ResourceNotFound",
        f"The Resource '{type_and_name}' under resource group '{group}' was not found. "
        "For more details please go to https://aka.ms/ARMResourceNotFoundFix",
    )
