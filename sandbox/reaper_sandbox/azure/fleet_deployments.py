"""The online deployments of the fleet, with all three shapes of no data.

An empty `timeseries` of RequestsPerMinute beside a live DeploymentCapacity is silence, and with a complete reply that is proof. So are
points without a value, which Azure Monitor answers for hours in which a metric had nothing to say. A heartbeat without values proves nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from reaper_sandbox.azure import signals
from reaper_sandbox.azure.expected import Expected, deployment
from reaper_sandbox.azure.subscription import Thing, Workspace

EXPECTED: dict[str, Expected] = {
    "busy-now": deployment("active", "three requests a minute"),
    "blue-leftover": deployment("idle", "gets 0 % of the traffic since green took over", "proven"),
    "green": deployment("active", "gets all of the traffic"),
    "silent-with-zeros": deployment("idle", "zero requests a minute, its machines are alive", "proven"),
    "no-series": deployment("idle", "nothing published for requests at all, its machines are alive", "proven"),
    "valueless-points": deployment("idle", "the points of its requests have no value, its machines are alive", "proven"),
    "valueless-since-use": deployment("idle", "requests up to three days ago, points without a value since", "proven"),
    "valueless-everywhere": deployment("unknown", "no point of any of its metrics has a value"),
    "valueless-heartbeat-hour": deployment("unknown", "no point of its machines has a value for one hour last night"),
    "metrics-down": deployment("unknown", "no metric of any sort for two days"),
    "all-metrics-missing": deployment("unknown", "no metric of any sort ever"),
    "busy-in-the-gap": deployment("active", "its heartbeat stopped, but it has requests now"),
    "updating-deployment": deployment("young", "is being updated"),
    "failed-deployment": deployment("unknown", "failed, and nothing is published for it"),
    "deployed-today": deployment("young", "two hours old"),
    "on-kubernetes": deployment("exempt", "runs on the customer's own nodes"),
    "deployment-tags-null": deployment("idle", "silent, its tags are null, which is none", "proven"),
    "kept-deployment": deployment("exempt", "reaper:keep-until lies ahead"),
}


def settle(vision: Workspace, chat: Workspace, forecasting: Workspace, now: datetime) -> None:
    """Puts them on endpoints in three workspaces, two regions and both subscriptions."""
    since = now - timedelta(days=20)
    _well_measured(chat, since, now)
    _badly_measured(vision, since, now)
    _apart(forecasting, since, now)


def _well_measured(chat: Workspace, since: datetime, now: datetime) -> None:
    _measured(chat.endpoint("assistant").deployment("busy-now", size="Standard_DS3_v2", capacity=2), 3, since)
    search = chat.endpoint("search")
    leftover = search.deployment("blue-leftover", size="Standard_NC6s_v3").tagged({"owner": "ada@example.com"})
    green = search.deployment("green", size="Standard_NC6s_v3", created=now - timedelta(days=8))
    search.traffic(blue_leftover=0, green=100)
    taken_over = now - timedelta(days=7)
    signals.requests(leftover, 9, since=since, until=taken_over)
    signals.requests(leftover, 0, since=taken_over)
    signals.capacity(leftover, since=since)
    _measured(green, 9, now - timedelta(days=8))
    _measured(chat.endpoint("summaries").deployment("silent-with-zeros", size="Standard_NC6s_v3", capacity=3), 0, since)
    signals.capacity(chat.endpoint("drafts").deployment("no-series"), since=since)


def _badly_measured(vision: Workspace, since: datetime, now: datetime) -> None:
    valueless = vision.endpoint("defects").deployment("valueless-points")
    signals.valueless_requests(valueless)
    signals.capacity(valueless, since=since)
    last = vision.endpoint("scratches").deployment("valueless-since-use")
    signals.requests(last, 4, since=since, until=now - timedelta(days=3))
    signals.capacity(last, since=since)
    everywhere = vision.endpoint("dents").deployment("valueless-everywhere")
    signals.valueless_requests(everywhere)
    signals.valueless_capacity(everywhere)
    gap, hour = vision.endpoint("cracks").deployment("valueless-heartbeat-hour"), now.replace(minute=0) - timedelta(hours=9)
    signals.valueless_requests(gap)
    signals.capacity(gap, since=since, until=hour)
    signals.capacity(gap, since=hour + timedelta(hours=1))
    down, ended = vision.endpoint("labels").deployment("metrics-down"), now - timedelta(days=2)
    signals.requests(down, 0, since=since, until=ended)
    signals.capacity(down, since=since, until=ended)
    vision.endpoint("crops").deployment("all-metrics-missing")
    gap = vision.endpoint("masks").deployment("busy-in-the-gap")
    signals.requests(gap, 1, since=since)
    signals.capacity(gap, since=since, until=ended)


def _apart(forecasting: Workspace, since: datetime, now: datetime) -> None:
    updating = forecasting.endpoint("demand").deployment("updating-deployment")
    _measured(updating.set("properties.provisioningState", "Updating"), 0, since)
    forecasting.endpoint("supply").deployment("failed-deployment").set("properties.provisioningState", "Failed")
    young = now - timedelta(hours=2)
    _measured(forecasting.endpoint("weather", created=young).deployment("deployed-today", created=young), 0, young)
    own = forecasting.kubernetes("factory-aks")
    forecasting.endpoint("factory", kubernetes=own.id).deployment("on-kubernetes", size="defaultinstancetype", capacity=2)
    _measured(forecasting.endpoint("prices").deployment("deployment-tags-null").tagged(None), 0, since)
    deployment = forecasting.endpoint("archive").deployment("kept-deployment")
    _measured(deployment.tagged({"reaper:keep-until": f"{now + timedelta(days=30):%Y-%m-%d}"}), 0, since)


def _measured(one: Thing, per_minute: float, since: datetime) -> None:
    signals.requests(one, per_minute, since=since)
    signals.capacity(one, since=since)
