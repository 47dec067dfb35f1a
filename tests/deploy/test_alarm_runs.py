"""From CloudWatch's event to the mail: both templates' rules, the queue, and the built function under exactly the rights of its roles."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest

from deploy import policies, sam
from deploy.bus import Buses, alarm, buses, metric
from deploy.company import DAY, FORGOTTEN, HUB, OWNER, REGIONS, RESEARCH, days_pass, deploy, endpoint_name, seed
from deploy.hub import hub
from deploy.principals import OWN_KEY, TEST_KEY, Principals, principals
from deploy.pythons import python
from deploy.runtime import Invocation, Runtime
from deploy.test_bundle import bundle, libraries
from deploy.test_target_role import HUB_ROLE
from deploy.test_template import NAMES, NOTIFY
from reaper.ledger import opening
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.server import Server

__all__ = ["bundle", "libraries"]
NOW = datetime.now(UTC)
HANDLER = "reaper.aws.functions.sweep.handler"
HERE, THERE = endpoint_name(HUB, "us-east-1"), endpoint_name(RESEARCH, "us-east-1")
BOB, STRANGER = "bob@example.com", "999999999999"
READS = ("List", "Describe", "Get")


@dataclass
class Scene:
    """An organization, what the templates make of EventBridge, and the function."""

    server: Server
    bus: Buses
    environ: Mapping[str, str]
    start: Callable[[], Runtime]

    def run(self, runtime: Runtime) -> Invocation:
        """The function over what is in the queue."""
        answered = runtime.invoke(self.bus.take(), seconds=300)
        assert answered.error is None, answered.log[-3000:]
        return answered

    def mails(self) -> dict[str, int]:
        """How many mails each owner got. The admins' summary goes to a topic."""
        sent = [call.params["Destination"]["ToAddresses"] for call in self.server.calls if call.operation == "SendEmail"]
        return {address: sum(address in to for to in sent) for address in {address for to in sent for address in to}}

    def changes(self) -> set[str]:
        """The calls of the function that weren't reads, but those that keep the ledger or send mail."""
        asked = [call for call in self.server.calls if call.key != TEST_KEY and call.service not in {"dynamodb", "ses"}]
        return {call.action for call in asked if not call.operation.startswith(READS)}

    def days_pass(self) -> None:
        ids = [Account(self.server, account).arn(f"endpoint/{name}") for account, name in ((HUB, HERE), (RESEARCH, THERE))]
        days_pass(opening.open_ledger("dynamodb://ledger", {}), ids)


def published(ran: Invocation) -> list[dict[str, Any]]:
    """The metrics in the function's log."""
    lines = [json.loads(line) for line in ran.log.splitlines() if line.startswith("{")]
    return [line for line in lines if "_aws" in line]


@pytest.fixture
def deployed(bundle, libraries, cloudformation, target_template, monkeypatch: pytest.MonkeyPatch):
    """A scene in a mode, over this account or over the organization."""

    @contextmanager
    def scene(mode: str, settings: Mapping[str, str | None]) -> Iterator[Scene]:
        with Server(NOW) as server:
            monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # an earlier test may have left its key there
            for name, value in (server.env | {"AWS_ACCESS_KEY_ID": TEST_KEY}).items():
                monkeypatch.setenv(name, value)
            seed(server)
            server.world.principals[OWN_KEY] = HUB_ROLE
            second = Account(server)
            second.endpoint("second", tags={"owner": BOB})
            second.alive("second", "AllTraffic", NOW - 15 * DAY, NOW + DAY)
            chosen = server.env | deploy(server, cloudformation, mode) | settings
            environ = {name: value for name, value in chosen.items() if value is not None}
            bus = buses(cloudformation, target_template, monkeypatch)
            yield Scene(server, bus, environ, lambda: Runtime(python(sam.RUNTIME), libraries, bundle, HANDLER, environ))

    return scene


SELF = {"REAPER_ACCOUNTS": None, "REAPER_RUNS": None, "REAPER_WORKFLOW": None}
ORGANIZATION = {"REAPER_EXTERNAL_ID": "x-1", "REAPER_RUNS": None, "REAPER_WORKFLOW": NAMES["Workflow"]}


def test_alarms_become_one_mail_per_owner_and_never_another(deployed, cloudformation):
    with deployed("notify", SELF) as scene:
        rights = policies.Policies(policies.of_template(cloudformation, NAMES, only=NOTIFY))
        scene.server.rules[:] = [Principals(scene.server, rights, policies.Policies([]))]
        for id_, event in (("1", alarm(metric(HERE))), ("1", alarm(metric(HERE))), ("2", alarm(metric("SECOND")))):
            scene.bus.put(event | {"id": id_})
        scene.bus.put(alarm(metric("other"), id="3", state="OK"))
        with scene.start() as runtime:
            first = scene.run(runtime)
            scene.bus.put(alarm(metric(HERE), id="1"))
            scene.bus.put(alarm(metric(HERE), metric("second"), id="4"))
            again = scene.run(runtime)
    assert (first.answer["resources"], first.answer["dropped"]) == (2, {"sent twice": 1})
    assert again.answer["resources"] == 2
    assert scene.mails() == {OWNER: 1, BOB: 1}
    assert rights.denied == []
    assert scene.changes() == set()
    assert [line["AlarmsDropped"] for line in published(again)] == [[1.0], [0.0]]
    assert {(line["service"], line["stack"]) for line in published(again)} == {("ml-idle-reaper", "ml-idle-reaper")}
    stored = [call for call in scene.server.calls if call.key == OWN_KEY and call.service in {"s3", "sns"}]
    assert stored == [], "no report and no summary"


