"""The permissions that an action declares are those that its calls need, and no others; the same for undoing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from on_aws.actions.stage import Stage
from reaper import registry
from reaper.acting.contract import Manifest
from reaper.model import StepName
from reaper_sandbox.aws import scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

IMPLIED = {"iam:PassRole", "sagemaker:AddTags"}
"""Checked by AWS inside of create calls; never calls of their own here."""
Scene = Callable[[Account], str]


def asynchronous(account: Account) -> str:
    account.endpoint("e", asynchronous=True, tags={"team": "x"})
    named = scaled.variant(account, "e")
    scaled.wake(account, named)
    scaled.schedule(account, named)
    account.contents.endpoints["e"].variants[0].count = 2
    return "e"


def component(account: Account) -> str:
    account.endpoint("h", variants=[Variant(model=None, scaling=(0, 4))])
    account.component("c", "h", tags={"team": "x"})
    scaled.wake(account, scaled.copies(account, "c"), "wake-c")
    scaled.schedule(account, {"ServiceNamespace": "sagemaker", "ResourceId": "inference-component/c",
                              "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount"})  # fmt: skip
    account.component("sibling", "h")
    return "c"


def running(account: Account) -> str:
    account.notebook("nb")
    return "nb"


def stopped(account: Account) -> str:
    account.notebook("nb", status="Stopped")
    return "nb"


def app(account: Account) -> str:
    account.domain()
    account.user("ana")
    account.space("lab", owner="ana")
    account.app(space="lab", tags={"team": "x"})
    return "lab/JupyterLab/default"


SCENES: list[tuple[str, StepName, list[Scene]]] = [
    ("sagemaker-endpoint", StepName.STOP, [asynchronous]),
    ("sagemaker-endpoint", StepName.DELETE, [asynchronous]),
    ("sagemaker-inference-component", StepName.STOP, [component]),
    ("sagemaker-inference-component", StepName.DELETE, [component]),
    ("sagemaker-notebook", StepName.STOP, [running]),
    ("sagemaker-notebook", StepName.START, [stopped]),
    ("sagemaker-studio-app", StepName.STOP, [app]),
]


def test_every_action_has_a_permission_scenario():
    deeds = {(kind.name, move) for kind in registry.kinds("aws") for move in kind.actions}
    assert deeds == {(kind, move) for kind, move, _ in SCENES}


@pytest.mark.parametrize(("kind", "move", "scenes"), SCENES, ids=lambda v: str(v) if isinstance(v, str) else "")
def test_each_action_calls_exactly_what_its_spec_declares(account: Account, server: Server, kind: str, move: StepName, scenes):
    stage, known = Stage(server, kind), registry.kind(kind)
    names = [scene(account) for scene in scenes]
    for name in names:
        stage.move(name, move)
    used = {call.action for call in server.calls}
    assert used - set(known.permissions) == set(known.actions[move].permissions)


@pytest.mark.parametrize("kind", sorted({kind for kind, _, _ in SCENES}))
def test_undo_calls_exactly_the_declared_permissions(account: Account, server: Server, kind: str):
    stage, used = Stage(server, kind), set()
    for move, scene in ((m, s) for k, m, scenes in SCENES for s in scenes if k == kind and m is not StepName.START):
        for shelf in (*account.contents.shelves().values(), account.contents.scalable, account.contents.alarms):
            shelf.clear()
        manifests: list[Manifest] = [stage.move(scene(account), move)[1]]
        account.contents.configs.clear() if move is StepName.DELETE and kind == "sagemaker-endpoint" else None
        server.calls.clear()
        for manifest in manifests:
            stage.undo(manifest)
        used |= {call.action for call in server.calls}
    assert used == set(registry.action_functions(kind).undo_permissions) - IMPLIED


def test_no_action_can_touch_data_models_or_configurations():
    declared = {p for k in registry.kinds("aws") for d in k.actions.values() for p in d.permissions}
    declared |= {p for k in registry.kinds("aws") if k.actions for p in registry.action_functions(k.name).undo_permissions}
    deleting = {p.split(":")[1] for p in declared if p.split(":")[1].startswith(("Delete", "Deregister"))}
    assert deleting == {"DeleteApp", "DeleteEndpoint", "DeleteInferenceComponent", "DeregisterScalableTarget"}
