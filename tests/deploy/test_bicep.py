"""The Azure deployment: syntax, what is switched off, what may be read, and that settings, parameters and docs agree.

Types and names of Azure's own properties are not checked here: that takes the Bicep compiler (`az bicep build`).
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from string import ascii_lowercase, digits

import pytest

from deploy.bicep import (
    FILES,
    INFRA,
    MAIN,
    ROOT,
    at,
    declared,
    decorators,
    faults,
    properties,
    resource_type,
    strings,
    text,
    tree,
    value,
    walk,
)
from reaper import registry
from reaper.model import Mode
from reaper.settings import SETTING_DOCS

APP, ROLE, ALERTS = INFRA / "modules/app.bicep", INFRA / "modules/role.bicep", INFRA / "modules/alerts.bicep"
ENFORCE = INFRA / "modules/enforce.bicep"
GROUP = INFRA / "management-group.bicep"
EXAMPLE = INFRA / "example.bicepparam"
HOST = INFRA / "modules/host.bicep"
MONITORING, STORAGE, MAIL = INFRA / "modules/monitoring.bicep", INFRA / "modules/storage.bicep", INFRA / "modules/mail.bicep"
PUBLISHING = "basicPublishingCredentialsPolicies"
AT_A_SUBSCRIPTION = [
    (path, name) for path in FILES for name, node in declared(path, "module").items() if "scope: subscription(" in text(node)
]
ASSIGN = "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action"
"""Not in a role of ours: a built-in one that has it is given on each named identity."""
AZURE = ROOT / "functions/reaper/azure"
GUIDE = ROOT / "docs/deploy-azure.md"
SECRET = re.compile(
    r"\blist\w*\(|connectionstring|instrumentationkey|accountkey|primarykey|secondarykey|password|secret|\bkeys\b", re.I
)


def actions(role: Path = ROLE) -> list[str]:
    """What the custom role allows."""
    return strings(declared(role, "variable")["actions"])


def settings() -> set[str]:
    """The names of the product's settings that the deployment sets."""
    return set(re.findall(r"\bREAPER_[A-Z_]+(?=:)", MAIN.read_text()))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_file_parses(path: Path) -> None:
    assert faults(path) == []


def test_every_module_file_is_used_and_every_used_file_is_there() -> None:
    used = {(path.parent / resource_type(m)).resolve() for path in FILES for m in declared(path, "module").values()}
    assert used == {path.resolve() for path in FILES} - {MAIN.resolve(), GROUP.resolve()}


@pytest.mark.parametrize(("path", "name"), [(path, name) for path in FILES for name in declared(path, "module")])
def test_a_module_is_passed_every_required_parameter_and_no_unknown_one(path: Path, name: str) -> None:
    module = declared(path, "module")[name]
    wanted = declared(path.parent / resource_type(module), "parameter")
    passed = set(properties(properties(value(module))["params"]))
    assert passed <= set(wanted)
    assert {n for n, node in wanted.items() if value(node) is None} <= passed


def test_every_used_output_of_a_module_exists() -> None:
    for name, module in declared(MAIN, "module").items():
        offered = set(declared(MAIN.parent / resource_type(module), "output"))
        assert set(re.findall(rf"\b{name}\.outputs\.(\w+)", MAIN.read_text())) <= offered, name


def test_the_parameter_file_has_every_required_parameter_and_no_other() -> None:
    lines = EXAMPLE.read_text().splitlines()
    assigned = {line.split()[1] for line in lines if line.startswith("param ")}
    shown = {line.split()[2] for line in lines if line.startswith("// param ")}
    wanted = declared(MAIN, "parameter")
    assert assigned | shown <= set(wanted)
    assert {n for n, node in wanted.items() if value(node) is None} <= assigned


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_no_output_carries_a_secret(path: Path) -> None:
    assert [name for name, node in declared(path, "output").items() if SECRET.search(text(node))] == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_nothing_asks_azure_for_a_key(path: Path) -> None:
    assert re.findall(r"\blist(?:Keys|Secrets|\w*Sas|AccountSas|ConnectionStrings)?\(", path.read_text(), re.I) == []


