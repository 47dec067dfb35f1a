"""The workbook: each panel reads fields that a real sweep logs under exactly these names, and the alert rules of the deployment."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest

from deploy import bicep
from on_azure.orchestrated import Deployment
from reaper import registry
from reaper_sandbox.azure.rights import deny

FILE = bicep.INFRA / "modules/workbook.json"
MODULE = bicep.INFRA / "modules/workbook.bicep"
WORKBOOK: dict[str, Any] = json.loads(FILE.read_text())
PANELS: list[dict[str, Any]] = [item["content"] for item in WORKBOOK["items"] if item["type"] == 3]
LOGS = [panel for panel in PANELS if panel["resourceType"] == "microsoft.operationalinsights/workspaces"]
PLACES = {"WORKSPACE_ID", "APP_NAME", "GROUP_NAME", "SUBSCRIPTION_ID"}
FIELD = re.compile(r"\bm\.(\w+)(?!\w|\[)")
BY_KIND = re.compile(r"\bm\.kinds\[kind\]\.(\w+)")
SWEPT = [panel for panel in LOGS if '"swept"' in panel["query"]]

GRAFANA = [
    target["azureLogAnalytics"]
    for panel in json.loads((bicep.INFRA / "grafana/dashboard.json").read_text())["panels"]
    for target in panel.get("targets", [])
    if target["datasource"]["type"] == "grafana-azure-monitor-datasource"
]


@pytest.fixture
def events(deployed_app: Deployment, caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    """The first line of each event that a real run with a gap logs, and a start in the middle of it."""
    deployed_app.server.rules.append(deny("*/computes/read"))
    with caplog.at_level(logging.INFO, "reaper"):
        deployed_app.tick()
        deployed_app.tick()
        deployed_app.run()
    lines = [json.loads(r.getMessage()) for r in caplog.records if r.getMessage().startswith('{"event"')]
    return {line["event"]: line for line in reversed(lines)}


def event(panel: dict[str, Any]) -> str:
    """The event whose lines a panel reads."""
    [name] = re.findall(r'where tostring\(m\.event\) == "([^"]+)"', panel["query"])
    return str(name)


def missing(events: dict[str, Any], query: dict[str, Any]) -> set[str]:
    """What a query reads and no line has. What it reads of each kind must be there for all of Azure's."""
    line = events[event(query)]
    by_kind = [
        line["kinds"].get(kind.name, {}) for name in BY_KIND.findall(query["query"])[:1] for kind in registry.kinds("azure")
    ]
    absent = {f"{name} of a kind" for name in BY_KIND.findall(query["query"]) if any(name not in kind for kind in by_kind)}
    return absent | (set(FIELD.findall(query["query"])) - line.keys())


def test_every_field_of_every_panel_is_logged(events: dict[str, Any]):
    assert {panel["title"]: gone for panel in LOGS if (gone := missing(events, panel))} == {}
    assert {panel["query"]: gone for panel in GRAFANA if (gone := missing(events, panel))} == {}
    assert {event(panel) for panel in LOGS} == {"swept", "coverage incomplete", "start skipped"}


def test_every_figure_that_is_logged_is_on_a_panel(events: dict[str, Any]):
    shown = {name for panel in SWEPT for name in FIELD.findall(panel["query"])}
    figures = {name for name, value in events["swept"].items() if isinstance(value, int | float)}
    assert figures - shown == {"Skipped"}, "starts that were skipped have a table of their own"
    by_kind = {name for panel in SWEPT for name in BY_KIND.findall(panel["query"])}
    assert by_kind == {name for figures in events["swept"]["kinds"].values() for name in figures}


@pytest.mark.parametrize("panel", LOGS, ids=lambda p: p["title"])
def test_a_panel_reads_this_app_in_the_chosen_period(panel: dict[str, Any]):
    assert panel["query"].startswith('AppTraces\n| where AppRoleName =~ "APP_NAME"\n| extend m = parse_json(Message)\n')
    assert (panel["timeContextFromParameter"], panel["crossComponentResources"]) == ("Period", ["WORKSPACE_ID"])
    assert WORKBOOK["items"][0]["content"]["parameters"][0]["name"] == "Period"


def test_the_alert_rules_of_the_deployment_have_a_panel():
    [alerts] = [panel for panel in PANELS if panel not in LOGS]
    assert (alerts["queryType"], alerts["resourceType"]) == (1, "microsoft.resourcegraph/resources")
    rules = bicep.declared(bicep.INFRA / "modules/alerts.bicep", "resource").values()
    kinds = {bicep.resource_type(rule).lower() for rule in rules} - {"microsoft.insights/actiongroups"}
    assert {f'type =~ "{kind}"' for kind in kinds} == set(re.findall(r'type =~ "microsoft\.insights/\w+"', alerts["query"]))


def test_every_placeholder_is_replaced_and_nothing_else():
    module = MODULE.read_text()
    assert set(re.findall(r"\b[A-Z]+_[A-Z]+\b", FILE.read_text())) == PLACES
    assert set(re.findall(r"replace\(.*, '(\w+)', ", module)) == PLACES
    assert "loadTextContent('workbook.json')" in module


def test_the_guide_has_every_panel_of_the_workbook_in_its_order():
    guide = (bicep.ROOT / "docs/dashboards.md").read_text().partition("## On Azure")[2].partition("\n## ")[0]
    assert re.findall(r"^\| ([^|]+) \|", guide, re.MULTILINE)[2:] == [panel["title"] for panel in PANELS]


@pytest.mark.parametrize("panel", GRAFANA, ids=lambda p: p["query"].splitlines()[-2])
def test_a_grafana_panel_reads_the_chosen_app(panel: dict[str, Any]):
    assert panel["query"].startswith('AppTraces\n| where AppRoleName =~ "$app"\n')
    assert panel["resources"] == ["$workspace"]
