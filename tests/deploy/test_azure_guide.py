"""The Azure guide as a newcomer follows it: each of its commands in a shell, against a simulated CLI, a real git and a real curl.

What cannot run here is Azure itself; what a deployment creates is given to the simulated tenant from the Bicep files.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import az
from deploy.bicep import INFRA, MAIN, ROOT, declared, properties, text, value
from deploy.test_bicep import AT_A_SUBSCRIPTION, GROUP, GUIDE
from reaper_sandbox.azure import authority
from reaper_sandbox.azure.request import Reply
from reaper_sandbox.azure.wire import Incoming, Listener

SUBSCRIPTION, ANOTHER = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
OF_ANOTHER_TENANT = "33333333-3333-3333-3333-333333333333"
ENDPOINT = f"/subscriptions/{ANOTHER}/resourceGroups/rg-ml/providers/Microsoft.ManagedIdentity/userAssignedIdentities/scoring"
FILLED_IN = {
    "SUBSCRIPTION_ID": SUBSCRIPTION,
    "ANOTHER_ID": ANOTHER,
    "YOUR_ADDRESS": "ada@contoso.com",
    "ANOTHER_ADDRESS": "grace@contoso.com",
    "GROUP_OF_IDENTITY": "rg-ml",
    "IDENTITY_ID": ENDPOINT,
    "GROUP_ID": "ml-platform",
    "RUN_ID": "0123456789ab",
}
PAGES = GUIDE.read_text() + (ROOT / "docs/uninstall.md").read_text()
BLOCKS = re.findall(r"^#+ ([^\n]+)$|^```sh\n(.*?)^```", PAGES, re.M | re.S)
OLD_CURL = {"--data", "--header", "--request", "--show-error", "--silent", "--write-out"}
"""What every curl since 7.10 has. --json came with 7.82, --fail-with-body with 7.76: long-lived systems have neither."""


def blocks(heading: str) -> list[str]:
    """The shell commands below a heading of the guide or of the page to uninstall, block by block, with the placeholders filled in."""
    names, under = [], ""
    for heading_, block in BLOCKS:
        under = heading_ or under
        if block and under == heading:
            for name, filled in FILLED_IN.items():
                block = block.replace(name, filled)
            names.append(block)
    return names


SIGN_IN, NAMES = blocks("Prerequisites")
VALUES, DEPLOY, PUBLISH, TIMER = blocks("Deploy")
PREVIEW, RECORDED = blocks("Your own values")
[ANOTHERS_METRICS] = blocks("More subscriptions")
ROLES_OF_GROUP, DROP_GROUP = blocks("A management group")
[DROP] = blocks("Fewer subscriptions")
[ORPHANS] = blocks("Reinstall after an uninstallation")
[PIPELINE] = blocks("Unattended deployment")
[LEAVE_ENFORCE] = blocks("On top of that in mode enforce")
[DROP_ENDPOINT] = blocks("Endpoints with user-assigned identities")
[LIFT] = blocks("Immutable manifests")
SWEEP, ASK = blocks("Try it")
WHOSE, DELETE, LOOK, FORGET, FORGET_ENDPOINT = blocks("On Azure")
REMOVE = f"{WHOSE}\n{DELETE}"


def record_names() -> list[str]:
    """How the Bicep files name their deployments at a subscription."""
    names = (text(properties(value(declared(path, "module")[name]))["name"]).strip("'") for path, name in AT_A_SUBSCRIPTION)
    return sorted(set(names))


def role_names(parameter: str, path: Path = MAIN) -> dict[str, str]:
    """The role's name by that of the installation; under the empty one what comes after any other installation's name."""
    [name_parts] = re.findall(
        r"^name == '(.+)' \? '(.+)' : '\$\{name\}-(.+)'$", text(value(declared(path, "parameter")[parameter]))
    )
    return {name_parts[0]: name_parts[1], "": name_parts[2]}


@dataclass
class Newcomer:
    """A person with a clone of the repository, a shell and a tenant with two subscriptions."""

    home: Path
    env: dict[str, str]
    tenant: dict[str, Any]
    posted: list[Incoming]

    def run(self, *commands: str, name: str = "ml-reaper", **env: str) -> str:
        """What the commands print in one new shell. What goes wrong is in `refused` of the tenant, and in the exit status."""
        script = "\n".join([NAMES.replace("reaper=ml-reaper", f"reaper={name}"), *commands])
        completed = self.shell("sh", "-eu", "-c", script, **env)
        assert (completed.returncode == 0) == (self.tenant["refused"] == []), completed.stderr
        return completed.stdout

    def paste(self, *commands: str) -> str:
        """What a person sees who pastes them, line by line, into a shell that goes on after every failure."""
        if not shutil.which("bash"):
            pytest.skip("no bash, whose prompt goes on after a failure")
        return self.shell("bash", "--norc", "--noprofile", "-i", input="\n".join(commands) + "\n").stderr

    def shell(self, *words: str, input: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            input=input,
            cwd=self.home,
            env=self.env | env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            start_new_session=True,
        )

    def refusals(self) -> list[str]:
        """What was refused so far, which is then forgotten."""
        lines, self.tenant["refused"] = self.tenant["refused"], []
        return list(lines)

    def grants(self) -> list[tuple[str, str, str]]:
        """Who has which role where."""
        return sorted((a["principalId"], a["roleDefinitionName"], a["scope"]) for a in self.tenant["assignments"])

    def values(self, name: str = "ml-reaper") -> Path:
        """The parameter file of an installation, made as the guide says if it isn't there yet."""
        file = self.home / f"infra/{name}.bicepparam"
        if not file.exists():
            self.run(VALUES, name=name)
            file.write_text(file.read_text().replace("YOUR_ADDRESS", FILLED_IN["YOUR_ADDRESS"]))
        return file

    def parameters(self, *lines: str, name: str = "ml-reaper") -> None:
        """Writes lines into the parameter file of an installation, in place of others about the same parameter."""
        file = self.values(name)
        for line in lines:
            rest = [old for old in file.read_text().splitlines() if not old.startswith(line.partition("=")[0])]
            file.write_text("\n".join([*rest, line, ""]))

    def leftovers(self) -> dict[str, Any]:
        """All that costs, grants or blocks something."""
        tenant = json.loads(json.dumps(self.tenant))
        records = {id_: sorted(one["records"]) for id_, one in tenant["subscriptions"].items() if one["records"]}
        below = {group: names for group, names in tenant["records"].items() if names}
        records |= below | {place: sorted(names) for place, names in tenant["management"].items() if names}
        return {key: tenant[key] for key in ("assignments", "roles", "groups", "kept") if tenant[key]} | (
            {"records": records} if records else {}
        )


