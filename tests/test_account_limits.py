"""Limits per account and over the whole run: what one account has due holds no other, and the run has limits of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.builders import DAY, HOUR, NOW, TARGET
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, jumped_places, policy, standing_holds
from fakes.judged_cases import case
from reaper.case import Case
from reaper.finding import Finding, Step
from reaper.limits import holds
from reaper.limits.caps import count_places, hold_over_limits
from reaper.limits.holds import ALL_ACCOUNTS, HoldRow, LimitName, RunScope
from reaper.model import Mode, Result, StepName
from reaper.policy.schema import Limits, RunLimits

FIRST, SECOND = TARGET.account, "222222222222"
KIND = "sagemaker-endpoint"


def organization(counts: dict[str, int], **limits: Any) -> FakeDeployment:
    """So many idle things in each account, all of whose owners were notified, and all due."""
    text = str({"max_acts": 3, "max_share": "100%", "max_usd_per_hour": 1000, "max_jump": "100%", **limits}).replace("'", "")
    deployment = FakeDeployment(accounts=tuple(counts))
    deployment.policy = policy(POLICY.replace("{max_acts: 20, max_share: 100%, max_usd_per_hour: 1000}", text))
    for account, count in counts.items():
        for index in range(count):
            deployment.cloud.add(f"{account}-{index}", account=account)
    deployment.sweep(Mode.ANNOUNCE)
    deployment.now += 3 * DAY
    return deployment


def steps(deployment: FakeDeployment, **fields: Any) -> dict[str, set[str]]:
    """The steps in each account."""
    by_account: dict[str, set[str]] = {}
    for finding in deployment.sweep(**fields).findings:
        by_account.setdefault(finding.case.resource.target.account, set()).add(finding.step.name.value)
    return by_account


RUN_ENOUGH = {"run": {"max_share": "100%"}}


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max_acts": 3}, "4 actions in account 222222222222 exceed max_acts: 3"),
        (
            {"max_acts": 20, "max_share": "50%"},
            "4 of 4 sagemaker-endpoint resources in account 222222222222 exceed max_share: 50%",
        ),
        (
            {"max_acts": 20, "max_usd_per_hour": 5},
            "the cost of 4 actions in account 222222222222, $5.63 an hour, exceeds max_usd_per_hour: 5",
        ),
    ],
    ids=["max_acts", "max_share", "max_usd_per_hour"],
)
def test_a_limit_holds_the_account_that_exceeds_it_and_no_other(limits: dict[str, Any], reason: str):
    deployment = organization({FIRST: 1, SECOND: 4}, **limits, **RUN_ENOUGH)
    report = deployment.sweep()
    by_account = {f.case.resource.target.account: f for f in report.findings}
    assert (by_account[FIRST].step.name, by_account[FIRST].outcome.result) == (StepName.STOP, Result.DONE)
    expected = f"{reason}. Run `reaper release --account {SECOND}` to allow it"
    assert by_account[SECOND].step.because == f"would stop, but is on hold since 2026-11-24 10:17 UTC: {expected}"


def test_a_reason_names_the_account_if_the_cloud_does():
    named = replace(case(), resource=replace(case().resource, target=replace(TARGET, account_name="ml-prod")))
    step = limited([named], Limits(max_acts=0))[0]
    assert "1 action in account 123456789012 (ml-prod) exceeds max_acts: 0" in step.because


def test_max_share_holds_its_own_kind_in_that_account():
    other = [replace(c, resource=replace(c.resource, kind="sagemaker-notebook", id=f"n-{n}")) for n, c in enumerate([case()] * 8)]
    cases = [*(replace(case(), resource=replace(case().resource, id=f"e-{n}")) for n in range(3)), other[0]]
    busy = count_places([*cases, *other[1:]])
    steps = limited(cases, Limits(), counts=busy)
    assert [step.name for step in steps] == [StepName.HOLD] * 3 + [StepName.STOP]


def limited(cases: list[Case], limits: Limits, counts: Any = None) -> list[Step]:
    keys = {holds.account_key(c.resource.target) for c in cases} | {ALL_ACCOUNTS}
    due = [Finding(case=c, step=Step(name=StepName.STOP, because="due"), record_version=1) for c in cases]
    scope = RunScope(run="r", now=NOW, read_places=frozenset())
    rows = {key: HoldRow() for key in keys}
    return [f.step for f in hold_over_limits(due, limits, rows, scope, counts or count_places(cases))[0]]


def test_the_runs_own_limit_holds_the_whole_run():
    deployment = organization({FIRST: 2, SECOND: 3}, run={"max_acts": 4, "max_share": "100%"})
    assert steps(deployment) == {FIRST: {"hold"}, SECOND: {"hold"}}
    [hold] = standing_holds(deployment)
    assert (hold.exceeded.limit, hold.because) == (LimitName.ACTIONS, "5 actions in all accounts exceed run.max_acts: 4")
    finding = deployment.sweep().findings[0]
    assert finding.step.because.endswith("Run `reaper release --all` to allow it")


def test_the_runs_share_of_a_kind_holds_the_whole_run():
    deployment = organization({FIRST: 2, SECOND: 3}, run={"max_share": "60%"})
    assert steps(deployment) == {FIRST: {"hold"}, SECOND: {"hold"}}
    [hold] = standing_holds(deployment)
    assert hold.because == "5 of 5 sagemaker-endpoint resources in all accounts exceed run.max_share: 60%"


def test_what_an_account_holds_does_not_count_for_the_run():
    deployment = organization({FIRST: 2, SECOND: 9}, run={"max_acts": 5, "max_share": "100%"})
    assert steps(deployment) == {FIRST: {"stop"}, SECOND: {"hold"}}


def test_a_run_limit_that_is_not_set_is_never_below_an_accounts():
    assert steps(organization({FIRST: 3, SECOND: 3})) == {FIRST: {"stop"}, SECOND: {"stop"}}, "run.max_share is 25% by default"
    below = organization({FIRST: 3, SECOND: 3}, run={"max_share": "25%"})
    assert steps(below) == {FIRST: {"hold"}, SECOND: {"hold"}}


def test_a_run_limit_that_is_set_counts_in_a_single_account_too():
    assert steps(organization({FIRST: 3}, run={"max_acts": 2})) == {FIRST: {"hold"}}


def test_run_limits_have_defaults_for_an_organization():
    assert Limits().run == RunLimits(max_acts=200, max_share="25%", max_usd_per_hour=2000)  # type: ignore[arg-type]


def test_a_run_over_one_account_does_not_end_another_accounts_hold():
    deployment = organization({FIRST: 1, SECOND: 4}, **RUN_ENOUGH)
    deployment.sweep()
    deployment.policy = organization({FIRST: 1}, max_acts=20, **RUN_ENOUGH).policy
    deployment.now += HOUR
    deployment.sweep(accounts=[FIRST])
    assert [hold.because for hold in standing_holds(deployment)] == ["4 actions in account 222222222222 exceed max_acts: 3"]
    assert steps(deployment, accounts=[SECOND]) == {SECOND: {"stop"}}
    assert standing_holds(deployment) == []


def test_a_hold_of_the_run_lasts_until_a_run_has_read_all_of_it():
    deployment = organization({FIRST: 2, SECOND: 3}, run={"max_acts": 4, "max_share": "100%"})
    deployment.sweep()
    deployment.now += HOUR
    assert steps(deployment, accounts=[FIRST]) == {FIRST: {"hold"}}
    deployment.policy = organization({FIRST: 1}, **RUN_ENOUGH).policy
    assert steps(deployment) == {FIRST: {"stop"}, SECOND: {"stop"}}


def test_a_release_of_one_account_covers_only_that_account():
    deployment = organization({FIRST: 4, SECOND: 4}, **RUN_ENOUGH)
    deployment.sweep()
    holds.release_actions(deployment.ledger, "lee", deployment.now, accounts=[f"aws/{SECOND}"])
    deployment.now += HOUR
    assert steps(deployment) == {FIRST: {"hold"}, SECOND: {"stop"}}


def test_a_release_of_one_account_covers_it_under_the_runs_hold_too():
    deployment = organization({FIRST: 2, SECOND: 3}, run={"max_acts": 1, "max_share": "100%"})
    deployment.sweep()
    holds.release_actions(deployment.ledger, "lee", deployment.now, accounts=[f"aws/{SECOND}"])
    deployment.now += HOUR
    assert steps(deployment) == {FIRST: {"hold"}, SECOND: {"stop"}}


def test_a_release_of_all_covers_every_account():
    deployment = organization({FIRST: 4, SECOND: 4}, **RUN_ENOUGH)
    deployment.sweep()
    assert set(holds.standing_rows(deployment.ledger, deployment.now)) == {f"aws/{FIRST}", f"aws/{SECOND}"}
    holds.release_actions(deployment.ledger, "lee", deployment.now)
    assert holds.standing_rows(deployment.ledger, deployment.now) == {}
    deployment.now += HOUR
    assert steps(deployment) == {FIRST: {"stop"}, SECOND: {"stop"}}


def test_the_summary_names_the_release_of_the_held_accounts():
    deployment = organization({FIRST: 1, SECOND: 4}, **RUN_ENOUGH)
    deployment.sweep()
    [text] = [m.text for m in deployment.channel.messages if "ON HOLD" in m.text]
    assert f"allow with `reaper release --account {SECOND}`" in text


def test_a_run_reads_the_rows_of_all_its_accounts_in_one_request():
    deployment, requests = organization({FIRST: 1, SECOND: 1}), list[list[str]]()
    read_rows = deployment.ledger.read_rows

    def counted(names: Any) -> Any:
        requests.append(list(names))
        return read_rows(requests[-1])

    deployment.ledger.read_rows = counted  # type: ignore[method-assign]
    deployment.sweep(Mode.ANNOUNCE)
    about_limits = [sorted(names) for names in requests if "hold" in names]
    assert about_limits == [[f"acted aws/{FIRST}", f"acted aws/{SECOND}", "hold", f"hold aws/{FIRST}", f"hold aws/{SECOND}"]]


# --- the breaker over a run of several places


def spread(places: int = 5) -> FakeDeployment:
    """One idle and one busy thing in each account: too few in any of them for a jump of its own."""
    deployment = FakeDeployment(accounts=tuple(f"{n:012}" for n in range(1, places + 1)))
    deployment.policy = policy(POLICY.replace("max_usd_per_hour: 1000", "max_usd_per_hour: 1000, run: {max_share: 100%}"))
    for account in deployment.accounts:
        deployment.cloud.add(f"idle-{account}", account=account)
        deployment.cloud.add(f"busy-{account}", account=account, uses=[NOW + day * DAY / 2 for day in range(-8, 60)])
    for _ in range(3):
        deployment.sweep()
        deployment.now += HOUR
    deployment.know_days()
    return deployment


def silence(deployment: FakeDeployment) -> None:
    for thing in deployment.cloud.things.values():
        thing.uses.clear()
    deployment.now = NOW + 4 * DAY


def test_a_jump_over_the_run_holds_that_kind_everywhere():
    deployment = spread()
    silence(deployment)
    report = deployment.sweep()
    assert jumped_places(deployment) == {("aws/*/-", KIND)}
    assert {f.step.name for f in report.findings} == {StepName.HOLD, StepName.NONE}
    because = "10 of 10 sagemaker-endpoint resources in this run are idle, up from 50%; max_jump is 25%"
    assert because in finding_of(report, "idle-000000000001").step.because
    assert deployment.cloud.log == []


def test_a_narrower_run_is_held_by_the_runs_jump_and_does_not_end_it():
    deployment = spread()
    silence(deployment)
    deployment.sweep()
    deployment.now += HOUR
    assert steps(deployment, accounts=deployment.accounts[:2]) == {a: {"hold", "none"} for a in deployment.accounts[:2]}
    assert jumped_places(deployment) == {("aws/*/-", KIND)}


def test_a_run_that_reads_all_of_it_ends_the_runs_jump():
    deployment = spread()
    silence(deployment)
    deployment.sweep()
    for name, thing in deployment.cloud.things.items():
        if name.startswith("busy"):
            thing.uses.append(deployment.now)
    deployment.now += HOUR
    deployment.sweep()
    assert jumped_places(deployment) == set()


def test_only_a_release_of_all_ends_the_runs_jump():
    deployment = spread()
    silence(deployment)
    deployment.sweep()
    holds.release_actions(deployment.ledger, "lee", deployment.now, accounts=["aws/000000000001"])
    assert jumped_places(deployment) == {("aws/*/-", KIND)}
    holds.release_actions(deployment.ledger, "lee", deployment.now)
    assert jumped_places(deployment) == set()


def test_a_run_over_one_place_has_no_series_over_the_run():
    deployment = spread(places=1)
    target = holds.run_place(("aws/000000000001/us-east-1", KIND))
    assert target == ("aws/*/-", KIND)
    assert deployment.ledger.statistics(replace(TARGET, account=ALL_ACCOUNTS, region=None), KIND, 10) == []


# --- properties

accounts = st.sampled_from(["111111111111", "222222222222", "333333333333"])
usd = st.one_of(st.none(), st.sampled_from([0.5, 1.0, 50.0, 150.0]))
due_lists = st.lists(st.tuples(accounts, st.sampled_from([KIND, "sagemaker-notebook"]), usd), max_size=40)
ROOMY = RunLimits(max_acts=10**6, max_share="100%", max_usd_per_hour=10**6)  # type: ignore[arg-type]


def cases_of(due: list[tuple[str, str, float | None]]) -> list[Case]:
    base = case()
    return [
        replace(
            base, usd_per_hour=price, resource=replace(base.resource, id=f"{n}", kind=kind, target=replace(TARGET, account=a))
        )
        for n, (a, kind, price) in enumerate(due)
    ]


@settings(max_examples=200, deadline=None)
@given(due=due_lists, max_acts=st.integers(0, 10), share=st.sampled_from(["0%", "25%", "100%"]), dollars=st.integers(0, 300))
def test_an_accounts_limits_never_hold_another_account(due: Any, max_acts: int, share: str, dollars: int):
    """Each account's steps are the same alone as together with the others."""
    limits = Limits(max_acts=max_acts, max_share=share, max_usd_per_hour=dollars, run=ROOMY)  # type: ignore[arg-type]
    together = cases_of(due)
    whole = {c.resource.id: s for c, s in zip(together, limited(together, limits), strict=True)} if together else {}
    for account in {a for a, _, _ in due}:
        alone = [c for c in together if c.resource.target.account == account]
        assert [whole[c.resource.id] for c in alone] == limited(alone, limits)


@settings(max_examples=200, deadline=None)
@given(due=due_lists, most=st.integers(0, 30), run_most=st.integers(0, 60))
def test_no_run_carries_out_more_than_its_limits(due: Any, most: int, run_most: int):
    run = RunLimits(max_acts=run_most, max_share="100%", max_usd_per_hour=10**6)  # type: ignore[arg-type]
    cases = cases_of(due)
    carried = [c for c, s in zip(cases, limited(cases, Limits(max_acts=most, run=run)), strict=True) if s.name is StepName.STOP]
    assert len(carried) <= run_most
    assert all(count <= most for count in Counter(c.resource.target.account for c in carried).values())
