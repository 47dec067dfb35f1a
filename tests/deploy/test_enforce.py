"""Mode enforce as deployed on AWS: the built bundle under the real runtime client, as the roles of the template and nothing more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from deploy import company, sam
from deploy.principals import OWN_KEY, TEST_KEY, Principals, principals
from deploy.pythons import python
from deploy.runtime import Invocation, Runtime
from deploy.test_bundle import bundle, libraries
from deploy.test_template import MODES, NAMES
from reaper.aws import targets
from reaper.ledger import opening
from reaper.registry import kinds
from reaper_sandbox.aws import scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, on
from reaper_sandbox.aws.fleet import SEEDING
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

__all__ = ["bundle", "libraries"]
NOW = datetime.now(UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
SINCE, UNTIL = NOW - 15 * DAY, NOW + DAY
HANDLER = "reaper.aws.functions.sweep.handler"
POLICY = """
version: 1
defaults: {action: notify, idle_after: 24h, grace: 3d, act_on: likely}
limits: {max_share: 100%}
owners: {tags: [owner], domains: [example.com], fallback: admins@example.com}
channels: [{type: ses, from: reaper@example.com, region: us-east-1}]
rules:
  - {name: dropped, match: {name: [gone, dropped]}, action: delete}
  - {name: office, match: {name: office}, action: stop, hours: {on: "mon-sun 00:00-24:00", tz: UTC, start: all}}
  - {name: stopped, match: {name: [out, asleep, nb, "ana/*"]}, action: stop}
"""
DUE = {"out", "gone", "asleep", "dropped", "nb", "ana/JupyterLab/default"}
HOST = Variant(name="host", model=None, scaling=(1, 1))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server(NOW) as running:
        for name, value in (running.env | {"AWS_ACCESS_KEY_ID": TEST_KEY}).items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def fleet(server: Server) -> Account:
    return seed_actions(Account(server))


def seed_actions(account: Account) -> Account:
    """One silent resource for each action of each kind, and hosts and neighbors that only lead to notices."""
    account.endpoint("out", variants=[Variant(count=3)])
    scaled.track(account, scaled.variant(account, "out", least=2))
    for name, variant in (("gone", Variant(name="host")), ("host", HOST)):
        account.endpoint(name, variants=[variant])
        account.alive(name, "host", SINCE, UNTIL)
    account.alive("out", "AllTraffic", SINCE, UNTIL)
    for component in ("asleep", "dropped"):
        account.component(component, "host")
        account.component_alive(component, SINCE, UNTIL)
        scaled.wake(account, scaled.copies(account, component), f"wake-{component}")
    scaled.schedule(account, scaled.copies(account, "dropped"))
    account.notebook("nb")
    account.notebook("office", status="Stopped")
    account.domain()
    account.space("ana", owner="ana")
    account.app(space="ana")
    for module in SEEDING:
        module.seed_fleet(account.contents, NOW)
    return account


@pytest.fixture
def environ(server: Server, cloudformation) -> dict[str, str]:
    """The stack's own table and bucket, and the settings that it gives the function."""
    table = cloudformation["Resources"]["LedgerTable"]["Properties"]
    schema = {key: table[key] for key in ("AttributeDefinitions", "KeySchema", "BillingMode")}
    boto3.client("dynamodb").create_table(TableName="ledger", **schema)
    boto3.client("sesv2").create_email_identity(EmailIdentity="reaper@example.com")
    boto3.client("ssm").put_parameter(Name=NAMES["PolicyParameter"], Value=POLICY, Type="String")
    boto3.client("s3").create_bucket(Bucket="reports-bucket")
    return {
        **server.env,
        "REAPER_MODE": "enforce",
        "REAPER_POLICY": f"ssm:{NAMES['PolicyParameter']}",
        "REAPER_REGIONS": "us-east-1",
        "REAPER_REPORTS": "s3://reports-bucket/reports",
        "REAPER_LEDGER": "dynamodb://ledger",
        "REAPER_MANIFESTS": "s3://reports-bucket/manifests",
        "REAPER_ROLE": NAMES["EnforceRole.Arn"],
    }