def clone(home: Path) -> None:
    """What `git clone` makes, as far as the guide needs it."""
    code = "functions/reaper/azure/functions"
    shutil.copytree(ROOT / code, home / code, ignore=lambda _, names: [n for n in names if not n.startswith("t")])
    shutil.copytree(
        INFRA, home / "infra", ignore=lambda _, names: [n for n in names if re.fullmatch(r"(?!example).+\.bicepparam", n)]
    )
    for name in (".gitignore", "host.json", "function_app.py", "requirements.txt"):
        shutil.copy(ROOT / name, home / name)
    git = ["git", "-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "commit.gpgsign=false"]
    for command in (["git", "init", "-q"], ["git", "add", "."], [*git, "commit", "-q", "--no-verify", "-m", "all"]):
        subprocess.run(command, cwd=home, check=True, timeout=60, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})


@pytest.fixture(scope="session")
def cloned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (shutil.which("git") and shutil.which("curl")):
        pytest.skip("the guide needs git and curl")
    home = tmp_path_factory.mktemp("cloned")
    clone(home)
    return home


AZ = """#!/bin/sh
printf '%s\\0' "$@" | curl --silent --fail --data-binary @- {url}
"""
"""Asks the test itself, because a Python for each of some two hundred commands takes too long. Ends with 22 for what is refused."""


