"""What a deployment costs: the tables of docs/costs.md, from unit prices, measured quantities and the parts of the templates.

`--check` writes nothing and fails if the page is out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from reaper.model import BilledPart, Resource, Target
from reaper.prices import PriceBook

DOCS = Path(__file__).parent
ROOT, PAGE = DOCS.parent, DOCS / "costs.md"
DAYS, HOURS = 30, 720
SCHEDULES = {"daily": 30, "hourly": 720, "half-hourly": 1440}
"""Sweeps a month of 30 days."""
MODES = ("audit", "notify", "announce", "enforce")
SILENT = 0.05
"""The share of resources without activity: they take a closer look, and their owners a mail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPrice:
    """A list price in US dollars for `per` units."""

    usd: float
    per: int = 1
    unit: str
    page: str

    def cost(self, quantity: float) -> float:
        """What so many units cost."""
        return quantity * self.usd / self.per


_STORED = yaml.safe_load((DOCS / "unit_prices.yaml").read_text(encoding="utf-8"))
AWS_PRICES, AZURE_PRICES = ({name: UnitPrice(**price) for name, price in _STORED[cloud].items()} for cloud in ("aws", "azure"))
READ = str(_STORED["read"])
"""When the prices were collected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What is swept: so many resources in each of so many accounts or subscriptions, each in so many regions."""

    each: int
    accounts: int = 1
    regions: int = 1

    @property
    def resources(self) -> int:
        """All of them."""
        return self.each * self.accounts

    @property
    def silent(self) -> float:
        """Those without activity."""
        return self.resources * SILENT


SIZES = (*(Fleet(each=each) for each in (10, 100, 1_000, 10_000)), *(Fleet(each=200, accounts=n, regions=4) for n in (60, 500)))


class Line(NamedTuple):
    """One item of a month's bill."""

    item: str
    arithmetic: str
    usd: float


# Measured on the simulated clouds. tests/docs/test_costs.py measures again, and fails if one of these is too low or far too high.
METRICS = 1.25
"""Metrics that the sweeps of a day request for each endpoint: each of its variants once, and the heartbeats of the silent ones."""
SILENT_METRICS = 2.5
"""More for each silent endpoint in every further sweep of the day. What is in use isn't asked about again, if rules wait a day or more."""
USE_KILOBYTES = 0.022
"""What a sweep writes about the last use of each resource. DynamoDB counts kilobytes."""
READS, READS_MORE = 0.03, 20
"""Reads of the ledger for each resource, and for each region. The records of a region are read four kilobytes at a time."""
WRITES = 5
"""Ledger items written for each region, once what is idle is known."""
KILOBYTES = 1.6
"""Size of a report for each resource."""
CALLS, RESOURCES_A_CALL = 2, 500
"""Other CloudWatch calls (ListMetrics) for each region, and one more for so many resources."""
BATCH = 50
"""Azure resources whose metrics one query returns. They are in one workspace."""
OWN_METRICS = 31
# Estimates on the safe side: no sweep in benchmarks/RESULTS.md but the first of a fleet takes longer on Lambda's part of a processor.
SECONDS, SECONDS_EACH = 9, 0.005
"""Duration of a sweep of one account, and more for each resource."""
ONCE, ONCE_EACH = 60, 0.6
"""Seconds of the phases that run once over several accounts, and more for each of them."""
LOG_KILOBYTES = 20
"""Logs of one account's sweep."""
AZURE_SECONDS, AZURE_SECONDS_EACH, AZURE_ONCE = 10, 0.01, 30
"""The same on Azure: for each subscription, for each resource, and once."""
AZURE_EXECUTIONS, AZURE_OPERATIONS = 20, 3_000
"""Executions, and operations of queues and tables, of a sweep."""
AZURE_EXECUTIONS_EACH, AZURE_OPERATIONS_EACH = 3, 60
"""More for each subscription."""
AZURE_LOG_KILOBYTES, AZURE_LOG_KILOBYTES_EACH = 1_000, 50
"""Logs of a sweep, and more for each subscription."""
POLLS = 5 * 3 * 60 * 24 * DAYS
"""Lambda asks the queue of alarms five times every 20 seconds."""
TRANSITIONS, TRANSITIONS_EACH = 7, 2
"""Transitions of one execution of the state machine, and more for each account."""
PUTS_EACH = 4
"""Objects that the phases hand over for each account."""


