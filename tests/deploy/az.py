"""A simulated Azure CLI: what a command line prints, and what it does to a simulated tenant.

It knows the commands and options that the Azure guide uses, as `az COMMAND --help` of 2.91 lists them, and refuses every other one. What
a deployment makes is taken from the Bicep files by the test that writes the tenant. As the real one, it takes an empty `--assignee`,
`--role` or `--name` of a role for no filter at all (azure-cli 2.91, command_modules/role/custom.py), says nothing about a role definition that
it does not find, keeps no outputs of a deployment that failed, and records outlive the resource group.
https://learn.microsoft.com/cli/azure/reference-index
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import jmespath

Json = dict[str, Any]
Options = dict[str, list[str]]
OPTIONS = {
    "account list": "",
    "account set": "subscription",
    "account show": "",
    "ad app create": "display-name",
    "ad app delete": "id",
    "ad app federated-credential create": "id parameters",
    "ad sp create": "id",
    "bicep upgrade": "",
    "deployment group delete": "resource-group name",
    "deployment group list": "resource-group",
    "deployment group show": "resource-group name",
    "deployment mg create": "management-group-id name location template-file parameters",
    "deployment mg delete": "management-group-id name",
    "deployment sub create": "confirm-with-what-if name location template-file parameters",
    "deployment sub delete": "name",
    "deployment sub list": "",
    "deployment sub show": "name",
    "deployment sub what-if": "name location template-file parameters",
    "functionapp deployment source config-zip": "build-remote src resource-group name",
    "functionapp function list": "resource-group name",
    "functionapp keys list": "resource-group name",
    "functionapp list-flexconsumption-locations": "",
    "group delete": "yes name",
    "group exists": "name",
    "identity show": "resource-group name",
    "login": "",
    "monitor log-analytics workspace delete": "force yes resource-group workspace-name",
    "provider register": "wait namespace",
    "role assignment create": "assignee-object-id assignee-principal-type role scope",
    "role assignment delete": "assignee role scope ids",
    "role assignment list": "all assignee scope",
    "role definition delete": "name custom-role-only scope",
    "role definition list": "custom-role-only scope",
    "storage account update": "name default-action",
    "storage container immutability-policy delete": "account-name container-name if-match",
    "storage container immutability-policy show": "account-name container-name",
}
ALWAYS = {"output", "query", "subscription"}
BARE = {"all", "confirm-with-what-if", "wait", "yes"}
"""Options without a value."""
PACKAGE = {"host.json", "function_app.py", "requirements.txt", "functions/reaper/azure/functions/triggers.py"}


class Refused(Exception):
    """What the real one would print before it ends with a status other than 0."""


def parse(words: Sequence[str]) -> tuple[str, Options]:
    """The command and its options. Raises Refused for one that is not known."""
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    command = " ".join(words[:first])
    if command not in OPTIONS:
        raise Refused(f"'{command}' is misspelled or not recognized by the system.")
    options: Options = {}
    rest = list(words[first:])
    while rest:
        name = rest.pop(0).removeprefix("--")
        if name not in {*OPTIONS[command].split(), *ALWAYS}:
            raise Refused(f"unrecognized arguments: --{name}")
        if name not in BARE and (not rest or rest[0].startswith("--")):
            raise Refused(f"argument --{name}: expected at least one argument")
        options.setdefault(name, []).extend([] if name in BARE else [rest.pop(0)])
    return command, options


def one(options: Options, name: str) -> str:
    """The value of an option that must be there. Raises Refused."""
    if not options.get(name, [""])[0]:
        raise Refused(f"the following arguments are required: --{name}")
    return options[name][0]


def subscription(tenant: Json, options: Options) -> Json:
    """The subscription that is meant."""
    id_ = options.get("subscription", [tenant["current"]])[0]
    if id_ not in tenant["subscriptions"]:
        raise Refused(f"The subscription of '{id_}' doesn't exist in cloud 'AzureCloud'.")
    return {"id": id_, **tenant["subscriptions"][id_]}


def use(tenant: Json, options: Options) -> None:
    tenant["current"] = subscription(tenant, options)["id"]


def register(tenant: Json, options: Options) -> None:
    subscription(tenant, options)["providers"].append(one(options, "namespace"))


def asked_for(tenant: Json, options: Options) -> Json:
    """What the parameter file and the command line say. Raises Refused without the file, and if it has no address of an admin."""
    [file] = [Path(tenant["home"], word) for word in options["parameters"] if word.endswith(".bicepparam")]
    if not file.is_file():
        raise Refused(f"Could not find file '{file}'.")
    parameters = dict(re.findall(r"^param (\w+) = (.+)$", file.read_text(), re.M))
    if "@" not in parameters["admins"]:
        raise Refused("The language expression property 'admins: …' doesn't exist, available properties are 'fits'.")
    inline = dict(word.split("=", 1) for word in options["parameters"] if "=" in word)
    subscriptions = re.findall(r"'([^']+)'", parameters.get("subscriptions", ""))
    endpoints = re.findall(r"'([^']+)'", parameters.get("endpointIdentities", ""))
    made = {"mode": parameters.get("mode", "'audit'").strip("'"), "subscriptions": subscriptions, "endpoints": endpoints}
    made["group"] = parameters.get("managementGroup", "").strip("'")
    made["parameters"] = {name: {"value": one} for name, one in parameters.items()}
    return made | {"name": "ml-reaper", **inline}


def deploy(tenant: Json, options: Options) -> Json:
    """Makes what main.bicep makes, as far as it outlives a moment: group, identity, roles, assignments, records. Raises Refused."""
    where, wanted = subscription(tenant, options), asked_for(tenant, options)
    name, location = one(options, "name"), one(options, "location")
    _check(tenant, where["records"].get(name), options)
    audited = [] if wanted["group"] else wanted["subscriptions"] or [where["id"]]
    group = _group(tenant, wanted, where["id"])
    failed: Json = {"location": location, "outputs": None, "parameters": wanted["parameters"]}
    tenant["subscriptions"][where["id"]]["records"][name] = failed
    names = _roles(tenant, wanted, audited, group["principal"])
    _note(tenant, wanted["name"], {"location": location}, audited, wanted["mode"])
    _endpoints(tenant, wanted, group["principal"])
    group["outputs"] = _outputs(tenant, wanted["name"], audited, group["principal"]) | names
    made = failed | {"outputs": {key: {"value": group["outputs"][key]} for key in tenant["template"]["outputs"]}}
    tenant["subscriptions"][where["id"]]["records"][name] = made
    return {"properties": made}


def _group(tenant: Json, wanted: Json, home: str) -> Json:
    new = {"principal": _fresh(tenant), "published": False, "immutable": False, "subscription": home, "outputs": {}}
    group: Json = tenant["groups"].setdefault(f"rg-{wanted['name']}", new)
    group["immutable"] |= wanted["mode"] == "enforce"
    return group


def _roles(tenant: Json, wanted: Json, audited: list[str], principal: str) -> dict[str, str]:
    """The custom roles' names by their outputs; the roles with their assignments are made. Raises Refused."""
    installation, roles = wanted["name"], tenant["template"]["roles"]
    names = {role: named.get(installation, f"{installation}-{named['']}") for role, named in roles.items()}
    for role in (names if wanted["mode"] == "enforce" else ["auditRole"]) if audited else ():
        _grant(tenant, names[role], [f"/subscriptions/{id_}" for id_ in audited], principal)
    return names


