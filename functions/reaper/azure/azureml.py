"""The jobs of a workspace and the computes they name. Listed only if a verdict needs them: the API has no filter for computes.

Every status that isn't final counts as use, and so do archived jobs, pipeline steps and default computes:
https://learn.microsoft.com/rest/api/azureml/jobs/list
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING
from urllib.parse import quote as escape

from reaper.azure.metrics import MetricQuery, MetricResult, MetricSource, fetch_metrics
from reaper.azure.requests import UNREADABLE_REPLY_ERRORS, Json, latest_known, parse_time
from reaper.azure.workspaces import PROVIDER
from reaper.errors import CloudError, Reason
from reaper.kind import Command
from reaper.model import Resource, Role
from reaper.observation import Observation, Reading, Series, Window

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


PERMISSION = f"{PROVIDER}/workspaces/jobs/read"
NAMING_PARTS: dict[str, type] = {"computeId": str, "settings": dict, "jobs": dict, "properties": dict}
"""The parts that may name a compute: of a job, of all steps of a pipeline, of a single step, and of the place it ran."""
COMPUTE_KEYS = {"computeid", "default_compute", "defaultcompute"}
"""The keys of a compute's name or ID, in a job and in each step of a pipeline."""
FINAL_STATUSES = {"completed", "failed", "canceled", "cancelled"}
TIME_PROPERTIES = ("starttimeutc", "endtimeutc")
"""Free properties, in lower case, in which Azure ML notes when a job was at work."""


@dataclass(slots=True, kw_only=True)
class JobsByCompute:
    """By a compute's name in lower case: an unfinished job, as a clause; the last time of a finished job; and the error of a finished job
    whose times can't be read.
    """

    unfinished: dict[str, str] = field(default_factory=dict)
    finished_at: dict[str, datetime] = field(default_factory=dict)
    unreadable: dict[str, CloudError] = field(default_factory=dict)


def with_jobs(cloud: CloudSession, observation: Observation) -> Observation:
    """The observation with the compute's jobs: in use because of an unfinished one, unknown if they can't be read."""
    name = observation.resource.name.lower()
    times: list[datetime | None] = []
    unknown = ""
    for workspace_id in observation.resource.details.job_workspaces:
        try:
            jobs = cloud.read_once(("jobs", workspace_id.lower()), partial(_read_jobs, cloud, workspace_id))
        except CloudError as error:
            cloud.add_error(error)
            unknown = f"its jobs couldn't be read: {error}"
            continue
        if name in jobs.unfinished:
            return replace(observation, in_use_because=jobs.unfinished[name])
        if name in jobs.unreadable:
            cloud.add_error(jobs.unreadable[name])
            unknown = f"a job on it couldn't be read: {jobs.unreadable[name]}"
        times.append(jobs.finished_at.get(name))
    reading = Reading(signal="jobs", role=Role.ACTIVITY, event_at=latest_known(*times))
    observation = replace(observation, readings=(*observation.readings, reading))
    return replace(observation, unknown_because=unknown) if unknown else observation


def _read_jobs(cloud: CloudSession, workspace_id: str) -> JobsByCompute:
    """Every job is read: the oldest may be the one that is still paused.

    Raises CloudError if a job can't be read and may be on any compute. If it plainly names its computes, it is unreadable only for those.
    """
    jobs = JobsByCompute()
    query, required_keys = {"listViewType": "All"}, ("id", "name", "properties")
    for row in cloud.paged_rows(PERMISSION, f"{workspace_id}/jobs", query, required_keys=required_keys):
        try:
            _add_job(jobs, row, _computes_of_job(row["properties"]))
        except UNREADABLE_REPLY_ERRORS as error:
            raise CloudError(Reason.UNREADABLE, PERMISSION, f"{row['id']} can't be read ({error!r})") from error
    return jobs


def _computes_of_job(properties: Json) -> set[str]:
    """The computes that a job names. Raises TypeError if a part that may name one is of another type than documented."""
    if any(not isinstance(properties.get(part), part_type | None) for part, part_type in NAMING_PARTS.items()):
        raise TypeError("its compute, settings or steps are of another type than documented")
    free = properties.get("properties") or {}
    if any(_is_compute_key(key.lower()) and not _is_text_or_list(value) for key, value in free.items()):
        raise TypeError("one of its properties about a compute isn't a string")
    return set(_named_computes(properties))


def _is_text_or_list(value: object) -> bool:
    is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return value is None or isinstance(value, str) or is_list


def _add_job(jobs: JobsByCompute, row: Json, computes: set[str]) -> None:
    status = str(row["properties"].get("status") or "of unknown status")
    if status.lower() not in FINAL_STATUSES:
        because = f"job {row['name']} on it is {status}"
        jobs.unfinished |= {name: because for name in computes if name not in jobs.unfinished}
        return
    try:
        last_seen_at = _last_seen_at(row, row["properties"].get("properties") or {} if computes else {})
        if last_seen_at is None and computes:
            raise ValueError("it has no timestamps")
    except UNREADABLE_REPLY_ERRORS as error:
        if not computes:
            raise
        unreadable = CloudError(Reason.UNREADABLE, PERMISSION, f"the times of {row['id']} can't be read ({error!r})")
        jobs.unreadable |= dict.fromkeys(computes, unreadable)
        return
    if last_seen_at:
        jobs.finished_at |= {name: max(last_seen_at, jobs.finished_at.get(name, last_seen_at)) for name in computes}


