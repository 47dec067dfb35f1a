"""Configurations that earlier sweeps have seen: they spare calls, and are never taken for another one of the same name."""

from __future__ import annotations

import base64
import json
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest

from fakes.ledger_places import HERE
from fakes.memory_ledger import InMemoryLedger
from fakes.sweeps import SweepOrder, assess_again, sweep
from on_aws.conftest import DAY, HOUR, NOW
from reaper import aws, registry
from reaper.aws import targets
from reaper.aws.kinds.sagemaker_endpoint import description
from reaper.finding import Finding
from reaper.ledger.opening import FORMAT_ROW
from reaper.model import State, StepName
from reaper.notices import item
from reaper.observing import cache
from reaper.policy.parse import parse_policy
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, on
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

KIND = "sagemaker-endpoint"
CONFIG = "sagemaker:DescribeEndpointConfig"
SMALL, LARGE = [Variant(name="v", instance="ml.m5.large")], [Variant(name="v", instance="ml.p4d.24xlarge")]
CHANGED = NOW - 20 * DAY


@pytest.fixture
def quiet(account: Account) -> Any:
    """An endpoint that nobody calls."""
    made = account.endpoint("quiet", variants=SMALL, created=NOW - 40 * DAY, changed=CHANGED)
    account.alive("quiet", "v", NOW - 15 * DAY, NOW + DAY)
    return made


class Sweeper:
    """Sweeps that share one ledger."""

    def __init__(self) -> None:
        self.ledger, self.now, self.policy = InMemoryLedger(), NOW, "version: 1"

    def order(self, *, writes: bool = True) -> SweepOrder:
        ledger_cache = cache.ConfigurationCache(ledger=self.ledger, now=self.now, may_write=writes, report_failure=print)
        return SweepOrder(policy=parse_policy(self.policy, "policy", registry.kind_names()), now=self.now, cache=ledger_cache)

    def run(self, *, writes: bool = True) -> tuple[Finding, int]:
        """What was found, and how many configurations were described for it."""
        report = sweep(
            targets.target_sessions(["us-east-1"], (), boto3.Session()), [registry.kind(KIND)], self.order(writes=writes)
        )
        return report.findings[0], report.coverage[0].calls.get(CONFIG, 0)


@pytest.fixture
def sweeper(quiet: Any) -> Sweeper:
    return Sweeper()


def test_a_later_sweep_reads_no_configuration_and_judges_the_same(sweeper: Sweeper):
    (before, first), (after, second) = sweeper.run(), sweeper.run()
    assert (first, second) == (1, 0)
    assert (
        replace(after, could=before.could, case=replace(after.case, resource=before.case.resource, blocked=before.case.blocked))
        == before
    )
    assert (after.case.blocked[StepName.STOP], after.case.saves_usd_per_hour) == (
        before.case.blocked[StepName.STOP],
        before.case.saves_usd_per_hour,
    )
    assert (after.case.verdict.state, after.case.resource.size) == (State.IDLE, "ml.m5.large x1")
    assert after.case.price is not None


def test_a_sweep_that_finds_nothing_new_writes_nothing(sweeper: Sweeper):
    sweeper.run()
    versions = {name: row.version for name, row in sweeper.ledger.named_rows.items()}
    sweeper.run()
    assert {name: row.version for name, row in sweeper.ledger.named_rows.items()} == versions


def test_an_audit_reads_the_cache_and_writes_nothing(sweeper: Sweeper):
    assert [sweeper.run(writes=False)[1], len(sweeper.ledger.named_rows)] == [1, 0]
    sweeper.run()
    assert sweeper.run(writes=False)[1] == 0


def remade(account: Account, made: datetime) -> None:
    account.config("quiet-config", variants=LARGE, created=made)


def updated(account: Account, server: Server) -> None:
    """Its configuration deleted and made anew under the same name, and the endpoint updated to it."""
    account.contents.endpoints["quiet"].changed = NOW - 2 * DAY
    remade(account, NOW - 3 * DAY)


def made_anew(account: Account, server: Server) -> None:
    account.contents.endpoints["quiet"].created = NOW - 16 * DAY
    remade(account, NOW - 30 * DAY)