def deploy_to_group(tenant: Json, options: Options) -> None:
    """Makes what management-group.bicep makes: roles that name the group alone, their assignments, and a record there. Raises Refused."""
    place = _existing_group(tenant, options)
    _check(tenant, tenant["management"][place].get(one(options, "name")), options)
    wanted = dict(word.split("=", 1) for word in options["parameters"])
    if len(wanted.get("principalId", "")) != 36:
        raise Refused("InvalidTemplate: the value of principalId has a wrong length")
    tenant["management"][place][one(options, "name")] = {"location": one(options, "location")}
    roles = {
        role: named.get(wanted["name"], f"{wanted['name']}-{named['']}")
        for role, named in tenant["template"]["groupRoles"].items()
    }
    for role in roles if wanted.get("mode") == "enforce" else ["auditRole"]:
        _grant(tenant, roles[role], [place], wanted["principalId"])


def forget_in_group(tenant: Json, options: Options) -> None:
    del tenant["management"][_existing_group(tenant, options)][one(options, "name")]


def _existing_group(tenant: Json, options: Options) -> str:
    place = f"/providers/Microsoft.Management/managementGroups/{one(options, 'management-group-id')}"
    if place not in tenant["management"]:
        raise Refused(f"NotFound: '{place}' not found")
    return place


