"""What an owner can paste into a shell: the tag that keeps a resource, and the line that undoes a stop. Pure.

https://docs.aws.amazon.com/cli/latest/reference/sagemaker/add-tags.html
https://learn.microsoft.com/en-us/cli/azure/tag#az-tag-update
https://learn.microsoft.com/en-us/cli/azure/ml/compute
"""

from __future__ import annotations

from datetime import datetime, timedelta
from shlex import quote

from reaper.model import Resource

KEEP_DAYS = 7
RESTORE = "reaper restore"
MAX_ID = 1000
"""Characters; a real ARN or ARM id is far shorter, and a longer one is not pasted anywhere."""


def keep_tag(now: datetime) -> str:
    """`reaper:keep-until=2026-11-28`: a week from now, its whole day included."""
    return f"reaper:keep-until={now + timedelta(days=KEEP_DAYS):%Y-%m-%d}"


def keep_command(resource: Resource, now: datetime) -> str | None:
    """The command that puts that tag on; None where the cloud's tool cannot tag this kind by itself (Azure ML computes)."""
    if not _sound(resource):
        return None
    key, _, day = keep_tag(now).partition("=")
    if resource.target.cloud == "aws":
        where = f"--region {quote(resource.region)} --resource-arn {quote(resource.id)}"
        return f"aws sagemaker add-tags {where} --tags Key={key},Value={day}"
    if "/computes/" in resource.id:
        return None
    return f"az tag update --operation merge --resource-id {quote(resource.id)} --tags {key}={day}"


def access(cloud: str, missing: str | None) -> str:
    """What to do where nothing of a cloud could be read; `missing`: the permission that was refused, None where it was not for one."""
    if cloud == "aws":
        allow = f", and allow them {missing}" if missing else ""
        return f"AWS: check that the credentials are there and of the right account (`aws sts get-caller-identity`){allow}."
    who = "give the identity the role Reader on it" if missing else "sign in with `az login`"
    return f"Azure: check the subscription's id (`az account list --output table` shows what can be read), and {who}."


def home(resource: Resource) -> str:
    """`account 123456789012`, or on Azure the workspace, which people know better than the subscription."""
    workspace = _parts(resource.id).get("workspaces")
    if resource.target.cloud == "azure":
        return f"workspace {workspace}" if workspace else f"subscription {resource.target.account}"
    return f"account {resource.target.account}"


def undo_command(resource: Resource) -> str | None:
    """The command that brings it back after a stop."""
    if not _sound(resource):
        return None
    if resource.kind == "sagemaker-notebook":
        return f"aws sagemaker start-notebook-instance --region {quote(resource.region)} --notebook-instance-name {quote(resource.name)}"
    if resource.kind == "azureml-compute-instance" and (place := _place(resource.id)):
        return f"az ml compute start --name {quote(resource.name)} {place}"
    return f"{RESTORE} {quote(resource.id)}"


def restore_command(resource_id: str) -> str | None:
    """The command that brings that one back, with all that lived in it; None for an id that cannot stand in a line that people paste."""
    return f"{RESTORE} {quote(resource_id)}" if resource_id.isprintable() and len(resource_id) <= MAX_ID else None


def for_admins(command: str) -> bool:
    """Whether owners cannot run it: restoring takes the deployment's ledger and manifests, and the right to write."""
    return command.startswith(f"{RESTORE} ")


def _place(arm_id: str) -> str | None:
    named = _parts(arm_id)
    try:
        group, workspace = quote(named["resourcegroups"]), quote(named["workspaces"])
        return f"--workspace-name {workspace} --resource-group {group} --subscription {quote(named['subscriptions'])}"
    except KeyError:
        return None


def _parts(arm_id: str) -> dict[str, str]:
    """What an ARM id names, by type in lower case."""
    parts = arm_id.strip("/").split("/")
    return {key.lower(): value for key, value in zip(parts[::2], parts[1::2], strict=False)}


def _sound(resource: Resource) -> bool:
    """Whether id, name and region can stand in a line that people paste: printable and of a sane length."""
    return all(text.isprintable() and len(text) <= MAX_ID for text in (resource.id, resource.name, resource.region))