@pytest.fixture
def guard(server: Server, environ, cloudformation) -> Principals:
    return principals(server, cloudformation)


def state(account: Account) -> dict[str, Any]:
    """What acts change."""
    contents = account.contents
    return {
        "out": contents.endpoints["out"].variants[0].count,
        "least": contents.scalable["endpoint/out/variant/AllTraffic", scaled.VARIANT].least,
        "endpoints": sorted(contents.endpoints),
        "components": {name: one.copies for name, one in contents.components.items()},
        "notebooks": {name: one.status for name, one in contents.notebooks.items()},
        "apps": [app.status for app in contents.apps.values()],
    }


BEFORE = {
    "out": 3,
    "least": 2,
    "endpoints": ["gone", "host", "out"],
    "components": {"asleep": 1, "dropped": 1},
    "notebooks": {"nb": "InService", "office": "Stopped"},
    "apps": ["InService"],
}
AFTER = {
    "out": 1,
    "least": 1,
    "endpoints": ["host", "out"],
    "components": {"asleep": 0},
    "notebooks": {"nb": "Stopped", "office": "InService"},
    "apps": ["Deleted"],
}


def steps(invocation: Invocation) -> dict[str, tuple[str, str, str | None]]:
    assert invocation.error is None, invocation.log[-3000:]
    return {f["name"]: (f["step"], f["outcome"], f["error"]) for f in invocation.answer["findings"]}


def days_pass(answer: dict[str, Any]) -> None:
    company.days_pass(opening.open_ledger("dynamodb://ledger", {}), [f["id"] for f in answer["findings"]])


def test_notice_stop_and_delete_work_under_exactly_the_templates_rights(bundle, libraries, server, fleet, environ, guard):
    everywhere = environ | {"REAPER_REGIONS": "all"}
    with Runtime(python(sam.RUNTIME), libraries, bundle, HANDLER, everywhere) as runtime:
        first = runtime.invoke({}, seconds=600)
        assert {name: move for name, (move, _, _) in steps(first).items() if move not in {"warn", "none"}} == {"office": "start"}
        assert state(fleet) == {**BEFORE, "notebooks": {"nb": "InService", "office": "InService"}}
        days_pass(first.answer)
        second = runtime.invoke({}, seconds=600)
    outcomes = {name: rest for name, (move, *rest) in steps(second).items() if move in {"stop", "delete"}}
    assert outcomes == {name: ["done", None] for name in DUE}
    assert {c["status"] for c in second.answer["coverage"]} == {"ok"}, second.answer["coverage"]
    assert state(fleet) == AFTER
    assert (guard.own.denied, guard.role.denied) == ([], [])
    assert guard.role.unused() == set(), "granted and not used by any act of any kind"
    assert {"sts:AssumeRole", "s3:PutObject", "s3:ListBucket"} & guard.own.unused() == set()
    stored = [c.params["Key"] for c in server.calls if c.action == "s3:PutObject" and c.params["Key"].startswith("manifests/")]
    assert len(stored) == len(set(stored)) == len(DUE)
    assert '"Acted":[6.0]' in second.log.replace(" ", "")


SCALING = {"RegisterScalableTarget", "DeregisterScalableTarget", "PutScalingPolicy"}


def untagged(call: Call, data: dict[str, Any]) -> dict[str, Any]:
    """The bulk list of tags as it was before a person wrote the ones that keep: it is known to lag behind."""
    return data | {"ResourceTagMappingList": [row | {"Tags": []} for row in data["ResourceTagMappingList"]]}


@pytest.mark.parametrize("stale", [False, True], ids=["known at once", "known to the authoritative call only"])
def test_autoscaling_of_what_is_kept_is_never_touched(bundle, libraries, server, fleet, environ, guard, stale: bool):
    """IAM sees a scalable target's own tags, not those of what it scales: here the code alone stands in the way."""
    with Runtime(python(sam.RUNTIME), libraries, bundle, HANDLER, environ) as runtime:
        first = runtime.invoke({}, seconds=600)
        days_pass(first.answer)
        contents = fleet.contents
        for record in (*contents.endpoints.values(), *contents.components.values()):
            record.tags = {"reaper:keep": "true"}
        if stale:
            server.rules.append(on("GetResources", Fault(rewrite=untagged)))
        second = runtime.invoke({}, seconds=600)
    assert {
        name: move for name, (move, outcome, _) in steps(second).items() if outcome == "done" and move in {"stop", "delete"}
    } == {
        "nb": "stop",
        "ana/JupyterLab/default": "stop",
    }
    assert [call.operation for call in server.calls if call.operation in SCALING] == []
    assert {name: state(fleet)[name] for name in ("out", "least", "endpoints", "components")} == {
        name: BEFORE[name] for name in ("out", "least", "endpoints", "components")
    }


