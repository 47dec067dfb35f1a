"""The Azure deployment: syntax, what is switched off, what may be read, and that settings, parameters and docs agree.

Types and names of Azure's own properties are not checked here: that takes the Bicep compiler (`az bicep build`).
"""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
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
    value,
)
from reaper import registry
from reaper.model import Mode
from reaper.settings import DOCS

APP, ROLE, ALERTS = INFRA / "modules/app.bicep", INFRA / "modules/role.bicep", INFRA / "modules/alerts.bicep"
ENFORCE = INFRA / "modules/enforce.bicep"
MONITORING, STORAGE, MAIL = INFRA / "modules/monitoring.bicep", INFRA / "modules/storage.bicep", INFRA / "modules/mail.bicep"
PUBLISHING = "basicPublishingCredentialsPolicies"
AT_A_SUBSCRIPTION = [
    (path, name) for path in FILES for name, node in declared(path, "module").items() if "scope: subscription(" in text(node)
]
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
    assert used == {path.resolve() for path in FILES} - {MAIN.resolve()}


@pytest.mark.parametrize(("path", "name"), [(path, name) for path in FILES for name in declared(path, "module")])
def test_a_module_gets_every_parameter_that_has_no_default_and_no_unknown_one(path: Path, name: str) -> None:
    module = declared(path, "module")[name]
    wanted = declared(path.parent / resource_type(module), "parameter")
    passed = set(properties(properties(value(module))["params"]))
    assert passed <= set(wanted)
    assert {n for n, node in wanted.items() if value(node) is None} <= passed


def test_every_used_output_of_a_module_exists() -> None:
    for name, module in declared(MAIN, "module").items():
        offered = set(declared(MAIN.parent / resource_type(module), "output"))
        assert set(re.findall(rf"\b{name}\.outputs\.(\w+)", MAIN.read_text())) <= offered, name


def test_the_parameter_file_gives_what_has_no_default_and_no_unknown_parameter() -> None:
    lines = (INFRA / "main.bicepparam").read_text().splitlines()
    given = {line.split()[1] for line in lines if line.startswith("param ")}
    shown = {line.split()[2] for line in lines if line.startswith("// param ")}
    wanted = declared(MAIN, "parameter")
    assert given | shown <= set(wanted)
    assert {n for n, node in wanted.items() if value(node) is None} <= given


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_no_output_carries_a_secret(path: Path) -> None:
    assert [name for name, node in declared(path, "output").items() if SECRET.search(text(node))] == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_nothing_asks_azure_for_a_key(path: Path) -> None:
    assert re.findall(r"\blist(?:Keys|Secrets|\w*Sas|AccountSas|ConnectionStrings)?\(", path.read_text(), re.I) == []


def test_the_only_connection_string_is_that_of_application_insights_which_refuses_its_key() -> None:
    found = [line.strip() for path in FILES for line in path.read_text().splitlines() if "connectionstring" in line.lower()]
    assert found == ["APPLICATIONINSIGHTS_CONNECTION_STRING: insights.properties.ConnectionString"]
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
    told = {name: text(value(node)) for name, node in declared(MAIN, "variable").items()}
    assert f"'{ascii_lowercase}{digits}-'" in told["strange"]
    assert told["fits"] == "empty(strange) && !startsWith(name, '-') && !endsWith(name, '-')"
    assert told["groupName"] == "{ fits: resourceGroupName }[fits ? 'fits' : '${name}: letters, digits and inner hyphens only']"


def test_the_audit_role_only_reads_and_names_every_action_in_full() -> None:
    assert actions()
    assert [a for a in actions() if not a.endswith("/read") or "*" in a] == []
    assert actions() == sorted(set(actions()), key=str.lower)


def test_the_audit_role_allows_exactly_what_the_azure_kinds_declare() -> None:
    kinds = registry.kinds("azure")
    if not kinds:
        pytest.skip("there is no Azure kind yet")
    assert set(actions()) == {action for kind in kinds for action in kind.permissions}


def test_the_enforce_role_allows_exactly_what_the_deeds_of_the_azure_kinds_need_on_top_of_reading() -> None:
    needed = {action for kind in registry.kinds("azure") for deed in kind.deeds.values() for action in deed.permissions}
    assert set(actions(ENFORCE)) == needed - set(actions())
    assert actions(ENFORCE) == sorted(set(actions(ENFORCE)), key=str.lower)
    assert [a for a in actions(ENFORCE) if "*" in a] == []


