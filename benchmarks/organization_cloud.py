"""The simulated organization of `organization.py`, in a process of its own.

usage: organization_cloud.py ACCOUNTS ENDPOINTS SHARE LATENCY REGIONS
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import UTC, datetime

import fleet

REGIONS = ("us-east-1", "us-east-2", "us-west-2", "eu-west-1")
"""Regions of similar prices, so that none makes a machine as expensive as the rule for expensive ones."""
FIRST_ACCOUNT = 200_000_000_000


def main() -> None:
    from reaper_sandbox.aws import fault
    from reaper_sandbox.aws.account import Account
    from reaper_sandbox.aws.organization import Organization
    from reaper_sandbox.aws.server import Server

    accounts, endpoints, share, latency = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
    regions = REGIONS[: int(sys.argv[5])]
    now = datetime.now(UTC)
    with Server() as server:
        organization = server.world.organization = Organization()
        # Each region has a part of one mixed fleet, so that a share of a few percent is also right for fleets of 50.
        plans = fleet.mixed(accounts * len(regions) * endpoints, share)
        for number in range(accounts):
            account_id = str(FIRST_ACCOUNT + number)
            organization.add(account_id, f"team-{number:03}")
            for region in regions:
                fleet.seed(Account(server, account_id, region), (next(plans) for _ in range(endpoints)), now)
        if latency:
            server.rules.append(fault.on(".*", fault.latency(latency)))
        print(json.dumps(server.env), flush=True)
        for _ in sys.stdin:
            print(json.dumps(Counter(call.action for call in server.calls)), flush=True)


if __name__ == "__main__":
    main()
