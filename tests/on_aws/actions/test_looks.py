"""A change between any two reads of the look, or one call before the action, refuses it: the real executor over the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any

import pytest

from on_aws.actions import deployment as wired
from on_aws.actions.deployment import APP, COMPONENT, ENDPOINT, NOTEBOOK, AwsDeployment, announced, finding, is_change, on_call
from on_aws.conftest import DAY, NOW
from reaper.model import Result
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.autoscaling import COPIES, VARIANT
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import denied, on
from reaper_sandbox.aws.server import Server

Change = Callable[[Account], Any]


def notebook(account: Account) -> str:
    account.notebook("nb", created=NOW - 30 * DAY)
    return account.arn("notebook-instance/nb")


def app(account: Account) -> str:
    account.domain()
    account.user("ana")
    account.space("lab", owner="ana")
    account.app(space="lab", created=NOW - 30 * DAY)
    return account.arn("app/d-sandbox/lab/JupyterLab/default")


def hosted(account: Account) -> str:
    wired.host(account, "one")
    return account.arn("inference-component/one")


@dataclass(frozen=True)
class Scene:
    """What is acted on: how it is set up, its kind and name, and the first call of each of its reads."""

    setup: Callable[[Account], str]
    kind: str
    name: str
    read: str
    action: str = "stop"


SCALED = Scene(wired.autoscaled, ENDPOINT, "e", "DescribeEndpoint")
EMPTY_HOST = Scene(wired.host, ENDPOINT, "e", "DescribeEndpoint", "delete")
PART = Scene(hosted, COMPONENT, "one", "DescribeInferenceComponent")
BOOK = Scene(notebook, NOTEBOOK, "nb", "DescribeNotebookInstance")
STUDIO = Scene(app, APP, "lab/JupyterLab/default", "DescribeApp")


def tagged(shelf: str, key: Any) -> Change:
    """Someone keeps it."""
    return lambda account: setattr(getattr(account.contents, shelf)[key], "tags", {"reaper:keep": "true"})


def changed(shelf: str, key: Any, **fields: Any) -> Change:
    """Someone changes it."""

    def change(account: Account) -> None:
        for name, value in fields.items():
            setattr(getattr(account.contents, shelf)[key], name, value)

    return change


def resized(account: Account) -> None:
    account.contents.endpoints["e"].variants[0].count = 4


def reweighted(account: Account) -> None:
    account.contents.endpoints["e"].variants[0].weight = 0.3


def updated(account: Account) -> None:
    account.config("other")
    account.contents.endpoints["e"].config = "other"


def limited(key: tuple[str, str], **limits: Any) -> Change:
    def change(account: Account) -> None:
        for name, value in limits.items():
            setattr(account.contents.scalable[key], name, value)

    return change


def muted(account: Account) -> None:
    account.contents.alarms["wake-one-alarm"]["Threshold"] = 7.0


def untagged_now(account: Account) -> None:
    account.server.rules.append(on("ListTags", denied()))


MINIMUM, PART_MINIMUM = ("endpoint/e/variant/AllTraffic", VARIANT), ("inference-component/one", COPIES)
LAB, SPACE = ("d-sandbox", "lab", "JupyterLab", "default"), ("d-sandbox", "lab")
CHANGES: list[tuple[str, Scene, Change]] = [
    ("tag", SCALED, tagged("endpoints", "e")),
    ("unreadable tags", SCALED, untagged_now),
    ("instances", SCALED, resized),
    ("weight", SCALED, reweighted),
    ("configuration", SCALED, updated),
    ("status", SCALED, changed("endpoints", "e", status="Updating")),
    ("made anew", SCALED, changed("endpoints", "e", created=NOW - 20 * DAY)),
    ("changed", SCALED, changed("endpoints", "e", changed=NOW - 20 * DAY)),
    ("minimum", SCALED, limited(MINIMUM, least=3)),
    ("maximum", SCALED, limited(MINIMUM, most=9)),
    ("suspended", SCALED, limited(MINIMUM, suspended={"DynamicScalingInSuspended": True})),
    ("tag", EMPTY_HOST, tagged("endpoints", "e")),
    ("a component", EMPTY_HOST, lambda account: account.component("new", "e")),
    ("a component without copies", EMPTY_HOST, lambda account: account.component("new", "e", copies=0)),
    ("tag", PART, tagged("components", "one")),
    ("tag of the host", PART, tagged("endpoints", "e")),
    ("copies", PART, changed("components", "one", copies=3)),
    ("specification", PART, changed("components", "one", spec={"ModelName": "newer"})),
    ("adapter", PART, lambda account: account.component("adapter", "e", base="one")),
    ("alarm", PART, muted),
    ("tag", BOOK, tagged("notebooks", "nb")),
    ("instance type", BOOK, changed("notebooks", "nb", instance="ml.p3.2xlarge")),
    ("status", BOOK, changed("notebooks", "nb", status="Updating")),
    ("started again", BOOK, changed("notebooks", "nb", changed=NOW - 20 * DAY)),
    ("made anew", BOOK, changed("notebooks", "nb", created=NOW - 20 * DAY)),
    ("tag", STUDIO, tagged("apps", LAB)),
    ("tag of the space", STUDIO, tagged("spaces", SPACE)),
    ("tag of the domain", STUDIO, tagged("domains", "d-sandbox")),
    ("shared space", STUDIO, changed("spaces", SPACE, owner=None)),
    ("used", STUDIO, changed("apps", LAB, used=NOW + 3 * DAY)),
    ("made anew", STUDIO, changed("apps", LAB, created=NOW - 20 * DAY)),
]  # fmt: skip


def acting(server: Server, scene: Scene) -> AwsDeployment:
    """The deployment right before the sweep that acts."""
    scene.setup(Account(server))
    return announced(server, scene.action, (scene.kind,))


def looks(calls: Sequence[Call], operation: str) -> int:
    """How often an operation is called from the beginning of the action up to its first changing call."""
    act = [at for at, call in enumerate(calls) if call.operation == "GetCallerIdentity"][1]
    last = next(at for at, call in enumerate(calls) if is_change(call))
    return sum(call.operation == operation for call in calls[act:last])


@pytest.fixture(scope="module")
def number_of_reads() -> Callable[[Scene], int]:
    """How often a scene's resource is read from the beginning of its action to its first changing call."""

    @cache
    def count(scene: Scene) -> int:
        with pytest.MonkeyPatch.context() as patch, Server(NOW) as server:
            for name, value in server.env.items():
                patch.setenv(name, value)
            deployment = acting(server, scene)
            assert finding(deployment.sweep(), scene.name).outcome.result is Result.DONE
            return looks(server.calls, scene.read)

    return count