def listed_late(account: Account, server: Server) -> None:
    """As updated, but the list still has the old time."""
    updated(account, server)

    def late(call: Call, data: dict[str, Any]) -> dict[str, Any]:
        return data | {"Endpoints": [row | {"LastModifiedTime": CHANGED.timestamp()} for row in data["Endpoints"]]}

    server.rules.append(on("ListEndpoints", Fault(rewrite=late)))


def renamed(account: Account, server: Server) -> None:
    """Another configuration, though no time says so."""
    account.config("other-config", variants=LARGE, created=NOW - 30 * DAY)
    account.contents.endpoints["quiet"].config = "other-config"


@pytest.mark.parametrize("change", [updated, made_anew, listed_late, renamed])
def test_an_endpoint_with_a_changed_configuration_is_described_again(
    account: Account, server: Server, sweeper: Sweeper, change: Callable[[Account, Server], None]
):
    sweeper.run()
    change(account, server)
    finding, calls = sweeper.run()
    assert calls == 1
    assert finding.case.resource.size == "ml.p4d.24xlarge x1"


def test_a_recreated_configuration_is_not_taken_from_the_cache(account: Account, sweeper: Sweeper):
    sweeper.run()
    remade(account, NOW - 2 * DAY)
    finding, calls = sweeper.run()
    assert (calls, finding.case.resource.size) == (0, "ml.m5.large x1")


def test_a_configuration_newer_than_the_last_change_has_no_price(account: Account, sweeper: Sweeper):
    remade(account, CHANGED + timedelta(seconds=1))
    for _ in range(2):
        finding, calls = sweeper.run()
        assert (calls, finding.case.price, finding.case.resource.size) == (1, None, "unknown x1")
        assert finding.case.verdict.state is State.IDLE


def test_a_configuration_as_old_as_the_last_change_counts(account: Account, sweeper: Sweeper):
    remade(account, CHANGED)
    assert sweeper.run()[0].case.resource.size == "ml.p4d.24xlarge x1"


@pytest.mark.parametrize("status", ["OutOfService", "UpdateRollbackFailed"])
def test_only_endpoints_in_service_are_cached_or_read_from_cache(quiet: Any, sweeper: Sweeper, status: str):
    quiet.status = status
    assert [sweeper.run()[1], sweeper.run()[1]] == [1, 1]
    quiet.status = "InService"
    assert [sweeper.run()[1], sweeper.run()[1]] == [1, 0]
    quiet.status = status
    assert sweeper.run()[1] == 1


def test_the_recheck_reads_the_configuration(account: Account, sweeper: Sweeper):
    finding, _ = sweeper.run()
    [cloud] = targets.target_sessions(["us-east-1"], (), boto3.Session())
    assess_again(cloud, registry.kind(KIND), finding.case.resource, sweeper.order())
    assert cloud.calls[CONFIG] == 1


def test_code_that_acts_or_restores_never_reads_the_cache():
    folder = Path(aws.__path__[0])
    every = [path for path in folder.rglob("*.py") if path.stem in {"executor", "scaling", "recreation"}]
    texts = {path.relative_to(folder).as_posix(): path.read_text() for path in every}
    assert len(texts) == 5
    assert not [
        name
        for name, text in texts.items()
        if "configuration_cache" in text or "reaper.observing.cache" in text or "recall=" in text
    ]


def test_a_plain_description_never_uses_the_cache(sweeper: Sweeper):
    sweeper.run()
    [cloud] = targets.target_sessions(["us-east-1"], (), boto3.Session())
    description.describe_endpoint(cloud, "quiet")
    assert cloud.calls[CONFIG] == 1


def test_only_the_use_of_a_used_endpoint_is_stored(account: Account, sweeper: Sweeper):
    account.invoked("quiet", "v", NOW - HOUR)
    assert sweeper.run()[1] == 0
    stored = cache.KindCache(cache=sweeper.order().cache, target=HERE, kind=KIND)
    assert not cache.read_stored(stored).descriptions
    assert len(cache.read_stored(stored).uses) == 1


DEAR = "{version: 1, rules: [{name: dear, match: {usd_per_hour: '>= 5'}, idle_after: 2h}]}"
LOOSE = """
version: 1
rules:
  - {name: dear, match: {usd_per_hour: ">= 0.01"}, idle_after: 2h, tags_may: [protect, loosen]}
"""