def _endpoints(tenant: Json, wanted: Json, principal: str) -> None:
    """The right to assign each of the endpoints' identities, and the record of giving it, in that identity's group."""
    for id_ in wanted["endpoints"] if wanted["mode"] == "enforce" else ():
        records = tenant["records"].setdefault(id_.split("/")[4], [])
        name = f"{wanted['name']}-assign-{str(uuid5(NAMESPACE_URL, id_))[:13]}"
        records += [] if name in records else [name]
        _add(tenant, _assignment(principal, "Managed Identity Operator", id_))


def _check(tenant: Json, record: Json | None, options: Options) -> None:
    if not Path(tenant["home"], one(options, "template-file")).is_file():
        raise Refused(f"[Errno 2] No such file or directory: '{one(options, 'template-file')}'")
    if record and record["location"] != one(options, "location"):
        raise Refused(f"InvalidDeploymentLocation: the deployment already exists in location '{record['location']}'.")


def _note(tenant: Json, installation: str, record: Json, audited: list[str], mode: str) -> None:
    """The records of the modules that are deployed at subscriptions, named as the Bicep files name them."""
    for pattern in tenant["template"]["records"]:
        for id_ in audited if mode == "enforce" or "-enforce-" not in pattern else ():
            suffix = str(uuid5(NAMESPACE_URL, id_ + record["location"]))[:13]
            tenant["subscriptions"][id_]["records"][re.sub(r"\$\{.*\}", suffix, pattern.replace("${name}", installation))] = (
                record
            )


def _fresh(tenant: Json) -> str:
    tenant["identities"] += 1
    return str(uuid5(NAMESPACE_URL, f"identity {tenant['identities']}"))


def _grant(tenant: Json, role: str, scopes: list[str], principal: str) -> None:
    """The role with these scopes and its assignments. Raises Refused where it would leave a scope in which it is in use, by whomever."""
    used = {a["scope"] for a in tenant["assignments"] if a["roleDefinitionName"] == role}
    if lost := used - set(scopes):
        # https://github.com/Azure/bicep/issues/17145
        raise Refused(f"RoleScopeBeingRemovedContainsAssignments: {', '.join(sorted(lost))} is being removed from '{role}'.")
    tenant["roles"] = [r for r in tenant["roles"] if r["roleName"] != role] + [{"roleName": role, "assignableScopes": scopes}]
    for scope in scopes:
        _add(tenant, _assignment(principal, role, scope))


def _add(tenant: Json, assignment: Json) -> None:
    if assignment not in tenant["assignments"]:
        tenant["assignments"].append(assignment)


def _assignment(principal: str, role: str, scope: str) -> Json:
    id_ = f"{scope}/providers/Microsoft.Authorization/roleAssignments/{uuid5(NAMESPACE_URL, principal + role + scope)}"
    return {"id": id_, "principalId": principal, "roleDefinitionName": role, "scope": scope}


def _outputs(tenant: Json, installation: str, audited: list[str], principal: str) -> Json:
    host = tenant["host"]
    return {
        "resourceGroupName": f"rg-{installation}", "appName": f"{installation}-x", "appHostName": host, "principalId": principal,
        "auditedSubscriptions": audited, "storageAccount": f"st{installation}", "workspaceName": installation, "mailSender": "DoNotReply@x",
        "reportsUrl": f"https://st{installation}.blob.core.windows.net/reports", "roleGuid": str(uuid5(NAMESPACE_URL, installation)),
    }  # fmt: skip


def what_if(tenant: Json, options: Options) -> None:
    asked_for(tenant, options)


def show(tenant: Json, options: Options) -> Json:
    record = subscription(tenant, options)["records"].get(one(options, "name"))
    if record is None:
        raise Refused(f"DeploymentNotFound: Deployment '{one(options, 'name')}' could not be found.")
    return {"properties": record}


def records(tenant: Json, options: Options) -> list[Json]:
    return [{"name": name} for name in subscription(tenant, options)["records"]]


def forget(tenant: Json, options: Options) -> None:
    show(tenant, options)
    del tenant["subscriptions"][subscription(tenant, options)["id"]]["records"][one(options, "name")]