def test_the_function_reads_and_acts_as_the_enforce_role_only(bundle, libraries, server, fleet, environ, guard):
    with Runtime(python(sam.RUNTIME), libraries, bundle, HANDLER, environ) as runtime:
        assert runtime.invoke({}, seconds=600).error is None
    services = {c.service for c in server.calls if c.key == OWN_KEY}
    assert services == {"ssm", "sts", "dynamodb", "ses", "s3"}


def test_lowered_by_hand_to_an_audit_it_could_not_act_even_if_it_tried(
    bundle, libraries, server, fleet, environ, guard, monkeypatch
):
    with Runtime(python(sam.RUNTIME), libraries, bundle, HANDLER, environ) as runtime:
        first = runtime.invoke({}, seconds=600)
        days_pass(first.answer)
        before = state(fleet)
        audit = runtime.invoke({"mode": "audit"}, seconds=600)
    assert {name for name, (move, outcome, _) in steps(audit).items() if (move, outcome) == ("stop", "planned")}
    assert state(fleet) == before
    assert guard.session, "its session was narrowed"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", OWN_KEY)
    reading = sorted({action for kind in kinds("aws") for action in kind.permissions})
    client = targets.assume_role(NAMES["EnforceRole.Arn"], False, reading).client("sagemaker")
    with pytest.raises(ClientError, match="not authorized"):
        client.stop_notebook_instance(NotebookInstanceName="nb")
    assert client.list_notebook_instances()["NotebookInstances"]
    assert state(fleet) == before


@pytest.mark.parametrize("tags", [{"reaper:keep": "true"}, {"Reaper:Keep": "until spring"}, {"reaper:action": "notify"}])
def test_iam_itself_refuses_what_a_tag_protects_without_the_codes_guard(server, fleet, guard, monkeypatch, tags):
    contents = fleet.contents
    for record in [
        *contents.endpoints.values(),
        *contents.components.values(),
        *contents.notebooks.values(),
        *contents.apps.values(),
    ]:
        record.tags = dict(tags)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", OWN_KEY)
    client = targets.assume_role(NAMES["EnforceRole.Arn"], True, []).client("sagemaker")
    app = {"DomainId": "d-sandbox", "SpaceName": "ana", "AppType": "JupyterLab", "AppName": "default"}
    counts = [{"VariantName": "AllTraffic", "DesiredInstanceCount": 1}]
    for call, parameters in (
        (client.stop_notebook_instance, {"NotebookInstanceName": "nb"}),
        (client.start_notebook_instance, {"NotebookInstanceName": "office"}),
        (client.delete_app, app),
        (client.delete_endpoint, {"EndpointName": "gone"}),
        (client.update_endpoint_weights_and_capacities, {"EndpointName": "out", "DesiredWeightsAndCapacities": counts}),
        (client.delete_inference_component, {"InferenceComponentName": "dropped"}),
        (
            client.update_inference_component_runtime_config,
            {"InferenceComponentName": "asleep", "DesiredRuntimeConfig": {"CopyCount": 0}},
        ),
        (client.delete_tags, {"ResourceArn": contents.notebooks["nb"].arn, "TagKeys": list(tags)}),
    ):
        with pytest.raises(ClientError, match="not authorized"):
            call(**parameters)
    assert state(fleet) == BEFORE


def test_without_mode_enforce_there_is_no_role_to_take_on(cloudformation):
    made = {mode for mode in MODES if MODES[mode].get(cloudformation["Resources"]["EnforceRole"]["Condition"]) == "true"}
    assert made == {"enforce"}
