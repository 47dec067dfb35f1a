"""Resources of each kind, each with an action prepared that changes it."""

from __future__ import annotations

from on_azure.conftest import CLUSTER, DEPLOYMENT, INSTANCE
from on_azure.prepared_actions import PreparedAction, prepare_action
from reaper.azure.session import CloudSession
from reaper.model import StepName
from reaper_sandbox.azure.subscription import Workspace


def scaled_in(vision: Workspace, cloud: CloudSession) -> PreparedAction:
    vision.endpoint("chat").deployment("blue", capacity=3)
    return prepare_action(cloud, DEPLOYMENT, "chat/blue")


def deleted(vision: Workspace, cloud: CloudSession) -> PreparedAction:
    vision.endpoint("chat").deployment("blue", capacity=3)
    return prepare_action(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE)


def deleted_with_traffic(vision: Workspace, cloud: CloudSession) -> PreparedAction:
    chat = vision.endpoint("chat")
    chat.deployment("blue", capacity=3)
    chat.traffic(blue=100)
    return prepare_action(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE)


def minimum_lowered(vision: Workspace, cloud: CloudSession) -> PreparedAction:
    vision.cluster("gpus", nodes=(2, 4))
    return prepare_action(cloud, CLUSTER, "gpus")


def stopped(vision: Workspace, cloud: CloudSession) -> PreparedAction:
    vision.instance("ada")
    return prepare_action(cloud, INSTANCE, "ada")


def stopped_natively(vision: Workspace, cloud: CloudSession) -> PreparedAction:
    vision.instance("ada")
    return prepare_action(cloud, INSTANCE, "ada", stop_by="native")


def started(vision: Workspace, cloud: CloudSession) -> PreparedAction:
    vision.instance("ada").set("properties.properties.state", "Stopped")
    return prepare_action(cloud, INSTANCE, "ada", StepName.START)
