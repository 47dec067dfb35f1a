"""The SES account of a region, which moto doesn't know: https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_GetAccount.html"""

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


OPERATIONS = {"GetAccount": get_account}
