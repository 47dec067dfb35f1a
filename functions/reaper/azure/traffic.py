"""How an online endpoint shares its traffic out among its deployments: whole percents by name, 0 or 100 in total.

https://learn.microsoft.com/azure/machine-learning/concept-online-deployment-model
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TRAFFIC_KEY, MIRROR_KEY = "traffic", "mirrorTraffic"


def traffic_by_name(endpoint: Mapping[str, Any], map_key: str = TRAFFIC_KEY) -> dict[str, Any] | None:
    """The percentages as they are written; None where the endpoint is not known or its map cannot be read."""
    properties = endpoint.get("properties")
    found = properties.get(map_key) if isinstance(properties, dict) else ()
    return {} if found is None else found if isinstance(found, dict) else None


def traffic_percent(endpoint: Mapping[str, Any], name: str, map_key: str = TRAFFIC_KEY) -> int | None:
    """The percentage that the deployment `name` gets, 0 where it is not named; None where that is not known."""
    found = traffic_by_name(endpoint, map_key)
    if found is None:
        return None
    mine = [value for key, value in found.items() if key.lower() == name.lower()] or [0]
    valid = all(isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 100 for value in mine)
    return sum(mine) if valid else None


def with_traffic_percent(endpoint: Mapping[str, Any], name: str, percent: int) -> dict[str, Any]:
    """The map with this deployment's percentage set and every other as it is."""
    found = traffic_by_name(endpoint) or {}
    return {key: value for key, value in found.items() if key.lower() != name.lower()} | {name: percent}
