"""Hosts of inference components, and components with adapters: an action touches one resource, so whatever has others on it is left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta

import pytest

from fakes.records import an_act, open_targets
from on_aws.actions import deployment as wired
from on_aws.actions.deployment import COMPONENT, ENDPOINT, AwsDeployment, announced, finding, later, on_call
from on_aws.actions.stage import Barred, Stage
from on_aws.conftest import DAY, NOW
from reaper.calendars.calendar import Calendar
from reaper.model import Result, State, StepName
from reaper.notices.message import Audience
from reaper.policy.file import load_policy
from reaper.record import Snooze
from reaper_sandbox.aws import scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

STACK = {"aws:cloudformation:stack-name": "prod"}
BOTH = (ENDPOINT, COMPONENT)


@pytest.fixture
def stage(server: Server, account: Account) -> Stage:
    account.endpoint("e", variants=[Variant(model=None, scaling=(0, 4), count=2)], tags={"team": "language"})
    return Stage(server, ENDPOINT)


@pytest.mark.parametrize(
    ("copies", "because"),
    [
        pytest.param({"one": 2, "two": 1, "three": 0}, "it hosts 3 components; each is handled on its own", id="with copies"),
        pytest.param({"one": 1}, "it hosts 1 component; it is handled on its own", id="one"),
        pytest.param({"one": 0, "two": 0}, "2 components without copies are still on it; delete them first", id="without copies"),
        pytest.param({"one": 0}, "1 component without copies is still on it; delete it first", id="one without copies"),
    ],
)
@pytest.mark.parametrize("action", [StepName.STOP, StepName.DELETE])
def test_an_endpoint_with_components_on_it_is_blocked(
    account: Account, stage: Stage, copies: dict[str, int], because: str, action: StepName
):
    for name, count in copies.items():
        account.component(name, "e", copies=count)
        scaled.wake(account, scaled.copies(account, name, least=0), f"wake-{name}")
    assert stage.bar("e", action) == because
    with pytest.raises(Barred) as raised:
        stage.move("e", action)
    assert (str(raised.value), raised.value.bar.already_done) == (because, False)


@pytest.mark.parametrize("variant", [Variant(count=2), Variant(model=None, count=2)], ids=["own model", "unmanaged host"])
def test_every_endpoint_with_a_component_on_it_is_blocked(account: Account, server: Server, variant: Variant):
    account.endpoint("e", variants=[variant])
    account.endpoint("other", variants=[Variant(model=None)])
    account.component("one", "e")
    assert "hosts 1 component" in Stage(server, ENDPOINT).bar("e", StepName.DELETE)


@pytest.mark.parametrize(
    ("adapters", "because"),
    [
        (("a",), "the adapter a is on it; delete it first"),
        (("a", "b"), "2 adapters are on it; delete them first"),
    ],
)
@pytest.mark.parametrize("action", [StepName.STOP, StepName.DELETE])
def test_a_base_component_with_adapters_is_blocked(
    account: Account, stage: Stage, adapters: tuple[str, ...], because: str, action: StepName
):
    account.component("one", "e", copies=2)
    scaled.wake(account, scaled.copies(account, "one"))
    for name in adapters:
        account.component(name, "e", base="one")
    assert Stage(stage.server, COMPONENT).bar("one", action) == because


@pytest.mark.parametrize(
    ("scaling", "because"),
    [
        ((0, 4), "it hosts no inference component now; SageMaker releases its instances (ManagedInstanceScaling)"),
        (
            (1, 4),
            "it hosts no inference component now, and SageMaker may not scale its instances to zero (ManagedInstanceScaling)",
        ),
    ],
)
def test_an_empty_host_is_deleted_but_never_scaled_in(account: Account, stage: Stage, scaling: tuple[int, int], because: str):
    account.endpoint("e", variants=[Variant(model=None, scaling=scaling, count=2)])
    assert (stage.bar("e", StepName.STOP), stage.bar("e", StepName.DELETE)) == (because, "")


@pytest.mark.parametrize("how", ["sweep", "again"])
def test_a_components_host_id_equals_the_hosts_own_id(account: Account, stage: Stage, how: str):
    account.component("Prod", "e", copies=2, tags={"owner": "kofi"})
    part = Stage(stage.server, COMPONENT)
    component = part.resource("Prod") if how == "sweep" else part.again(part.resource("Prod")).resource
    assert component.host_id == stage.resource("e").id
    assert component.tags == {"team": "language", "owner": "kofi"}


@pytest.mark.parametrize("how", ["sweep", "again"])
def test_the_fingerprint_of_a_host_names_what_is_on_it(account: Account, stage: Stage, how: str):
    def seen() -> str | None:
        return (stage.resource("e") if how == "sweep" else stage.again(stage.resource("e")).resource).fingerprint

    empty = seen()
    account.component("one", "e")
    one = seen()
    account.component("two", "e")
    assert (empty, len({empty, one, seen()})) == ("hosts nothing", 3)


@pytest.mark.parametrize(
    ("tags", "because"),
    [
        (STACK, "it belongs to stack prod; delete it in CloudFormation"),
        ({"aws:other": "x"}, "its tag aws:other is reserved by AWS and couldn't be restored"),
    ],
)
@pytest.mark.parametrize(("kind", "name"), [(ENDPOINT, "plain"), (COMPONENT, "one")])
def test_resources_with_reserved_tags_are_not_deleted(
    account: Account, stage: Stage, tags: dict[str, str], because: str, kind: str, name: str
):
    account.endpoint("plain", variants=[Variant(count=2)], tags=tags)
    account.component("one", "e")
    account.contents.endpoints["e"].tags = tags
    assert Stage(stage.server, kind).bar(name, StepName.DELETE) == because


@pytest.mark.parametrize(("kind", "name"), [(ENDPOINT, "plain"), (COMPONENT, "one")])
def test_a_stop_warns_that_a_stack_may_undo_it(account: Account, stage: Stage, kind: str, name: str):
    account.endpoint("plain", variants=[Variant(count=2)], tags=STACK)
    account.component("one", "e")
    scaled.wake(account, scaled.copies(account, "one"))
    account.contents.endpoints["e"].tags = STACK
    message, _ = Stage(stage.server, kind).move(name, StepName.STOP)
    assert message.endswith("; its stack prod may change it back")


def fleet(account: Account, server: Server, action: str = "delete") -> AwsDeployment:
    """Lee's host and, on it, Fay's two components, three days after a notice to each."""
    wired.host(account, "one", "two")
    for one in account.contents.components.values():
        one.tags = {"reaper:owner": "fay@example.com"}
    return announced(server, action, BOTH)


def to(deployment: AwsDeployment, address: str) -> list[str]:
    """What that owner was sent."""
    return [m.text for m in deployment.channel.messages if m.audience is Audience.OWNERS and m.to == address]


@pytest.mark.parametrize("action", ["stop", "delete"])
def test_a_host_gets_undated_notices_while_components_are_on_it(account: Account, server: Server, action: str):
    wired.host(account, "one", "two")
    account.contents.components["two"].tags = {"reaper:keep": "true"}
    deployment = AwsDeployment(server=server, kinds=BOTH, policy=load_policy(wired.POLICY.format(action=action)).policy)
    for _ in range(12):
        deployment.sweep()
        deployment.now += 3 * DAY
    mails = [text for text in to(deployment, "lee@example.com") if " e (" in text or ". e\n" in text]
    assert mails
    row = deployment.ledger.record(account.arn("endpoint/e"), deployment.now)
    assert (row.notice.action, row.notice.not_before, row.notice.warned_at is None) == (None, None, False)
    assert "e" in account.contents.endpoints
    assert "two" in account.contents.components


def snooze(deployment: AwsDeployment, id_: str, until: timedelta) -> None:
    snoozed = Snooze(until=deployment.now + until, at=deployment.now)
    assert deployment.ledger.write_snooze(id_, snoozed, 0, deployment.now)


def disown(deployment: AwsDeployment, id_: str) -> None:
    """Fay says that it isn't hers."""
    said = Snooze(disowned_by="fay@example.com", disowned_at=deployment.now)
    assert deployment.ledger.write_snooze(id_, said, 0, deployment.now)