class _Tagged(yaml.SafeLoader):
    """Reads `!Name x` of CloudFormation as `{"Name": x}`."""


def _tagged(loader: _Tagged, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return {suffix: loader.construct_scalar(node)}
    return {suffix: loader.construct_sequence(node, deep=True) if isinstance(node, yaml.SequenceNode) else None}


_Tagged.add_multi_constructor("!", _tagged)


@cache
def template() -> Mapping[str, Any]:
    """template.yaml."""
    return dict(yaml.load((ROOT / "template.yaml").read_text(), Loader=_Tagged))


def default(parameter: str) -> Any:
    """The default of one of its parameters."""
    return template()["Parameters"][parameter]["Default"]


def _holds(condition: Any, chosen: Mapping[str, str]) -> bool:
    """Whether a condition holds for parameters, each with its default unless it is chosen."""
    if isinstance(condition, str):
        return _holds(template()["Conditions"][condition], chosen)
    [(operator, operands)] = condition.items()
    match operator:
        case "Condition":
            return _holds(operands, chosen)
        case "Not":
            return not _holds(operands[0], chosen)
        case "And" | "Or":
            return (all if operator == "And" else any)(_holds(operand, chosen) for operand in operands)
    assert operator == "Equals", operator
    left, right = (_value(operand, chosen) for operand in operands)
    return left == right


def _value(operand: Any, chosen: Mapping[str, str]) -> str:
    if not isinstance(operand, dict):
        return str(operand)
    [(operator, name)] = operand.items()
    return str(chosen.get(name, default(name))) if operator == "Ref" else _value(name[1], chosen)


def parts(type_: str, **chosen: str) -> int:
    """How many resources of that type the stack has in such a deployment."""
    rows = [row for row in template()["Resources"].values() if row["Type"] == f"AWS::{type_}"]
    return sum("Condition" not in row or _holds(row["Condition"], chosen) for row in rows)


def bicep(file: str, pattern: str) -> list[str]:
    """What a pattern finds in a Bicep file."""
    return re.findall(pattern, (ROOT / "infra" / file).read_text(), re.MULTILINE)


def azure_alerts() -> int:
    """Alert rules that every installation on Azure has."""
    return len(bicep("modules/alerts.bicep", r"^resource \w+ 'Microsoft\.Insights/scheduledQueryRules@[^']+' = \{"))


def azure_gigabytes() -> float:
    """Memory of the function app."""
    return int(bicep("modules/app.bicep", r"instanceMemoryMB: (\d+)")[0]) / 1024


def _cost(prices: Mapping[str, UnitPrice], /, **quantities: float) -> float:
    return round(sum(prices[name].cost(quantity) for name, quantity in quantities.items()), 2)


def _line(prices: Mapping[str, UnitPrice], item: str, arithmetic: str, /, **quantities: float) -> Line:
    return Line(item, arithmetic, _cost(prices, **quantities))


def aws_lines(fleet: Fleet, sweeps: int) -> list[Line]:
    """A month on AWS in mode notify, every other parameter at its default."""
    several = fleet.accounts > 1
    chosen = {"Mode": "notify", "Email": "admins", "Targets": "organization" if several else "self"}
    gb, workflow_gb = (int(default(name)) / 1024 for name in ("MemorySize", "WorkflowMemorySize"))
    seconds = fleet.accounts * (SECONDS + SECONDS_EACH * fleet.each) * gb
    once = (ONCE + ONCE_EACH * fleet.accounts) * workflow_gb if several else 0
    calls = fleet.accounts * (fleet.regions * CALLS + fleet.each / RESOURCES_A_CALL)
    days = int(default("ReportRetentionDays")) + (run_days() if several else 0)
    stored = fleet.resources * KILOBYTES / 1e6 * sweeps / DAYS * days
    executions = TRANSITIONS + TRANSITIONS_EACH * fleet.accounts if several else 0
    alarms, own = parts("CloudWatch::Alarm", **chosen), OWN_METRICS * min(sweeps, HOURS) / HOURS
    return [
        _line(AWS_PRICES, "CloudWatch metrics", f"{METRICS} a day for each resource, {SILENT_METRICS} more for each silent one in every further sweep", metrics=DAYS * METRICS * fleet.resources + (sweeps - DAYS) * SILENT_METRICS * fleet.silent),
        _line(AWS_PRICES, "other CloudWatch calls", f"{CALLS} for each region, 1 more for {RESOURCES_A_CALL} resources", calls=sweeps * calls),
        _line(AWS_PRICES, "Lambda", f"{SECONDS} s for each account, {SECONDS_EACH * 1000:.0f} ms for each resource, at {gb:g} GB; with several accounts {ONCE} s once and {ONCE_EACH} s for each, at {workflow_gb:.2f} GB", **{"lambda": sweeps * (seconds + once), "invocations": sweeps * (fleet.accounts + 3)}),
        _line(AWS_PRICES, "Step Functions", f"with several accounts: {TRANSITIONS} transitions, {TRANSITIONS_EACH} more for each account", transitions=sweeps * executions),
        _line(AWS_PRICES, "DynamoDB", f"{READS} reads for each resource, {READS_MORE} for each region, {WRITES} writes for each region, {USE_KILOBYTES} for each resource", reads=sweeps * (READS * fleet.resources + READS_MORE * fleet.regions * fleet.accounts), writes=sweeps * (WRITES * fleet.regions * fleet.accounts + USE_KILOBYTES * fleet.resources)),
        _line(AWS_PRICES, "S3 writes", f"1 report; with several accounts {PUTS_EACH} more for each", puts=sweeps * (1 + (PUTS_EACH * fleet.accounts if several else 0))),
        _line(AWS_PRICES, "S3 storage", f"{KILOBYTES} KB for each resource and sweep, for {default('ReportRetentionDays')} days; with several accounts for {run_days()} days more", stored=stored),
        _line(AWS_PRICES, "logs", f"{LOG_KILOBYTES} KB for each account", logs=sweeps * fleet.accounts * LOG_KILOBYTES / 1e6),
        _line(AWS_PRICES, "mails", f"1 summary a sweep, 1 notice a month for the owner of each silent resource ({SILENT:.0%})", summaries=sweeps, mails=fleet.silent),
        _line(AWS_PRICES, "queue of alarms", f"{POLLS:,} requests a month, whatever the schedule", polls=POLLS * parts("Lambda::EventSourceMapping", **chosen)),
        _line(AWS_PRICES, "its own metrics", f"{OWN_METRICS}, billed for the hours in which they are sent", own=own),
        _line(AWS_PRICES, "alarms", f"{parts('CloudWatch::Alarm', Mode='notify')}; with several accounts {parts('CloudWatch::Alarm', Mode='notify', Targets='organization')}", alarms=alarms),
        _line(AWS_PRICES, "dashboard", "1", dashboards=parts("CloudWatch::Dashboard", **chosen)),
    ]  # fmt: skip


def run_days() -> int:
    """Days for which the bucket keeps what the phases of several accounts hand over."""
    rules = template()["Resources"]["ReportBucket"]["Properties"]["LifecycleConfiguration"]["Rules"]
    return next(int(rule["ExpirationInDays"]) for rule in rules if rule["Prefix"] == "runs/")


def azure_queries(each: int) -> int:
    """The queries for so many resources of a workspace: their last hours, and all of what was silent."""
    return ceil(each / BATCH) + ceil(each * SILENT / BATCH)


def azure_lines(fleet: Fleet, sweeps: int) -> list[Line]:
    """A month on Azure in mode notify, every other parameter at its default."""
    seconds = AZURE_ONCE + AZURE_SECONDS * fleet.accounts + AZURE_SECONDS_EACH * fleet.resources
    executions = AZURE_EXECUTIONS + AZURE_EXECUTIONS_EACH * fleet.accounts
    operations = AZURE_OPERATIONS + AZURE_OPERATIONS_EACH * fleet.accounts
    logs = AZURE_LOG_KILOBYTES + AZURE_LOG_KILOBYTES_EACH * fleet.accounts
    [days] = bicep("main.bicep", r"^param reportRetentionDays int = (\d+)")
    stored = fleet.resources * KILOBYTES / 1e6 * sweeps / DAYS * int(days)
    return [
        _line(AZURE_PRICES, "function", f"{AZURE_ONCE} s once, {AZURE_SECONDS} s for each subscription, {AZURE_SECONDS_EACH * 1000:.0f} ms for each resource, at {azure_gigabytes():g} GB", function=sweeps * seconds * azure_gigabytes(), executions=sweeps * executions),
        _line(AZURE_PRICES, "metric queries", f"1 for {BATCH} resources of a workspace, and 1 for {BATCH} silent ones", queries=sweeps * fleet.accounts * azure_queries(fleet.each)),
        _line(AZURE_PRICES, "logs", f"{AZURE_LOG_KILOBYTES / 1000:g} MB once, {AZURE_LOG_KILOBYTES_EACH} KB for each subscription", logs=sweeps * logs / 1e6),
        _line(AZURE_PRICES, "queues and tables", f"{AZURE_OPERATIONS:,} operations, {AZURE_OPERATIONS_EACH} for each subscription", operations=sweeps * operations),
        _line(AZURE_PRICES, "stored reports", f"{KILOBYTES} KB for each resource and sweep, for {days} days", stored=stored),
        _line(AZURE_PRICES, "mails", f"1 summary a sweep, 1 notice a month for the owner of each silent resource ({SILENT:.0%})", mails=sweeps + fleet.silent),
        _line(AZURE_PRICES, "alert rules", str(azure_alerts()), alerts=azure_alerts()),
    ]  # fmt: skip


def total(lines: list[Line]) -> float:
    """What they cost together."""
    return sum(line.usd for line in lines)


def _money(usd: float) -> str:
    return f"${usd:,.2f}" if usd < 10 else f"${usd:,.0f}"


def _table(*rows: tuple[str, ...]) -> str:
    head, *body = rows
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ("---",) * len(head), *body))


