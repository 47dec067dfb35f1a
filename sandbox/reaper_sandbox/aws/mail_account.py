"""The SES account of a region and who is verified there, which moto doesn't know.

https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_GetAccount.html and API_GetEmailIdentity.html
"""

from __future__ import annotations

from typing import Any

from reaper_sandbox.aws.world import Region


def get_account(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Whether it may send to everyone, and whether it sends at all."""
    world = region.world
    return {
        "ProductionAccessEnabled": world.has_mail_production_access,
        "SendingEnabled": world.sends_mail,
        "EnforcementStatus": "HEALTHY",
    }


def get_email_identity(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """A verified identity; None leaves every other to moto, whose identities are never verified."""
    name = params["EmailIdentity"]
    if name not in region.world.verified_mail:
        return None
    return {"IdentityType": "EMAIL_ADDRESS" if "@" in name else "DOMAIN", "VerifiedForSendingStatus": True}


OPERATIONS = {"GetAccount": get_account, "GetEmailIdentity": get_email_identity}