def test_the_only_connection_string_is_that_of_application_insights() -> None:
    lines = [line.strip() for path in FILES for line in path.read_text().splitlines() if "connectionstring" in line.lower()]
    assert lines == ["APPLICATIONINSIGHTS_CONNECTION_STRING: insights.properties.ConnectionString"]
    assert at(MONITORING, "insights", "properties.DisableLocalAuth") == "true"
    assert "APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${identityClientId};Authorization=AAD'" in APP.read_text()


def test_the_host_signs_in_to_its_storage_with_the_identity() -> None:
    names = set(re.findall(r"\bAzureWebJobsStorage\w*", APP.read_text()))
    assert names == {f"AzureWebJobsStorage__{part}" for part in ("blobServiceUri", "clientId", "credential")}


@pytest.mark.parametrize(
    ("path", "resource", "keys", "expected"),
    [
        pytest.param(APP, "app", "properties.httpsOnly", "true", id="the app answers over HTTPS only"),
        pytest.param(APP, "app", "properties.siteConfig.minTlsVersion", "'1.2'", id="the app takes TLS 1.2 and up"),
        pytest.param(APP, "app", "properties.siteConfig.scmMinTlsVersion", "'1.2'", id="so does its deployment site"),
        pytest.param(APP, "app", "identity.type", "'UserAssigned'", id="the app has the one identity"),
        pytest.param(APP, "noFtpPassword", "properties.allow", "false", id="no password sign-in for FTP"),
        pytest.param(APP, "noScmPassword", "properties.allow", "false", id="no password sign-in for the deployment site"),
        pytest.param(STORAGE, "account", "properties.allowSharedKeyAccess", "false", id="no account keys"),
        pytest.param(STORAGE, "account", "properties.allowBlobPublicAccess", "false", id="no public blobs"),
        pytest.param(STORAGE, "account", "properties.supportsHttpsTrafficOnly", "true", id="storage over HTTPS only"),
        pytest.param(STORAGE, "account", "properties.minimumTlsVersion", "'TLS1_2'", id="storage takes TLS 1.2 and up"),
        pytest.param(STORAGE, "account", "properties.allowCrossTenantReplication", "false", id="no copies to other tenants"),
        pytest.param(HOST, "account", "properties.allowSharedKeyAccess", "false", id="no keys of the host's account"),
        pytest.param(HOST, "account", "properties.allowBlobPublicAccess", "false", id="no public blobs in the host's"),
        pytest.param(HOST, "account", "properties.supportsHttpsTrafficOnly", "true", id="the host's over HTTPS only"),
        pytest.param(HOST, "account", "properties.minimumTlsVersion", "'TLS1_2'", id="the host's takes TLS 1.2 and up"),
        pytest.param(HOST, "account", "properties.allowCrossTenantReplication", "false", id="no copies of the host's"),
        pytest.param(MONITORING, "workspace", "properties.features.disableLocalAuth", "true", id="no workspace keys"),
        pytest.param(MAIL, "service", "properties.disableLocalAuth", "true", id="no e-mail keys"),
    ],
)
def test_what_must_be_off_is_off(path: Path, resource: str, keys: str, expected: str) -> None:
    assert at(path, resource, keys) == expected


def test_ftp_is_closed_by_policy_because_flex_refuses_ftps_state() -> None:
    doors = [name for name, node in declared(APP, "resource").items() if resource_type(node).endswith(PUBLISHING)]
    assert [at(APP, door, "name") for door in doors] == ["'ftp'", "'scm'"]
    assert at(APP, "noScmPassword", "dependsOn") == "[ noFtpPassword ]"
    assert at(APP, "app", "properties.siteConfig.ftpsState") == ""


def test_no_loop_hides_the_name_of_a_publishing_policy() -> None:
    assert [line for line in APP.read_text().splitlines() if PUBLISHING in line and "[for " in line] == []


@pytest.mark.parametrize(("path", "name"), AT_A_SUBSCRIPTION)
def test_a_deployment_at_a_subscription_is_named_for_where_and_whose_it_is(path: Path, name: str) -> None:
    named = text(properties(value(declared(path, "module")[name]))["name"])
    for variable, node in reversed(declared(path, "variable").items()):
        named = re.sub(rf"\b{variable}\b", text(value(node)).replace("\\", ""), named)
    assert "deployment().location" in named
    assert "resourceGroupName" in named or "principalId" in named