def _size(fleet: Fleet, account: str) -> str:
    return f"{fleet.resources:,} in " + (f"one {account}" if fleet.accounts == 1 else f"{fleet.accounts} {account}s")


def _totals(account: str, lines: Callable[[Fleet, int], list[Line]]) -> str:
    rows = ((_size(f, account), *(_money(total(lines(f, sweeps))) for sweeps in SCHEDULES.values())) for f in SIZES)
    return _table(("resources", *SCHEDULES), *rows)


def _items(account: str, lines: Callable[[Fleet, int], list[Line]]) -> str:
    columns = [(SIZES[2], "daily"), (SIZES[2], "hourly"), (SIZES[2], "half-hourly"), (SIZES[5], "daily"), (SIZES[5], "hourly")]
    bills = [lines(fleet, SCHEDULES[schedule]) for fleet, schedule in columns]
    heads = [f"{fleet.resources:,} {schedule}" for fleet, schedule in columns]
    rows = [(row[0].item, row[0].arithmetic, *(f"${line.usd:,.2f}" for line in row)) for row in zip(*bills, strict=True)]
    return _table(
        ("item", "quantity a sweep", *heads), *rows, ("**together**", "", *(f"**${total(bill):,.2f}**" for bill in bills))
    )


def _prices(prices: Mapping[str, UnitPrice]) -> str:
    rows = (
        (f"{p.per:,} {p.unit}" if p.per > 1 else p.unit, f"${p.usd:.2f}" if p.usd == round(p.usd, 2) else f"${p.usd}", f"[page]({p.page})")
        for p in prices.values()
    )  # fmt: skip
    return _table(("unit", f"price, collected on {READ}", "vendor's page"), *rows)


