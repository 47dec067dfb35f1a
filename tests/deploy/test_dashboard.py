"""The stack's dashboard: each metric that a panel shows is published by a real sweep under exactly this name and these dimensions."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest

from deploy import policies, sam
from reaper import registry
from reaper_sandbox.aws.fault import denied, on
from reaper_sandbox.aws.server import Server

STACK_ARN = f"arn:aws:cloudformation:us-east-1:{policies.ACCOUNT}:stack/{policies.PSEUDO['AWS::StackName']}/5b5e"
CONDITIONS = {
    "audit": set(),
    "announce": {"Announces", "Tells"},
    "enforce": {"Acts", "Announces", "Tells"},
    "every condition": {"Acts", "Announces", "Tells", "ExpectsDaily", "HasSnooze", "SpansAccounts", "LooksAtAlarms"},
}
SEARCH = re.compile(r"SEARCH\('\{(?P<set>[^}]+)\} (?P<terms>[^']+)', '(?P<stat>\w+)', (?P<period>\d+)\)")
KEYS = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
SWEEP = """
from types import SimpleNamespace
from reaper.aws.functions import sweep

context = SimpleNamespace(
    function_name="sweep",
    memory_limit_in_mb=1024,
    invoked_function_arn="arn:aws:lambda:us-east-1:123456789012:function:sweep",
    aws_request_id="1",
    get_remaining_time_in_millis=lambda: 900_000,
)
sweep.handler({}, context)
sweep.handler({"Records": [{"eventSource": "aws:sqs", "body": "{}"}]}, context)
"""
Metric = tuple[str, str, tuple[tuple[str, str], ...]]
"""Namespace, name and dimensions, sorted."""


def alarms(cloudformation: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        name: r
        for name, r in cloudformation["Resources"].items()
        if r["Type"].startswith("AWS::CloudWatch::") and "Alarm" in r["Type"]
    }


def body(cloudformation: dict[str, Any], conditions: str = "every condition") -> dict[str, Any]:
    """The dashboard's body as CloudFormation makes it."""
    names = {f"{name}.Arn": f"arn:aws:cloudwatch:us-east-1:{policies.ACCOUNT}:alarm:{name}" for name in alarms(cloudformation)}
    names |= {"SweepLogs": "sweep-logs"} | dict.fromkeys(CONDITIONS[conditions], "true")
    made: dict[str, Any] = json.loads(
        policies.resolve(cloudformation["Resources"]["Dashboard"]["Properties"]["DashboardBody"], names)
    )
    return made


def widgets(dashboard: dict[str, Any], type_: str) -> list[dict[str, Any]]:
    """What each widget of a type shows."""
    return [widget["properties"] for widget in dashboard["widgets"] if widget["type"] == type_]


