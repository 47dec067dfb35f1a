"""plan, apply, restore, undo, release and explain as a person runs them: processes of their own against the sandbox."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import forks
from fakes.records import a_record
from reaper.ledger import opening
from reaper.model import StepName
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import denied, on
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
POLICY = """\
version: 1
defaults: {{action: stop, idle_after: 24h, grace: 3d}}
limits: {{max_acts: {most}, max_share: 100%}}
owners: {{domains: [example.com], fallback: admins@example.com}}
channels: [{{type: folder, path: "{folder}"}}]
"""


class Desk:
    """Three endpoints of three instances, idle for weeks and warned of four days ago, and the command to run on them."""

    def __init__(self, home: Path, server: Server) -> None:
        self.home, self.server, self.now = home, server, datetime.now(UTC)
        self.account = Account(server)
        self.ids = [self._quiet(name) for name in ("a", "b", "c")]
        self.policy(most=20)

    def _quiet(self, name: str) -> str:
        endpoint = self.account.endpoint(name, variants=(Variant(count=3),))
        self.account.alive(name, "AllTraffic", self.now - 20 * DAY, self.now + DAY)
        record = a_record(
            idle_since=self.now - 20 * DAY,
            seen_idle_at=self.now - HOUR,
            warned_at=self.now - 4 * DAY,
            receipt="r",
            announced=StepName.STOP,
            not_before=self.now - DAY,
        )
        ledger = opening.open_ledger(f"sqlite://{self.home}/ledger.db", {})
        assert ledger.write_record(endpoint.arn, record, 0, self.now - HOUR)
        ledger.close()
        return endpoint.arn

    def policy(self, most: int) -> None:
        (self.home / "policy.yaml").write_text(POLICY.format(most=most, folder=self.home / "mails"))

    def counts(self) -> list[int]:
        return [self.account.contents.endpoints[name].variants[0].count for name in ("a", "b", "c")]

    def environ(self, **environ: str) -> dict[str, str]:
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))}
        ours = {
            "REAPER_LEDGER": f"sqlite://{self.home}/ledger.db",
            "REAPER_MANIFESTS": str(self.home / "manifests"),
            "REAPER_POLICY": str(self.home / "policy.yaml"),
        }
        return {**plain, **self.server.env, **ours, **environ}

    def __call__(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return forks.reaper(*arguments, env=self.environ(**environ), cwd=self.home)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Server() as server:
        yield Desk(tmp_path, server)


def test_a_plan_changes_nothing_until_applied(desk: Desk):
    made = desk("plan", "--cloud", "aws", "-o", "plan.json")
    assert (made.returncode, desk.counts()) == (0, [3, 3, 3]), made.stderr
    assert made.stdout.startswith("3 scale-ins; saving $")
    assert len(json.loads((desk.home / "plan.json").read_text())["acts"]) == 3
    applied = desk("apply", "plan.json")
    assert (applied.returncode, desk.counts()) == (0, [1, 1, 1]), applied.stdout + applied.stderr
    assert "3 of 3 actions carried out in run " in applied.stdout
    run_id = applied.stdout.split()[-1]
    undone = desk("undo", "--run", run_id[:7])
    assert (undone.returncode, desk.counts()) == (0, [3, 3, 3]), undone.stdout + undone.stderr
    assert f"{run_id[:7]} is run {run_id}\n" in undone.stderr
    again = desk("apply", "plan.json")
    assert (again.returncode, desk.counts()) == (1, [3, 3, 3]), again.stdout + again.stderr


def test_a_plan_for_a_pipe_is_json_only_and_needs_no_file_to_be_seen(desk: Desk):
    assert len(json.loads(desk("plan", "--cloud", "aws", "-o", "-").stdout)["acts"]) == 3
    shown = desk("plan", "--cloud", "aws")
    assert ("Due (3)" in shown.stdout, "{" in shown.stdout) == (True, False)
    assert not (desk.home / "plan.json").exists()


def test_a_report_in_a_file_leaves_the_headline_on_stderr(desk: Desk):
    swept = desk("sweep", "--cloud", "aws", "--output", "report.json")
    assert (swept.stdout, "Idle now  $" in swept.stderr, "3 resources  0 active" in swept.stderr) == ("", True, True)


def test_apply_leaves_resources_outside_the_plan_alone(desk: Desk):
    desk.account.contents.endpoints["c"].tags = {"reaper:keep": "true"}
    assert desk("plan", "--cloud", "aws", "-o", "plan.json").returncode == 0
    desk.account.contents.endpoints["c"].tags = {}
    applied = desk("apply", "plan.json")
    assert (applied.returncode, desk.counts()) == (0, [1, 1, 3]), applied.stdout + applied.stderr


def test_apply_refuses_a_changed_resource_only(desk: Desk):
    desk("plan", "--cloud", "aws", "-o", "plan.json")
    desk.account.contents.endpoints["b"].tags = {"team": "vision"}
    applied = desk("apply", "plan.json")
    assert (applied.returncode, desk.counts()) == (1, [1, 3, 1]), applied.stdout + applied.stderr
    assert "endpoint/b: refused: changed since the plan was made: tags" in applied.stdout


def forged(text: str, change: Callable[[dict[str, Any]], object]) -> str:
    """The plan as someone would forge it: the hash is no secret."""
    plan = json.loads(text)
    plan.pop("sha256")
    change(plan)
    plan["sha256"] = sha256(json.dumps(plan, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return json.dumps(plan)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(lambda text: text.replace("stop", "delete"), "edited after it was written", id="changed by hand"),
        pytest.param(lambda text: "nonsense", "not a plan file of `reaper plan`: it isn't JSON", id="no plan"),
        pytest.param(lambda text: "[]", "not a plan file of `reaper plan`: one of its values has the wrong type", id="a list"),
        pytest.param(lambda text: "[" * 3000, "not a plan file of `reaper plan`: it is nested too deep", id="nested too deep"),
        pytest.param(lambda text: "{}", "`reaper plan`: it has no 'sha256'", id="empty"),
        pytest.param(lambda text: forged(text, lambda plan: plan["acts"][0].pop("move")), "it has no 'move'", id="no action"),
        pytest.param(lambda text: forged(text, lambda plan: plan["acts"][0].update(seen=5)), "the wrong type", id="no state"),
        pytest.param(lambda text: forged(text, lambda plan: plan["scope"].update(cloud=["aws"])), "cloud", id="odd scope"),
    ],
)
def test_apply_refuses_a_damaged_plan_before_the_sweep(desk: Desk, spoil, message):
    desk("plan", "--cloud", "aws", "-o", "plan.json")
    file = desk.home / "plan.json"
    file.write_text(spoil(file.read_text()))
    applied = desk("apply", "plan.json")
    assert (applied.returncode, desk.counts()) == (2, [3, 3, 3])
    assert message in applied.stderr
    assert "Error" not in applied.stderr


def test_apply_refuses_a_plan_of_another_policy(desk: Desk):
    desk("plan", "--cloud", "aws", "-o", "plan.json")
    desk.policy(most=2)
    applied = desk("apply", "plan.json")
    assert (applied.returncode, desk.counts()) == (2, [3, 3, 3])
    assert "under a different policy" in applied.stderr


def test_too_many_actions_wait_for_a_release(desk: Desk):
    desk.policy(most=2)
    first_run = desk("sweep", "--cloud", "aws", "--mode", "enforce", "--format", "json")
    assert ({f["step"] for f in json.loads(first_run.stdout)["findings"]}, desk.counts()) == ({"hold"}, [3, 3, 3]), (
        first_run.stderr
    )
    released = desk("release")
    assert (released.returncode, "Released until" in released.stdout) == (0, True), released.stderr
    assert (
        f"(run {json.loads(first_run.stdout)['run']['id']}): 3 actions in account 123456789012 exceed max_acts: 2\n"
        in released.stdout
    )
    assert f"in sqlite://{desk.home}/ledger.db" in released.stdout
    completed = desk("sweep", "--cloud", "aws", "--mode", "enforce", "--format", "json")
    assert ({f["outcome"] for f in json.loads(completed.stdout)["findings"]}, desk.counts()) == ({"done"}, [1, 1, 1]), (
        completed.stderr
    )


def test_a_release_names_its_scope_and_ledger(desk: Desk):
    for environ, where in (
        ({}, f"sqlite://{desk.home}/ledger.db"),
        ({"REAPER_LEDGER": "", "XDG_STATE_HOME": str(desk.home / "state")}, "ledger.db (your own: REAPER_LEDGER is not set)"),
    ):
        completed = desk("release", "--for", "2h", **environ)
        assert completed.returncode == 0, completed.stderr
        assert "Nothing was on hold in " in completed.stdout
        assert "including those at the end of office hours" in completed.stdout
        assert where in completed.stdout
    desk.policy(most=2)
    acted = desk("sweep", "--cloud", "aws", "--mode", "enforce")
    assert desk.counts() == [1, 1, 1], acted.stdout


def test_a_release_covers_only_the_accounts_it_names(desk: Desk):
    desk.policy(most=2)
    desk("sweep", "--cloud", "aws", "--mode", "enforce")
    other = desk("release", "--account", "222222222222,00000000-0000-0000-0000-000000000001")
    assert "Nothing was on hold in 222222222222, 00000000-0000-0000-0000-000000000001 in sqlite" in other.stdout
    desk("sweep", "--cloud", "aws", "--mode", "enforce")
    assert desk.counts() == [3, 3, 3]
    own = desk("release", "--account", "222222222222", "--account", "123456789012")
    assert "3 actions in account 123456789012 exceed max_acts: 2\n" in own.stdout
    desk("sweep", "--cloud", "aws", "--mode", "enforce")
    assert desk.counts() == [1, 1, 1]


def test_a_release_covers_the_deployments_accounts_by_default(desk: Desk):
    desk.policy(most=2)
    other = {"REAPER_ACCOUNTS": "222222222222"}
    desk("sweep", "--cloud", "aws", "--mode", "enforce")
    assert "Still on hold: 123456789012. To release them, use --account or --all.\n" in desk("release", **other).stdout
    desk("sweep", "--cloud", "aws", "--mode", "enforce")
    assert desk.counts() == [3, 3, 3]
    desk("release", "--all", **other)
    desk("sweep", "--cloud", "aws", "--mode", "enforce")
    assert desk.counts() == [1, 1, 1]


def ledger_dump(desk: Desk) -> list[str]:
    """Everything in the ledger, as SQL."""
    with closing(sqlite3.connect(f"file:{desk.home}/ledger.db?mode=ro", uri=True)) as store:
        return list(store.iterdump())


def mails(desk: Desk) -> list[str]:
    return sorted(str(path) for path in (desk.home / "mails").rglob("*") if path.is_file())


def test_a_plan_writes_nothing_and_sends_no_notice(desk: Desk):
    desk.policy(most=2)
    before = ledger_dump(desk)
    assert desk("plan", "--cloud", "aws", "-o", "plan.json").returncode == 0
    assert (ledger_dump(desk), mails(desk)) == (before, [])


def test_announce_with_release_and_apply_needs_no_enforce(desk: Desk):
    desk.policy(most=2)
    announced = desk("sweep", "--cloud", "aws", "--mode", "announce", "--format", "json")
    assert {f["step"] for f in json.loads(announced.stdout)["findings"]} == {"hold"}, announced.stderr
    assert any("ON HOLD" in Path(mail).read_text() for mail in mails(desk)), "the admins are told"
    made = desk("plan", "--cloud", "aws", "-o", "plan.json")
    assert "0 actions due, 3 on hold" in made.stderr
    assert (desk("apply", "plan.json").returncode, desk.counts()) == (0, [3, 3, 3])
    assert "On hold since " in desk("release").stdout
    made = desk("plan", "--cloud", "aws", "-o", "plan.json")
    assert "3 actions due, 0 on hold" in made.stderr
    applied = desk("apply", "plan.json")
    assert (applied.returncode, desk.counts()) == (0, [1, 1, 1]), applied.stdout + applied.stderr
    assert not (desk.home / "manifests" / json.loads(announced.stdout)["run"]["id"]).exists()


def test_an_expired_release_puts_actions_on_hold_again(desk: Desk):
    desk.policy(most=2)
    desk("sweep", "--cloud", "aws", "--mode", "announce")
    desk("release")
    assert "3 actions due, 0 on hold" in desk("plan", "--cloud", "aws", "-o", "plan.json").stderr
    store = opening.open_ledger(f"sqlite://{desk.home}/ledger.db", {})
    row = store.read_row("hold")
    over = json.loads(row.values["document"])
    over["release"]["valid_until"] = over["release"]["given_at"]
    store.write_row("hold", {**row.values, "document": json.dumps(over)}, row.version)
    store.close()
    applied = desk("apply", "plan.json")
    assert (applied.returncode, desk.counts()) == (1, [3, 3, 3]), applied.stdout + applied.stderr
    assert "would stop, but is on hold since " in applied.stdout
    assert "0 of 3 actions carried out in run " in applied.stdout


def test_applying_part_of_a_plan_does_not_bypass_limits(desk: Desk):
    desk.account.contents.endpoints["c"].tags = {"reaper:keep": "true"}
    desk.policy(most=2)
    assert "2 actions due, 0 on hold" in desk("plan", "--cloud", "aws", "-o", "plan.json").stderr
    desk.account.contents.endpoints["c"].tags = {}
    applied = desk("apply", "plan.json")
    assert (applied.returncode, desk.counts()) == (1, [3, 3, 3]), applied.stdout + applied.stderr


def test_apply_sends_notices_only_about_its_plan(desk: Desk):
    assert desk("plan", "--cloud", "aws", "-o", "plan.json").returncode == 0
    late = desk.account.endpoint("late", variants=(Variant(count=3),))
    late.created = desk.now - 40 * DAY
    desk.account.alive("late", "AllTraffic", desk.now - 20 * DAY, desk.now + DAY)
    applied = desk("apply", "plan.json")
    assert (applied.returncode, desk.counts()) == (0, [1, 1, 1]), applied.stdout + applied.stderr
    store = opening.open_ledger(f"sqlite://{desk.home}/ledger.db", {})
    assert store.record(late.arn, desk.now).notice is None
    store.close()


def test_an_empty_plan_counts_the_actions_on_hold(desk: Desk):
    desk.policy(most=2)
    made = desk("plan", "--cloud", "aws", "-o", "plan.json")
    assert "3 resources checked: 0 actions due, 3 on hold." in made.stderr
    applied = desk("apply", "plan.json")
    assert (applied.returncode, desk.counts()) == (0, [3, 3, 3]), applied.stderr
    assert applied.stdout.startswith("plan.json contains no actions; 3 were on hold when it was written. Nothing was done.\n")
    assert applied.stdout.count("3 actions in account 123456789012 exceed max_acts: 2, since ") == 1
    assert "To allow them:\n  reaper release --account 123456789012\n" in applied.stdout


def test_apply_refuses_a_memory_ledger(desk: Desk):
    desk("plan", "--cloud", "aws", "-o", "plan.json")
    applied = desk("apply", "plan.json", REAPER_LEDGER="memory:")
    assert (applied.returncode, desk.counts()) == (2, [3, 3, 3])
    assert "lasts for one run only" in applied.stderr


def test_an_unwritable_report_stops_nothing(desk: Desk):
    completed = desk("sweep", "--cloud", "aws", "--mode", "enforce", "--output", "nowhere/report")
    assert (completed.returncode, desk.counts()) == (2, [3, 3, 3])


def test_restoring_twice_does_no_harm(desk: Desk):
    desk("sweep", "--cloud", "aws", "--mode", "enforce")
    assert desk.counts() == [1, 1, 1]
    back = desk("restore", desk.ids[1])
    assert (back.returncode, desk.counts()) == (0, [1, 3, 1]), back.stdout + back.stderr
    twice = desk("restore", desk.ids[1])
    assert (twice.returncode, "already restored on " in twice.stdout) == (0, True)
    [manifest] = [str(p) for p in (desk.home / "manifests").glob("*/*/*.json") if "endpoint/a" in p.read_text()]
    named = desk("restore", desk.ids[0], "--manifest", manifest)
    assert (named.returncode, desk.counts()) == (0, [3, 3, 1]), named.stdout + named.stderr


def test_a_changed_manifest_is_refused_and_a_trusted_one_used(desk: Desk):
    desk("sweep", "--cloud", "aws", "--mode", "enforce")
    [manifest] = [p for p in (desk.home / "manifests").glob("*/*/*.json") if "endpoint/a" in p.read_text()]
    kept = manifest.read_bytes()
    manifest.write_bytes(kept + b" ")
    refused = desk("restore", desk.ids[0])
    assert (refused.returncode != 0, "isn't as the reaper stored it" in refused.stderr) == (True, True), refused.stderr
    manifest.write_bytes(kept)
    another = f"sqlite://{desk.home}/another.db"
    unproven = desk("restore", desk.ids[0], "--manifest", str(manifest), REAPER_LEDGER=another)
    assert ("--trust-manifest" in unproven.stderr, desk.counts()) == (True, [1, 1, 1])
    trusted = desk("restore", desk.ids[0], "--manifest", str(manifest), "--trust-manifest", REAPER_LEDGER=another)
    assert (trusted.returncode, desk.counts()) == (0, [3, 1, 1]), trusted.stderr


def test_a_denied_action_exits_with_3_and_names_the_permission(desk: Desk):
    desk.server.rules.append(on("UpdateEndpointWeightsAndCapacities", denied()))
    completed = desk("sweep", "--cloud", "aws", "--mode", "enforce", "--format", "json")
    report = json.loads(completed.stdout)
    assert (completed.returncode, desk.counts()) == (3, [3, 3, 3])
    assert {f["outcome"] for f in report["findings"]} == {"failed"}
    [row] = [c for c in report["coverage"] if c["kind"] == "acts"]
    assert row["missing"] == "sagemaker:UpdateEndpointWeightsAndCapacities"


def test_explain_shows_memory_rules_actions_and_dates(desk: Desk):
    completed = desk("explain", "a", "--cloud", "aws")
    assert completed.returncode == 0, completed.stderr
    for text in (
        "announced stop on or after",
        "kind can  stop, possible now",
        "step      stop: ",
        "busy above 0",
        "memory    notified",
    ):
        assert text in completed.stdout, completed.stdout


def test_below_enforce_no_action_is_carried_out(desk: Desk):
    for mode in ("audit", "notify", "announce"):
        assert desk("sweep", "--cloud", "aws", "--mode", mode).returncode == 0
    assert desk.counts() == [3, 3, 3]
    assert not (desk.home / "manifests").exists()


def test_an_endpoint_with_a_component_on_it_is_left_alone(desk: Desk):
    host = desk.account.endpoint("host", variants=(Variant(count=1, model=None),), tags={"owner": "ana@example.com"})
    inside = desk.account.component("inside", "host", tags={"owner": "kay@example.com"})
    desk.account.alive("host", "AllTraffic", desk.now - 20 * DAY, desk.now + DAY)
    record = a_record(warned_at=desk.now - 4 * DAY, receipt="r", announced=StepName.DELETE, not_before=desk.now - DAY)
    ledger = opening.open_ledger(f"sqlite://{desk.home}/ledger.db", {})
    for id_ in (host.arn, inside.arn):
        row = replace(record, idle_since=desk.now - 20 * DAY, seen_idle_at=desk.now - HOUR)
        assert ledger.write_record(id_, row, 0, desk.now - HOUR)
    ledger.close()
    (desk.home / "policy.yaml").write_text(
        POLICY.format(most=20, folder=desk.home / "mails").replace("action: stop", "action: delete")
    )
    made = desk("sweep", "--cloud", "aws", "--kind", "sagemaker-*", "--mode", "enforce", "--format", "json")
    there = "host" in desk.account.contents.endpoints, inside.name in desk.account.contents.components
    assert (made.returncode, *there) == (0, True, True), made.stderr
    [found] = [one for one in json.loads(made.stdout)["findings"] if one["name"] == "host"]
    assert found["next"]["blocked_because"] == "it hosts 1 component; it is handled on its own"
    assert "deleted" not in " ".join(path.read_text() for path in (desk.home / "mails").glob("kay@*.eml"))