def _alarms() -> str:
    rows = (
        (f"`{mode}`", *(str(parts("CloudWatch::Alarm", Mode=mode, Targets=t)) for t in ("self", "organization")))
        for mode in MODES
    )
    return _table(("alarms in mode", "one account", "several"), *rows)  # fmt: skip


def _options() -> str:
    page = parts("SecretsManager::Secret", SnoozeLinks="true") - parts("SecretsManager::Secret")
    alarms = parts("CloudWatch::Alarm", SnoozeLinks="true") - parts("CloudWatch::Alarm")
    [cap] = bicep("main.bicep", r"^param logDailyCapGb int = (\d+)")
    return _table(
        ("option", "quantity", "a month"),
        ("AWS: `SnoozeLinks`", f"{page} secret, {alarms} alarm", _money(_cost(AWS_PRICES, secrets=page, alarms=alarms))),
        ("AWS: each secret of a channel", "1 secret", _money(_cost(AWS_PRICES, secrets=1))),
        ("AWS: `KmsKey`", "1 key, 10,000 requests", _money(_cost(AWS_PRICES, keys=1, keyed=10_000))),
        ("AWS: a policy of more than 4 KB", "1 advanced parameter", _money(_cost(AWS_PRICES, advanced=1))),
        (
            "AWS: alarms on endpoints go off (`AlarmRuns`)",
            "1 metric more, if it is sent every hour",
            _money(_cost(AWS_PRICES, own=1)),
        ),
        ("Azure: `snoozeKeys`", "1 alert rule, 10,000 reads of Key Vault", _money(_cost(AZURE_PRICES, alerts=1, vault=10_000))),
        ("Azure: a flood of logs, up to `logDailyCapGb`", f"{cap} GB a day", _money(_cost(AZURE_PRICES, logs=int(cap) * DAYS))),
    )