def refused_after(deployment: AwsDeployment, scene: Scene, change: Change, at: int) -> None:
    """The change comes right before that read, and the action is refused."""
    seen: list[Call] = []

    def is_nth(call: Call) -> bool:
        if call.operation in {"GetCallerIdentity", scene.read}:
            seen.append(call)
        opened = [i for i, one in enumerate(seen) if one.operation == "GetCallerIdentity"]
        return len(opened) == 2 and len(seen) - 1 - opened[1] == at and call is seen[-1]

    on_call(deployment.server, is_nth, lambda: change(Account(deployment.server)))
    outcome = finding(deployment.sweep(), scene.name).outcome
    assert (deployment.changes(), outcome.result) == ([], Result.REFUSED), f"before read {at}"


@pytest.mark.parametrize(
    ("scene", "change"),
    [pytest.param(scene, change, id=f"{scene.kind}-{scene.action}: {name}") for name, scene, change in CHANGES],
)
def test_a_change_right_before_the_call_refuses_the_action(
    server: Server, number_of_reads: Callable[[Scene], int], scene: Scene, change: Change
):
    total = number_of_reads(scene)
    assert total >= 4, "first, at the end of the look, and right before the call, besides what the kind observes"
    refused_after(acting(server, scene), scene, change, total)


@pytest.mark.parametrize(
    ("scene", "change", "at"),
    [
        pytest.param(scene, change, at, id=f"{scene.kind}-{scene.action}: {name} at {at}")
        for scene, name in ((SCALED, "instances"), (SCALED, "tag"), (EMPTY_HOST, "a component"), (BOOK, "tag"), (STUDIO, "used"))
        for change in [next(change for other, one, change in CHANGES if (other, one) == (name, scene))]
        for at in (2, 3, 4)
    ],
)
def test_a_change_between_any_two_reads_refuses_the_action(
    server: Server, number_of_reads: Callable[[Scene], int], scene: Scene, change: Change, at: int
):
    if at < number_of_reads(scene):
        refused_after(acting(server, scene), scene, change, at)


@pytest.mark.parametrize("scene", [SCALED, BOOK], ids=lambda scene: scene.kind)
def test_a_keep_tag_one_call_before_the_action_wins(
    account: Account, server: Server, number_of_reads: Callable[[Scene], int], scene: Scene
):
    """Right before the tags are read for the last time, which is the last call before the action."""
    shelf, key = ("endpoints", "e") if scene is SCALED else ("notebooks", "nb")
    total = number_of_reads(replace(scene, read="ListTags"))
    deployment = acting(server, scene)
    seen: list[Call] = []

    def is_last(call: Call) -> bool:
        seen.extend([call] if call.operation == "ListTags" else [])
        return call.operation == "ListTags" and len(seen) == total

    on_call(server, is_last, lambda: tagged(shelf, key)(account))
    outcome = finding(deployment.sweep(), scene.name).outcome
    because = "it is exempt now: kept by tag reaper:keep='true'"
    assert (deployment.changes(), outcome.result, outcome.because) == ([], Result.REFUSED, because)


def test_health_checks_of_an_app_are_no_change(account: Account, server: Server):
    deployment = acting(server, STUDIO)
    one = account.contents.apps[LAB]

    def check(call: Call) -> bool:
        if call.operation == "DescribeApp":
            one.used = one.checked = (one.checked or NOW) + timedelta(seconds=1)
        return False

    on_call(server, check, lambda: None)
    assert finding(deployment.sweep(), STUDIO.name).outcome.result is Result.DONE
    assert one.status == "Deleted"


def test_an_alarms_state_is_no_change(account: Account, server: Server):
    deployment = acting(server, PART)
    alarm = account.contents.alarms["wake-one-alarm"]

    def ring(call: Call) -> bool:
        alarm["StateValue"] = "OK" if alarm.get("StateValue") == "ALARM" else "ALARM"
        return False

    on_call(server, ring, lambda: None)
    assert finding(deployment.sweep(), "one").outcome.result is Result.DONE
