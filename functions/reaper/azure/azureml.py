"""What the kinds of Azure ML share: the jobs on a compute, readings from metrics, pages of the studio and lines for the Azure CLI.

Jobs are listed only if a verdict needs them, because the API has no filter for computes. Every status that isn't final counts as use, and so do
archived jobs, pipeline steps and default computes: https://learn.microsoft.com/rest/api/azureml/jobs/list
For hours in which a sparse metric had nothing to report, Azure Monitor returns points without a value. They don't count as points: for activity
they are silence, for a heartbeat a gap: https://learn.microsoft.com/azure/azure-monitor/metrics/data-platform-metrics
`Busy` is published by our script from inside a compute instance, as a custom metric of the workspace: 1 while a kernel, terminal job, CPU or GPU
works, else 0: https://learn.microsoft.com/azure/azure-monitor/metrics/metrics-custom-overview
In addresses and lines, what comes from the cloud is escaped or quoted, and an ID that is not as Azure writes it has neither:
https://learn.microsoft.com/azure/machine-learning/how-to-manage-compute-instance and https://learn.microsoft.com/cli/azure/ml
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING
from urllib.parse import quote as escape

from reaper.azure.metrics import MetricQuery, MetricResult, MetricSource, fetch_metrics
from reaper.azure.requests import Json, latest_known, parse_row, parse_time, reading
from reaper.azure.workspaces import PROVIDER
from reaper.errors import CloudError
from reaper.evidence import is_recent
from reaper.kind import Command
from reaper.model import Resource, Role
from reaper.observation import Observation, Reading, Window

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

BELOW_ANY = float("-inf")
BUSY_QUERY = MetricQuery(
    namespace="MLIdleReaper", metrics=("Busy",), aggregation="Maximum", split_by="ComputeName", is_published_by_us=True
)
_WORKSPACE = "--workspace-name {workspaces} --resource-group {resourcegroups} --subscription {subscriptions}"
_DEPLOYMENT = f"--name {{deployments}} --endpoint-name {{onlineendpoints}} {_WORKSPACE}"
STOP_INSTANCE = f"az ml compute stop --name {{name}} {_WORKSPACE}"
START_INSTANCE = f"az ml compute start --name {{name}} {_WORKSPACE}"
EMPTY_CLUSTER = f"az ml compute update --name {{name}} --min-instances 0 {_WORKSPACE}"
SCALE_DEPLOYMENT = f"az ml online-deployment update {_DEPLOYMENT} --set instance_count=1"
DELETE_DEPLOYMENT = f"az ml online-deployment delete {_DEPLOYMENT}"
"""Lines for `line`. Azure deletes no deployment that still gets traffic."""
TOO_RECENT = "it was used or changed too recently for a closer look"
STUDIO_URL = "https://ml.azure.com"
WORKSPACE_RESOURCE = re.compile(
    r"(/subscriptions/[0-9a-f-]{36}/resourcegroups/[^/?#&%]{1,90}/providers/microsoft\.machinelearningservices/workspaces/[A-Za-z0-9_-]{1,260})"
    r"/(?:computes/(?P<compute>[^/]+)|onlineendpoints/(?P<endpoint>[^/]+)(?:/deployments/[^/]+)?)",
    re.IGNORECASE,
)


@dataclass(slots=True, kw_only=True)
class JobsByCompute:
    """By a compute's name in lower case: an unfinished job, as a clause; the last time of a finished job; and the error of a finished job
    whose times can't be read.
    """

    unfinished: dict[str, str] = field(default_factory=dict)
    finished_at: dict[str, datetime] = field(default_factory=dict)
    unreadable: dict[str, CloudError] = field(default_factory=dict)


def is_settled(observation: Observation) -> bool:
    """Whether the resource's own state decided already."""
    return bool(
        observation.in_use_because or observation.free_because or observation.changing_because or observation.unknown_because
    )


