"""How an online endpoint divides its traffic among its deployments: whole percents by name, 0 or 100 in total.

https://learn.microsoft.com/azure/machine-learning/concept-online-deployment-model
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TRAFFIC_KEY, MIRROR_KEY = "traffic", "mirrorTraffic"


def traffic_by_name(endpoint: Mapping[str, Any], map_key: str = TRAFFIC_KEY) -> dict[str, Any] | None:
    """The percentages as Azure writes them; None if the endpoint is unknown or its map can't be read."""
    properties = endpoint.get("properties")
    shares = properties.get(map_key) if isinstance(properties, dict) else ()
    return {} if shares is None else shares if isinstance(shares, dict) else None


def traffic_percent(endpoint: Mapping[str, Any], name: str, map_key: str = TRAFFIC_KEY) -> int | None:
    """The percentage that the deployment `name` gets, 0 if it isn't named; None if unknown."""
    shares = traffic_by_name(endpoint, map_key)
    if shares is None:
        return None
    own = [value for key, value in shares.items() if key.lower() == name.lower()] or [0]
    are_valid = all(isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 100 for value in own)
    return sum(own) if are_valid else None


def with_traffic_percent(endpoint: Mapping[str, Any], name: str, percent: int) -> dict[str, Any]:
    """The map with this deployment's percentage set and all others unchanged."""
    shares = traffic_by_name(endpoint) or {}
    return {key: value for key, value in shares.items() if key.lower() != name.lower()} | {name: percent}


def other_shares(endpoint: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The shares of all deployments but this one that have one."""
    shares = traffic_by_name(endpoint) or {}
    return {other: percent for other, percent in shares.items() if other.lower() != name.lower() and percent}
