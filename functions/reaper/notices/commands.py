"""What a reader can paste into a shell: the tag that keeps a resource, the lines that stop it and that undo a stop. Pure.

https://docs.aws.amazon.com/cli/latest/reference/sagemaker/add-tags.html
https://learn.microsoft.com/en-us/cli/azure/tag#az-tag-update
https://learn.microsoft.com/en-us/cli/azure/ml/compute
https://docs.aws.amazon.com/cli/latest/reference/sagemaker/update-endpoint-weights-and-capacities.html
https://learn.microsoft.com/en-us/cli/azure/ml/online-deployment
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from shlex import quote

from reaper.model import Case, Resource, StepName

KEEP_DAYS = 7
RESTORE_COMMAND = "reaper restore"
MAX_ID_LENGTH = 1000
"""Characters; a real ARN or ARM id is far shorter, and a longer one is not pasted anywhere."""
LOCATION_SETTINGS = ("REAPER_LEDGER", "REAPER_MANIFESTS")
"""The settings by which a command finds what the deployment remembers."""
VARIANT_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
"""A variant's name stands in a list of AWS's shorthand, in which a comma or an equals sign would say something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A line for a shell, and what it does: `Stop it now`."""

    label: str
    line: str


def keep_tag(now: datetime) -> str:
    """`reaper:keep-until=2026-11-28`: a week from now, its whole day included."""
    return f"reaper:keep-until={now + timedelta(days=KEEP_DAYS):%Y-%m-%d}"


def keep_command(resource: Resource, now: datetime) -> str | None:
    """The command that puts that tag on; None where the cloud's tool cannot tag this kind by itself (Azure ML computes)."""
    if not _is_pasteable(resource):
        return None
    key, _, day = keep_tag(now).partition("=")
    if resource.target.cloud == "aws":
        where = f"--region {quote(resource.region)} --resource-arn {quote(resource.id)}"
        return f"aws sagemaker add-tags {where} --tags Key={key},Value={day}"
    if "/computes/" in resource.id:
        return None
    return f"az tag update --operation merge --resource-id {quote(resource.id)} --tags {key}={day}"


def access_advice(cloud: str, missing: str | None) -> str:
    """What to do where nothing of a cloud could be read; `missing`: the permission that was refused, None where it was not for one."""
    if cloud == "aws":
        allow = f", and allow them {missing}" if missing else ""
        return f"AWS: check that the credentials are there and of the right account (`aws sts get-caller-identity`){allow}."
    who = "give the identity the role Reader on it" if missing else "sign in with `az login`"
    return f"Azure: check the subscription's id (`az account list --output table` shows what can be read), and {who}."


def account_or_workspace(resource: Resource) -> str:
    """`account 123456789012`, or on Azure the workspace, which people know better than the subscription, else that with its name."""
    workspace = _arm_id_parts(resource.id).get("workspaces")
    if resource.target.cloud == "azure":
        target = resource.target
        named = f"{target.account_name} ({target.account})" if target.account_name else target.account
        return f"workspace {workspace}" if workspace else f"subscription {named}"
    return f"account {resource.target.account}"


def undo_command(resource: Resource) -> str | None:
    """The command that brings it back after a stop."""
    if not _is_pasteable(resource):
        return None
    if resource.kind == "sagemaker-notebook":
        return f"aws sagemaker start-notebook-instance --region {quote(resource.region)} --notebook-instance-name {quote(resource.name)}"
    if resource.kind == "azureml-compute-instance" and (place := _workspace_options(resource.id)):
        return f"az ml compute start --name {quote(resource.name)} {place}"
    return f"{RESTORE_COMMAND} {quote(resource.id)}"


def stop_command(case: Case) -> Command | None:
    """What its owner can run to stop paying for it. None where the kind has no such command, or something bars it.

    Deleting is offered only for what cannot be stopped, and only where the reaper could recreate it.
    """
    resource = case.resource
    open_to = [move for move in (StepName.STOP, StepName.DELETE) if move in case.blocked and case.blocked[move] is None]
    if not open_to or not _is_pasteable(resource):
        return None
    make = (STOP_COMMANDS if open_to[0] is StepName.STOP else DELETE_COMMANDS).get(resource.kind)
    return make(resource) if make else None


def _stop_notebook_command(resource: Resource) -> Command | None:
    where = f"--region {quote(resource.region)} --notebook-instance-name {quote(resource.name)}"
    return Command(label="Stop it now", line=f"aws sagemaker stop-notebook-instance {where}")


def _scale_in_endpoint_command(resource: Resource) -> Command | None:
    """One variant, since a call takes the capacity of one only."""
    way = resource.facts.get("scale_in")
    first = next(iter(way.first_variant.items()), None) if way else None
    if first is None or not VARIANT_NAME.fullmatch(first[0]):
        return None
    wanted = f"VariantName={first[0]},DesiredInstanceCount={first[1]:d}"
    where = f"--region {quote(resource.region)} --endpoint-name {quote(resource.name)}"
    line = f"aws sagemaker update-endpoint-weights-and-capacities {where} --desired-weights-and-capacities {wanted}"
    return Command(label="Scale it in now", line=line)