def look_closer(
    cloud: CloudSession, observations: Sequence[Observation], readings: Mapping[str, tuple[Reading, ...]], window: Window
) -> Iterable[Observation]:
    """The observations of computes, those that their state didn't settle with their readings, by resource ID. If these are silent, with their
    jobs, too.
    """

    def look(observation: Observation) -> Observation:
        if is_settled(observation):
            return observation
        observation = replace(observation, readings=readings[observation.resource.id])
        if is_recent(observation, window):
            return replace(observation, unknown_because=TOO_RECENT)
        return _with_unseen_jobs(_with_jobs(cloud, observation))

    return cloud.map_concurrently(look, observations)


def undecided_resources(observations: Iterable[Observation]) -> list[Resource]:
    """The resources that their state didn't settle."""
    return [observation.resource for observation in observations if not is_settled(observation)]


def _with_unseen_jobs(observation: Observation) -> Observation:
    """Unknown if it may serve projects that this identity can't see: their jobs would be invisible too."""
    because = observation.resource.details.unseen_because
    return replace(observation, unknown_because=because) if because and not observation.in_use_because else observation


def _with_jobs(cloud: CloudSession, observation: Observation) -> Observation:
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
        parse_row(PERMISSION, row, partial(_add_job, jobs))
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


def _add_job(jobs: JobsByCompute, row: Json) -> None:
    computes = _computes_of_job(row["properties"])
    status = str(row["properties"].get("status") or "of unknown status")
    if status.lower() not in FINAL_STATUSES:
        because = f"job {row['name']} on it is {status}"
        jobs.unfinished |= {name: because for name in computes if name not in jobs.unfinished}
        return
    try:
        with reading(PERMISSION, f"the times of {row['id']}"):
            last_seen_at = _last_seen_at(row, row["properties"].get("properties") or {} if computes else {})
            if last_seen_at is None and computes:
                raise ValueError("it has no timestamps")
    except CloudError as error:
        if not computes:
            raise
        jobs.unreadable |= dict.fromkeys(computes, error)
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


def command(label: str, template: str, resource: Resource) -> Command | None:
    """The line under that label; None if the ID doesn't name what the line needs."""
    text = line(template, resource)
    return Command(label=label, line=text) if text else None


def line(template: str, resource: Resource) -> str | None:
    """A line for the Azure CLI about the resource; None if its ID doesn't name what the line needs."""
    parts = {**_id_parts(resource.id), "name": resource.name}
    try:
        return template.format(**{key: quote(value) for key, value in parts.items()})
    except KeyError:
        return None


def _id_parts(arm_id: str) -> dict[str, str]:
    """What an ARM ID names, by type in lower case."""
    parts = arm_id.strip("/").split("/")
    return {key.lower(): value for key, value in zip(parts[::2], parts[1::2], strict=False)}


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
    silent = array("f", [math.nan]) * max((len(series.values) for series in known), default=0)
    hours = zip(*(result.series.values or silent for result in (active, total, idle)), strict=True)
    values = array("f", (1.0 if _is_accounted_for(*hour) else math.nan for hour in hours))
    return replace(reading, series=replace(known[0], values=values)) if any(math.isnan(value) for value in values) else None


def _is_accounted_for(active: float, total: float, idle: float) -> bool:
    return not math.isnan(active) or math.isnan(total) or math.isnan(idle) or idle >= total


def busy_readings(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> dict[str, tuple[Reading, ...]]:
    """Busy as activity and as heartbeat, by resource ID. Without any point both are empty: nothing publishes it there."""
    workspaces = [resource.details.workspace for resource in resources]
    sources = [MetricSource(id=space.id, region=space.region) for space in workspaces]
    results = fetch_metrics(cloud, sources, BUSY_QUERY, window)
    by_id = {resource.id: results.result_of(resource.details.workspace.id, "Busy", resource.name) for resource in resources}
    return {
        resource_id: (activity_reading("Busy", result), heartbeat_reading("Busy heartbeat", result))
        for resource_id, result in by_id.items()
    }
