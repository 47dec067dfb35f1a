"""Weights and capacities of an endpoint's variants, as calls may ask for them: any number of weights, or the capacity of one variant.

The endpoint is being updated after each call and refuses the next until it is in service:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpointWeightsAndCapacities.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reaper.aws.actions.endpoint_delete import fetch_endpoint
from reaper.aws.session import CloudSession
from reaper.errors import CloudError

RUN_AGAIN_TEXT = "run this again once the endpoint is in service"
CapacityRow = Mapping[str, Any]
"""One row of DesiredWeightsAndCapacities."""


def update_capacities(send: Callable[..., Any], name: str, rows: Sequence[CapacityRow]) -> None:
    """One call. `send`: the session's `call` or `change`."""
    operation = "UpdateEndpointWeightsAndCapacities"
    send("sagemaker", operation, "EndpointArn", EndpointName=name, DesiredWeightsAndCapacities=list(rows))


def capacity_calls(rows: Sequence[CapacityRow]) -> list[list[CapacityRow]]:
    """The rows as calls: all weights together, then each capacity."""
    weights = [{"VariantName": r["VariantName"], "DesiredWeight": r["DesiredWeight"]} for r in rows if "DesiredWeight" in r]
    sizes = [{key: value for key, value in row.items() if key != "DesiredWeight"} for row in rows]
    return ([[*weights]] if weights else []) + [[size] for size in sizes if len(size) > 1]


def call_while_in_service(
    cloud: CloudSession, name: str, wanted: Sequence[Sequence[CapacityRow]], refused: dict[str, CloudError]
) -> list[str]:
    """Make those calls while the endpoint is in service; gives the variants whose turn has not come.

    A call that fails, such as one over a quota, keeps no other from its turn: `refused` gets its variants and the error.
    """
    waiting = list(wanted)
    while waiting and fetch_endpoint(cloud, name)["EndpointStatus"] == "InService":
        rows = waiting.pop(0)
        try:
            update_capacities(cloud.call, name, rows)
        except CloudError as error:
            refused |= {str(row["VariantName"]): error for row in rows}
    return [str(row["VariantName"]) for rows in waiting for row in rows]


def not_restored_sentences(refused: Mapping[str, CloudError], later: Sequence[str]) -> list[str]:
    """What is not back of the variants' sizes and weights, and how it comes back."""
    sentences = [f"Not restored: the size or weight of {name} ({error}). Run this again." for name, error in refused.items()]
    return sentences + ([f"Not restored yet: the size of {', '.join(later)}; {RUN_AGAIN_TEXT}."] if later else [])
