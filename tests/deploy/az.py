"""A pretend Azure CLI: what a command line prints, and what it does to a pretend tenant.

It knows the commands and options that the Azure guide uses, as `az COMMAND --help` of 2.91 lists them, and refuses every other one. What
a deployment makes is taken from the Bicep files by the test that writes the tenant. As the real one, `role definition delete` and
`role assignment delete` say nothing about what they do not find, and records outlive the resource group.
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
Given = dict[str, list[str]]
OPTIONS = {
    "account set": "subscription",
    "account show": "",
    "ad app create": "display-name",
    "ad app delete": "id",
    "ad app federated-credential create": "id parameters",
    "ad sp create": "id",
    "bicep upgrade": "",
    "deployment sub create": "name location template-file parameters",
    "deployment sub delete": "name",
    "deployment sub list": "",
    "deployment sub show": "name",
    "deployment sub what-if": "name location template-file parameters",
    "functionapp deployment source config-zip": "build-remote src resource-group name",
    "functionapp function list": "resource-group name",
    "functionapp keys list": "resource-group name",
    "functionapp list-flexconsumption-locations": "",
    "group delete": "yes name",
    "login": "",
    "monitor log-analytics workspace delete": "force yes resource-group workspace-name",
    "provider register": "wait namespace",
    "role assignment create": "assignee-object-id assignee-principal-type role scope",
    "role assignment delete": "assignee role scope ids",
    "role assignment list": "all assignee",
    "role definition delete": "name custom-role-only scope",
    "role definition list": "custom-role-only scope",
    "storage account show": "name",
    "storage account update": "name default-action",
    "storage container immutability-policy delete": "account-name container-name if-match",
    "storage container immutability-policy show": "account-name container-name",
}
ALWAYS = {"output", "query", "subscription"}
BARE = {"all", "wait", "yes"}
"""Options without a value."""
PACKAGE = {"host.json", "function_app.py", "requirements.txt", "functions/reaper/azure/triggers.py"}


class Refused(Exception):
    """What the real one would print before it ends with a status other than 0."""


def parse(words: Sequence[str]) -> tuple[str, Given]:
    """The command and its options. Raises Refused for one that is not known."""
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    command = " ".join(words[:first])
    if command not in OPTIONS:
        raise Refused(f"'{command}' is misspelled or not recognized by the system.")
    given: Given = {}
    rest = list(words[first:])
    while rest:
        name = rest.pop(0).removeprefix("--")
        if name not in {*OPTIONS[command].split(), *ALWAYS}:
            raise Refused(f"unrecognized arguments: --{name}")
        if name not in BARE and (not rest or rest[0].startswith("--")):
            raise Refused(f"argument --{name}: expected at least one argument")
        given.setdefault(name, []).extend([] if name in BARE else [rest.pop(0)])
    return command, given


def one(given: Given, name: str) -> str:
    """The value of an option that must be there. Raises Refused."""
    if not given.get(name, [""])[0]:
        raise Refused(f"the following arguments are required: --{name}")
    return given[name][0]


def subscription(tenant: Json, given: Given) -> Json:
    """The subscription that is meant."""
    id_ = given.get("subscription", [tenant["current"]])[0]
    if id_ not in tenant["subscriptions"]:
        raise Refused(f"The subscription of '{id_}' doesn't exist in cloud 'AzureCloud'.")
    return {"id": id_, **tenant["subscriptions"][id_]}


def use(tenant: Json, given: Given) -> None:
    tenant["current"] = subscription(tenant, given)["id"]


def register(tenant: Json, given: Given) -> None:
    subscription(tenant, given)["providers"].append(one(given, "namespace"))


def asked_for(tenant: Json, given: Given) -> Json:
    """What the parameter file and the command line say. Raises Refused where the file needs a variable that is not set."""
    [file] = [word for word in given["parameters"] if word.endswith(".bicepparam")]
    text = Path(tenant["home"], file).read_text()
    for name in re.findall(r"readEnvironmentVariable\('(\w+)'\)", text):
        if name not in tenant["environment"]:
            raise Refused(
                f'BCP338: Failed to evaluate parameter "admins": Environment variable "{name}" does not exist, and no default value set.'
            )
    told = dict(re.findall(r"^param (\w+) = (.+)$", text, re.M))
    inline = dict(word.split("=", 1) for word in given["parameters"] if "=" in word)
    subscriptions = re.findall(r"'([^']+)'", told.get("subscriptions", ""))
    return {"mode": told.get("mode", "'audit'").strip("'"), "subscriptions": subscriptions, "name": "ml-reaper", **inline}


def deploy(tenant: Json, given: Given) -> Json:
    """Makes what main.bicep makes, as far as it outlives a moment: group, identity, roles, assignments, records. Raises Refused."""
    where, asked, template = subscription(tenant, given), asked_for(tenant, given), tenant["template"]
    name, location = one(given, "name"), one(given, "location")
    _check(tenant, where["records"].get(name), given)
    installation, audited = asked["name"], asked["subscriptions"] or [where["id"]]
    group = tenant["groups"].setdefault(
        f"rg-{installation}", {"principal": _fresh(tenant), "published": False, "immutable": False}
    )
    group["immutable"] |= asked["mode"] == "enforce"
    names = {role: names.get(installation, f"{installation}-{names['']}") for role, names in template["roles"].items()}
    for role in names if asked["mode"] == "enforce" else ["auditRole"]:
        _grant(tenant, names[role], audited, group["principal"])
    _note(tenant, installation, {"location": location}, audited, asked["mode"])
    outputs = _outputs(tenant, installation, audited, group["principal"]) | names
    made = {"location": location, "outputs": {key: {"value": outputs[key]} for key in template["outputs"]}}
    tenant["subscriptions"][where["id"]]["records"][name] = made
    return {"properties": made}


def _check(tenant: Json, there: Json | None, given: Given) -> None:
    if not Path(tenant["home"], one(given, "template-file")).is_file():
        raise Refused(f"[Errno 2] No such file or directory: '{one(given, 'template-file')}'")
    if there and there["location"] != one(given, "location"):
        raise Refused(f"InvalidDeploymentLocation: the deployment already exists in location '{there['location']}'.")


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


def _grant(tenant: Json, role: str, audited: list[str], principal: str) -> None:
    """The role with these scopes and its assignments. Raises Refused where it would leave a scope in which it is in use."""
    scopes = [f"/subscriptions/{id_}" for id_ in audited]
    used = {a["scope"] for a in tenant["assignments"] if a["roleDefinitionName"] == role and a["principalId"] != principal}
    if lost := used - set(scopes):
        raise Refused(f"RoleDefinitionHasAssignments: '{role}' is in use at {', '.join(sorted(lost))}.")
    tenant["roles"] = [r for r in tenant["roles"] if r["roleName"] != role] + [{"roleName": role, "assignableScopes": scopes}]
    tenant["assignments"] = [a for a in tenant["assignments"] if (a["principalId"], a["roleDefinitionName"]) != (principal, role)]
    tenant["assignments"] += [_assignment(principal, role, scope) for scope in scopes]


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


def what_if(tenant: Json, given: Given) -> None:
    asked_for(tenant, given)


def show(tenant: Json, given: Given) -> Json:
    found = subscription(tenant, given)["records"].get(one(given, "name"))
    if found is None:
        raise Refused(f"DeploymentNotFound: Deployment '{one(given, 'name')}' could not be found.")
    return {"properties": found}


def records(tenant: Json, given: Given) -> list[Json]:
    return [{"name": name} for name in subscription(tenant, given)["records"]]


def forget(tenant: Json, given: Given) -> None:
    show(tenant, given)
    del tenant["subscriptions"][subscription(tenant, given)["id"]]["records"][one(given, "name")]


def group_of(tenant: Json, given: Given, option: str = "resource-group") -> Json:
    name = one(given, option)
    if name not in tenant["groups"]:
        raise Refused(f"ResourceGroupNotFound: Resource group '{name}' could not be found.")
    return dict(name=name, **tenant["groups"][name])


def publish(tenant: Json, given: Given) -> None:
    group = group_of(tenant, given)
    with zipfile.ZipFile(Path(tenant["home"], one(given, "src"))) as package:
        if missing := PACKAGE - set(package.namelist()):
            raise Refused(f"the package lacks {', '.join(sorted(missing))}")
    tenant["groups"][group["name"]]["published"] = one(given, "build-remote") == "true"


def keys(tenant: Json, given: Given) -> Json:
    group_of(tenant, given)
    return {"functionKeys": {"default": "function-key"}, "masterKey": "master-key"}


def assign(tenant: Json, given: Given) -> None:
    if one(given, "assignee-principal-type") != "ServicePrincipal":
        raise Refused("unknown principal type")
    tenant["assignments"].append(_assignment(one(given, "assignee-object-id"), one(given, "role"), one(given, "scope")))


def assignments(tenant: Json, given: Given) -> list[Json]:
    """Those in one subscription and below, only: with `--all`, or at the subscription itself."""
    home = f"/subscriptions/{subscription(tenant, given)['id']}"
    mine = [a for a in tenant["assignments"] if a["principalId"] == one(given, "assignee")]
    return [a for a in mine if (a["scope"].startswith(home) if "all" in given else a["scope"] == home)]


def unassign(tenant: Json, given: Given) -> None:
    if "ids" not in given:
        gone = {
            a["id"]
            for a in tenant["assignments"]
            if a["principalId"] == one(given, "assignee") and a["scope"] == one(given, "scope")
        }
        gone &= {a["id"] for a in tenant["assignments"] if a["roleDefinitionName"] == one(given, "role")}
    else:
        gone = {one(given, "ids")}
    tenant["assignments"] = [a for a in tenant["assignments"] if a["id"] not in gone]


def definitions(tenant: Json, given: Given) -> list[Json]:
    """A custom role is seen at the scopes that it names, and at no other."""
    return [role for role in tenant["roles"] if one(given, "scope") in role["assignableScopes"]]


def undefine(tenant: Json, given: Given) -> None:
    found = [role for role in definitions(tenant, given) if role["roleName"] == one(given, "name")]
    for role in found:
        if any(a["roleDefinitionName"] == role["roleName"] for a in tenant["assignments"]):
            raise Refused("RoleDefinitionHasAssignments: There are existing role assignments referencing role.")
        tenant["roles"].remove(role)


def drop_workspace(tenant: Json, given: Given) -> None:
    group = group_of(tenant, given)
    tenant["groups"][group["name"]]["purged"] = one(given, "force") == "true"


def drop_group(tenant: Json, given: Given) -> None:
    """With an immutability policy on the manifests Azure deletes nothing; a workspace that was not purged is kept for 14 days."""
    group = group_of(tenant, given, "name")
    if group["immutable"]:
        raise Refused("Deleting resource group failed: the storage account has a container with an immutability policy.")
    del tenant["groups"][group["name"]]
    tenant["kept"] += [] if group.get("purged") else [group["name"]]


def policy(tenant: Json, given: Given) -> Json:
    group_of(tenant, {"resource-group": [one(given, "account-name").replace("st", "rg-", 1)]})
    return {"etag": "etag-1"}


def lift(tenant: Json, given: Given) -> None:
    if one(given, "if-match") != "etag-1" or one(given, "container-name") != "manifests":
        raise Refused("ConditionNotMet")
    tenant["groups"][one(given, "account-name").replace("st", "rg-", 1)]["immutable"] = False


COMMANDS: dict[str, Callable[[Json, Given], Any]] = {
    "account set": use,
    "account show": subscription,
    "ad app create": lambda tenant, given: {"appId": "app-of-" + one(given, "display-name")},
    "ad app federated-credential create": lambda tenant, given: tenant["trusts"].append(json.loads(one(given, "parameters"))),
    "ad sp create": lambda tenant, given: {"id": "principal-of-" + one(given, "id")},
    "deployment sub create": deploy,
    "deployment sub delete": forget,
    "deployment sub list": records,
    "deployment sub show": show,
    "deployment sub what-if": what_if,
    "functionapp deployment source config-zip": publish,
    "functionapp keys list": keys,
    "group delete": drop_group,
    "login": lambda tenant, given: None,
    "monitor log-analytics workspace delete": drop_workspace,
    "provider register": register,
    "role assignment create": assign,
    "role assignment delete": unassign,
    "role assignment list": assignments,
    "role definition delete": undefine,
    "role definition list": definitions,
    "storage account show": lambda tenant, given: {"id": "/subscriptions/x/storageAccounts/" + one(given, "name")},
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
        command, given = parse(words)
        found = COMMANDS[command](tenant, given)
    except Refused as problem:
        tenant["refused"].append(f"az {' '.join(words)}: {problem}")
        raise
    found = jmespath.search(one(given, "query"), found) if "query" in given else found
    form = {"tsv": tsv, "none": lambda _: ""}.get(given.get("output", [""])[0], json.dumps)
    return form(found) if found is not None else ""
