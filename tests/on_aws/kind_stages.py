"""Each AWS kind in the sandbox, for `test_kind_contract.py`. A new kind adds how a silent one is made, and the verdicts of its vendor's states."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import boto3
import pytest

import kind_contract
from kind_contract import MISSING, ODD, Act, verdicts
from on_aws.actions.stage import Stage as Acting
from on_aws.actions.stage import _session
from on_aws.conftest import DAY, HOUR, NOW
from reaper.aws import targets
from reaper.aws.reader import Table
from reaper.errors import Reason
from reaper.kind import Kind
from reaper.model import StepName
from reaper_sandbox.aws import scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.bedrock import throughputs
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, carried_out, cut, denied, error, garbage, on, throttled
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.sagemaker import mlflow_servers
from reaper_sandbox.aws.server import Server

LONG_AGO = NOW - 15 * DAY
STATES: dict[str, tuple[str, str, dict[str, str | None]]] = {
    "sagemaker-endpoint": ("sagemaker", "EndpointStatus", verdicts(
        idle="InService OutOfService Failed UpdateRollbackFailed", young="Creating Updating SystemUpdating RollingBack", exempt="Deleting",
    )),
    "sagemaker-inference-component": ("sagemaker", "InferenceComponentStatus", verdicts(
        idle="InService Failed", young="Creating Updating", exempt="Deleting",
    )),
    "sagemaker-notebook": ("sagemaker", "NotebookInstanceStatus", verdicts(
        idle="InService", exempt="Stopped", unknown="Failed", young="Pending Stopping Updating Deleting PendingMaintenance InMaintenance",
    )),
    "sagemaker-studio-app": ("sagemaker", "AppStatus", verdicts(idle="InService", young="Pending", exempt="Failed Deleting") | {"Deleted": None}),
    "sagemaker-mlflow-server": ("sagemaker", "TrackingServerStatus", verdicts(
        idle="Created Started Updated MaintenanceComplete", exempt="Stopped",
        young="Creating Starting Updating Stopping Deleting MaintenanceInProgress",
        unknown="CreateFailed UpdateFailed DeleteFailed StopFailed StartFailed MaintenanceFailed",
    )),
    "bedrock-provisioned-throughput": ("bedrock", "ProvisionedModelStatus", verdicts(
        idle="InService", young="Creating Updating", exempt="Failed",
    )),
}  # fmt: skip
"""What a sweep says of each status of the vendor's enum; None: it isn't reported."""
LOOKED_AT = {
    "sagemaker-endpoint": "EndpointStatus",
    "sagemaker-inference-component": "InferenceComponentStatus",
    "sagemaker-studio-app": "Status",
    "sagemaker-mlflow-server": "TrackingServerSize",
}
"""What a description is read for."""
FIELDS = {
    "sagemaker-notebook": {"InstanceType"},
    "sagemaker-studio-app": {"DomainId", "AppType", "AppName", "SpaceName", "UserProfileName"},
    "sagemaker-mlflow-server": {"IsActive"},
}
"""Of a row, beside those that every kind reads."""


class AwsStage(kind_contract.Stage):
    """One kind in one region."""

    failures: Mapping[str, Fault] = {
        "denied": denied(), "throttled": throttled(), "garbled": garbage(), "vanished": error(400, "ResourceNotFound", "It does not exist."),
    }  # fmt: skip
    faults: Mapping[str, tuple[Fault, Reason, bool]] = {
        "429": (throttled(), Reason.THROTTLED, False),
        "408": (error(408), Reason.REFUSED, True),
        "500": (error(500), Reason.REFUSED, True),
        "500, carried out": (carried_out(error(500)), Reason.REFUSED, True),
        "cut off": (cut(), Reason.UNREACHABLE, True),
        "denied": (denied(), Reason.DENIED, False),
    }
    harmless = (
        ("DescribeLogStreams", "vanished"),  # it never wrote one
        ("EndpointStatus", "missing"), ("EndpointStatus", "null"),  # its description has it
        ("InstanceType", "missing"), ("InstanceType", "null"),  # only its price needs it
        ("UserProfileName", "missing"), ("UserProfileName", "null"),  # it is in a space
    )  # fmt: skip
    with_fallback = ()
    reads_after_permit = 0

    def __init__(self, server: Server, kind: Kind[Any]) -> None:
        super().__init__(server, kind)
        assert isinstance(kind, Table)
        self.account, self.acting, self.listing, self.wire = (
            Account(server),
            Acting(server, kind.name),
            kind.listing,
            server.calls,
        )
        self.looked_at = LOOKED_AT.get(kind.name, "")
        self.status = "Status" if self.looked_at == "Status" else self.listing.key("status")
        self.sessions = lambda: targets.target_sessions(("us-east-1",), (), _session())

    def make(self, name: str, **setup: Any) -> tuple[Any, ...]:
        account, a_month_ago = self.account, {"created": NOW - 30 * DAY} | setup
        match self.kind.name:
            case "sagemaker-endpoint":
                account.alive(name, "AllTraffic", LONG_AGO, NOW)
                made: tuple[Any, ...] = (account.endpoint(name, variants=[Variant(count=3)], **setup),)
                scaled.variant(account, name, least=2)
            case "sagemaker-inference-component":
                host = account.endpoint(f"host-of-{name}", variants=[Variant(model=None, scaling=(0, 4), count=2)])
                made = account.component(name, host.name, copies=2, **setup), host
                account.component_alive(name, LONG_AGO, NOW)
                scaled.wake(account, scaled.copies(account, name), f"wake-{name}")
            case "sagemaker-notebook":
                made = (account.notebook(name, **{"changed": NOW - 10 * DAY, **setup}),)
                account.busy_steadily(made[0].arn, LONG_AGO, NOW)
            case "sagemaker-studio-app":
                domain = account.domain(f"d-of-{name}")
                account.user("ana", domain=domain.name)
                space = account.space(name, domain=domain.name, owner="ana")
                made = account.app(space=name, domain=domain.name, **setup), space, domain
                account.busy_steadily(made[0].arn, LONG_AGO, NOW)
            case "sagemaker-mlflow-server":
                made = (mlflow_servers.seed(account.contents, name, **a_month_ago),)
            case "bedrock-provisioned-throughput":
                made = (throughputs.seed(account.contents, name, **a_month_ago),)
                account.points("AWS/Bedrock", "Invocations", {"ModelId": made[0].arn}, [(NOW - 5 * DAY, 3.0)])
            case _:
                pytest.fail(f"{__name__} doesn't know how a silent {self.kind.name} is made")
        return made

    def places(self) -> Iterator[tuple[str, set[str], dict[str, str | None], Callable[[str, str], object]]]:
        """Where a state stands: in the list and the description alike, or in the description alone, of one that was listed a moment before."""
        service, enum, known = STATES[self.kind.name]
        vendor = {*boto3.client(service, region_name="us-east-1").meta.service_model.shape_for(enum).enum}
        yield "its-status", vendor, known, lambda name, state: setattr(self.seed(name)[0], "status", state)
        if self.looked_at == self.status:
            since = {state: verdict or "exempt" for state, verdict in known.items()}
            yield "its-status-since", vendor, since, lambda name, state: self._described(name, {self.status: state})

    def _described(self, name: str, members: Mapping[str, Any]) -> None:
        self.seed(name)
        self._rewrite(self.listing.describe, lambda call, data: data | members if self.about(call) == name else data)

    def _rewrite(self, operation: str, change: Callable[[Call, dict[str, Any]], dict[str, Any]]) -> None:
        self.server.rules.append(on(operation, Fault(rewrite=change)))

    def odd_rows(self) -> Iterator[tuple[str, str]]:
        """The fields of a row without which nothing is proven, and what is odd there. The SDK itself reads times; a list of apps has no ARNs."""
        created = self.listing.key("created")
        row = {self.status, self.listing.key("arn"), self.listing.key("name"), created} | FIELDS.get(self.kind.name, set())
        pairs = [(field, odd) for field in sorted(row - {*self.listing.has, "AppArn"}) for odd in ODD]
        yield from (one for one in pairs if one not in self.harmless and (one[0] != created or one[1] in {"missing", "null"}))

    def fatal_rows(self) -> Iterator[tuple[str, str]]:
        """Those that fail the whole list."""
        yield from [(field, "number") for field in self.listing.has] + [(self.listing.key("created"), "list")]

    def odd_row(self, name: str, field: str, odd: str) -> None:
        def change(call: Call, data: dict[str, Any]) -> dict[str, Any]:
            odd_one = lambda row: {key: value for key, value in (row | {field: ODD[odd]}).items() if value is not MISSING}  # noqa: E731
            return data | {self.listing.rows: [odd_one(row) if name in row.values() else row for row in data[self.listing.rows]]}

        self.seed(name)
        self._rewrite(self.listing.list, change)

    def odd_look(self, name: str, odd: str) -> None:
        self._described(name, {self.looked_at: ODD[odd]})

    def key(self, call: Call) -> str:
        return "" if call.service == "sts" else call.operation

    def about(self, call: Call) -> str | None:
        """Which one a call is about; None if about all."""
        words = json.dumps(call.params, default=str).replace("/", '"').split('"')
        return None if call.operation == "GetMetricData" else next((name for name in self.records if name in words), None)

    def is_change(self, call: Any) -> bool:
        services = {"sagemaker", "application-autoscaling", "cloudwatch"}
        return call.service in services and not call.operation.startswith(("Describe", "List", "Get"))

    def tag(self, name: str, thing: int, tags: Mapping[str, str]) -> None:
        self.seed(name)[thing].tags = dict(tags)

    def spoil_tags(self) -> None:
        self.server.rules.append(on("GetResources|ListTags|ListTagsForResource", denied()))

    def ways(self, step: StepName) -> list[dict[str, Any]]:
        return [{"status": "Stopped"} if step is StepName.START else {}]

    def act(self, step: StepName, way: dict[str, Any], name: str) -> Act:
        self.seed(name, **way)
        resource = self.acting.again(self.acting.resource(self.found(name).name)).resource
        assert self.kind.blocked_actions(resource)[step] is None
        manifest = self.acting.manifest(resource, step)
        perform = lambda permit: self.acting.carry(resource, manifest, permit)  # noqa: E731
        return Act(perform=perform, undo=lambda: self.acting.undo(manifest), renew=lambda: self._renew(name))

    def _renew(self, name: str) -> None:
        one, *homes = self.records[name]
        if any(record is one for shelf in self.account.contents.shelves().values() for record in shelf.values()):
            one.created = NOW - HOUR
        else:
            for home, same in zip(self.seed(name, created=NOW - HOUR)[1:], homes, strict=True):
                home.created = same.created

    def settle(self) -> None:
        self.server.now += timedelta(minutes=5)


@contextmanager
def opened(kind: Kind[Any], patch: pytest.MonkeyPatch) -> Iterator[AwsStage]:
    with Server(NOW) as server:
        for name, value in {**server.env, "AWS_MAX_ATTEMPTS": "2"}.items():
            patch.setenv(name, value)
        yield AwsStage(server, kind)
