"""What Durable Functions needs of the deployment: host.json, its own storage, the limits that fit each other, and roles at a management group."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from deploy.bicep import INFRA, MAIN, ROOT, at, declared, properties, text, value
from deploy.test_bicep import ALERTS, APP, ENFORCE, GROUP, STORAGE, actions
from on_azure.orchestrated import FUNCTIONS
from reaper import handover
from reaper.azure.functions import orchestration, starting, triggers
from reaper.azure.functions.orchestration import ACTIVITY_TIMER, WIDTH
from reaper.azure.targets import READ_BELOW

DURABLE = INFRA / "modules/durable.bicep"
HOST_JSON: dict[str, Any] = json.loads((ROOT / "host.json").read_text())
ENGINE: dict[str, Any] = HOST_JSON["extensions"]["durableTask"]


def duration(text: str) -> timedelta:
    hours, minutes, seconds = map(int, text.split(":"))
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def test_runs_begin_with_the_newest_version_and_older_ones_are_finished() -> None:
    assert ENGINE["defaultVersion"] == list(orchestration.VERSIONS)[-1]
    assert (ENGINE["versionMatchStrategy"], ENGINE["versionFailureStrategy"]) == ("CurrentOrOlder", "Reject")
    bundle = HOST_JSON["extensionBundle"]
    assert (bundle["id"], bundle["version"]) == ("Microsoft.Azure.Functions.ExtensionBundle", "[4.30.0, 5.0.0)")


def test_a_hub_has_a_name_that_azure_takes() -> None:
    assert re.fullmatch(r"[a-z][a-z0-9]{2,44}", ENGINE["hubName"])


def test_the_engine_signs_in_to_its_storage_with_the_identity() -> None:
    name = ENGINE["storageProvider"]["connectionName"]
    settings = set(re.findall(rf"^    ({name}__\w+):", APP.read_text(), re.M))
    parts = ("blobServiceUri", "queueServiceUri", "tableServiceUri", "credential", "clientId")
    assert settings == {f"{name}__{part}" for part in parts}
    passed = properties(properties(value(declared(MAIN, "module")["app"]))["params"])
    assert text(passed["durableEndpoints"]) == "durable.outputs.endpoints"


def test_only_the_engine_is_in_the_account_on_which_it_has_every_right() -> None:
    assert [name for name, node in declared(DURABLE, "resource").items() if "roleAssignments" not in text(node)] == ["account"]
    for keys, expected in {
        "allowSharedKeyAccess": "false",
        "allowBlobPublicAccess": "false",
        "minimumTlsVersion": "'TLS1_2'",
    }.items():
        assert at(DURABLE, "account", f"properties.{keys}") == expected
    passed = properties(properties(value(declared(MAIN, "module")["durable"]))["params"])
    assert text(passed["name"]) == "'reaperruns${suffix}'"
    assert at(STORAGE, "runs", "properties.publicAccess") == "'None'"


def test_an_activity_ends_before_the_host_ends_it_and_the_timer_after_that() -> None:
    host = duration(HOST_JSON["functionTimeout"])
    assert triggers.ACTIVITY_LIMIT + timedelta(minutes=5) <= host < ACTIVITY_TIMER


def test_a_run_that_is_ended_could_not_have_acted_any_more() -> None:
    assert starting.RUN_LIMIT > handover.ACT_WITHIN + ACTIVITY_TIMER


def test_no_activity_waits_for_another_while_its_timer_runs() -> None:
    assert ENGINE["maxConcurrentActivityFunctions"] >= WIDTH
    [threads] = re.findall(r"PYTHON_THREADPOOL_THREAD_COUNT: '(\d+)'", APP.read_text())
    assert int(threads) >= ENGINE["maxConcurrentActivityFunctions"] + ENGINE["maxConcurrentOrchestratorFunctions"]


def test_what_phases_hand_over_lasts_as_long_as_the_history_of_runs() -> None:
    rule = STORAGE.read_text().partition("name: 'runs-expire'")[2].partition("name: 'reports-expire'")[0]
    assert set(re.findall(r"GreaterThan: (\d+)", rule)) == {str(starting.HISTORY_KEPT.days)}


def test_the_functions_have_the_names_that_the_engine_and_the_rules_know() -> None:
    assert {starting.ORCHESTRATOR, "sweep_on_schedule", "sweep_by_hand", "sweep_status"} <= FUNCTIONS.keys()


def test_the_group_roles_allow_the_same_and_listing_subscriptions() -> None:
    assert set(actions(GROUP)) == {*actions(), READ_BELOW}
    assert actions(GROUP) == sorted(actions(GROUP), key=str.lower)
    enforcing = re.findall(r"'(Microsoft\.[\w./]+)'", text(declared(GROUP, "variable")["enforceActions"]))
    assert enforcing == actions(ENFORCE)


def test_a_role_of_a_group_can_be_assigned_in_that_group_only() -> None:
    for role in ("role", "enforceRole"):
        assert at(GROUP, role, "properties.assignableScopes") == "[ managementGroup().id ]"
        assert "dataActions: []" in at(GROUP, role, "properties.permissions")


def test_a_group_gets_the_role_that_acts_in_mode_enforce_only() -> None:
    conditional = [name for name, node in declared(GROUP, "resource").items() if "if (mode == 'enforce')" in text(node)]
    assert conditional == ["enforceRole", "enforceAccess"]


@pytest.mark.parametrize("module", ["role", "access", "enforce"])
def test_with_a_group_no_subscription_gets_a_role_of_its_own(module: str) -> None:
    assert "empty(managementGroup)" in text(declared(MAIN, "module")[module]).partition("{")[0]


def test_with_a_group_the_app_is_told_the_group_and_no_subscription() -> None:
    passed = text(properties(properties(value(declared(MAIN, "module")["app"]))["params"])["settings"])
    assert "REAPER_MANAGEMENT_GROUP: managementGroup" in passed
    assert "REAPER_SUBSCRIPTIONS: empty(managementGroup) ? join(subscriptions, ',') : ''" in passed


def test_two_skipped_starts_of_the_timer_in_a_row_ring() -> None:
    query = at(ALERTS, "skipped", "properties.criteria")
    assert "top 2 by TimeGenerated desc" in query
    assert "where skipped == 2" in query
    starts = text(value(declared(ALERTS, "variable")["starts"]))
    assert '("run started", "start skipped") and tobool(m.scheduled)' in starts
    logged = (ROOT / "functions/reaper/azure/functions/starting.py").read_text() + (
        ROOT / "functions/reaper/azure/functions/triggers.py"
    ).read_text()
    assert logged.count('"start skipped"') == 2
    assert '"run started", run=run_id, attempt=run_id, scheduled=scheduled' in logged