def under(deployment: AwsDeployment, more: str) -> None:
    deployment.policy = load_policy(wired.POLICY.format(action="delete") + more).policy


def accept_for_a_day(deployment: AwsDeployment, id_: str) -> None:
    """The component alone is accepted, not its host."""
    until = date(NOW.year, NOW.month, NOW.day) + timedelta(days=4)
    match = "{kind: sagemaker-inference-component, name: one}"
    under(deployment, f"\naccept:\n  - {{match: {match}, until: {until}, reason: a demo, by: ml-admins@example.com}}\n")


PROTECTIONS: list[tuple[str, Callable[[AwsDeployment, str], None]]] = [
    ("snoozed", lambda deployment, id_: snooze(deployment, id_, timedelta(hours=20))),
    ("accepted", accept_for_a_day),
    ("not hers", disown),
]


@pytest.mark.parametrize(("how", "protect"), PROTECTIONS, ids=[name for name, _ in PROTECTIONS])
def test_a_component_is_never_taken_along_after_its_protection(
    account: Account, server: Server, how: str, protect: Callable[[AwsDeployment, str], None]
):
    """The reproduction: the notice is from before, and the host is due."""
    wired.host(account, "one")
    account.contents.components["one"].tags = {"reaper:owner": "fay@example.com"}
    deployment = announced(server, "delete", BOTH)
    deployment.now -= 2 * DAY
    protect(deployment, account.arn("inference-component/one"))
    deployment.now += 2 * DAY
    deployment.channel.messages.clear()
    for _ in range(8):
        report = deployment.sweep()
        gone = "one" not in account.contents.components
        assert finding(report, "e").step.name is not StepName.DELETE
        if gone:
            break
        deployment.now += timedelta(hours=12)
    dated = [m for m in deployment.channel.messages if "will be deleted" in m.text]
    assert dated or not gone, f"{how}: deleted without a new notice"
    assert "e" in account.contents.endpoints