def looks(sweeper: Sweeper) -> tuple[Finding, int]:
    """What was found, and how many endpoints were described for it."""
    report = sweep(targets.target_sessions(["us-east-1"], (), boto3.Session()), [registry.kind(KIND)], sweeper.order())
    return report.findings[0], report.coverage[0].calls.get("sagemaker:DescribeEndpoint", 0)


def test_a_price_rule_that_did_not_match_costs_nothing_in_later_sweeps(account: Account, sweeper: Sweeper):
    account.invoked("quiet", "v", NOW - 6 * HOUR)
    sweeper.policy = DEAR
    (before, first), (after, second) = looks(sweeper), looks(sweeper)
    assert (first, second) == (1, 0)
    assert (before.case.verdict.state, before.case.verdict.last_busy) == (after.case.verdict.state, after.case.verdict.last_busy)
    assert after.case.verdict.state is State.ACTIVE


def test_a_price_rule_that_matched_applies_in_every_sweep(account: Account, quiet: Any, server: Server, sweeper: Sweeper):
    quiet.variants[0].spec = LARGE[0].spec()
    account.config("quiet-config", variants=LARGE, created=NOW - 40 * DAY)
    account.invoked("quiet", "v", NOW - 6 * HOUR)
    sweeper.policy = DEAR
    for _ in range(3):
        finding, calls = looks(sweeper)
        assert (finding.case.verdict.state, finding.case.rule.name, calls) == (State.IDLE, "rule 'dear'", 1)


@pytest.mark.parametrize("change", [updated, made_anew])
def test_an_endpoint_changed_since_is_described_for_a_price_rule(
    account: Account, server: Server, sweeper: Sweeper, change: Callable[[Account, Server], None]
):
    account.invoked("quiet", "v", NOW - 6 * HOUR)
    sweeper.policy = DEAR
    looks(sweeper)
    change(account, server)
    finding, calls = looks(sweeper)
    assert (finding.case.verdict.state, calls) == (State.IDLE, 1)


def looks_at(account: Account, server: Server, sweeper: Sweeper, hours: list[float]) -> list[int]:
    """How many endpoints were described in sweeps so many hours from now, each six hours after a use."""
    sweeper.policy, counts = DEAR, []
    for later in hours:
        account.invoked("quiet", "v", NOW + (later - 6) * HOUR)
        server.now = sweeper.now = NOW + later * HOUR
        counts.append(looks(sweeper)[1])
    return counts


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        pytest.param([0, 12, 29.9, 30.1, 31], [1, 0, 0, 1, 0], id="now and then"),
        pytest.param([0, 24.1, 48.2, 72.3], [1, 0, 1, 0], id="every day, a little later"),
    ],
)
def test_a_price_rule_describes_endpoints_again_after_a_day(
    account: Account, server: Server, sweeper: Sweeper, hours: list[float], expected: list[int]
):
    assert looks_at(account, server, sweeper, hours) == expected


def test_an_outdated_cache_entry_is_rewritten(account: Account, server: Server, sweeper: Sweeper):
    sweeper.run()
    server.now = sweeper.now = NOW + cache.SIZE_VALID_FOR + timedelta(minutes=1)
    sweeper.run()
    since = (sweeper.now - NOW) / HOUR
    assert looks_at(account, server, sweeper, [since + 1, since + 2]) == [1, 0], "what was silent is read in full at once"


def test_a_cached_size_never_decides_idleness(account: Account, quiet: Any, sweeper: Sweeper):
    """Even where no time tells of a change: it may be called idle later than its price asks for, and never sooner."""
    account.invoked("quiet", "v", NOW - 6 * HOUR)
    sweeper.policy = DEAR
    looks(sweeper)
    quiet.variants[0].count = 0
    finding, _ = looks(sweeper)
    assert finding.case.verdict.state is State.ACTIVE


def test_a_cached_size_spares_no_look_beyond_its_own_rule(account: Account, quiet: Any, sweeper: Sweeper):
    quiet.tags = {"reaper:idle-after": "48h"}
    account.invoked("quiet", "v", NOW - 30 * HOUR)
    sweeper.policy = LOOSE
    assert [looks(sweeper)[0].case.verdict.state for _ in range(2)] == [State.ACTIVE, State.ACTIVE]


