"""Azure ML compute instances. Azure publishes no metric of their use, so proof needs our `Busy` signal; uptime is only a hint.

States and native idle shutdown: https://learn.microsoft.com/azure/machine-learning/how-to-create-compute-instance
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reaper.azure import busy, computes, jobs, series
from reaper.azure.moment import moment
from reaper.evidence import heard, last_used, settled
from reaper.model import Hint, Kind, Observation, Part, Resource, Window

if TYPE_CHECKING:
    from reaper.azure.cloud import Cloud

NAME = "azureml-compute-instance"
UNSETTLED = {"Creating", "Updating", "Starting", "Stopping", "Restarting", "Resizing", "SettingUp", "UserSettingUp"}


def discover(cloud: Cloud) -> Iterator[Resource]:
    """Every compute instance of the subscription, stopped ones too."""
    for one in computes.computes(cloud, "ComputeInstance"):
        state = str(one.inner.get("state") or one.state)
        size = one.inner.get("vmSize")
        parts = (Part(component="Linux", instance=size),) if size else None
        yield computes.resource(
            cloud, NAME, one, "Deleting" if one.state == "Deleting" else state, () if state == "Stopped" else parts
        )


def observe(cloud: Cloud, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """`Busy` of all that run; the jobs of what was silent."""
    running = [r for r in resources if r.status == "Running"]
    found = busy.readings(cloud, running, window)
    seen = [Observation(resource=r, readings=found.get(r.id, ())) for r in resources]
    yield from cloud.each(lambda one: _closer(cloud, one, window), seen)


def _closer(cloud: Cloud, seen: Observation, window: Window) -> Observation:
    resource = seen.resource
    if resource.status == "JobRunning":
        return replace(seen, in_use="a job is running on it")
    if resource.status == "Stopped":
        return replace(seen, free="it is stopped; only its disk and addresses are billed")
    if resource.status == "Deleting":
        return replace(seen, free="it is being deleted")
    if resource.status in UNSETTLED:
        return replace(seen, unsettled=f"its state is {resource.status}")
    if resource.status != "Running":
        return replace(seen, blind=f"its state is {resource.status or 'missing'}")
    if settled(seen, window):
        return replace(seen, blind="it was used or changed too recently for a closer look")
    return _with_hint(computes.within_sight(jobs.with_jobs(cloud, seen)))


def _with_hint(seen: Observation) -> Observation:
    """How long it has been up is all that Azure tells. Without its last operation not even that is known."""
    if seen.in_use or seen.blind:
        return seen
    inner = seen.resource.facts["inner"]
    since = moment(inner["lastOperation"].get("operationTime"))
    if since is None:
        return (
            seen if heard(seen) else replace(seen, blind="its last operation is not known, so neither is how long it has been up")
        )
    limit = inner.get("idleTimeBeforeShutdown")
    native = f"idle shutdown after {limit} is set but did not stop it" if limit else "its idle shutdown is off"
    used = last_used(seen)
    quiet = (
        "no job has run on it since"
        if used is None or used < since
        else f"its last job was heard of at {used:%Y-%m-%d %H:%M} UTC"
    )
    because = f"it has been up since {since:%Y-%m-%d %H:%M} UTC, {quiet}, and {native}; no Busy signal proves it"
    return replace(seen, hint=Hint(since=since, because=because))


KIND = Kind(
    name=NAME,
    cloud="azure",
    title="Azure ML compute instance",
    docs="https://learn.microsoft.com/azure/machine-learning/how-to-create-compute-instance",
    permissions=(*computes.PERMISSIONS, jobs.PERMISSION, series.PERMISSION),
    activity="Busy above 0; a job on it that is not over; state JobRunning",
    heartbeat="points of Busy",
    otherwise="likely by uptime since the last start and no job since, where nobody ever published Busy; exempt when stopped",
    discover=discover,
    observe=observe,
)