def empty_tenant(home: Path, host: str) -> dict[str, Any]:
    """Two subscriptions, and nothing in them. `host` is where the app answers."""
    template = {
        "outputs": sorted(declared(MAIN, "output")),
        "records": record_names(),
        "roles": {"auditRole": role_names("roleName"), "enforceRole": role_names("enforceRoleName")},
        "groupRoles": {"auditRole": role_names("roleName", GROUP), "enforceRole": role_names("enforceRoleName", GROUP)},
    }
    lists: dict[str, Any] = {key: [] for key in ("roles", "assignments", "kept", "gone", "trusts", "refused")}
    tenants = {SUBSCRIPTION: "contoso", ANOTHER: "contoso", OF_ANOTHER_TENANT: "fabrikam"}
    places = {id_: {"records": {}, "providers": [], "tenantId": whose} for id_, whose in tenants.items()}
    where = {"home": str(home), "host": host, "subscriptions": places, "current": ANOTHER}
    management: dict[str, Any] = {"/providers/Microsoft.Management/managementGroups/ml-platform": {}}
    return {**lists, **where, "management": management, "groups": {}, "records": {}, "identities": 0, "template": template}


def answer_of(tenant: dict[str, Any], incoming: Incoming) -> Reply:
    """What the simulated CLI says to the words of a command, which end with a NUL each."""
    try:
        output = az.main(incoming.body.decode().split("\0")[:-1], tenant)
    except az.Refused:
        return Reply(status=400)
    return Reply(body=f"{output}\n".encode() if output else b"")


@pytest.fixture
def newcomer(tmp_path: Path, cloned: Path) -> Iterator[Newcomer]:
    home, tools, posted = tmp_path / "home", tmp_path / "tools", []
    shutil.copytree(cloned, home)
    tools.mkdir()
    ca, context = authority.issue(tmp_path)

    def app(incoming: Incoming) -> Reply:
        posted.append(incoming)
        return Reply(body=b'{"schema": 1}')

    site = Listener(app, context)
    tenant = empty_tenant(home, site.url.removeprefix("https://"))
    cli = Listener(lambda incoming: answer_of(tenant, incoming))
    (tools / "az").write_text(AZ.format(url=cli.url))
    (tools / "az").chmod(0o755)
    env = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "HOME": str(home), "CURL_CA_BUNDLE": str(ca), "LC_ALL": "C.UTF-8"}
    yield Newcomer(home, env, tenant, posted)
    site.stop()
    cli.stop()


def test_a_newcomer_gets_from_signing_in_to_the_first_sweep(newcomer: Newcomer) -> None:
    newcomer.values()
    output = newcomer.run(SIGN_IN, DEPLOY, PUBLISH, TIMER, ANOTHERS_METRICS, PREVIEW, SWEEP, ASK)
    tenant = newcomer.tenant
    assert tenant["refused"] == []
    assert tenant["groups"]["rg-ml-reaper"]["published"] is True
    assert [a["scope"] for a in tenant["assignments"]] == [f"/subscriptions/{SUBSCRIPTION}"]
    assert tenant["subscriptions"][ANOTHER]["providers"] == ["Microsoft.Insights"]
    calls = [(p.method, p.path, p.body and json.loads(p.body), p.headers["x-functions-key"]) for p in newcomer.posted]
    assert calls == [
        ("POST", "/admin/functions/sweep_on_schedule", {}, "master-key"),
        ("POST", "/api/sweep", {"mode": "audit"}, "function-key"),
        ("GET", "/api/sweep/0123456789ab", b"", "function-key"),
    ]
    assert {p.headers["content-type"] for p in newcomer.posted if p.body} == {"application/json"}
    assert output.endswith('{"schema": 1}\n200\n'), "the status is told without an option that is new"


def test_a_copied_parameter_file_without_an_address_deploys_nothing(newcomer: Newcomer) -> None:
    newcomer.run(SIGN_IN, VALUES)
    newcomer.run(DEPLOY)
    [refusal] = newcomer.tenant["refused"]
    assert "'admins: " in refusal
    assert newcomer.leftovers() == {}


def deployed(newcomer: Newcomer) -> dict[str, Any]:
    """What the record of the last deployment says of its parameters."""
    return dict(json.loads(newcomer.run(RECORDED)))