def tampered(sweeper: Sweeper, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Every entry as `change` makes it."""
    [name] = set(sweeper.ledger.named_rows) - {FORMAT_ROW}
    stored = sweeper.ledger.named_rows[name]
    rows = json.loads(zlib.decompress(base64.b64decode(stored.values[cache.PACKED_COLUMN])))
    text = json.dumps({id: change(row) for id, row in rows.items()})
    packed = base64.b64encode(zlib.compress(text.encode())).decode()
    assert sweeper.ledger.write_row(name, {**stored.values, cache.PACKED_COLUMN: packed}, stored.version)


def parts(*part: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda row: row | {"parts": [dict(zip(("component", "instance", "count"), part, strict=False))]}


def body(**fields: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda row: row | {"body": row.get("body", {}) | fields}


BAD_ENTRIES = {
    "naive moment": lambda row: row | {"described_at": row["described_at"].removesuffix("Z")},
    "no moment": lambda row: row | {"described_at": None},
    "count is text": parts("Hosting", "ml.m5.large", "x"),
    "count is null": parts("Hosting", "ml.m5.large", None),
    "count is no number": parts("Hosting", "ml.m5.large", float("nan")),
    "count is true": parts("Hosting", "ml.m5.large", True),
    "instance is null": parts("Hosting", None, 1),
    "instance is a list": parts("Hosting", ["a"], 1),
    "part too short": parts("Hosting"),
    "size is a number": lambda row: row | {"size": 5},
    "revision is null": lambda row: row | {"revision": None},
    "an unknown member": lambda row: row | {"stamp": "s"},
    "no entry": lambda row: [],
}
BAD_BODIES = {
    "body is text": lambda row: row | {"body": "abc"},
    "only the name": lambda row: row | {"body": {"EndpointConfigName": "quiet-config"}},
    "types are text": body(types="abc"),
    "types are a list": body(types=["v"]),
    "no types": body(types={}),
    "another variant": body(types={"w": "ml.m5.large"}),
    "one variant more": body(types={"v": "ml.m5.large", "w": "ml.m5.large"}),
    "type is a number": body(types={"v": 5}),
    "type is null": body(types={"v": None}),
    "type is no type": body(types={"v": "cheap"}),
    "a whole configuration": body(
        types=None,
        ProductionVariants=[{"VariantName": "v", "ServerlessConfig": {"MemorySizeInMB": 1}}],
        CreationTime="2026-01-01",
    ),
}


@pytest.mark.parametrize("case", [*BAD_ENTRIES, *BAD_BODIES])
@pytest.mark.parametrize("policy", ["version: 1", DEAR], ids=["default", "price rule"])
def test_a_bad_cache_entry_is_ignored_and_replaced(account: Account, sweeper: Sweeper, case: str, policy: str):
    sweeper.policy = policy
    before, first = sweeper.run()
    good = dict(sweeper.ledger.named_rows)
    tampered(sweeper, {**BAD_ENTRIES, **BAD_BODIES}[case])
    after, again = sweeper.run()
    assert (after, first, again) == (before, 1, 1)
    assert (after.case.verdict.state, after.case.resource.size) == (State.IDLE, "ml.m5.large x1")
    assert {name: row.values for name, row in sweeper.ledger.named_rows.items()} == {
        name: row.values for name, row in good.items()
    }


@pytest.mark.parametrize("case", BAD_ENTRIES)
def test_a_bad_cache_entry_affects_no_other_endpoint(account: Account, sweeper: Sweeper, case: str):
    sweeper.policy = DEAR
    sweeper.run()
    tampered(sweeper, BAD_ENTRIES[case])
    account.invoked("quiet", "v", NOW - 6 * HOUR)
    account.endpoint("other", variants=SMALL, created=NOW - 40 * DAY, changed=CHANGED)
    account.alive("other", "v", NOW - 15 * DAY, NOW + DAY)
    report = sweep(targets.target_sessions(["us-east-1"], (), boto3.Session()), [registry.kind(KIND)], sweeper.order())
    assert {f.case.resource.name: f.case.verdict.state for f in report.findings} == {"quiet": State.ACTIVE, "other": State.IDLE}
    assert report.coverage[0].error is None


ODD_ONES: dict[str, dict[str, Any]] = {
    "serverless": {"variants": [Variant(name="v", memory_mb=2048)]},
    "asynchronous": {"variants": SMALL, "asynchronous": True},
    "a host of components": {"variants": [Variant(name="v", model=None, scaling=(1, 2))]},
    "no model of its own": {"variants": [Variant(name="v", model=None)]},
    "pools": {"variants": [Variant(name="v", instance=None, pools=(("ml.m5.large", 1),))]},
    "scaled in": {"variants": [Variant(name="v", count=0)]},
}


@pytest.mark.parametrize("case", ODD_ONES)
def test_other_endpoint_types_are_never_read_from_cache(account: Account, sweeper: Sweeper, case: str):
    """Even where an entry of it was tampered with to say that it does."""
    sweeper.ledger.memory_store.rows.clear()
    del account.contents.endpoints["quiet"]
    account.endpoint("odd", created=NOW - 40 * DAY, changed=CHANGED, **ODD_ONES[case])
    account.alive("odd", "v", NOW - 15 * DAY, NOW + DAY)
    (before, _), (after, second) = sweeper.run(), sweeper.run()
    tampered(sweeper, body(EndpointConfigName="odd-config", types={"v": "ml.p4d.24xlarge"}))
    last, third = sweeper.run()
    assert (after, last, second, third) == (before, before, 1, 1)


def test_a_deletion_is_never_promised_from_the_cache(account: Account, sweeper: Sweeper):
    sweeper.policy = "{version: 1, defaults: {action: delete}}"
    before, _ = sweeper.run()
    del account.contents.configs["quiet-config"]
    finding, calls = sweeper.run()
    [cloud] = targets.target_sessions(["us-east-1"], (), boto3.Session())
    again = assess_again(cloud, registry.kind(KIND), finding.case.resource, sweeper.order())
    assert before.case.blocked[StepName.DELETE] is None
    assert calls == 1
    assert finding.case.blocked[StepName.DELETE] == again.blocked[StepName.DELETE] is not None


def test_a_rule_that_may_delete_reads_the_configuration(account: Account, sweeper: Sweeper):
    """Though which rule holds hangs on its price."""
    sweeper.policy = "{version: 1, rules: [{name: dear, match: {usd_per_hour: '>= 5'}, action: delete}]}"
    assert [sweeper.run()[1], sweeper.run()[1]] == [1, 1]
    versions = [row.version for row in sweeper.ledger.named_rows.values()]
    assert versions == [1, 1]


def test_a_cached_endpoint_is_not_said_to_be_restorable(sweeper: Sweeper):
    bars = [sweeper.run()[0].case.blocked[StepName.DELETE] for _ in range(2)]
    assert bars[0] is None
    assert bars[1] is not None
    assert bars[1].not_read
    assert "wasn't checked" in bars[1].because


def test_owners_get_the_delete_command_from_the_cache_too(sweeper: Sweeper):
    shown = [item.stop_command(sweeper.run()[0].case) for _ in range(2)]
    assert [command.line if command else None for command in shown] == [
        "aws sagemaker delete-endpoint --region us-east-1 --endpoint-name quiet"
    ] * 2
    assert [command.label if command else None for command in shown] == [
        "Delete it now, in account 123456789012 (its configuration and models stay)",
        "Delete it now, in account 123456789012",
    ], "what was not read again is not promised"


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
def test_cache_entries_hold_in_any_local_time_zone(sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch, zone: str):
    counts = []
    for name in ("UTC", zone, "UTC"):
        monkeypatch.setenv("TZ", name)
        time.tzset()
        counts.append(sweeper.run()[1])
    monkeypatch.undo()
    time.tzset()
    assert counts == [1, 0, 0]


def test_an_unpriced_type_is_described_once_for_a_price_rule(account: Account, sweeper: Sweeper):
    account.endpoint("odd", variants=[Variant(name="v", instance="ml.zz9.large")], created=NOW - 40 * DAY, changed=CHANGED)
    account.alive("odd", "v", NOW - 15 * DAY, NOW + DAY)
    for name in ("quiet", "odd"):
        account.invoked(name, "v", NOW - 6 * HOUR)
    sweeper.policy = DEAR
    assert [looks(sweeper)[1] for _ in range(3)] == [2, 0, 0]