def show_below(tenant: Json, options: Options) -> Json:
    """The record of the module that keeps the outputs of the last deployment that went through; the only one asked for in a group."""
    group = group_of(tenant, options)
    if one(options, "name") != "reaper-outputs" or not group["outputs"]:
        raise Refused(f"DeploymentNotFound: Deployment '{one(options, 'name')}' could not be found.")
    return {"properties": {"outputs": {"values": {"value": group["outputs"]}}}}


def records_below(tenant: Json, options: Options) -> list[Json]:
    return [{"name": name} for name in tenant["records"].get(one(options, "resource-group"), [])]


def forget_below(tenant: Json, options: Options) -> None:
    tenant["records"][one(options, "resource-group")].remove(one(options, "name"))


def identity(tenant: Json, options: Options) -> Json:
    """Named as the installation is, and found in the subscription that its group is in only."""
    group = group_of(tenant, options)
    if group["name"] != f"rg-{one(options, 'name')}":
        raise Refused(
            f"ResourceNotFound: 'Microsoft.ManagedIdentity/userAssignedIdentities/{one(options, 'name')}' was not found."
        )
    return {"principalId": group["principal"]}


def group_of(tenant: Json, options: Options, option: str = "resource-group") -> Json:
    name = one(options, option)
    if tenant["groups"].get(name, {"subscription": ""})["subscription"] != subscription(tenant, options)["id"]:
        raise Refused(f"ResourceGroupNotFound: Resource group '{name}' could not be found.")
    return dict(name=name, **tenant["groups"][name])


def publish(tenant: Json, options: Options) -> None:
    group = group_of(tenant, options)
    with zipfile.ZipFile(Path(tenant["home"], one(options, "src"))) as package:
        if missing := PACKAGE - set(package.namelist()):
            raise Refused(f"the package lacks {', '.join(sorted(missing))}")
    tenant["groups"][group["name"]]["published"] = one(options, "build-remote") == "true"


def keys(tenant: Json, options: Options) -> Json:
    group_of(tenant, options)
    return {"functionKeys": {"default": "function-key"}, "masterKey": "master-key"}


def assign(tenant: Json, options: Options) -> None:
    if one(options, "assignee-principal-type") != "ServicePrincipal":
        raise Refused("unknown principal type")
    tenant["assignments"].append(_assignment(one(options, "assignee-object-id"), one(options, "role"), one(options, "scope")))


def assignments(tenant: Json, options: Options) -> list[Json]:
    """Those in one subscription and below, only: with `--all`, or at the subscription itself, or at `--scope`. An empty assignee is no filter."""
    account = subscription(tenant, options)
    if account["tenantId"] != subscription(tenant, {})["tenantId"]:
        raise Refused(f"InvalidAuthenticationTokenTenant: '{account['id']}' belongs to another tenant.")
    home, whose = f"/subscriptions/{account['id']}", _assignee(tenant, options)
    mine = [_named(tenant, a) for a in tenant["assignments"] if whose in ("", a["principalId"])]
    if "scope" in options:
        return [a for a in mine if a["scope"] == one(options, "scope")]
    return [a for a in mine if (a["scope"].startswith(home) if "all" in options else a["scope"] == home)]


def _named(tenant: Json, assignment: Json) -> Json:
    """A principal that is gone has an empty name. The Graph is asked for the others."""
    gone = assignment["principalId"] in tenant["gone"]
    return assignment | {"principalName": "" if gone else f"name of {assignment['principalId']}"}


def _assignee(tenant: Json, options: Options) -> str:
    """Raises Refused for one that the directory does not know, such as an identity that is gone."""
    whose = options.get("assignee", [""])[0]
    if whose in tenant["gone"]:
        raise Refused(f"Cannot find user or service principal in graph database for '{whose}'.")
    return whose


def unassign(tenant: Json, options: Options) -> None:
    """By their ids; else all at the scope (by default the subscription) that have this assignee and this role, where these are not empty."""
    if ids := options.get("ids"):
        tenant["assignments"] = [a for a in tenant["assignments"] if a["id"] not in ids]
        return
    whose, role, scope = _assignee(tenant, options), *(options.get(key, [""])[0] for key in ("role", "scope"))
    if not (whose or role or scope):
        raise Refused("Please provide at least one of these arguments: --ids, --assignee, --role, --scope")
    scope = scope or f"/subscriptions/{subscription(tenant, options)['id']}"
    keep = [
        a
        for a in tenant["assignments"]
        if a["scope"] != scope or whose not in ("", a["principalId"]) or role not in ("", a["roleDefinitionName"])
    ]
    if keep == tenant["assignments"]:
        raise Refused("No matched assignments were found to delete")
    tenant["assignments"] = keep


