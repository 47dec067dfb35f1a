"""The page of costs: its figures follow from unit prices and quantities, its quantities from the templates and from sweeps."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import boto3
import pytest

import forks
from deploy import bicep, policies
from deploy.translate import translate
from fakes.builders import NOW
from fakes.memory_ledger import InMemoryLedger
from fakes.sample_findings import report
from fakes.sweeps import SweepOrder, sweep
from reaper import registry
from reaper.azure import targets
from reaper.case import Coverage
from reaper.model import Status
from reaper.policy.parse import parse_policy
from reaper.report.figures import alarm_figures, run_figures
from reaper.savings.totals import read_overview
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server as Aws
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.request import Request
from reaper_sandbox.azure.server import Server as Azure

ROOT = Path(__file__).parents[2]
_spec = spec_from_file_location("costs", ROOT / "docs/costs.py")
assert _spec
assert _spec.loader
costs: Any = module_from_spec(_spec)
"""docs/costs.py. These tests are in a folder `docs`, too, so it can't be imported by its name."""
sys.modules["costs"] = costs
_spec.loader.exec_module(costs)
PAGE = (ROOT / "docs/costs.md").read_text()
DAY = timedelta(days=1)
REGIONS = ("us-east-1", "eu-west-1")
ONE_VCPU = 1769
"""Megabytes with which Lambda gives a function one processor: https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html"""


def rows(name: str) -> list[list[str]]:
    """A table of the page without its head."""
    table = PAGE.split(f"<!-- {name}: written by make docs -->\n")[1].split("<!-- end")[0]
    return [[cell.strip(" *") for cell in line.strip("|\n").split("|")] for line in table.splitlines()[2:]]


def dollars(cell: str) -> float:
    return float(cell.strip("$").replace(",", ""))


def test_the_page_is_what_the_arithmetic_says():
    assert costs.page() == PAGE, "run `make docs`"


@pytest.mark.parametrize("name", ["AWS items", "Azure items"])
def test_the_items_add_up_to_the_totals_of_the_page(name: str):
    *items, together = rows(name)
    totals = {row[0].partition(" ")[0]: row[1:] for row in rows(name.removesuffix(" items"))}
    shown = [*totals["1,000"], *totals["100,000"][:2]]
    for column, total in enumerate(shown, start=2):
        added = sum(dollars(row[column]) for row in items)
        assert added == pytest.approx(dollars(together[column]))
        assert dollars(total) == (pytest.approx(added) if added < 10 else round(added))


def test_figures_follow_from_unit_prices_and_quantities():
    """Worked by hand from the page's own words, for the items that are most of a bill."""
    aws, azure = ({row[0]: row for row in rows(name)} for name in ("AWS items", "Azure items"))
    price = {row[0]: dollars(row[1]) for name in ("AWS prices", "Azure prices") for row in rows(name)}
    metric = price["1,000 metrics requested with GetMetricData"] / 1000
    second, azure_second = (
        price["100,000 GB-seconds of Lambda, arm64"] / 1e5,
        price["100,000 GB-seconds of Flex Consumption"] / 1e5,
    )
    own, alarm = price["metric of its own for a month"], price["alarm for a month"]
    assert dollars(aws["CloudWatch metrics"][2]) == round(1.25 * 1_000 * 30 * metric, 2)
    assert dollars(aws["CloudWatch metrics"][6]) == round((1.25 + 0.05 * 2.5 * 23) * 100_000 * 30 * metric, 2)
    assert dollars(aws["Lambda"][3]) == pytest.approx((9 + 5) * 720 * second, abs=0.01)
    assert dollars(aws["Lambda"][5]) == pytest.approx((500 * 10 + 360 * 3008 / 1024) * 30 * second, abs=0.01)
    assert dollars(aws["its own metrics"][2]) == round(31 * own * 30 / 720, 2)
    assert dollars(aws["its own metrics"][4]) == round(31 * own, 2)
    assert dollars(aws["alarms"][2]) == pytest.approx(4 * alarm)
    assert dollars(azure["function"][5]) == pytest.approx((30 + 500 * 10 + 1_000) * 2 * 30 * azure_second, abs=0.03)


@pytest.fixture(scope="module")
def stack() -> dict:
    return translate(ROOT / "template.yaml")