def _last_seen_at(row: Json, free: Json) -> datetime | None:
    """The latest time that anything about a finished job shows. Raises ValueError if one can't be read.

    It may be before the job's end: the list only has that if a run noted it among its `free` properties, as `EndTimeUtc`, or if the job was
    modified since. If a job has no more than its creation time, its end is unknown, and it counts from its creation.
    """
    system = row.get("systemData") or {}
    noted = (value for key, value in free.items() if key.lower() in TIME_PROPERTIES)
    return latest_known(*(parse_time(text) for text in (system.get("createdAt"), system.get("lastModifiedAt"), *noted)))


def _named_computes(value: object, key: str = "") -> Iterator[str]:
    """The computes that a job names anywhere: by ARM ID, or by plain name under a key about a compute, such as `_azureml.ClusterName`.

    Raises TypeError if what is documented as a compute's name isn't a string.
    """
    if key in COMPUTE_KEYS and not _is_text_or_list(value):
        raise TypeError(f"its {key} isn't a string")
    if isinstance(value, dict):
        for inner_key, inner in value.items():
            yield from _named_computes(inner, str(inner_key).lower())
    elif isinstance(value, list):
        for inner in value:
            yield from _named_computes(inner, key)
    elif isinstance(value, str) and value and (_is_compute_key(key) or "/computes/" in value.lower()):
        yield value.rstrip("/").rpartition("/")[2].rpartition(":")[2].lower()


def _is_compute_key(key: str) -> bool:
    return "compute" in key or "cluster" in key or key == "target"


# MERGED What Azure ML resources offer an owner to click or paste: the page in the studio, and lines for the Azure CLI. Pure.
#
# Every part that comes from the cloud is escaped or quoted, and an ID that is not as Azure writes it has neither.
# https://learn.microsoft.com/en-us/azure/machine-learning/how-to-manage-compute-instance
# https://learn.microsoft.com/en-us/cli/azure/tag#az-tag-update
# https://learn.microsoft.com/en-us/cli/azure/ml/compute
# https://learn.microsoft.com/en-us/cli/azure/ml/online-deployment


STUDIO_URL = "https://ml.azure.com"
WORKSPACE_RESOURCE = re.compile(
    r"(/subscriptions/[0-9a-f-]{36}/resourcegroups/[^/?#&%]{1,90}/providers/microsoft\.machinelearningservices/workspaces/[A-Za-z0-9_-]{1,260})"
    r"/(?:computes/(?P<compute>[^/]+)|onlineendpoints/(?P<endpoint>[^/]+)(?:/deployments/[^/]+)?)",
    re.IGNORECASE,
)


def place(resource: Resource) -> str:
    """The workspace, which people know better than the subscription; else the subscription with its name."""
    target = resource.target
    if workspace := _id_parts(resource.id).get("workspaces"):
        return f"workspace {workspace}"
    return f"subscription {target.account_name} ({target.account})" if target.account_name else f"subscription {target.account}"


def console_url(resource: Resource) -> str | None:
    """A page of the studio, which lists computes and endpoints by workspace."""
    named = WORKSPACE_RESOURCE.fullmatch(resource.id)
    if named is None or not resource.id.isprintable():
        return None
    workspace = f"wsid={escape(named[1])}"
    if named["compute"]:
        return f"{STUDIO_URL}/compute/{escape(named['compute'], safe='')}/details?{workspace}"
    return f"{STUDIO_URL}/endpoints/realtime/{escape(named['endpoint'], safe='')}/detail?{workspace}"


def keep_line(resource: Resource, key: str, value: str) -> str | None:
    """The line that puts a tag on it. Not for computes: the Azure CLI can't tag them alone."""
    return f"az tag update --operation merge --resource-id {quote(resource.id)} --tags {key}={value}"


def stop_instance_command(resource: Resource) -> Command | None:
    """The line that stops a compute instance."""
    workspace = _workspace_options(resource.id)
    line = f"az ml compute stop --name {quote(resource.name)} {workspace}"
    return Command(label="Stop it now", line=line) if workspace else None


def start_instance_line(resource: Resource) -> str | None:
    """The line that starts a compute instance again."""
    workspace = _workspace_options(resource.id)
    return f"az ml compute start --name {quote(resource.name)} {workspace}" if workspace else None


def empty_cluster_command(resource: Resource) -> Command | None:
    """The line that lets a cluster's idle nodes go."""
    workspace = _workspace_options(resource.id)
    line = f"az ml compute update --name {quote(resource.name)} --min-instances 0 {workspace}"
    return Command(label="Set its minimum to 0 nodes now", line=line) if workspace else None