def test_the_deployments_at_a_subscription_are_the_ones_that_give_rights() -> None:
    assert {(path.name, name) for path, name in AT_A_SUBSCRIPTION} == {
        ("main.bicep", "role"),
        ("main.bicep", "access"),
        ("main.bicep", "enforce"),
        ("enforce.bicep", "access"),
    }


def test_a_name_that_a_workspace_cannot_have_is_refused_by_the_group_name() -> None:
    assert text(decorators(MAIN, "name")["minLength"]) == "minLength(4)"
    assert at(MAIN, "group", "name") == "groupName"
    variables = {name: text(value(node)) for name, node in declared(MAIN, "variable").items()}
    assert f"'{ascii_lowercase}{digits}-'" in variables["strange"]
    assert variables["fits"] == "empty(strange) && !startsWith(name, '-') && !endsWith(name, '-')"
    assert variables["groupName"] == "{ fits: resourceGroupName }[fits && empty(odd) ? 'fits' : complaint]"
    assert variables["complaint"].endswith(" : '${name}: letters, digits and inner hyphens only'")


def test_an_admin_without_an_address_is_refused_before_anything_is_made() -> None:
    """So is a parameter file that still has the example's placeholder."""
    variables = {name: text(value(node)) for name, node in declared(MAIN, "variable").items()}
    assert variables["odd"] == "filter(admins, address => !contains(address, '@') || contains(address, ' '))"
    assert "empty(odd)" in variables["groupName"]
    assert variables["complaint"].startswith("fits ? 'admins: write your email addresses in the parameter file, ")


def test_the_audit_role_only_reads_and_names_every_action_in_full() -> None:
    assert actions()
    assert [a for a in actions() if not a.endswith("/read") or "*" in a] == []
    assert actions() == sorted(set(actions()), key=str.lower)


def test_the_audit_role_allows_exactly_what_the_azure_kinds_declare() -> None:
    kinds = registry.kinds("azure")
    if not kinds:
        pytest.skip("there is no Azure kind yet")
    assert set(actions()) == {action for kind in kinds for action in kind.permissions}


def test_the_enforce_role_allows_exactly_what_actions_need_beyond_reading() -> None:
    needed = {action for kind in registry.kinds("azure") for deed in kind.actions.values() for action in deed.permissions}
    assert set(actions(ENFORCE)) == needed - set(actions()) - {ASSIGN}
    assert actions(ENFORCE) == sorted(set(actions(ENFORCE)), key=str.lower)
    assert [a for a in actions(ENFORCE) if "*" in a] == []


def test_only_named_identities_may_be_assigned_and_only_in_enforce() -> None:
    """Anyone who may assign an identity to an endpoint can run code as it, so the right never holds in a whole subscription."""
    assert [word for path in FILES for word in strings(tree(path)) if "userassignedidentities/" in word.lower()] == []
    module = text(declared(MAIN, "module")["assign"])
    assert "[for id in endpointIdentities: if (mode == 'enforce') {" in module
    assert "scope: resourceGroup(split(id, '/')[2], split(id, '/')[4])" in module
    assert "identityName: last(split(id, '/'))" in module
    assert text(value(declared(MAIN, "parameter")["endpointIdentities"])) == "[]"
    assert [path.name for path in FILES if "'modules/assign.bicep'" in path.read_text()] == ["main.bicep"]


def set_by_the_deployment() -> set[str]:
    """The names of all settings that the deployment makes itself, in lower case."""
    call = value(declared(APP, "resource")["appsettings"])
    host = properties(properties(call)["properties"])
    passed = properties(properties(value(declared(MAIN, "module")["app"]))["params"])
    return {name.lower() for name in {*host, *properties(passed["settings"])}}