@pytest.mark.parametrize("command", [DEPLOY, PREVIEW], ids=["deploy", "what-if"])
def test_a_fresh_clone_says_that_ones_own_values_are_missing(newcomer: Newcomer, command: str) -> None:
    installed(newcomer)
    newcomer.values().unlink()
    before, mode = newcomer.leftovers(), deployed(newcomer)["mode"]
    completed = newcomer.shell("sh", "-c", f"{NAMES}\n{command}")
    assert (completed.returncode, newcomer.tenant["refused"]) == (1, [])
    assert "infra/ml-reaper.bicepparam is missing, so nothing is deployed" in completed.stderr
    assert (newcomer.leftovers(), deployed(newcomer)["mode"]) == (before, mode)
    assert mode == {"value": "'enforce'"}


def test_a_fresh_clone_gets_no_default_values_for_an_installation(newcomer: Newcomer) -> None:
    installed(newcomer)
    newcomer.values().unlink()
    completed = newcomer.shell("sh", "-c", f"{NAMES}\n{VALUES}\n{DEPLOY}")
    assert "rg-ml-reaper may exist already" in completed.stderr
    assert not (newcomer.home / "infra/ml-reaper.bicepparam").exists()
    assert deployed(newcomer)["mode"] == {"value": "'enforce'"}


def test_ones_own_values_are_kept_when_the_example_is_copied_again(newcomer: Newcomer) -> None:
    newcomer.parameters("param mode = 'notify'")
    before = newcomer.values().read_text()
    newcomer.run(VALUES)
    assert newcomer.values().read_text() == before


def test_git_sees_the_example_and_never_ones_own_values(newcomer: Newcomer) -> None:
    newcomer.values()
    newcomer.values("ml-reaper-dev")
    assert newcomer.shell("git", "status", "--porcelain").stdout == ""
    assert newcomer.shell("git", "ls-files", "infra/*.bicepparam").stdout == "infra/example.bicepparam\n"


IN_ENFORCE = ("param mode = 'enforce'", f"param subscriptions = [ '{SUBSCRIPTION}', '{ANOTHER}' ]")


def installed(newcomer: Newcomer, name: str = "ml-reaper") -> None:
    """In mode enforce, over both subscriptions."""
    newcomer.parameters(*IN_ENFORCE, f"param endpointIdentities = [ '{ENDPOINT}' ]", name=name)
    newcomer.run(f"az account set --subscription {SUBSCRIPTION}", DEPLOY, PUBLISH, name=name)
    assert newcomer.tenant["refused"] == []


def give_a_role(newcomer: Newcomer, scope: str) -> None:
    """A role on something of the admins' own, such as a vault, given to the app's identity by hand."""
    rest = "--assignee-principal-type ServicePrincipal --role Reader"
    newcomer.run(f'az role assignment create --assignee-object-id "$(output principalId)" {rest} --scope "{scope}"')


def test_the_clean_exit_leaves_nothing_behind(newcomer: Newcomer) -> None:
    installed(newcomer)
    give_a_role(newcomer, f"/subscriptions/{ANOTHER}/resourceGroups/rg-keys/providers/Microsoft.KeyVault/vaults/v")
    assert len(newcomer.tenant["assignments"]) == 6
    newcomer.run(LIFT)
    output = newcomer.run(REMOVE, 'echo "looking"', LOOK, FORGET, FORGET_ENDPOINT)
    assert newcomer.tenant["refused"] == []
    assert newcomer.leftovers() == {}
    assert output.partition("looking\n")[2] == ""


def test_what_is_left_is_shown_by_the_look_back(newcomer: Newcomer) -> None:
    installed(newcomer)
    output = newcomer.run(WHOSE, LOOK)
    assert {line.split("\t")[0] for line in output.splitlines()} == {
        "reaper-audit",
        "reaper-enforce",
        "Managed Identity Operator",
    }


IN_GROUP = "/providers/Microsoft.Management/managementGroups/ml-platform"


@pytest.mark.parametrize(("mode", "roles"), [("audit", ["audit"]), ("enforce", ["audit", "enforce"])])
def test_a_management_group_gets_the_roles_and_loses_them(newcomer: Newcomer, mode: str, roles: list[str]) -> None:
    newcomer.parameters(f"param mode = '{mode}'", "param managementGroup = 'ml-platform'")
    newcomer.run(f"az account set --subscription {SUBSCRIPTION}", DEPLOY, PUBLISH)
    assert newcomer.grants() == []
    newcomer.run(f"az account set --subscription {SUBSCRIPTION}", ROLES_OF_GROUP.replace("mode=audit", f"mode={mode}"))
    mine = newcomer.tenant["groups"]["rg-ml-reaper"]["principal"]
    assert newcomer.grants() == [(mine, f"reaper-group-{role}", IN_GROUP) for role in roles]
    newcomer.run(LIFT if mode == "enforce" else "", DROP_GROUP, REMOVE, LOOK, FORGET)
    assert newcomer.tenant["refused"] == []
    assert newcomer.leftovers() == {}


