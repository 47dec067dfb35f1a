"""MLflow tracking servers and the states they may go between.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StopMlflowTrackingServer.html
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from reaper_sandbox.aws.records import Pending, Tags
from reaper_sandbox.aws.reply import Refusal
from reaper_sandbox.aws.sagemaker import tags
from reaper_sandbox.aws.sagemaker.listing import begin, chosen, page, settle
from reaper_sandbox.aws.world import Region

ARN_TYPE, NAMED_BY = "mlflow-tracking-server", "TrackingServerName"
"""The type in its ARNs, and the parameter that names one."""
KIND_NAME = "sagemaker-mlflow-server"
FLEET_VERDICTS = {
    "mlflow-up-12-days": "idle likely",
    "mlflow-stopped": "exempt",
    "mlflow-updating": "young",
}
RUNNING = ("Created", "Started", "Updated", "MaintenanceComplete")


@dataclass(slots=True, kw_only=True)
class TrackingServer:
    """A tracking server. `size` is Small, Medium or Large."""

    name: str
    arn: str
    created: datetime
    changed: datetime
    size: str = "Small"
    status: str = "Created"
    pending: Pending = None
    tags: Tags = None


def seed(region: Region, name: str, created: datetime, **setup: Any) -> TrackingServer:
    """A tracking server straight into memory; `setup` are fields of the record."""
    fields = {"changed": created, **setup}
    server = TrackingServer(name=name, arn=region.arn(f"{ARN_TYPE}/{name}"), created=created, **fields)
    region.shelf(ARN_TYPE)[name] = server
    return server


def seed_fleet(region: Region, now: datetime) -> None:
    """One that has been running for long, one stopped, and one that is being updated."""
    made, tags = now - timedelta(days=90), {"owner": "orla@example.com", "team": "sales"}
    seed(region, "mlflow-up-12-days", made, changed=now - timedelta(days=12), status="Started", tags=tags)
    seed(region, "mlflow-stopped", made, changed=now - timedelta(days=30), size="Medium", status="Stopped", tags=tags)
    seed(region, "mlflow-updating", made, changed=now, status="Updating", tags=tags)


def list_servers(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """The newest first unless asked otherwise."""
    settle(region)
    servers = chosen(region.shelf(ARN_TYPE).values(), params)
    if status := params.get("TrackingServerStatus"):
        servers = [server for server in servers if server.status == status]
    rows, following = page(region, "ListMlflowTrackingServers", servers, params)
    return {"TrackingServerSummaries": [_summary(server) for server in rows], "NextToken": following}


def describe_server(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """With its size, which the list does not have."""
    server = find(region, params["TrackingServerName"])
    return _summary(server) | {"TrackingServerSize": server.size, "ArtifactStoreUri": "s3://artifacts/"}


def create_server(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Small unless asked otherwise, under a name that does not exist."""
    settle(region)
    name = params["TrackingServerName"]
    if name in region.shelf(ARN_TYPE):
        raise Refusal("ConflictException", f"Tracking server {name} already exists")
    size, own_tags = params.get("TrackingServerSize", "Small"), tags.read(params.get("Tags"))
    server = seed(region, name, region.now, size=size, tags=own_tags)
    begin(region, server, "Creating", "Created")
    return {"TrackingServerArn": server.arn}


def start_server(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """A stopped one."""
    return _move(region, params["TrackingServerName"], ("Stopped",), "Starting", "Started")


def stop_server(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """One that runs."""
    return _move(region, params["TrackingServerName"], RUNNING, "Stopping", "Stopped")


def find(region: Region, name: str) -> TrackingServer:
    """The tracking server of that very name. Raises ResourceNotFound."""
    settle(region)
    servers: dict[str, TrackingServer] = region.shelf(ARN_TYPE)
    if name not in servers:
        raise Refusal("ResourceNotFound", f"Tracking server {name} does not exist")
    return servers[name]


def _move(region: Region, name: str, allowed: tuple[str, ...], status: str, following: str) -> dict[str, Any]:
    server = find(region, name)
    if server.status not in allowed:
        raise Refusal("ConflictException", f"Tracking server {name} is in status {server.status}")
    begin(region, server, status, following)
    return {"TrackingServerArn": server.arn}


def _summary(server: TrackingServer) -> dict[str, Any]:
    return {
        "TrackingServerArn": server.arn,
        "TrackingServerName": server.name,
        "CreationTime": server.created,
        "LastModifiedTime": server.changed,
        "TrackingServerStatus": server.status,
        "IsActive": "Active" if server.status in RUNNING else "Inactive",
        "MlflowVersion": "2.16",
    }


OPERATIONS = {
    "ListMlflowTrackingServers": list_servers,
    "DescribeMlflowTrackingServer": describe_server,
    "CreateMlflowTrackingServer": create_server,
    "StartMlflowTrackingServer": start_server,
    "StopMlflowTrackingServer": stop_server,
}