def example() -> str:
    """What one forgotten endpoint costs a day, to compare."""
    place, part = Target(cloud="aws", account="-", region="us-east-1"), BilledPart(component="Hosting", instance="ml.g5.12xlarge")
    born = datetime.fromisoformat(f"{READ}T00:00Z")
    one = Resource(kind="sagemaker-endpoint", id="-", name="-", target=place, region="us-east-1", created=born, parts=(part,))
    price = PriceBook().price(one)
    assert price
    return f"For comparison, one forgotten `{part.instance}` endpoint in us-east-1 costs ${price.usd_per_hour * 24:.0f} a day.\n"


def sentence() -> str:
    """The one sentence of the README."""
    thousand, company = SIZES[2], SIZES[5]
    usd = [
        round(total(aws_lines(fleet, SCHEDULES[schedule]))) for fleet in (thousand, company) for schedule in ("daily", "hourly")
    ]
    return (
        f"On AWS, the reaper costs about ${usd[0]} a month for 1,000 endpoints swept daily and ${usd[1]} hourly, "
        f"and ${usd[2]} and ${usd[3]:,} for 100,000 in 500 accounts."
    )


def tables() -> Iterator[tuple[str, str]]:
    """Every generated part of the page by its name."""
    yield from (("AWS", _totals("account", aws_lines)), ("Azure", _totals("subscription", azure_lines)))
    yield "example", example()
    yield "AWS items", _items("account", aws_lines)
    yield "alarms", _alarms()
    yield "Azure items", _items("subscription", azure_lines)
    yield "options", _options()
    yield "AWS prices", _prices(AWS_PRICES)
    yield "Azure prices", _prices(AZURE_PRICES)


def page() -> str:
    """docs/costs.md with its tables between their marks."""
    text = PAGE.read_text()
    for name, table in tables():
        start, end = f"<!-- {name}: written by make docs -->\n", f"<!-- end of {name} -->\n"
        head, _, rest = text.partition(start)
        text = f"{head}{start}{table}{end}{rest.partition(end)[2]}"
    return text


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        sys.exit("docs/costs.md is out of date: run `make docs`")
