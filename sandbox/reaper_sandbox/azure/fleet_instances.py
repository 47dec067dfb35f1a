"""The compute instances of the fleet. A script publishes Busy for some; most have only their uptime to show."""

from __future__ import annotations

from datetime import datetime, timedelta

from reaper_sandbox.azure import signals
from reaper_sandbox.azure.expected import Expected, instance
from reaper_sandbox.azure.subscription import Workspace

EXPECTED: dict[str, Expected] = {
    "job-running": instance("active", "its state is JobRunning"),
    "paused-job": instance("active", "a paused job, older than all the history, is on it; the job spells its id in capitals"),
    "fresh-start": instance("young", "started two hours ago"),
    "long-uptime-quiet": instance("idle", "up for a month, no job since", "likely"),
    "busy-series-silent": instance("idle", "Busy has been 0 for weeks, every five minutes", "proven"),
    "busy-series-busy": instance("active", "Busy is 1"),
    "busy-series-stopped": instance("unknown", "Busy was 0 and ended three days ago"),
    "stopped-instance": instance("exempt", "stopped"),
    "no-last-operation": instance("unknown", "nothing says since when it is up"),
    "kept-by-tag": instance("exempt", "reaper:keep=true"),
    "misspelt-keep-tag": instance("exempt", "reaper:kepe=true is a typo, and that protects"),
    "instance-tags-null": instance("idle", "up for a month; its tags are null, which is none", "likely"),
    "native-idle-shutdown": instance("idle", "up for a month although idle shutdown is set to 30 minutes", "likely"),
    "creating-instance": instance("young", "is being created, with nothing to show yet"),
}


def settle(vision: Workspace, chat: Workspace, now: datetime) -> None:
    """Puts those with a Busy signal into `vision`, the others into the project `chat`, where Busy was never published."""
    month = now - timedelta(days=30)
    _published(vision, month, now)
    chat.instance("job-running", started=month).set("properties.properties.state", "JobRunning")
    paused = chat.instance("paused-job", started=now - timedelta(days=50))
    chat.job("half-done", status="Paused", on=paused.id.upper(), created=now - timedelta(days=40))
    chat.instance("fresh-start", started=now - timedelta(hours=2))
    quiet = {"reaper:owner": "grace@example.com"}
    chat.instance("long-uptime-quiet", size="STANDARD_NC6S_V3", started=month).tagged(quiet)
    chat.instance("instance-tags-null", started=month).tagged(None)
    chat.instance("native-idle-shutdown", started=month).set("properties.properties.idleTimeBeforeShutdown", "PT30M")
    chat.instance("kept-by-tag", started=month).tagged({"reaper:keep": "true"})
    chat.instance("misspelt-keep-tag", started=month).tagged({"reaper:kepe": "true"})
    chat.instance("stopped-instance", started=month).set("properties.properties.state", "Stopped")
    chat.instance("no-last-operation").without("properties.properties.lastOperation")
    absent = ("lastOperation", "applications", "connectivityEndpoints", "schedules", "idleTimeBeforeShutdown", "versions")
    creating = chat.instance("creating-instance", created=now - timedelta(minutes=6)).set(
        "properties.provisioningState", "Creating"
    )
    creating.set("properties.properties.state", "Creating").without(*(f"properties.properties.{key}" for key in absent))


def _published(vision: Workspace, month: datetime, now: datetime) -> None:
    silent = vision.instance("busy-series-silent", size="STANDARD_NC6S_V3", started=month)
    silent.set("properties.properties.createdBy.userName", "lin@example.com")
    signals.busy(silent, 0, since=month)
    used = vision.instance("busy-series-busy", started=month)
    signals.busy(used, 0, since=month, until=now - timedelta(hours=4))
    signals.busy(used, 1, since=now - timedelta(hours=4))
    ended = vision.instance("busy-series-stopped", started=month)
    signals.busy(ended, 0, since=month, until=now - timedelta(days=3))