def _delete_endpoint_command(resource: Resource) -> Command | None:
    """Not one with components inside: these have to go first."""
    if resource.facts.get("within"):
        return None
    where = f"--region {quote(resource.region)} --endpoint-name {quote(resource.name)}"
    return Command(label="Delete it now (its configuration and models stay)", line=f"aws sagemaker delete-endpoint {where}")


def _remove_copies_command(resource: Resource) -> Command | None:
    where = f"--region {quote(resource.region)} --inference-component-name {quote(resource.name)}"
    line = f"aws sagemaker update-inference-component-runtime-config {where} --desired-runtime-config CopyCount=0"
    return Command(label="Take it to no copies now", line=line)


def _delete_app_command(resource: Resource) -> Command | None:
    facts, options = resource.facts, {"DomainId": "--domain-id", "AppType": "--app-type", "AppName": "--app-name"}
    options |= {"SpaceName": "--space-name"} if facts.get("SpaceName") else {"UserProfileName": "--user-profile-name"}
    values = {option: str(facts.get(key, "")) for key, option in options.items()}
    if not all(value and value.isprintable() and len(value) <= MAX_ID_LENGTH for value in values.values()):
        return None
    named = " ".join(f"{option} {quote(value)}" for option, value in values.items())
    line = f"aws sagemaker delete-app --region {quote(resource.region)} {named}"
    return Command(label="Shut it down now (its files stay)", line=line)


def _stop_compute_command(resource: Resource) -> Command | None:
    place = _workspace_options(resource.id)
    line = f"az ml compute stop --name {quote(resource.name)} {place}"
    return Command(label="Stop it now", line=line) if place else None


def _empty_cluster_command(resource: Resource) -> Command | None:
    place = _workspace_options(resource.id)
    line = f"az ml compute update --name {quote(resource.name)} --min-instances 0 {place}"
    return Command(label="Set its minimum to 0 nodes now", line=line) if place else None


def _scale_deployment_command(resource: Resource) -> Command | None:
    named = _deployment_options(resource)
    line = f"az ml online-deployment update {named} --set instance_count=1"
    return Command(label="Scale it to one instance now", line=line) if named else None


def _delete_deployment_command(resource: Resource) -> Command | None:
    """Azure deletes none that still gets traffic."""
    named = _deployment_options(resource) if resource.facts.get("share") == 0 else None
    return Command(label="Delete it now", line=f"az ml online-deployment delete {named}") if named else None


def _deployment_options(resource: Resource) -> str | None:
    parts, place = _arm_id_parts(resource.id), _workspace_options(resource.id)
    name, endpoint = parts.get("deployments"), parts.get("onlineendpoints")
    return f"--name {quote(name)} --endpoint-name {quote(endpoint)} {place}" if name and endpoint and place else None


CommandMaker = Callable[[Resource], Command | None]
STOP_COMMANDS: Mapping[str, CommandMaker] = {
    "sagemaker-endpoint": _scale_in_endpoint_command,
    "sagemaker-inference-component": _remove_copies_command,
    "sagemaker-notebook": _stop_notebook_command,
    "sagemaker-studio-app": _delete_app_command,
    "azureml-compute-cluster": _empty_cluster_command,
    "azureml-compute-instance": _stop_compute_command,
    "azureml-online-deployment": _scale_deployment_command,
}
DELETE_COMMANDS: Mapping[str, CommandMaker] = {
    "sagemaker-endpoint": _delete_endpoint_command,
    "azureml-online-deployment": _delete_deployment_command,
}


def restore_command(resource_id: str) -> str | None:
    """The command that brings that one back, with all that lived in it; None for an id that cannot stand in a line that people paste."""
    return f"{RESTORE_COMMAND} {quote(resource_id)}" if resource_id.isprintable() and len(resource_id) <= MAX_ID_LENGTH else None


def needs_admin(command: str) -> bool:
    """Whether owners cannot run it: restoring takes the deployment's ledger and manifests, and the right to write."""
    return command.startswith(f"{RESTORE_COMMAND} ")


def with_settings(command: str, places: Mapping[str, str]) -> str:
    """The command with the ledger and the manifests that it has to be run with: without these it would ask the reader's own.

    An address that may carry a key or a signature is not written into a mail, nor one that another process cannot open.
    """
    named = {name: places.get(name, "") for name in LOCATION_SETTINGS}
    told = [
        f"{name}={quote(value)} "
        for name, value in named.items()
        if value and value.isprintable() and not set(value) & set("?@") and not value.startswith("memory:")
    ]
    return f"{''.join(told)}{command}"


def _workspace_options(arm_id: str) -> str | None:
    named = _arm_id_parts(arm_id)
    try:
        group, workspace = quote(named["resourcegroups"]), quote(named["workspaces"])
        return f"--workspace-name {workspace} --resource-group {group} --subscription {quote(named['subscriptions'])}"
    except KeyError:
        return None


def _arm_id_parts(arm_id: str) -> dict[str, str]:
    """What an ARM id names, by type in lower case."""
    parts = arm_id.strip("/").split("/")
    return {key.lower(): value for key, value in zip(parts[::2], parts[1::2], strict=False)}


def _is_pasteable(resource: Resource) -> bool:
    """Whether id, name and region can stand in a line that people paste: printable and of a sane length."""
    return all(text.isprintable() and len(text) <= MAX_ID_LENGTH for text in (resource.id, resource.name, resource.region))