def test_the_one_thing_the_enforce_role_deletes_is_what_a_manifest_brings_back() -> None:
    deleting = [a for a in actions(ENFORCE) if "delete" in a.lower()]
    assert deleting == ["Microsoft.MachineLearningServices/workspaces/onlineEndpoints/deployments/delete"]


def test_what_can_act_is_deployed_in_mode_enforce_and_in_no_other() -> None:
    module = text(declared(MAIN, "module")["enforce"])
    assert re.search(r"'modules/enforce\.bicep' = if \(mode == 'enforce'\) \{", module)
    assert "acts: mode == 'enforce'" in MAIN.read_text()
    assert [path.name for path in FILES if "'modules/enforce.bicep'" in path.read_text()] == ["main.bicep"]


def test_every_mode_above_audit_keeps_the_ledger_and_only_enforce_the_manifests() -> None:
    passed = properties(properties(value(declared(MAIN, "module")["storage"]))["params"])
    assert text(passed["remember"]) == "remember || mode != 'audit'"
    assert [mode.value for mode in Mode if not mode.writes] == ["audit"]
    assert text(passed["acts"]) == "mode == 'enforce'"
    assert [mode.value for mode in Mode if mode.acts] == ["enforce"]


def test_what_undoing_takes_is_kept_apart_and_never_expires() -> None:
    assert text(declared(STORAGE, "resource")["manifests"]).partition("{")[0].endswith("= if (acts) ")
    assert at(STORAGE, "manifests", "properties.publicAccess") == "'None'"
    assert re.findall(r"prefixMatch: \[ '(.*?)' \]", STORAGE.read_text()) == ["${reports.name}/"]


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


@pytest.mark.parametrize("rule", ["failed", "silent"])
def test_both_alert_rules_tell_the_admins(rule: str) -> None:
    assert at(ALERTS, rule, "properties.enabled") == "true"
    assert at(ALERTS, rule, "properties.actions.actionGroups") == "[ people.id ]"
    assert "for (address, index) in recipients" in at(ALERTS, "people", "properties.emailReceivers")


def test_the_dead_man_never_looks_back_further_than_a_rule_can() -> None:
    assert at(ALERTS, "silent", "properties.windowSize") == "'P2D'"
    assert text(decorators(MAIN, "silentHours")["maxValue"]) == "maxValue(48)"


def test_the_alert_rules_ask_for_the_timer_function_there_is() -> None:
    triggers = ROOT / "functions/reaper/azure/triggers.py"
    if not triggers.exists():
        pytest.skip("reaper.azure.triggers does not exist yet")
    name = text(value(declared(MAIN, "parameter")["timerFunction"])).strip("'")
    assert re.search(rf"def {name}\(", triggers.read_text())


def test_the_alert_rings_for_whatever_the_function_logs_as_not_seen_or_not_told() -> None:
    triggers = (ROOT / "functions/reaper/azure/triggers.py").read_text()
    query = ALERTS.read_text()
    [watched] = re.findall(r"parse_json\(Message\)\.event\) in \(([^)]*)\)", query)
    logged = set(re.findall(r'logging\.ERROR,\s+"([^"]+)"', triggers)) - {"failed"}
    assert set(re.findall(r'"([^"]+)"', watched)) == logged
    assert "union (${sweeps} and Success == false), (${gaps})" in query


def test_the_host_logs_every_function_call() -> None:
    host = ROOT / "host.json"
    if not host.exists():
        pytest.skip("host.json does not exist yet")
    sampling = json.loads(host.read_text())["logging"]["applicationInsights"]["samplingSettings"]
    assert not sampling.get("isEnabled", True) or "Request" in sampling.get("excludedTypes", "")


def test_every_setting_of_the_deployment_is_one_the_product_reads() -> None:
    if find_spec("reaper.azure.triggers") is None:
        pytest.skip("reaper.azure.triggers does not exist yet, so its settings are not in reaper.settings.DOCS")
    assert settings() <= set(DOCS)


@pytest.mark.parametrize("name", sorted(settings()))
def test_every_setting_is_documented_in_the_readme(name: str) -> None:
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("README.md does not exist yet")
    assert name in readme.read_text()


@pytest.mark.parametrize("what", ["parameters", "settings", "actions", "outputs"])
def test_the_guide_explains_everything_there_is(what: str) -> None:
    names = {
        "parameters": set(declared(MAIN, "parameter")),
        "settings": settings(),
        "actions": {*actions(), *actions(ENFORCE)},
        "outputs": set(declared(MAIN, "output")),
    }
    told = set(re.findall(r"`([^`\n]+)`", GUIDE.read_text()))
    assert names[what] - told == set()


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