@pytest.mark.parametrize("type_", ["CloudWatch::Alarm", "CloudWatch::Dashboard", "SecretsManager::Secret", "Lambda::EventSourceMapping"])  # fmt: skip
@pytest.mark.parametrize("mode", costs.MODES)
@pytest.mark.parametrize("more", [{}, {"Targets": "organization"}, {"SnoozeLinks": "true", "ExpectDaily": "false"}])
def test_parts_are_counted_as_cloudformation_creates_them(stack, type_: str, mode: str, more: dict[str, str]):
    chosen = {"Mode": mode, **more}
    made = [n for n in policies.present(stack, chosen) if stack["Resources"][n]["Type"] == f"AWS::{type_}"]
    assert costs.parts(type_, **chosen) == len(made)


def test_the_alarms_of_each_mode_are_those_of_the_stack(stack):
    alarms = {n for n, r in stack["Resources"].items() if r["Type"] == "AWS::CloudWatch::Alarm"}
    counted = {mode: str(len(policies.present(stack, {"Mode": mode}) & alarms)) for mode in costs.MODES}
    assert {row[0].strip("`"): row[1] for row in rows("alarms")} == counted


def test_its_own_metrics_are_those_that_a_sweep_publishes():
    covered = tuple(Coverage(cloud="aws", account="1", region=None, kind=k.name, status=Status.OK) for k in registry.kinds("aws"))
    whole = replace(report(coverage=covered), savings=read_overview(InMemoryLedger(), (), NOW))
    assert len(run_figures(whole)) == costs.OWN_METRICS
    assert len(alarm_figures(0)) == 1, "and one more when alarms on endpoints go off"


def test_alert_rules_are_counted_and_run_rarely_enough_for_their_price():
    rules = [name for name, node in bicep.declared(ROOT / "infra/modules/alerts.bicep", "resource").items() if "scheduledQueryRules" in bicep.resource_type(node)]  # fmt: skip
    assert costs.azure_alerts() == len(rules) - 1, "one is for the snooze page"
    often = {bicep.at(ROOT / "infra/modules/alerts.bicep", rule, "properties.evaluationFrequency") for rule in rules}
    assert often <= {"'PT15M'", "'PT1H'"}


def fleet(server: Aws, each: int, now: datetime) -> None:
    """So many endpoints in each region: one in twenty silent, one in ten of two variants."""
    for region in REGIONS:
        account = Account(server, region=region)
        for number in range(each):
            name, variants = f"e-{number:03}", ("blue", "green") if number % 10 == 3 else ("AllTraffic",)
            account.endpoint(name, variants=[Variant(name=v) for v in variants], created=now - 60 * DAY, tags={"owner": "dana@example.com"})  # fmt: skip
            for variant in variants:
                account.alive(name, variant, now - 15 * DAY, now + DAY)
                used = 0 if number % 20 == 0 else 9
                pair = {"EndpointName": name, "VariantName": variant}
                account.steady("AWS/SageMaker", "Invocations", pair, now - 15 * DAY, now + DAY, used)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter[str]]:
    """What the second sweep of 100 endpoints asks for, with a ledger in DynamoDB. The command has the real clock."""
    home, counts, now = tmp_path_factory.mktemp("sweeps"), Counter[str](), datetime.now(UTC)

    def count(call: Call) -> None:
        counts[f"{call.service}:{call.operation}"] += 1
        counts["metrics"] += len(call.params["MetricDataQueries"]) if call.operation == "GetMetricData" else 0
        if call.service == "dynamodb":
            batches = call.params.get("RequestItems", {}).values() if call.operation == "BatchGetItem" else ()
            counts["reads"] += sum(len(b["Keys"]) for b in batches) + (call.operation in {"GetItem", "Query"})
            counts["writes"] += call.operation in {"PutItem", "UpdateItem", "DeleteItem"}
            counts["writes"] += 2 * len(call.params["TransactItems"]) if call.operation == "TransactWriteItems" else 0

    with Aws(now) as server:
        fleet(server, 50, now)
        keys = [{"AttributeName": n, "KeyType": t} for n, t in (("pk", "HASH"), ("sk", "RANGE"))]
        types = [{"AttributeName": n, "AttributeType": "S"} for n in ("pk", "sk")]
        own = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "REAPER_"))}
        keyed = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "us-east-1"}
        boto3.client("dynamodb", endpoint_url=server.url, **keyed).create_table(
            TableName="ledger", BillingMode="PAY_PER_REQUEST", KeySchema=keys, AttributeDefinitions=types
        )
        channel = json.dumps([{"type": "folder", "path": str(home / "mails")}])
        (home / "policy.yaml").write_text(f"version: 1\nowners: {{domains: [example.com]}}\nchannels: {channel}\n")
        command = f"sweep --cloud aws --region {','.join(REGIONS)} --mode notify --policy policy.yaml --format json --output report.json"
        server.rules.append(count)
        sweeps: list[Counter[str]] = []
        for _ in range(3):
            counts.clear()
            done = forks.reaper(*command.split(), cwd=home, env={**own, **server.env, "REAPER_LEDGER": "dynamodb://ledger"})
            assert done.returncode == 0, done.stderr
            sweeps.append(Counter(counts))
    text = (home / "report.json").read_text()
    assert json.loads(text)["totals"]["by_state"]["idle"] > 0
    counts["metrics again"] = min(each["metrics"] for each in sweeps[1:])
    for what in ("metrics", "cloudwatch:ListMetrics"):  # the first sweep asks about everything, as each does once a day
        counts[what] = sweeps[0][what]
    counts["kilobytes"] = round(len(text) / 1000)
    return counts