def test_others_keep_their_roles_at_a_management_group(newcomer: Newcomer) -> None:
    newcomer.parameters("param managementGroup = 'ml-platform'")
    newcomer.run(f"az account set --subscription {SUBSCRIPTION}", DEPLOY, ROLES_OF_GROUP)
    newcomer.tenant["assignments"].append(az._assignment("the-owner", "Owner", IN_GROUP))
    newcomer.run(DROP_GROUP)
    assert newcomer.grants() == [("the-owner", "Owner", IN_GROUP)]


def test_immutable_manifests_keep_the_group_until_they_are_lifted(newcomer: Newcomer) -> None:
    installed(newcomer)
    newcomer.run(REMOVE)
    [refusal] = newcomer.refusals()
    assert "immutability policy" in refusal
    assert list(newcomer.tenant["groups"]) == ["rg-ml-reaper"]
    newcomer.run(LIFT, REMOVE)
    assert newcomer.tenant["groups"] == {}, "the same commands again end what was begun"


def test_leaving_enforce_takes_the_right_to_act_and_no_other(newcomer: Newcomer) -> None:
    installed(newcomer)
    output = newcomer.run(LEAVE_ENFORCE)
    assert [role["roleName"] for role in newcomer.tenant["roles"]] == ["reaper-audit"]
    assert {a["roleDefinitionName"] for a in newcomer.tenant["assignments"]} == {"reaper-audit"}
    assert output.splitlines() == [f"reaper-audit\t/subscriptions/{id_}" for id_ in (SUBSCRIPTION, ANOTHER)]


def test_a_second_installation_comes_and_goes_beside_the_first(newcomer: Newcomer) -> None:
    installed(newcomer)
    before = newcomer.leftovers()
    installed(newcomer, "ml-reaper-dev")
    names = {role["roleName"] for role in newcomer.tenant["roles"]}
    assert names == {"reaper-audit", "reaper-enforce", "ml-reaper-dev-audit", "ml-reaper-dev-enforce"}
    newcomer.run(LIFT, REMOVE, LOOK, FORGET, FORGET_ENDPOINT, name="ml-reaper-dev")
    assert newcomer.tenant["refused"] == []
    assert newcomer.leftovers() == before


def others(newcomer: Newcomer) -> list[tuple[str, str, str]]:
    """Gives roles to people who have nothing to do with it, in both subscriptions, and a custom role. What they have then."""
    for who, scope in (("the-owner", SUBSCRIPTION), ("the-auditor", ANOTHER)):
        newcomer.tenant["assignments"].append(az._assignment(who, "Owner", f"/subscriptions/{scope}"))
    scopes = [f"/subscriptions/{id_}" for id_ in (SUBSCRIPTION, ANOTHER)]
    newcomer.tenant["roles"].append({"roleName": "somebody's", "assignableScopes": scopes})
    return newcomer.grants()


TAKES_RIGHTS = {
    "uninstall": f"{REMOVE}\n{LOOK}\n{FORGET}",
    "only the deletion": DELETE,
    "leave enforce": LEAVE_ENFORCE,
    "drop": DROP,
    "drop a management group": DROP_GROUP,
    "drop an endpoint": DROP_ENDPOINT,
    "orphans": ORPHANS,
}


@pytest.mark.parametrize("block", TAKES_RIGHTS)
@pytest.mark.parametrize(
    "before", ["", NAMES, f"{NAMES}\naz account set --subscription {ANOTHER}"], ids=["bare", "new", "elsewhere"]
)
def test_nothing_is_taken_from_anybody_where_a_name_is_empty(newcomer: Newcomer, block: str, before: str) -> None:
    if "account set" in before:
        installed(newcomer)
    had = others(newcomer)
    newcomer.paste(before, TAKES_RIGHTS[block])
    assert [grant for grant in had if grant[0].startswith("the-")] == [g for g in newcomer.grants() if g[0].startswith("the-")]
    assert "somebody's" in [role["roleName"] for role in newcomer.tenant["roles"]]


