"""What lives inside an endpoint or a component, as the core sees it; and what a stack manages."""

from __future__ import annotations

import pytest

from on_aws.actions.stage import WINDOW, Stage
from on_aws.conftest import DAY, NOW
from reaper import registry
from reaper.model import Resource, StepName
from reaper.policy import rules as policy_rules
from reaper.policy.file import load_policy
from reaper_sandbox.aws import scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import denied, on
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

COMPONENT = "sagemaker-inference-component"
STACK = {"aws:cloudformation:stack-name": "prod"}
POLICY = """
version: 1
defaults: {action: delete}
rules:
  - {name: hers are left alone, match: {kind: sagemaker-inference-component, name: "Pro*", tags: {owner: kofi, team: language}}, action: ignore}
"""


@pytest.fixture
def stage(server: Server, account: Account) -> Stage:
    account.endpoint("e", variants=[Variant(model=None, scaling=(0, 4), count=2)], tags={"team": "language"})
    account.component("Prod", "e", copies=2, tags={"owner": "kofi"})
    account.component("test", "e")
    for name in ("Prod", "test"):
        scaled.wake(account, scaled.copies(account, name), f"wake-{name}")
    return Stage(server, "sagemaker-endpoint")


def within(resource: Resource) -> dict[str, Resource]:
    return {one.name: one for one in resource.contained}


def looked(stage: Stage, name: str = "e") -> Resource:
    return registry.action_functions(stage.kind).read_now(stage.cloud(), stage.resource(name))


@pytest.mark.parametrize("how", ["sweep", "look", "again"])
def test_an_endpoint_contains_its_components_as_their_sweep_sees_them(stage: Stage, how: str):
    readers = {
        "sweep": stage.resource,
        "look": lambda name: looked(stage),
        "again": lambda name: stage.again(stage.resource(name)).resource,
    }
    parts = within(readers[how]("e"))
    own = Stage(stage.server, COMPONENT).resource("Prod")
    same = ("kind", "id", "name", "target", "region", "created", "changed", "status", "tags")
    assert [getattr(parts["Prod"], name) for name in same] == [getattr(own, name) for name in same]
    assert parts["Prod"].tags == {"team": "language", "owner": "kofi"}
    assert set(parts) == {"Prod", "test"}
    rules = {name: policy_rules.effective_rule(load_policy(POLICY).policy, one, None, NOW) for name, one in parts.items()}
    assert (rules["Prod"].protected_because, rules["test"].protected_because) == ("rule 'hers are left alone' says ignore", None)


@pytest.mark.parametrize("how", ["sweep", "again"])
def test_a_components_host_id_equals_the_hosts_own_id(stage: Stage, how: str):
    part = Stage(stage.server, COMPONENT)
    component = part.resource("Prod") if how == "sweep" else part.again(part.resource("Prod")).resource
    assert component.host_id == stage.resource("e").id


def test_the_rechecks_component_tags_replace_the_listed_ones(account: Account, stage: Stage):
    resource = stage.resource("e")
    account.contents.components["test"].tags = {"owner": "ana"}
    fresh = registry.action_functions(stage.kind).read_now(stage.cloud(), resource)
    account.contents.components["test"].tags = None
    [observation] = registry.kind(stage.kind).observe(stage.cloud(), [fresh], WINDOW)
    assert within(observation.resource)["test"].tags == {"team": "language", "owner": "ana"}


def test_unreadable_component_tags_are_none(stage: Stage, server: Server):
    server.rules.append(on("GetResources", denied()))
    assert {one.tags is None for one in within(stage.resource("e")).values()} == {True}


def test_an_endpoint_without_components_has_nothing_inside(account: Account, stage: Stage):
    account.endpoint("plain", variants=[Variant(count=2)])
    assert (within(stage.resource("plain")), within(looked(stage, "plain"))) == ({}, {})


@pytest.mark.parametrize("how", ["sweep", "again"])
def test_a_component_contains_its_adapters(account: Account, stage: Stage, how: str):
    account.component("adapter", "e", base="Prod", tags={"owner": "ana"})
    part = Stage(stage.server, COMPONENT)
    parts = within(part.resource("Prod") if how == "sweep" else part.again(part.resource("Prod")).resource)
    assert {name: one.tags for name, one in parts.items()} == {"adapter": {"team": "language", "owner": "ana"}}
    assert parts["adapter"].created == NOW - 30 * DAY


@pytest.mark.parametrize(
    ("tags", "because"),
    [
        (STACK, "it belongs to stack prod; delete it in CloudFormation"),
        ({"aws:other": "x"}, "its tag aws:other is reserved by AWS and couldn't be restored"),
    ],
)
def test_resources_with_reserved_tags_are_not_deleted(account: Account, stage: Stage, tags: dict, because: str):
    account.contents.endpoints["e"].tags = tags
    bar = stage.able("e")[StepName.DELETE]
    assert bar
    assert (bar.because, bar.already_done) == (because, False)
    part = Stage(stage.server, COMPONENT).able("Prod")[StepName.DELETE]
    assert part
    assert (part.because, part.already_done) == (because, False)


@pytest.mark.parametrize("when", ["before the sweep", "since the sweep"])
def test_a_component_managed_by_a_stack_keeps_its_endpoint(account: Account, stage: Stage, when: str):
    resource = stage.resource("e")
    account.contents.components["test"].tags = STACK
    able = (
        stage.able("e")
        if when == "before the sweep"
        else registry.kind(stage.kind).blocked_actions(stage.again(resource).resource)
    )
    assert able[StepName.DELETE]
    assert "it belongs to stack prod" in able[StepName.DELETE].because
    assert able[StepName.STOP] is None


@pytest.mark.parametrize(("kind", "name"), [("sagemaker-endpoint", "e"), (COMPONENT, "Prod")])
def test_a_stop_warns_that_a_stack_may_undo_it(account: Account, stage: Stage, kind: str, name: str):
    account.contents.endpoints["e"].tags = STACK
    message, _ = Stage(stage.server, kind).move(name, StepName.STOP)
    assert message.endswith("; its stack prod may change it back")