@pytest.mark.parametrize(
    ("what", "supposed"),
    [
        pytest.param("metrics", costs.METRICS * 100, id="metrics requested"),
        pytest.param("metrics again", costs.SILENT_METRICS * 5, id="metrics requested by a further sweep"),
        pytest.param("reads", costs.READS * 100 + costs.READS_MORE * 2, id="reads of the ledger"),
        pytest.param("writes", costs.WRITES * 2, id="ledger items written"),
        pytest.param("kilobytes", costs.KILOBYTES * 100, id="size of the report"),
        pytest.param("cloudwatch:ListMetrics", 2 * costs.CALLS, id="other CloudWatch calls"),
    ],
)
def test_a_sweep_asks_for_no_more_than_the_page_supposes(measured, what: str, supposed: float):
    assert 0.7 * supposed <= measured[what] <= supposed


def test_no_other_call_of_a_sweep_costs_anything(measured):
    """Lists, descriptions and tags are free. What is billed by the call is on the page."""
    services = {name.partition(":")[0] for name in measured if ":" in name}
    assert services <= {"sagemaker", "cloudwatch", "tag", "sts", "ec2", "application-autoscaling", "dynamodb", "bedrock"}
    assert {n for n in measured if n.startswith("cloudwatch:")} == {"cloudwatch:GetMetricData", "cloudwatch:ListMetrics"}


def test_a_sweep_of_azure_queries_metrics_in_batches(monkeypatch: pytest.MonkeyPatch):
    queries: list[str] = []
    with Azure(NOW) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        for number in range(100):
            workspace = server.subscription("11111111-1111-1111-1111-111111111111").workspace(f"w{number % 2}")
            one = workspace.endpoint(f"e{number}").deployment("blue", created=NOW - 20 * DAY)
            signals.requests(one, 0 if number % 20 == 0 else 3, since=NOW - 20 * DAY)
            signals.capacity(one, since=NOW - 20 * DAY)
        server.rules.append(lambda request: queries.append(request.path) if "metrics" in _path(request) else None)
        order = SweepOrder(policy=parse_policy("version: 1", "policy", registry.kind_names()), now=NOW)
        swept = sweep(targets.target_sessions(["11111111-1111-1111-1111-111111111111"]), list(registry.kinds("azure")), order)
    assert len(swept.findings) == 100
    assert len(queries) == costs.azure_queries(100)


def _path(request: Request) -> str:
    return request.path.lower()


def test_no_measured_sweep_takes_longer_than_the_page_supposes():
    """Each on the part of a processor that Lambda gives it, which may slow all of it down: the simulated cloud's answers, too."""
    results = json.loads((ROOT / "benchmarks/results.json").read_text())
    slower = ONE_VCPU / int(costs.default("MemorySize"))
    later = [row for row in results["endpoints"].values() if row["policy"] == "default" and row["sweep"] == "second"]
    assert len(later) > 5
    for row in later:
        assert row["wall"] * slower <= costs.SECONDS + costs.SECONDS_EACH * row["endpoints"], row
    for row in results["organization"].values():
        once = row["list_s"] + row["decide_s"] + row["conclude_s"]
        assert once <= costs.ONCE + costs.ONCE_EACH * row["accounts"]


def test_only_this_page_names_figures_and_the_others_link_to_it():
    for name in ("operations.md", "deploy-aws.md", "deploy-aws-organization.md", "deploy-aws-unattended.md"):
        text = (ROOT / "docs" / name).read_text()
        assert re.findall(r"(?<!')\$\d[\d.,]*", text) == [], name
        assert "](costs.md" in text or name.startswith("deploy-aws-"), name


def test_the_readme_names_no_other_cost_than_the_arithmetic():
    readme = (ROOT / "README.md").read_text()
    prose = " ".join(re.sub(r"```.*?```", "", readme, flags=re.DOTALL).split())
    assert re.findall(r"\$\d[\d.,]*", prose.replace(costs.sentence(), "")) == []
    assert "](docs/costs.md" in readme