def test_a_setting_of_ones_own_outlives_every_deployment() -> None:
    passed = properties(properties(value(declared(MAIN, "module")["app"]))["params"])
    assert text(passed["extraSettings"]) == "further"
    assert at(APP, "appsettings", "properties").startswith("union(extraSettings, settings, {"), (
        "the last one wins: the deployment's own"
    )


def test_a_setting_that_has_a_parameter_is_refused_among_ones_own() -> None:
    variables = {name: text(value(node)) for name, node in declared(MAIN, "variable").items()}
    assert set(strings(value(declared(MAIN, "variable")["own"]))) == set_by_the_deployment()
    assert variables["twice"] == "filter(objectKeys(extraSettings), key => contains(own, toLower(key)))"
    assert variables["further"].startswith(
        "{ free: extraSettings }[empty(twice) ? 'free' : 'extraSettings: ${join(twice, ', ')} "
    )


@pytest.mark.parametrize("path", [MAIN, APP], ids=["main", "app"])
def test_the_record_of_a_deployment_does_not_show_settings_of_ones_own(path: Path) -> None:
    assert "secure" in decorators(path, "extraSettings")


def test_a_setting_that_is_a_key_vault_reference_is_read_as_the_identity() -> None:
    assert at(APP, "app", "properties.keyVaultReferenceIdentity") == "identityId", "the app has no system-assigned identity"


def test_nothing_is_deployed_before_the_admins_are_named() -> None:
    assert "param admins = [ 'YOUR_ADDRESS' ]" in EXAMPLE.read_text(), "which main.bicep refuses: it isn't an address"
    assert "@" not in EXAMPLE.read_text()


def test_a_tag_of_the_group_shows_each_value_that_a_deployment_resets() -> None:
    variables = {name: value(node) for name, node in declared(MAIN, "variable").items()}
    shown, others = variables["shown"], variables["others"]
    assert at(MAIN, "group", "tags") == "union(tags, shown)"
    tags = {key: text(node) for key, node in properties(shown).items()}
    assert tags["reaper-values"] == "uniqueString(string(others))"
    assert tags["reaper-settings"].endswith("take(join(objectKeys(extraSettings), ' '), 256)"), "names only: values may be secret"
    named = {text(node) for part in (shown, others) for node in walk(part) if node.type == "identifier"}
    unseen = {"location", "name", "resourceGroupName", "tags"}
    assert set(declared(MAIN, "parameter")) - named == unseen, "which the group itself shows"


@pytest.mark.parametrize(("parameter", "what"), [("roleName", "audit"), ("enforceRoleName", "enforce")])
def test_a_second_installation_has_roles_of_its_own(parameter: str, what: str) -> None:
    default = text(value(declared(MAIN, "parameter")[parameter]))
    assert default == f"name == 'ml-reaper' ? 'reaper-{what}' : '${{name}}-{what}'"


def test_the_enforce_role_deletes_only_what_a_manifest_brings_back() -> None:
    deleting = [a for a in actions(ENFORCE) if "delete" in a.lower()]
    assert deleting == ["Microsoft.MachineLearningServices/workspaces/onlineEndpoints/deployments/delete"]


def test_what_can_act_is_deployed_in_mode_enforce_and_in_no_other() -> None:
    module = text(declared(MAIN, "module")["enforce"])
    assert re.search(r"'modules/enforce\.bicep' = if \(mode == 'enforce' && empty\(managementGroup\)\) \{", module)
    assert "acts: mode == 'enforce'" in MAIN.read_text()
    assert [path.name for path in FILES if "'modules/enforce.bicep'" in path.read_text()] == ["main.bicep"]


def test_only_enforce_deploys_the_manifests_and_audit_not_even_the_ledger() -> None:
    passed = properties(properties(value(declared(MAIN, "module")["storage"]))["params"])
    assert text(passed["remember"]) == "remember || mode != 'audit'"
    assert [mode.value for mode in Mode if not mode.writes] == ["audit"]
    assert text(passed["acts"]) == "mode == 'enforce'"
    assert [mode.value for mode in Mode if mode.acts] == ["enforce"]


EXPIRING = {
    place for some in re.findall(r"prefixMatch: \[ (.*?) \]", STORAGE.read_text()) for place in re.findall(r"'(.*?)'", some)
}
"""Where blobs expire."""


