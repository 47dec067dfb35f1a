"""`reaper doctor` on Azure: whatever single permission is taken away, it names exactly that one, and it never changes anything."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from on_azure.conftest import OTHER, SUB
from reaper import registry, settings
from reaper.azure.deployments import ASSIGN_IDENTITY
from reaper.azure.doctor.checks import LIST_PERMISSIONS, grant_line, is_permitted
from reaper.azure.metrics import PERMISSION as METRICS
from reaper.doctor.check import Check, CheckStatus, DoctorContext
from reaper.doctor.examine import examine
from reaper_sandbox.azure.fault import cut, denied, on
from reaper_sandbox.azure.refusal import PRINCIPAL
from reaper_sandbox.azure.rights import deny, only
from reaper_sandbox.azure.server import Server

READING = {permission for kind in registry.kinds("azure") for permission in kind.permissions}
ACTING = {p for kind in registry.kinds("azure") for spec in kind.actions.values() for p in spec.permissions}
UNDOING = {p for kind in registry.kinds("azure") for p in registry.action_functions(kind.name).undo_permissions}
NEEDED = sorted({*READING, *ACTING, *UNDOING})
IDENTITY = f"/subscriptions/{SUB}/resourceGroups/ml/providers/Microsoft.ManagedIdentity/userAssignedIdentities/serving"
POLICY = (
    "version: 1\ndefaults: {action: delete}\nowners: {fallback: admins@example.com}\nchannels: [{type: folder, path: mail}]\n"
)


@pytest.fixture(scope="module")
def azure() -> Iterator[Server]:
    """A subscription with a workspace, whose endpoint has an identity of its own."""
    with Server(datetime.now(UTC)) as server, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("AZURE_", "REAPER_", "IDENTITY_"))]:
            patch.delenv(name)
        for name, value in server.env.items():
            patch.setenv(name, value)
        vision = server.subscription(SUB).workspace("vision")
        vision.cluster("gpus", nodes=(1, 2))
        vision.endpoint("chat").set("identity", {"type": "UserAssigned", "userAssignedIdentities": {IDENTITY: {}}})
        server.subscription(OTHER)
        yield server


def examined(
    tmp_path: Path, mode: str = "enforce", *, undo: bool = True, subscription: str = SUB, policy: str = POLICY
) -> list[Check]:
    (tmp_path / "ledger.db").touch()
    environ = {
        "REAPER_MODE": mode,
        "REAPER_POLICY": policy,
        "REAPER_SUBSCRIPTIONS": subscription,
        "REAPER_LEDGER": f"sqlite://{tmp_path}/ledger.db",
        "REAPER_MANIFESTS": str(tmp_path),
    }
    context = DoctorContext(
        settings=settings.from_env(environ),
        environ={**os.environ, **environ},
        clock=lambda: datetime.now(UTC),
        kinds=registry.kinds("azure"),
        includes_undo=undo,
    )
    return examine(context)


def named(checks: list[Check], *statuses: CheckStatus) -> set[str]:
    """The permissions that checks of these statuses name."""
    return {check.missing for check in checks if check.missing and check.status in statuses}


def test_an_identity_with_every_right_misses_nothing(azure: Server, tmp_path: Path):
    azure.rules[:] = []
    checks = examined(tmp_path)
    assert [check for check in checks if check.status is CheckStatus.FIX] == []
    assert named(checks, *CheckStatus) == set()
    [who] = [check for check in checks if check.check == "credentials.azure"]
    assert PRINCIPAL in who.because


@pytest.mark.parametrize("permission", NEEDED)
def test_a_permission_taken_away_is_named_and_no_other(azure: Server, tmp_path: Path, permission: str):
    azure.rules[:] = [deny(permission)]
    checks = examined(tmp_path)
    assert named(checks, CheckStatus.FIX) == {permission}
    assert named(checks, CheckStatus.UNKNOWN) <= {permission}
    assert all(permission in check.fix and PRINCIPAL in check.fix for check in checks if check.missing == permission)


@pytest.mark.parametrize(
    ("then", "missing"), [("then: {action: delete, after: 14d}", True), ("act_on: proven", False)], ids=["then", "no then"]
)
def test_a_then_needs_the_permission_to_delete(azure: Server, tmp_path: Path, then: str, missing: bool):
    permission = "Microsoft.MachineLearningServices/workspaces/onlineEndpoints/deployments/delete"
    azure.rules[:] = [deny(permission)]
    policy = POLICY.replace("action: delete", f"action: stop, {then}")
    assert (permission in named(examined(tmp_path, undo=False, policy=policy), CheckStatus.FIX)) is missing


def test_each_subscription_has_a_grant_of_its_own_whose_role_no_other_has(azure: Server, tmp_path: Path):
    permission = "Microsoft.MachineLearningServices/workspaces/read"
    azure.rules[:] = [deny(permission)]
    fixes = [
        str(check.fix)
        for check in examined(tmp_path, subscription=f"{SUB},{OTHER}")
        if check.check == "reading.azure" and check.fix
    ]
    roles, assigned = zip(*(_role_and_scope(fix) for fix in fixes), strict=True)
    assert (
        sorted(assigned)
        == sorted(role["AssignableScopes"][0] for role in roles)
        == [f"/subscriptions/{id_}" for id_ in sorted((SUB, OTHER))]
    )
    assert len({role["Name"] for role in roles}) == 2


def test_one_grant_is_enough_for_all_workspaces_of_a_subscription(azure: Server):
    fixes = {
        grant_line(PRINCIPAL, "A.B/c/write", f"/subscriptions/{SUB}/resourceGroups/ml/providers/A.B/workspaces/{n}") for n in "ab"
    }
    [(role, scope)] = [_role_and_scope(fix) for fix in fixes]
    assert (role["Actions"], scope) == (["A.B/c/write"], f"/subscriptions/{SUB}")
    assert _role_and_scope(grant_line(PRINCIPAL, ASSIGN_IDENTITY, IDENTITY))[1] == IDENTITY


def _role_and_scope(fix: str) -> tuple[dict[str, Any], str]:
    """The role and the scope of its assignment in a grant, once it is pasted."""
    words = shlex.split(fix)
    assert words[5].endswith("};")
    role: dict[str, Any] = json.loads(words[5].removesuffix(";"))
    assert words[words.index("--role") + 1] == role["Name"]
    return role, words[-1]


def test_exactly_the_declared_permissions_are_enough(azure: Server, tmp_path: Path):
    azure.rules[:] = [only(*NEEDED, LIST_PERMISSIONS)]
    checks = examined(tmp_path)
    assert [check for check in checks if check.status is CheckStatus.FIX] == []


def test_without_the_list_of_permissions_the_rights_to_act_are_unknown(azure: Server, tmp_path: Path):
    azure.rules[:] = [deny(LIST_PERMISSIONS)]
    checks = examined(tmp_path)
    assert named(checks, CheckStatus.FIX) == set()
    assert named(checks, CheckStatus.UNKNOWN) == {LIST_PERMISSIONS}
    assert {check.fix for check in checks if check.missing} == {None}, "a sweep does without it, so nothing offers to grant it"


def test_nothing_is_ever_changed(azure: Server, tmp_path: Path):
    azure.rules[:] = []
    azure.requests.clear()
    examined(tmp_path)
    assert len(azure.requests) > 10
    assert azure.mutations == []
    asked = {request.path.rpartition("/")[2] for request in azure.requests if request.method != "GET"}
    assert asked <= {"metrics:getBatch", "resources", "token"}, "queries of metrics and of Resource Graph, and the sign-in"
    assert list(tmp_path.iterdir()) == [tmp_path / "ledger.db"]
    assert (tmp_path / "ledger.db").read_bytes() == b""


def test_below_enforce_no_right_to_act_is_asked_for(azure: Server, tmp_path: Path):
    azure.rules[:] = [deny(permission) for permission in ACTING - READING]
    assert named(examined(tmp_path, "announce", undo=False), *CheckStatus) == set()


def test_an_identity_may_be_assigned_only_where_an_endpoint_has_one(azure: Server, tmp_path: Path):
    azure.rules[:] = [deny(ASSIGN_IDENTITY, r"/subscriptions/[^/]+(/resourceGroups/ml/providers/Microsoft.Machine.*)?")]
    assert named(examined(tmp_path), CheckStatus.FIX) == set()
    azure.rules[:] = [deny(ASSIGN_IDENTITY, f".*{IDENTITY.rpartition('/')[2]}")]
    assert named(examined(tmp_path), CheckStatus.FIX) == {ASSIGN_IDENTITY}


def test_a_refused_batch_of_metrics_is_no_fault(azure: Server, tmp_path: Path):
    azure.rules[:] = [on("POST", ".*/metrics:getBatch", denied(METRICS))]
    [check] = [check for check in examined(tmp_path) if check.check == "metrics.azure"]
    assert check.status is CheckStatus.OK
    assert "no batches" in check.because


def test_a_metrics_host_out_of_reach_needs_mending(azure: Server, tmp_path: Path):
    azure.rules[:] = [on("POST", ".*/metrics:getBatch", cut())]
    [check] = [check for check in examined(tmp_path) if check.check == "metrics.azure"]
    assert check.status is CheckStatus.FIX
    assert "REAPER_METRICS_ENDPOINT" in str(check.fix)


@pytest.mark.parametrize(
    ("entries", "permitted"),
    [
        pytest.param([{"actions": ["*"], "notActions": []}], True, id="everything"),
        pytest.param([{"actions": ["*/read"], "notActions": []}], False, id="another verb"),
        pytest.param([{"actions": ["a.b/C/*"], "notActions": ["A.B/c/D/write"]}], False, id="excluded, whatever the case"),
        pytest.param(
            [{"actions": ["*"], "notActions": ["*/write"]}, {"actions": ["A.B/c/d/write"], "notActions": []}],
            True,
            id="excluded by one role, allowed by another",
        ),
        pytest.param([], False, id="no role"),
        pytest.param([{"actions": None}], False, id="odd"),
    ],
)
def test_one_entry_must_allow_the_action_and_not_exclude_it(entries, permitted: bool):
    assert is_permitted("A.B/c/d/write", entries) is permitted


def test_without_a_workspace_the_list_of_permissions_is_asked(azure: Server, tmp_path: Path):
    azure.rules[:] = [deny("Microsoft.MachineLearningServices/workspaces/jobs/read"), deny(METRICS)]
    checks = examined(tmp_path, subscription=OTHER)
    assert named(checks, CheckStatus.FIX) == {"Microsoft.MachineLearningServices/workspaces/jobs/read", METRICS}
