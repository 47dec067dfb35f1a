from __future__ import annotations

import boto3
import pytest

from on_aws.conftest import DAY, HOUR, NOW, Sweep
from reaper.model import Confidence, State
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.server import Server

KIND = "sagemaker-studio-app"
LONG_AGO = NOW - 15 * DAY
LAB = "ana/JupyterLab/default"


def test_silent_busy_points_prove_idle(account: Account, run_sweep: Sweep):
    account.space("ana")
    app = account.app(space="ana")
    account.busy_steadily(app.arn, LONG_AGO, NOW)
    finding = run_sweep(KIND).findings[LAB]
    assert (finding.case.verdict.state, finding.case.verdict.confidence) == (State.IDLE, Confidence.PROVEN)
    assert (finding.case.price.usd_per_hour, finding.case.price.source) == (0.05, "snapshot")


def test_equal_timestamps_prove_nothing_so_age_makes_an_app_likely(account: Account, run_sweep: Sweep):
    account.app(space="ana", created=NOW - 6 * DAY)
    finding = run_sweep(KIND).findings[LAB]
    assert (finding.case.verdict.state, finding.case.verdict.confidence) == (State.IDLE, Confidence.LIKELY)
    assert finding.case.verdict.idle_for == 6 * DAY


def test_user_activity_older_than_the_health_check_is_believed(account: Account, run_sweep: Sweep):
    account.app(space="ana", used=NOW - 2 * HOUR, checked=NOW - HOUR)
    account.app(space="bob", used=NOW - 3 * DAY, checked=NOW - HOUR)
    result = run_sweep(KIND)
    assert result.state(LAB) is State.ACTIVE
    finding = result.findings["bob/JupyterLab/default"]
    assert (finding.case.verdict.confidence, finding.case.verdict.idle_for) == (Confidence.LIKELY, 3 * DAY)


def test_user_activity_beats_silent_busy_points(account: Account, run_sweep: Sweep):
    app = account.app(space="ana", used=NOW - 2 * HOUR, checked=NOW - HOUR)
    account.busy_steadily(app.arn, LONG_AGO, NOW)
    assert run_sweep(KIND).state(LAB) is State.ACTIVE


def test_a_start_of_today_beats_silent_busy_points(account: Account, run_sweep: Sweep):
    account.busy_steadily(account.app(space="ana", created=NOW - 3 * HOUR).arn, LONG_AGO, NOW)
    assert run_sweep(KIND).state(LAB) is State.YOUNG


@pytest.mark.parametrize(
    "type_", ["JupyterLab", "CodeEditor", "KernelGateway", "JupyterServer", "TensorBoard", "Canvas", "RStudioServerPro"]
)
def test_every_app_type_of_users_and_spaces_is_found(account: Account, run_sweep: Sweep, type_: str):
    account.app(user="eve", type=type_)
    account.app(space="ana", type=type_)
    assert set(run_sweep(KIND).findings) == {f"eve/{type_}/default", f"ana/{type_}/default"}


OTHER_TYPES = ["Canvas", "RStudioServerPro", "RSessionGateway", "TensorBoard", "DetailedProfiler", "Novel"]


@pytest.mark.parametrize("instance", ["ml.t3.medium", "system"])
@pytest.mark.parametrize("type_", OTHER_TYPES)
def test_the_age_of_other_app_types_proves_nothing(account: Account, run_sweep: Sweep, type_: str, instance: str):
    """A Canvas session may be weeks old and in use."""
    app = account.app(user="eve", type=type_, instance=instance, created=NOW - 30 * DAY)
    account.busy_steadily(app.arn, LONG_AGO, NOW)
    result = run_sweep(KIND)
    free = instance == "system" and type_ not in {"Canvas", "RStudioServerPro"}
    assert result.state(f"eve/{type_}/default") is (State.EXEMPT if free else State.UNKNOWN)
    assert result.idle() == []


@pytest.mark.parametrize("type_", OTHER_TYPES)
def test_a_person_s_use_of_another_app_type_counts(account: Account, run_sweep: Sweep, type_: str):
    account.app(user="eve", type=type_, created=NOW - 30 * DAY, used=NOW - 2 * HOUR, checked=NOW - HOUR)
    assert run_sweep(KIND).state(f"eve/{type_}/default") is State.ACTIVE


@pytest.mark.parametrize(
    ("setup", "state"),
    [
        pytest.param({"instance": "system"}, State.EXEMPT, id="system instances are free"),
        pytest.param({"created": NOW - HOUR}, State.YOUNG, id="started an hour ago"),
    ],
)
def test_each_status_has_its_verdict(account: Account, run_sweep: Sweep, setup: dict, state: State):
    account.app(space="ana", **setup)
    assert run_sweep(KIND).state(LAB) is state


def test_a_keep_tag_on_the_user_protects_the_users_apps(account: Account, run_sweep: Sweep):
    account.user("eve", tags={"reaper:keep": "true"})
    account.app(user="eve", type="KernelGateway")
    assert run_sweep(KIND).state("eve/KernelGateway/default") is State.EXEMPT


def test_apps_on_several_pages_are_all_found(account: Account, run_sweep: Sweep):
    for index in range(130):
        account.app(space=f"s{index}", instance="system")
    assert len(run_sweep(KIND).findings) == 130


def test_idle_space_apps_get_their_owner_from_one_listing(account: Account, server: Server, run_sweep: Sweep):
    account.space("ana", owner="ana-lee")
    account.space("common")
    for space in ("ana", "common"):
        account.app(space=space)
        account.app("second", space=space, type="CodeEditor")
    findings = run_sweep(KIND).findings
    assert {name: dict(f.case.resource.people) for name, f in findings.items()} == {
        LAB: {"Studio space owner": "ana-lee"},
        "ana/CodeEditor/second": {"Studio space owner": "ana-lee"},
        "common/JupyterLab/default": {},
        "common/CodeEditor/second": {},
    }
    assert "Studio space owner names 'ana-lee'" in findings[LAB].case.owner.source
    assert [call.operation for call in server.calls].count("ListSpaces") == 1


def test_spaces_are_listed_only_for_silent_apps(account: Account, server: Server, run_sweep: Sweep):
    account.space("ana", owner="ana")
    account.app(space="ana", instance="system")
    account.app(user="eve", type="KernelGateway")
    run_sweep(KIND)
    assert "ListSpaces" not in [call.operation for call in server.calls]


@pytest.mark.parametrize("type_", ["JupyterLab", "CodeEditor", "KernelGateway", "JupyterServer"])
def test_an_app_is_reported_as_its_description_spells_it(account: Account, server: Server, run_sweep: Sweep, type_: str):
    account.space("Ana")
    account.app("My-App", space="Ana", type=type_)
    [finding] = run_sweep(KIND).findings.values()
    names = {"DomainId": "d-sandbox", "SpaceName": "Ana", "AppType": type_, "AppName": "My-App"}
    described = boto3.Session().client("sagemaker").describe_app(**names)
    assert finding.case.resource.id == described["AppArn"]
    assert f"/{type_}/" in finding.case.resource.id