def test_an_enforcing_hub_only_notifies_about_alarms_of_its_accounts(deployed, cloudformation, target_template):
    """Even of what is due."""
    with deployed("enforce", ORGANIZATION) as scene:
        guard = hub(scene.server, cloudformation, target_template)
        scene.bus.put(alarm(metric(HERE), id="1"))
        for number, (account, name) in enumerate(((RESEARCH, THERE), (FORGOTTEN, "forgotten"), (STRANGER, THERE))):
            scene.bus.put(alarm(metric(name), account=account, id=f"forwarded {number}"))
        with scene.start() as runtime:
            first = scene.run(runtime)
            scene.days_pass()
            scene.bus.put(alarm(metric(HERE), id="5"))
            scene.bus.put(alarm(metric(THERE), account=RESEARCH, id="6"))
            second = scene.run(runtime)
        counts = {
            account: Account(scene.server, account).contents.endpoints[name].variants[0].count
            for account, name in ((HUB, HERE), (RESEARCH, THERE))
        }
    assert first.answer["resources"] == second.answer["resources"] == 2
    assert first.answer["dropped"] == {"outside the deployment's accounts and regions": 1}
    assert scene.mails() == {OWNER: 1}
    assert counts == {HUB: 3, RESEARCH: 3}
    assert scene.changes() == {"sts:AssumeRole"}
    taken = [call.params for call in scene.server.calls if call.operation == "AssumeRole"]
    assert {role["RoleArn"].split(":")[4] for role in taken} == {HUB, RESEARCH, FORGOTTEN}
    assert all(changing(role["Policy"]) == [] for role in taken), "each session is narrowed to reading"
    assert (guard.own.denied, guard.enforcing.role.denied, guard.target(RESEARCH).denied) == ([], [], [])
    gaps = [json.loads(line) for line in first.log.splitlines() if '"coverage incomplete"' in line]
    assert {(gap["account"], gap["missing"]) for gap in gaps} == {(FORGOTTEN, "sts:AssumeRole")}


def changing(session_policy: str) -> list[str]:
    """What a session policy allows beyond reading."""
    document = json.loads(session_policy)
    allowed = [action for s in policies.listed(document["Statement"]) for action in policies.listed(s["Action"])]
    return [action for action in allowed if not action.partition(":")[2].startswith(READS)]


def test_the_next_scheduled_sweep_acts_on_what_an_alarm_announced(deployed, cloudformation):
    """The notice of the run on an alarm counts, and neither is sent twice."""
    with deployed("enforce", SELF) as scene:
        principals(scene.server, cloudformation)
        narrowed = {"kinds": ["sagemaker-endpoint"], "regions": ["us-east-1"]}
        scene.bus.put(alarm(metric(HERE), id="1"))
        with scene.start() as runtime:
            scene.run(runtime)
            scene.days_pass()
            swept = runtime.invoke(narrowed, seconds=300)
        count = Account(scene.server).contents.endpoints[HERE].variants[0].count
    assert swept.error is None, swept.log[-3000:]
    steps = {finding["name"]: (finding["step"], finding["outcome"]) for finding in swept.answer["findings"]}
    assert steps == {HERE: ("stop", "done"), "second": ("warn", "done")}
    assert count == 1


def test_a_policy_that_cannot_be_read_fails_the_batch(deployed, cloudformation):
    """The queue delivers it again, and after the third time the alarm about them goes off."""
    with deployed("notify", SELF) as scene:
        boto3.client("ssm").put_parameter(
            Name=NAMES["PolicyParameter"], Value="version: 1\nrulez: []", Type="String", Overwrite=True
        )
        scene.bus.put(alarm(metric(HERE)))
        with scene.start() as runtime:
            failed = runtime.invoke(scene.bus.take(), seconds=300)
    assert failed.error is not None
    assert "rulez" in failed.error["errorMessage"]
    assert scene.mails() == {}


def test_alarms_about_nothing_that_is_swept_read_nothing(deployed):
    regions = {"REAPER_REGIONS": "eu-west-1"}
    with deployed("notify", SELF | regions) as scene:
        scene.bus.put(alarm(metric(HERE)))
        with scene.start() as runtime:
            ran = scene.run(runtime)
        services = {call.service for call in scene.server.calls if call.key == OWN_KEY}
    assert ran.answer == {"run": None, "resources": 0, "dropped": {"outside the deployment's accounts and regions": 1}}
    assert services == {"ssm", "sts"}
    assert REGIONS != ("eu-west-1",)