def test_what_undoing_takes_is_kept_apart_and_never_expires() -> None:
    assert text(declared(STORAGE, "resource")["manifests"]).partition("{")[0].endswith("= if (acts) ")
    assert at(STORAGE, "manifests", "properties.publicAccess") == "'None'"
    assert {"${reports.name}/", "${runs.name}/"} == EXPIRING


GRANTS = {
    "access.bicep assignment": ("roleId", "the subscription"),
    "assign.bicep assign": ("identityOperator", "identity"),
    "durable.bicep histories": ("tableDataContributor", "account"),
    "durable.bicep leases": ("blobDataContributor", "account"),
    "durable.bicep messages": ("queueDataContributor", "account"),
    "host.bicep hostAccess": ("blobDataOwner", "account"),
    "mail.bicep send": ("mailOwner", "service"),
    "management-group.bicep access": ("role.id", "the management group"),
    "management-group.bicep enforceAccess": ("enforceRole.id", "the management group"),
    "monitoring.bicep publish": ("metricsPublisher", "insights"),
    "storage.bicep ledgerAccess": ("tableDataContributor", "ledger"),
    "storage.bicep manifestsWritten": ("blobDataContributor", "manifests"),
    "storage.bicep reportAccess": ("blobDataReader", "reports"),
    "storage.bicep reportsWritten": ("blobDataContributor", "reports"),
    "storage.bicep runsWritten": ("blobDataContributor", "runs"),
}
"""Every role that is given, and on what. Adding or widening one means changing this on purpose."""
BUILT_IN = {
    "blobDataContributor": "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    "blobDataOwner": "b7e6dc6d-f1e8-4753-8033-0f276bb0955b",
    "blobDataReader": "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1",
    "identityOperator": "f1a07417-d97a-45cb-824c-7a7467783830",
    "mailOwner": "09976791-48a7-449e-bb21-39d1a415f350",
    "metricsPublisher": "3913510d-42f4-4e42-8a64-420c390055eb",
    "queueDataContributor": "974c5e8b-45b9-4653-ba55-5f855dd0fb88",
    "tableDataContributor": "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3",
}


def test_each_role_is_given_on_just_what_it_is_for() -> None:
    grants: dict[str, tuple[str, str]] = {}
    for path in FILES:
        for name, node in declared(path, "resource").items():
            if resource_type(node) == "Microsoft.Authorization/roleAssignments":
                where = at(path, name, "scope") or f"the {'management group' if path == GROUP else 'subscription'}"
                grants[f"{path.name} {name}"] = (at(path, name, "properties.roleDefinitionId"), where)
    assert grants == GRANTS


def test_the_built_in_roles_are_the_ones_their_names_say() -> None:
    roles = {}
    for path in FILES:
        for name, node in declared(path, "variable").items():
            if name in BUILT_IN:
                [roles[name]] = [guid for guid in strings(node) if re.fullmatch(r"[0-9a-f-]{36}", guid)]
    assert roles == BUILT_IN


def test_the_account_that_the_app_owns_holds_nothing_of_the_products() -> None:
    names = {
        at(path, n, "name")
        for path in (HOST,)
        for n in declared(path, "resource")
        if "containers" in text(declared(path, "resource")[n])
    }
    assert names == {"'package'"}
    passed = {
        name: text(properties(properties(value(node))["params"]).get("blobEndpoint", node))
        for name, node in declared(MAIN, "module").items()
    }
    assert passed["app"] == "host.outputs.blobEndpoint"


def test_manifests_are_versioned_and_can_be_put_out_of_everyones_reach() -> None:
    assert at(STORAGE, "blobs", "properties.isVersioningEnabled") == "true"
    policy = declared(STORAGE, "resource")["unchangeable"]
    assert resource_type(policy).endswith("/containers/immutabilityPolicies")
    assert text(policy).partition("{")[0].endswith("= if (acts && manifestImmutabilityDays > 0) ")
    assert at(STORAGE, "unchangeable", "parent") == "manifests"
    assert at(STORAGE, "unchangeable", "properties.immutabilityPeriodSinceCreationInDays") == "manifestImmutabilityDays"
    assert at(STORAGE, "unchangeable", "properties.allowProtectedAppendWrites") == "false"
    assert text(value(declared(MAIN, "parameter")["manifestImmutabilityDays"])) == "0", "off, so that one can leave"