@pytest.mark.parametrize("empty", ["principal", "reads", "acts"])
def test_an_uninstallation_without_a_name_deletes_nothing_at_all(newcomer: Newcomer, empty: str) -> None:
    installed(newcomer)
    newcomer.run(LIFT)
    others(newcomer)
    before = newcomer.leftovers()
    assert empty in newcomer.paste(NAMES, WHOSE, f"{empty}=", DELETE)
    assert newcomer.leftovers() == before


def only(newcomer: Newcomer, *subscriptions: str) -> None:
    """Leaves just these in the parameter file."""
    listed = ", ".join(f"'{id_}'" for id_ in subscriptions)
    newcomer.parameters(f"param subscriptions = [ {listed} ]")


def test_a_subscription_with_roles_left_in_it_stops_the_deployment(newcomer: Newcomer) -> None:
    installed(newcomer)
    only(newcomer, SUBSCRIPTION)
    newcomer.run(DEPLOY)
    [refusal] = newcomer.tenant["refused"]
    assert "RoleScopeBeingRemovedContainsAssignments" in refusal
    assert "RoleScopeBeingRemovedContainsAssignments" in GUIDE.read_text()


def test_a_dropped_subscription_is_out_of_the_identitys_reach(newcomer: Newcomer) -> None:
    installed(newcomer)
    had = others(newcomer)
    newcomer.run(DROP, DROP_ENDPOINT)
    only(newcomer, SUBSCRIPTION)
    newcomer.parameters("param endpointIdentities = []")
    newcomer.run(DEPLOY)
    assert newcomer.tenant["refused"] == []
    mine = newcomer.tenant["groups"]["rg-ml-reaper"]["principal"]
    assert newcomer.grants() == [grant for grant in had if not (grant[0] == mine and ANOTHER in grant[2])]


def test_after_a_failed_deployment_the_commands_still_work(newcomer: Newcomer) -> None:
    installed(newcomer)
    only(newcomer, SUBSCRIPTION)
    newcomer.run(DEPLOY)
    newcomer.refusals()
    assert newcomer.tenant["subscriptions"][SUBSCRIPTION]["records"]["ml-reaper"]["outputs"] is None
    newcomer.run(PUBLISH, LIFT, REMOVE, LOOK, FORGET, FORGET_ENDPOINT)
    assert newcomer.leftovers() == {}


def test_roles_of_an_identity_that_is_gone_do_not_stop_the_next(newcomer: Newcomer) -> None:
    installed(newcomer)
    newcomer.run(LIFT, 'az group delete --yes --name "$group"')
    had = others(newcomer)
    only(newcomer, SUBSCRIPTION)
    newcomer.run(ORPHANS, DEPLOY)
    assert newcomer.tenant["refused"] == []
    mine = newcomer.tenant["groups"]["rg-ml-reaper"]["principal"]
    custom = {grant for grant in newcomer.grants() if grant[1] in ("reaper-audit", "reaper-enforce")}
    assert custom == {(mine, role, f"/subscriptions/{SUBSCRIPTION}") for role in ("reaper-audit", "reaper-enforce")}
    assert {grant for grant in had if grant[1] == "Owner"} <= set(newcomer.grants())


def test_an_identity_that_is_there_keeps_its_roles_when_orphans_go(newcomer: Newcomer) -> None:
    installed(newcomer)
    had = others(newcomer)
    newcomer.run(ORPHANS)
    assert newcomer.grants() == had


def test_the_kept_outputs_are_those_of_the_deployment() -> None:
    values = properties(properties(properties(value(declared(MAIN, "module")["kept"]))["params"])["values"])
    outputs = {name: text(value(node)) for name, node in declared(MAIN, "output").items()}
    assert {name: text(node) for name, node in values.items()} == outputs


def test_the_outputs_are_kept_after_all_else_went_through() -> None:
    modules = set(declared(MAIN, "module"))
    last = text(properties(value(declared(MAIN, "module")["kept"]))["dependsOn"])
    output_text = " ".join(text(value(node)) for node in declared(MAIN, "output").values())
    direct = {name for name in modules if re.search(rf"\b{name}\b", last) or re.search(rf"\b{name}!?\.outputs", output_text)}
    assert modules - direct == {"kept", "durable", "host", "monitoring"}, "on which the app depends"