def rows(widget: dict[str, Any]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """The metrics of a widget with their options; a dot repeats what the row above has there."""
    above: list[str] = []
    for row in widget["metrics"]:
        options = row[-1] if isinstance(row[-1], dict) else {}
        texts = [text for text in row if isinstance(text, str)]
        above = [above[place] if text == "." else text for place, text in enumerate(texts)] if texts else above
        yield (above if texts else []), options


def shown(dashboard: dict[str, Any]) -> set[Metric]:
    """The metrics that are named one by one."""
    named = [texts for widget in widgets(dashboard, "metric") for texts, _ in rows(widget) if texts]
    return {(space, name, tuple(sorted(zip(rest[::2], rest[1::2], strict=True)))) for space, name, *rest in named}


def searches(dashboard: dict[str, Any]) -> list[re.Match[str]]:
    """The searches in expressions."""
    expressions = [o["expression"] for widget in widgets(dashboard, "metric") for _, o in rows(widget) if "expression" in o]
    return [match for text in expressions if (match := SEARCH.search(text))]


def found(search: re.Match[str], metrics: set[Metric]) -> set[Metric]:
    """The metrics that a search finds: those with exactly its set of dimensions, whose name and values are the ones asked for."""
    namespace, *names = search["set"].split(",")
    terms = dict(re.findall(r'(\w+)="([^"]*)"', search["terms"]))
    name = terms.pop("MetricName")
    return {
        m
        for m in metrics
        if m[:2] == (namespace, name) and {n for n, _ in m[2]} == set(names) and terms.items() <= dict(m[2]).items()
    }


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    """What a real sweep with a gap writes to its log, in a process of its own, as in Lambda."""
    with Server(datetime.now(UTC)) as server:
        settings = {"AWS_REGION": "us-east-1", "REAPER_DEPLOYMENT": STACK_ARN, "REAPER_REPORTS": "s3://reports-bucket/reports"}
        settings["REAPER_LEDGER"] = "memory:"
        boto3.client("s3", endpoint_url=server.url, **KEYS).create_bucket(Bucket="reports-bucket")
        server.rules.append(on("ListNotebookInstances", denied()))
        ran = subprocess.run(
            [sys.executable, "-c", SWEEP], env=os.environ | server.env | settings, capture_output=True, text=True, check=False
        )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def published(lines: list[dict[str, Any]]) -> set[Metric]:
    """The metrics that CloudWatch makes of these lines: one for each set of dimensions of each directive."""
    return {
        (directive["Namespace"], metric["Name"], tuple(sorted((name, line[name]) for name in names)))
        for line in lines
        if "_aws" in line
        for directive in line["_aws"]["CloudWatchMetrics"]
        for names in directive["Dimensions"]
        for metric in directive["Metrics"]
    }


def test_a_sweep_publishes_every_metric_on_the_dashboard(cloudformation, lines: list[dict[str, Any]]):
    assert shown(body(cloudformation)) - published(lines) == set()


def test_every_metric_that_costs_money_is_on_the_dashboard(cloudformation, lines: list[dict[str, Any]]):
    dashboard, made = body(cloudformation), published(lines)
    assert made - shown(dashboard) - {m for search in searches(dashboard) for m in found(search, made)} == set()


def test_each_search_finds_every_kind_of_this_stack(cloudformation, lines: list[dict[str, Any]]):
    other = {
        (space, name, tuple((n, "team-b" if n == "stack" else v) for n, v in dims)) for space, name, dims in published(lines)
    }
    everywhere = published(lines) | other
    kinds = {kind.name for kind in registry.kinds("aws")}
    asked = searches(body(cloudformation))
    assert [re.search(r'MetricName="(\w+)"', search["terms"])[1] for search in asked] == ["IdleUSDPerHour", "Idle"]  # type: ignore[index]
    for search in asked:
        hits = [dict(dims) for _, _, dims in found(search, everywhere)]
        assert ({d["kind"] for d in hits}, {d["stack"] for d in hits}, len(hits)) == (kinds, {"ml-idle-reaper"}, len(kinds))


def test_each_table_lists_fields_that_the_log_has(cloudformation, lines: list[dict[str, Any]]):
    queries = [widget["query"] for widget in widgets(body(cloudformation), "log")]
    assert len(queries) == 2
    for query in queries:
        source, fields, condition, *_ = (part.strip() for part in query.split("|"))
        assert source == "SOURCE 'sweep-logs'"
        message = re.fullmatch(r'filter message = "([^"]+)"', condition)
        line = next(line for line in lines if message and line.get("message") == message[1])
        assert set(fields.removeprefix("fields ").split(", ")) - {"@timestamp"} <= line.keys()


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_exactly_the_alarms_of_the_stack_are_on_the_dashboard(cloudformation, conditions: str):
    present = {name for name, r in alarms(cloudformation).items() if r.get("Condition") in {None, *CONDITIONS[conditions]}}
    [widget] = widgets(body(cloudformation, conditions), "alarm")
    assert sorted(arn.rpartition(":")[2] for arn in widget["alarms"]) == sorted(present)


def test_every_condition_of_an_alarm_is_tried_here(cloudformation):
    assert {r.get("Condition") for r in alarms(cloudformation).values()} - {None} <= CONDITIONS["every condition"]


def test_the_dashboard_is_there_for_one_account_too(cloudformation):
    assert "Condition" not in cloudformation["Resources"]["Dashboard"]


def test_expressions_refer_to_metrics_of_their_panel(cloudformation):
    for widget in widgets(body(cloudformation), "metric"):
        ids = [options["id"] for _, options in rows(widget) if "id" in options]
        assert len(ids) == len(set(ids))
        assert all(re.fullmatch(r"[a-z]\w*", id_) for id_ in ids)
        used = {m for _, o in rows(widget) for m in re.findall(r"FILL\((\w+), ", o.get("expression", ""))}
        assert used <= set(ids), widget["title"]


def test_no_panel_covers_another(cloudformation):
    taken: set[tuple[int, int]] = set()
    for widget in body(cloudformation)["widgets"]:
        cells = {(widget["x"] + i, widget["y"] + j) for i in range(widget["width"]) for j in range(widget["height"])}
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells


def test_the_guide_has_every_panel_in_its_order(cloudformation):
    guide = (sam.ROOT / "docs/dashboards.md").read_text().partition("## On AWS")[2].partition("\n## ")[0]
    titles = [widget["properties"]["title"] for widget in body(cloudformation)["widgets"]]
    assert re.findall(r"^\| ([^|]+) \|", guide, re.MULTILINE)[2:] == titles


def test_the_guide_names_every_figure_and_no_other(lines: list[dict[str, Any]]):
    guide = (sam.ROOT / "docs/dashboards.md").read_text().partition("\n## ")[0]
    named = {name for row in re.findall(r"^\| (`[^|]+) \|", guide, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert named == {name for _, name, _ in published(lines)}


GRAFANA: dict[str, Any] = json.loads((sam.ROOT / "infra/grafana/dashboard.json").read_text())
TARGETS = [t for panel in GRAFANA["panels"] for t in panel.get("targets", []) if t["datasource"]["type"] == "cloudwatch"]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t['metricName']} {t['label']}")
def test_every_metric_of_the_grafana_dashboard_is_published(lines: list[dict[str, Any]], target: dict[str, Any]):
    """`*` stands for every value of a dimension."""
    dimensions = {name: value.replace("$stack", "ml-idle-reaper") for name, value in target["dimensions"].items()}
    named = {tuple(sorted(dimensions.items()))}
    if dimensions.get("kind") == "*":
        named = {tuple(sorted({**dimensions, "kind": kind.name}.items())) for kind in registry.kinds("aws")}
    assert {(target["namespace"], target["metricName"], dims) for dims in named} <= published(lines)
    assert target["matchExact"] is True


def test_every_variable_of_the_grafana_dashboard_is_declared():
    used = set(re.findall(r"\$\{?([a-z]+)\b", json.dumps(GRAFANA["panels"])))
    assert used == {variable["name"] for variable in GRAFANA["templating"]["list"]}
    assert len({panel["id"] for panel in GRAFANA["panels"]}) == len(GRAFANA["panels"])