def test_no_immutability_policy_is_ever_locked() -> None:
    lines = [line for path in FILES for line in path.read_text().splitlines() if not line.lstrip().startswith("//")]
    assert [
        line for line in lines if re.search(r"'Locked'|'lock'|Authorization/locks|immutableStorageWithVersioning", line)
    ] == []


def test_versions_of_reports_expire_with_them_and_those_of_manifests_never() -> None:
    assert {"${reports.name}/", "${runs.name}/"} == EXPIRING
    assert "version: { delete: { daysAfterCreationGreaterThan: reportRetentionDays } }" in STORAGE.read_text()


def test_networks_are_refused_once_some_are_named_and_never_the_app_itself() -> None:
    rules = properties(value(declared(STORAGE, "variable")["networks"]))
    assert text(rules["defaultAction"]) == "'Deny'"
    assert text(rules["ipRules"]).startswith("map(allowedAddresses, ")
    assert text(rules["virtualNetworkRules"]).startswith("map(allowedSubnets, ")
    assert at(STORAGE, "account", "properties").endswith("}, closed ? { networkAcls: networks } : {})")
    assert text(value(declared(STORAGE, "variable")["closed"])) == "!empty(allowedAddresses) || !empty(allowedSubnets)"
    variables = {name: text(value(node)) for name, node in declared(MAIN, "variable").items()}
    assert variables["closed"] == "!empty(allowedAddresses) || !empty(allowedSubnets)"
    assert variables["appGetsIn"] == "!closed || !empty(appSubnet)"
    refused = "appSubnet: needed with allowedAddresses or allowedSubnets"
    assert variables["subnets"] == f"{{ in: closed ? union(allowedSubnets, [ appSubnet ]) : [] }}[appGetsIn ? 'in' : '{refused}']"
    passed = {name: properties(properties(value(node))["params"]) for name, node in declared(MAIN, "module").items()}
    assert text(passed["storage"]["allowedSubnets"]) == "subnets"
    assert text(passed["app"]["subnetId"]) == "appSubnet"
    assert at(APP, "app", "properties.virtualNetworkSubnetId") == "empty(subnetId) ? null : subnetId"


@pytest.mark.parametrize("path", [STORAGE, HOST], ids=["the product's account", "the host's account"])
def test_network_rules_made_by_hand_outlive_a_deployment_that_names_none(path: Path) -> None:
    """A deployment writes what it says, and `Allow` with empty lists would open what a person has closed."""
    assert at(path, "account", "properties.networkAcls") == ""
    assert at(path, "account", "properties.publicNetworkAccess") == ""
    rules = re.findall(r"\bnetworkAcls\b|\bdefaultAction: .*|\bpublicNetworkAccess\b", path.read_text())
    assert rules == (["defaultAction: 'Deny'", "networkAcls"] if path == STORAGE else [])


@pytest.mark.parametrize("name", ["allowedAddresses", "allowedSubnets", "appSubnet"])
def test_every_network_gets_in_where_none_is_named(name: str) -> None:
    assert text(value(declared(MAIN, "parameter")[name])) in {"[]", "''"}


def test_role_assignments_name_the_identity_as_what_it_is() -> None:
    for path in FILES:
        for name, node in declared(path, "resource").items():
            if resource_type(node) == "Microsoft.Authorization/roleAssignments":
                expected = "'Group'" if name == "reportAccess" else "'ServicePrincipal'"
                assert at(path, name, "properties.principalType") == expected


def test_a_fresh_installation_only_audits() -> None:
    assert text(value(declared(MAIN, "parameter")["mode"])) == "'audit'"
    assert tuple(strings(decorators(MAIN, "mode")["allowed"])) == tuple(mode.value for mode in Mode)


def test_the_default_schedule_has_six_fields_and_runs_at_least_daily() -> None:
    fields = text(value(declared(MAIN, "parameter")["schedule"])).strip("'").split()
    assert len(fields) == 6
    assert fields[3:] == ["*", "*", "*"]


