"""SageMaker MLflow tracking servers. They cost by the hour while they run, and AWS publishes no metric of their use.

So nothing can prove one idle: a server that has been running unchanged for longer than `idle_after` is `likely` idle at most.
`IsActive` in a reply says whether it runs, not whether it is used.

https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow.html
States: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeMlflowTrackingServer.html
"""

from __future__ import annotations

from functools import partial

from reaper.aws import sagemaker
from reaper.aws.reader import Listing, Table, completed, with_size, with_uptime
from reaper.kind import none_of, status_rule
from reaper.model import Resource, StepName


def is_inactive(resource: Resource) -> bool:
    """Whether AWS calls it inactive, or nothing is known of that."""
    return resource.details is not True


KIND = completed(
    Table(
        name="sagemaker-mlflow-server",
        cloud="aws",
        title="SageMaker MLflow tracking server",
        docs="https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow.html",
        activity="none: AWS publishes no metric of its use",
        heartbeat="none",
        without_proof="likely if it has been running unchanged for longer than idle_after; exempt when stopped",
        listing=Listing(
            list="ListMlflowTrackingServers",
            rows="TrackingServerSummaries",
            prefix="TrackingServer",
            describe="DescribeMlflowTrackingServer",
            want="TrackingServerSize",
            tag_types=("sagemaker:mlflow-tracking-server",),
        ),
        states=(
            status_rule("free", {"Stopped"}, "it is stopped"),
            status_rule("changing", {"Creating", "Starting", "Updating", "Stopping", "Deleting", "MaintenanceInProgress"}),
            status_rule("unknown", none_of("Created", "Started", "Updated", "MaintenanceComplete")),
            status_rule("unknown", is_inactive, "its status is {status}, but AWS doesn't call it active"),
        ),
        details=bool,
        details_of=lambda row: row.get("IsActive") == "Active",
        size="TrackingServerSize",
        component="MLflow",  # in the price snapshot by size: Small, in two regions; every other price is unknown
        price_keys=("MLflow",),
        closer_looks=(with_uptime("no metric shows its use"), with_size),
        look_permissions=("sagemaker:DescribeMlflowTrackingServer",),
        commands={StepName.STOP: partial(sagemaker.stop_command, "stop-mlflow-tracking-server", "tracking-server-name")},
        keep_line=sagemaker.keep_line,
    )
)