def definitions(tenant: Json, options: Options) -> list[Json]:
    """A custom role is seen at the scopes that it names, and at no other."""
    return [role for role in tenant["roles"] if one(options, "scope") in role["assignableScopes"]]


def undefine(tenant: Json, options: Options) -> None:
    """An empty name means all at this scope."""
    roles = [role for role in definitions(tenant, options) if options["name"][0] in ("", role["roleName"])]
    for role in roles:
        if any(a["roleDefinitionName"] == role["roleName"] for a in tenant["assignments"]):
            raise Refused("RoleDefinitionHasAssignments: There are existing role assignments referencing role.")
        tenant["roles"].remove(role)


def drop_workspace(tenant: Json, options: Options) -> None:
    group = group_of(tenant, options)
    tenant["groups"][group["name"]]["purged"] = one(options, "force") == "true"


def drop_group(tenant: Json, options: Options) -> None:
    """With an immutability policy on the manifests Azure deletes nothing; a workspace that was not purged is kept for 14 days."""
    group = group_of(tenant, options, "name")
    if group["immutable"]:
        raise Refused("Deleting resource group failed: the storage account has a container with an immutability policy.")
    del tenant["groups"][group["name"]]
    tenant["gone"].append(group["principal"])
    tenant["kept"] += [] if group.get("purged") else [group["name"]]


def policy(tenant: Json, options: Options) -> Json:
    group_of(tenant, {"resource-group": [one(options, "account-name").replace("st", "rg-", 1)]})
    return {"etag": "etag-1"}


def lift(tenant: Json, options: Options) -> None:
    if one(options, "if-match") != "etag-1" or one(options, "container-name") != "manifests":
        raise Refused("ConditionNotMet")
    tenant["groups"][one(options, "account-name").replace("st", "rg-", 1)]["immutable"] = False


COMMANDS: dict[str, Callable[[Json, Options], Any]] = {
    "account list": lambda tenant, options: [{"id": id_, **one} for id_, one in tenant["subscriptions"].items()],
    "account set": use,
    "account show": subscription,
    "ad app create": lambda tenant, options: {"appId": "app-of-" + one(options, "display-name")},
    "ad app federated-credential create": lambda tenant, options: tenant["trusts"].append(json.loads(one(options, "parameters"))),
    "ad sp create": lambda tenant, options: {"id": "principal-of-" + one(options, "id")},
    "deployment group delete": forget_below,
    "deployment group list": records_below,
    "deployment group show": show_below,
    "deployment mg create": deploy_to_group,
    "deployment mg delete": forget_in_group,
    "deployment sub create": deploy,
    "deployment sub delete": forget,
    "deployment sub list": records,
    "deployment sub show": show,
    "deployment sub what-if": what_if,
    "functionapp deployment source config-zip": publish,
    "functionapp keys list": keys,
    "group delete": drop_group,
    "group exists": lambda tenant, options: one(options, "name") in tenant["groups"],
    "identity show": identity,
    "login": lambda tenant, options: None,
    "monitor log-analytics workspace delete": drop_workspace,
    "provider register": register,
    "role assignment create": assign,
    "role assignment delete": unassign,
    "role assignment list": assignments,
    "role definition delete": undefine,
    "role definition list": definitions,
    "storage container immutability-policy delete": lift,
    "storage container immutability-policy show": policy,
}


def tsv(value: Any) -> str:
    """As `--output tsv` prints it: a row for each of a list, columns with tabs between them."""
    rows = value if isinstance(value, list) else [] if value is None else [value]
    return "\n".join("\t".join(map(str, row)) if isinstance(row, list) else str(row) for row in rows)


def main(words: Sequence[str], tenant: Json) -> str:
    """What the command prints; the tenant changes with it and keeps a note of what was refused. Raises Refused."""
    try:
        command, options = parse(words)
        result = COMMANDS[command](tenant, options)
    except Refused as problem:
        tenant["refused"].append(f"az {' '.join(words)}: {problem}")
        raise
    result = jmespath.search(one(options, "query"), result) if "query" in options else result
    form = {"tsv": tsv, "none": lambda _: ""}.get(options.get("output", [""])[0], json.dumps)
    return form(result) if result is not None else ""