@pytest.mark.parametrize("rule", ["failed", "silent", "skipped", "deaf", "page"])
def test_every_alert_rule_tells_the_admins(rule: str) -> None:
    assert at(ALERTS, rule, "properties.enabled") == "true"
    assert at(ALERTS, rule, "properties.actions.actionGroups") == "[ people.id ]"
    assert "for (address, index) in recipients" in at(ALERTS, "people", "properties.emailReceivers")


def test_there_is_no_other_alert_rule() -> None:
    rules = [n for n, node in declared(ALERTS, "resource").items() if resource_type(node).endswith("/scheduledQueryRules")]
    assert rules == ["failed", "silent", "skipped", "deaf", "page"]


def test_the_dead_man_calls_when_nothing_is_logged_at_all() -> None:
    """A count without groups has one row even of nothing; with a group there would be no row, and no alert."""
    [query] = [line.strip() for line in at(ALERTS, "silent", "properties.criteria").splitlines() if "query:" in line]
    assert query.endswith("| summarize sweeps = count() | where sweeps == 0'")
    assert "ago(${silentHours}h)" in query
    assert query.startswith("query: '${succeeded} | where ")


def test_only_a_scheduled_sweep_that_succeeded_calms_the_dead_man() -> None:
    query = text(value(declared(ALERTS, "variable")["succeeded"]))
    assert query.startswith("'AppTraces | ")
    [line] = re.findall(r'parse_json\(Message\)\.event\) == "([^"]+)"', query)
    report = ast.parse((AZURE / "functions/report.py").read_text())
    [publish] = [node for node in report.body if isinstance(node, ast.FunctionDef) and node.name == "publish"]
    last = publish.body[-2]
    assert isinstance(last, ast.If), "the last thing it does, after all that can fail"
    assert ast.unparse(last) == f"if scheduled and (not troubles):\n    log_event(logging.INFO, '{line}', run=report.run.id)"
    assert sum(path.read_text().count(line) for path in AZURE.rglob("*.py")) == 1


def test_an_alert_rings_when_the_workspace_takes_in_no_more_logs() -> None:
    [query] = [line.strip() for line in at(ALERTS, "deaf", "properties.criteria").splitlines() if "query:" in line]
    assert query.startswith('query: \'_LogOperation | where Category =~ "Ingestion"')
    assert "OverQuota" in query
    assert at(MONITORING, "workspace", "properties.workspaceCapping") == "{ dailyQuotaGb: dailyCapGb }"


def test_the_dead_man_never_looks_back_further_than_a_rule_can() -> None:
    assert at(ALERTS, "silent", "properties.windowSize") == "'P2D'"
    assert text(decorators(MAIN, "silentHours")["maxValue"]) == "maxValue(48)"


@pytest.mark.parametrize("parameter", ["timerFunction", "runFunction"])
def test_the_alert_rules_ask_for_functions_that_there_are(parameter: str) -> None:
    name = text(value(declared(MAIN, "parameter")[parameter])).strip("'")
    assert re.search(rf"def {name}\(", (AZURE / "functions/triggers.py").read_text())


def test_the_alert_fires_for_every_error_that_the_function_logs() -> None:
    sources = "".join(path.read_text() for path in AZURE.rglob("*.py"))
    [watched] = re.findall(r"parse_json\(Message\)\.event\) in \(([^)]*)\)", ALERTS.read_text())
    logged = set(re.findall(r'logging\.ERROR,\s+"([^"]+)"', sources)) - {"failed"}
    assert set(re.findall(r'"([^"]+)"', watched)) == logged
    union = 'union (${sweeps} and Success == false), (${thrown} in ("${timerFunction}", "${runFunction}")), (${gaps})'
    assert union in ALERTS.read_text()


def logged_lines(path: Path) -> list[str]:
    """What a module gives to `log`, with its constants filled in and a question mark for every other argument."""
    tree = ast.parse(path.read_text())
    constants = {
        ast.unparse(node.targets[0]): node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    }
    calls = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and ast.unparse(n.func.value) == "log"
    ]
    lines = []
    for call in calls:
        template, *values = call.args[1:] if call.func.attr == "log" else call.args
        lines.append(ast.literal_eval(template) % tuple(constants.get(ast.unparse(value), "?") for value in values))
    return lines