def scale_deployment_command(resource: Resource) -> Command | None:
    """The line that scales a deployment in."""
    named = _deployment_options(resource)
    line = f"az ml online-deployment update {named} --set instance_count=1"
    return Command(label="Scale it to one instance now", line=line) if named else None


def delete_deployment_command(resource: Resource) -> Command | None:
    """The line that deletes a deployment. Azure deletes none that still gets traffic."""
    named = _deployment_options(resource) if _traffic_percent(resource) == 0 else None
    return Command(label="Delete it now", line=f"az ml online-deployment delete {named}") if named else None


def _traffic_percent(resource: Resource) -> int | None:
    return getattr(resource.details, "traffic_percent", None)


def _deployment_options(resource: Resource) -> str | None:
    parts, workspace = _id_parts(resource.id), _workspace_options(resource.id)
    name, endpoint = parts.get("deployments"), parts.get("onlineendpoints")
    return f"--name {quote(name)} --endpoint-name {quote(endpoint)} {workspace}" if name and endpoint and workspace else None


def _workspace_options(arm_id: str) -> str | None:
    parts = _id_parts(arm_id)
    try:
        group, workspace = quote(parts["resourcegroups"]), quote(parts["workspaces"])
        return f"--workspace-name {workspace} --resource-group {group} --subscription {quote(parts['subscriptions'])}"
    except KeyError:
        return None


def _id_parts(arm_id: str) -> dict[str, str]:
    """What an ARM ID names, by type in lower case."""
    parts = arm_id.strip("/").split("/")
    return {key.lower(): value for key, value in zip(parts[::2], parts[1::2], strict=False)}


# MERGED Readings from metric results: signs of use and heartbeats.
#
# For hours in which a sparse metric had nothing to report, Azure Monitor returns points without a value. They don't count as points: for
# activity they are silence, for a heartbeat they are a gap, exactly as if the series didn't exist.
# https://learn.microsoft.com/azure/azure-monitor/metrics/data-platform-metrics


BELOW_ANY = float("-inf")


def activity_reading(signal: str, result: MetricResult) -> Reading:
    """The result as an activity signal."""
    return Reading(signal=signal, role=Role.ACTIVITY, series=result.series, complete=result.complete, busy_above=0.0)


def heartbeat_reading(signal: str, result: MetricResult) -> Reading:
    """The result as a heartbeat: any value will do, zero too."""
    return Reading(signal=signal, role=Role.HEARTBEAT, series=result.series, complete=result.complete, busy_above=BELOW_ANY)


def stand_in_reading(signal: str, active: MetricResult, total: MetricResult, idle: MetricResult) -> Reading | None:
    """A heartbeat for hours without a value of `active`: a gap if `idle` and `total` show that nodes were at work all the same.

    None if there is no such hour, so that no stand-in is needed. If one of the two has no value either, nothing contradicts the silence,
    and the heartbeat decides.
    """
    complete = total.complete and idle.complete
    reading = Reading(signal=signal, role=Role.HEARTBEAT, series=replace(total.series, values=()), complete=complete)
    known = [result.series for result in (active, total, idle) if result.series.values]
    if len({(series.start, len(series.values)) for series in known}) > 1:
        return reading
    hours = zip(*(_padded_values(result, known) for result in (active, total, idle)), strict=True)
    values = array("f", (1.0 if _is_accounted_for(*hour) else math.nan for hour in hours))
    return replace(reading, series=replace(known[0], values=values)) if any(math.isnan(value) for value in values) else None


def _is_accounted_for(active: float, total: float, idle: float) -> bool:
    return not math.isnan(active) or math.isnan(total) or math.isnan(idle) or idle >= total


def _padded_values(result: MetricResult, known: Sequence[Series]) -> Sequence[float]:
    return result.series.values or array("f", [math.nan]) * max((len(series.values) for series in known), default=0)


# MERGED The `Busy` signal that our script publishes from inside a compute instance: 1 while a kernel, terminal job, CPU or GPU works, else 0.
#
# A custom metric of the workspace, namespace `MLIdleReaper`, dimension `ComputeName`. Its points are activity and heartbeat in one:
# https://learn.microsoft.com/azure/azure-monitor/metrics/metrics-custom-overview


BUSY_QUERY = MetricQuery(
    namespace="MLIdleReaper", metrics=("Busy",), aggregation="Maximum", split_by="ComputeName", is_published_by_us=True
)


def busy_readings(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> dict[str, tuple[Reading, ...]]:
    """Busy as activity and as heartbeat, by resource ID. Without any point both are empty: nothing publishes it there."""
    workspaces = [resource.details.workspace for resource in resources]
    sources = [MetricSource(id=space.id, region=space.region) for space in workspaces]
    results = fetch_metrics(cloud, sources, BUSY_QUERY, window)
    by_id = {resource.id: results.result_of(resource.details.workspace.id, "Busy", resource.name) for resource in resources}
    return {
        resource_id: (activity_reading("Busy", result), heartbeat_reading("Busy points", result))
        for resource_id, result in by_id.items()
    }
