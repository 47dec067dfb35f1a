"""A fleet in two subscriptions whose names explain their verdicts; `EXPECTED` says what a sweep has to find.

Compute types that no kind knows (`quantum-lab`, `factory-aks`) are there too, and must not turn up in a report.
"""

from __future__ import annotations

from datetime import datetime

from reaper_sandbox.azure import fleet_clusters, fleet_deployments, fleet_instances
from reaper_sandbox.azure.expected import Expected
from reaper_sandbox.azure.server import Server

FIRST = "11111111-1111-1111-1111-111111111111"
SECOND = "22222222-2222-2222-2222-222222222222"

EXPECTED: dict[str, Expected] = {**fleet_clusters.EXPECTED, **fleet_instances.EXPECTED, **fleet_deployments.EXPECTED}
"""By the last part of the resource's id, which is unique in the fleet."""


def settle(server: Server, now: datetime) -> None:
    """Fills an empty server with the fleet as it stands at `now`."""
    first, second = server.subscription(FIRST, "Machine learning"), server.subscription(SECOND, "Planning")
    vision = first.workspace("vision", region="westeurope", group="ml").tagged({"team": "vision"})
    hub = first.workspace("nlp-hub", region="westeurope", group="nlp", kind="Hub")
    chat = first.workspace("chat", region="westeurope", group="nlp", kind="Project").under(hub)
    forecasting = second.workspace("forecasting", region="eastus", group="Data-Science")
    second.workspace("features", region="eastus", group="Data-Science", kind="FeatureStore")
    vision.compute("quantum-lab", "Quantum", {"qubits": 5})
    fleet_clusters.settle(vision, forecasting, now)
    fleet_instances.settle(vision, chat, now)
    fleet_deployments.settle(vision, chat, forecasting, now)