def test_a_freeze_in_the_grace_of_a_component_alone_holds_it(account: Account, server: Server):
    """Its host has no freeze, so that its own date comes a day earlier."""
    wired.host(account, "one")
    deployment = announced(server, "delete", BOTH)
    text = wired.POLICY.format(action="delete") + "\ncalendars: {shut: {dates: [2026-01-01]}}\n"
    frozen = load_policy(f"{text}rules: [{{name: demo, match: {{kind: {COMPONENT}}}, freeze: shut}}]").policy
    shut = Calendar(name="shut", tz="UTC", stretches=((deployment.now - 2 * DAY, deployment.now - DAY),))
    deployment.policy = frozen.with_calendars({"shut": shut})
    assert finding(deployment.sweep(), "e").step.name is not StepName.DELETE
    assert "one" in account.contents.components
    later(deployment, hours=25)
    assert ("one" in account.contents.components, "e" in account.contents.endpoints) == (False, True)


def test_a_host_is_deleted_after_its_components_with_a_notice_of_its_own(account: Account, server: Server):
    deployment = fleet(account, server)
    report = deployment.sweep()
    assert {finding(report, name).outcome.result for name in ("one", "two")} == {Result.DONE}
    assert (account.contents.components, "e" in account.contents.endpoints) == ({}, True)
    account.contents.endpoints["e"].variants[0].count = 1
    for _ in range(2):
        report = later(deployment, days=1)
    assert finding(report, "e").case.verdict.state is State.IDLE
    [dated] = [text for text in to(deployment, "lee@example.com") if "will be deleted" in text]
    warned = deployment.ledger.record(account.arn("endpoint/e"), deployment.now).notice.warned_at
    assert (bool(dated), "e" in account.contents.endpoints) == (True, True)
    while "e" in account.contents.endpoints:
        later(deployment, hours=12)
    assert warned is not None
    assert deployment.now - warned >= 3 * DAY


def test_a_component_that_joins_an_empty_host_voids_its_notice(account: Account, server: Server):
    wired.host(account)
    deployment = announced(server, "delete", BOTH)
    account.component("one", "e", created=deployment.now - timedelta(minutes=1))
    later(deployment, hours=1)
    account.contents.components.clear()
    for _ in range(5):
        later(deployment, hours=12)
    assert "e" in account.contents.endpoints
    assert finding(deployment.sweep(), "e").next is not None


@pytest.mark.parametrize("when", ["before the look", "before the call"])
def test_an_open_action_on_its_host_blocks_a_component(account: Account, server: Server, when: str):
    wired.host(account, "one")
    deployment = announced(server, "delete", (COMPONENT,))
    id_ = account.arn("endpoint/e")

    def begin() -> None:
        before = deployment.ledger.record(id_, deployment.now)
        row = replace(before, act=an_act(StepName.DELETE, deployment.now, "other", id=id_))
        assert deployment.ledger.write_record(id_, row, before.version, deployment.now)

    operation = "DescribeInferenceComponent" if when == "before the look" else "DescribeModel"
    on_call(server, lambda call: call.operation == operation and bool(open_targets(deployment.ledger)), begin)
    outcome = finding(deployment.sweep(), "one").outcome
    assert (outcome.result, outcome.because) == (Result.REFUSED, "an action on its host isn't settled yet")
    assert deployment.changes() == []


def test_a_component_is_never_on_hold_for_lacking_a_price(account: Account, server: Server):
    deployment = fleet(account, server)
    text = wired.POLICY.format(action="delete").replace("max_acts: 20,", "max_acts: 20, max_usd_per_hour: 200,")
    deployment.policy = load_policy(text).policy
    report = deployment.sweep()
    assert {finding(report, name).outcome.result for name in ("one", "two")} == {Result.DONE}