def test_an_alert_rings_for_whatever_the_snooze_page_logs_as_an_error() -> None:
    logged = logged_lines(ROOT / "functions/reaper/azure/functions/triggers.py")
    [begins] = re.findall(r'Message startswith "([^"]+)" and SeverityLevel >= 3', at(ALERTS, "page", "properties.criteria"))
    assert logged, "the route logs something"
    assert [line for line in logged if not line.startswith(begins)] == []
    assert '(${thrown} == "${pageFunction}")' in at(ALERTS, "page", "properties.criteria")


def test_the_alert_for_the_snooze_page_is_there_with_the_page() -> None:
    assert text(declared(ALERTS, "resource")["page"]).partition("{")[0].endswith("= if (!empty(pageFunction)) ")
    passed = properties(properties(value(declared(MAIN, "module")["alerts"]))["params"])
    [name] = re.findall(r"^empty\(snoozeKeys\) \? '' : '(\w+)'$", text(passed["pageFunction"]))
    assert f'function_name("{name}")' in (ROOT / "functions/reaper/azure/functions/triggers.py").read_text()


def level(category: str) -> str:
    """The level from which the host logs a category: the longest name in host.json that it begins with."""
    levels = json.loads((ROOT / "host.json").read_text())["logging"]["logLevel"]
    names = [name for name in levels if f"{category}.".startswith(f"{name}.")]
    return str(levels[max(names, key=len, default="default")])


def test_a_stranger_who_calls_the_page_leaves_no_row_in_the_logs() -> None:
    """Those of the host, that is. The app's own lines are metered."""
    assert level("Host.Results") == "Error", "a row for each call"
    assert level("Function.Keep") == "Warning", "two lines for each call"
    assert level("Host.Aggregator") == "Warning", "figures for each thousand calls"


def test_the_host_logs_all_that_the_alert_rules_look_for() -> None:
    assert level("Host.Results") in {"Error", "Information"}, "or a sweep that fails is no row"
    assert level("Function.sweep_on_schedule") == level("Function.sweep_on_schedule.User") == "Information"
    assert level("Function.Keep.User") == "Information"
    assert level("Function.Keep") == "Warning", "or what it throws is no row"
    assert json.loads((ROOT / "host.json").read_text())["logging"]["applicationInsights"]["samplingSettings"] == {
        "isEnabled": False
    }


def test_every_setting_of_the_deployment_is_one_the_product_reads() -> None:
    assert settings() <= set(SETTING_DOCS)


@pytest.mark.parametrize("name", sorted(settings()))
def test_every_setting_is_documented(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs/settings.md").read_text()


@pytest.mark.parametrize("what", ["parameters", "settings", "actions", "outputs"])
def test_the_guide_explains_everything_there_is(what: str) -> None:
    names = {
        "parameters": set(declared(MAIN, "parameter")),
        "settings": settings(),
        "actions": {*actions(), *actions(ENFORCE)},
        "outputs": set(declared(MAIN, "output")),
    }
    words = set(re.findall(r"`([^`\n]+)`", GUIDE.read_text()))
    assert names[what] - words == set()


def test_the_guide_lists_no_parameter_setting_or_action_that_is_gone() -> None:
    guide = GUIDE.read_text()
    table = guide.partition("## Parameters")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.M)) == set(declared(MAIN, "parameter")) | settings()
    audit = guide.partition("### In every audited subscription")[2].partition("\n### ")[0]
    assert set(re.findall(r"^\| `([\w./]+)`", audit, re.M)) == set(actions())
    acting = guide.partition("### On top of that in mode enforce")[2].partition("\n### ")[0]
    assert set(re.findall(r"^\| `([\w./]+)`", acting, re.M)) == set(actions(ENFORCE))


def test_every_module_is_local() -> None:
    assert [m for m in declared(MAIN, "module").values() if not resource_type(m).startswith("modules/")] == []