def test_after_a_clean_exit_it_can_be_deployed_in_another_region(newcomer: Newcomer) -> None:
    newcomer.values()
    newcomer.run(SIGN_IN, DEPLOY, REMOVE, FORGET)
    newcomer.run(SIGN_IN, DEPLOY.replace("westeurope", "northeurope"))
    assert newcomer.tenant["refused"] == []
    assert list(newcomer.tenant["groups"]) == ["rg-ml-reaper"]


def test_the_record_of_a_deployment_binds_its_name_to_the_region(newcomer: Newcomer) -> None:
    newcomer.values()
    newcomer.run(SIGN_IN, DEPLOY)
    newcomer.run(SIGN_IN, DEPLOY.replace("westeurope", "northeurope"))
    [refusal] = newcomer.tenant["refused"]
    assert "InvalidDeploymentLocation" in refusal
    assert "InvalidDeploymentLocation" in GUIDE.read_text()


def workflow() -> dict[str, Any]:
    """The pipeline that the guide shows."""
    [shown] = [block for block in re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.S) if "azure/login" in block]
    return dict(yaml.safe_load(shown))


def test_a_pipeline_deploys_without_a_question_or_a_password(newcomer: Newcomer) -> None:
    job = workflow()["jobs"]["deploy"]
    [script] = [step["run"] for step in job["steps"] if "run" in step]
    newcomer.values()
    newcomer.run("az login", f"az account set --subscription {SUBSCRIPTION}", script)
    assert newcomer.tenant["refused"] == []
    assert newcomer.tenant["groups"]["rg-ml-reaper"]["published"] is True
    [login] = [step["with"] for step in job["steps"] if "login" in step.get("uses", "")]
    assert set(login) == {"client-id", "tenant-id", "subscription-id"}, "no secret among them"
    assert workflow()["permissions"] == {"contents": "read", "id-token": "write"}
    assert job["env"]["reaper"] == "ml-reaper"


def test_the_pipeline_signs_in_from_one_environment_only(newcomer: Newcomer) -> None:
    newcomer.run(PIPELINE)
    [trust] = newcomer.tenant["trusts"]
    assert trust["subject"].endswith(f":environment:{workflow()['jobs']['deploy']['environment']}")
    assert (trust["issuer"], trust["audiences"]) == (
        "https://token.actions.githubusercontent.com",
        ["api://AzureADTokenExchange"],
    )
    assignments = {(a["roleDefinitionName"], a["scope"].rpartition("/")[2]) for a in newcomer.tenant["assignments"]}
    assert assignments == {
        (role, id_) for role in ("Contributor", "User Access Administrator") for id_ in (SUBSCRIPTION, ANOTHER)
    }
    assert {a["principalId"] for a in newcomer.tenant["assignments"]} == {"principal-of-app-of-ml-reaper-deploy"}


def test_every_command_in_a_sentence_of_the_guide_is_one_that_az_has() -> None:
    commands = re.findall(r"`(az [^`]+)`", re.sub(r"^```.*?^```", "", PAGES, flags=re.M | re.S))
    assert len(commands) > 3
    for command in commands:
        az.parse(shlex.split(command)[1:])


def test_the_pretend_cli_refuses_what_the_real_one_does() -> None:
    for words in (["group", "drop"], ["group", "delete", "--nmae", "x"], ["group", "delete", "--name"]):
        with pytest.raises(az.Refused):
            az.parse(words)


def test_the_pretend_cli_knows_no_command_that_the_guide_does_not_use() -> None:
    guide = re.sub(r"\s+", " ", PAGES)
    assert [command for command in az.OPTIONS if f"az {command}" not in guide] == []


def test_the_guide_asks_nothing_of_curl_that_an_old_one_lacks() -> None:
    calls = [line for _, block in BLOCKS for line in block.splitlines() if line.startswith("curl ")]
    assert len(calls) == 3
    assert {word for line in calls for word in shlex.split(line) if word.startswith("--")} <= OLD_CURL
