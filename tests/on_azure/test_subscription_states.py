"""Which subscriptions are swept, and in which of them nothing is ever changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from on_azure.conftest import LONG_AGO, OTHER, SUB
from reaper.azure import targets
from reaper.azure.requests import ArmChange
from reaper.azure.targets import READ_BELOW
from reaper.errors import CloudError, SettingsError
from reaper.model import Account, Mode
from reaper.policy.file import load_policy
from reaper.run import run
from reaper.settings import Settings
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.fault import error, on
from reaper_sandbox.azure.rights import deny
from reaper_sandbox.azure.server import Server

THIRD = "33333333-3333-3333-3333-333333333333"
GROUPED = Settings(cloud="azure", management_group="ml")


@pytest.fixture
def company(server: Server) -> Server:
    """Two subscriptions below the management group `ml`, one of them deeper, and one elsewhere."""
    server.subscription(SUB, "Research").under("ml")
    server.subscription(OTHER, "Serving").under("ml-prod")
    server.world.estate.parents["ml-prod"] = "ml"
    server.subscription(THIRD, "Finance").under("finance")
    return server


def names(accounts: list[Account]) -> dict[str, str | None]:
    return {account.id: account.name for account in accounts}


def test_a_management_group_has_all_subscriptions_below_it(company: Server):
    assert names(targets.list_accounts(GROUPED)) == {SUB: "Research", OTHER: "Serving"}


def test_a_group_is_named_in_any_case_and_its_list_is_read_to_its_end(company: Server):
    company.world.page_size = 1
    assert set(names(targets.list_accounts(replace(GROUPED, management_group="ML")))) == {SUB, OTHER}


def test_one_below_a_group_that_cannot_be_read_is_listed_all_the_same(company: Server):
    company.world.unreadable.add(OTHER)
    accounts = {account.id: account for account in targets.list_accounts(GROUPED)}
    assert accounts[OTHER].name == "Serving"
    [session], _ = targets.open_account(GROUPED, accounts[OTHER], may_act=True)
    assert "can't be read" in (session.target.blocked_because or "")
    report = run(GROUPED, load_policy(None), lambda: company.now)
    denied = [row for row in report.coverage if row.status == "denied"]
    assert {(row.account, row.missing) for row in denied} == {(OTHER, "Microsoft.Resources/subscriptions/read")}
    assert len(denied) == 3


@pytest.mark.parametrize("group", ["nowhere", "ml"])
def test_a_group_that_cannot_be_read_is_a_wrong_setting(company: Server, group: str):
    company.rules.append(deny(READ_BELOW))
    with pytest.raises(SettingsError, match=f"management group '{group}' can't be read: it needs {READ_BELOW}"):
        targets.list_accounts(replace(GROUPED, management_group=group))


def test_a_group_without_subscriptions_is_a_wrong_setting(company: Server):
    company.world.estate.parents["empty"] = "ml"
    with pytest.raises(SettingsError, match="the management group 'empty' has no subscriptions"):
        targets.list_accounts(replace(GROUPED, management_group="empty"))


def test_a_call_narrows_a_group_and_never_leaves_it(company: Server):
    assert set(names(targets.list_accounts(replace(GROUPED, subscriptions=(OTHER,))))) == {OTHER}
    with pytest.raises(SettingsError, match=f"subscription {THIRD} isn't below the management group 'ml'"):
        targets.list_accounts(replace(GROUPED, subscriptions=(OTHER, THIRD)))


def test_a_list_of_subscriptions_that_fails_leaves_named_ones_readable(company: Server):
    company.rules.append(on("GET", "/subscriptions", error(400, "Broken", "not today")))
    [account] = targets.list_accounts(Settings(cloud="azure", subscriptions=(SUB,)))
    assert account.id == SUB
    for state in ("Enabled", "Warned"):
        company.subscription(SUB).in_state(state)
        [session], _ = targets.open_account(GROUPED, account, may_act=True)
        assert (session.target.blocked_because is None) is (state == "Enabled")
    with pytest.raises(CloudError, match="not today"):
        targets.list_accounts(Settings(cloud="azure"))


@pytest.mark.parametrize(
    ("state", "may_act"),
    [
        ("Enabled", True),
        ("PastDue", True),
        ("Warned", False),
        ("Disabled", False),
        ("Expired", False),
        ("Deleting", False),
        ("", False),
    ],
)
def test_only_enabled_and_past_due_subscriptions_may_be_acted_on(company: Server, state: str, may_act: bool):
    company.subscription(SUB).in_state(state)
    accounts = {account.id: account for account in targets.list_accounts(GROUPED)}
    assert accounts[SUB].may_act is may_act
    for account in (accounts[SUB], Account(cloud="azure", id=SUB)):
        [session], _ = targets.open_account(GROUPED, account, may_act=True)
        assert (session.target.blocked_because is None) is may_act


def test_a_subscription_whose_state_cannot_be_read_is_not_acted_on(company: Server):
    company.rules.append(deny("Microsoft.Resources/subscriptions/read"))
    [session], _ = targets.open_account(GROUPED, Account(cloud="azure", id=SUB), may_act=True)
    assert "can't be read" in (session.target.blocked_because or "")


@pytest.mark.parametrize("state", ["Warned", "Disabled", "Expired"])
def test_one_process_acts_in_no_such_subscription_and_says_so(company: Server, state: str, tmp_path: Path):
    cluster = company.subscription(SUB).workspace("vision").cluster("gpus", nodes=(2, 4), created=LONG_AGO)
    signals.nodes(cluster, active=0, idle=2, since=LONG_AGO)
    company.world.operations.takes *= 0
    settings = replace(GROUPED, mode=Mode.ENFORCE, ledger=f"sqlite://{tmp_path}/ledger.db", manifests=str(tmp_path / "manifests"))
    policy = (
        "{version: 1, defaults: {action: stop, idle_after: 24h, grace: 1h}, limits: {max_share: 100%}, "
        f"owners: {{fallback: ada@example.com}}, channels: [{{type: folder, path: '{tmp_path}/mails'}}]}}"
    )
    assert [f.step.name for f in run(settings, load_policy(policy), lambda: company.now).findings] == ["warn"]
    company.now += (company.now - LONG_AGO) / 100
    company.subscription(SUB).in_state(state)
    [finding] = run(settings, load_policy(policy), lambda: company.now).findings
    assert f"its subscription is {state}" in finding.step.because
    assert finding.step.name != "stop"
    assert company.mutations == []
    company.subscription(SUB).in_state("Enabled")
    company.now += (company.now - LONG_AGO) / 100
    run(settings, load_policy(policy), lambda: company.now)
    assert [request.method for request in company.mutations] == ["PATCH"]


@pytest.mark.parametrize("method", ["PATCH", "POST"])
def test_the_sandbox_refuses_changes_where_azure_does(company: Server, method: str):
    cluster = company.subscription(SUB).in_state("Warned").workspace("vision").cluster("gpus", created=LONG_AGO)
    [session] = targets.target_sessions([SUB])
    path = f"{cluster.id}/stop" if method == "POST" else cluster.id
    change = ArmChange(
        permission="Microsoft.MachineLearningServices/workspaces/computes/write", path=path, body={}, method=method
    )
    with pytest.raises(CloudError, match="ReadOnlyDisabledSubscription"):
        session.change(change)
