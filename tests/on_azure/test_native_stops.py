"""`stop_by: native` stops nothing: every text says that the idle shutdown is switched on, promises no money, and names its own undo."""

from __future__ import annotations

import json

import pytest

from on_azure.enforcing import Scene, idle_instance, to_stop_natively
from reaper import registry
from reaper.errors import PolicyError
from reaper.finding import saved_usd_per_hour
from reaper.model import Mode, StepName
from reaper.pending import plan_file
from reaper.policy.parse import parse_policy
from reaper.report import text as plan_report
from reaper.report.json import render as render_json
from reaper.report.text import render as render_text
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace

IDLE = "properties.properties.idleTimeBeforeShutdown"
CALENDARS = "calendars: {year-end: {tz: UTC, dates: [2026-12-24/2027-01-03]}}"


def subjects(scene: Scene) -> list[str]:
    return [message.subject for message in scene.one.channel.messages if message.to == "ada@example.com"]


def flat(text: str) -> str:
    return " ".join(text.split())


def test_the_notice_announces_no_stop_and_no_saving(server: Server, vision: Workspace):
    scene = to_stop_natively(server, vision)
    scene.one.finding()
    [mail] = map(flat, scene.one.mails())
    [subject] = subjects(scene)
    assert "It will be switched to its own idle shutdown on or after" in mail
    assert "will be switched to its own idle shutdown from" in subject
    for text in (mail, subject):
        assert "stopped" not in text.replace("Nothing is stopped", "")
        assert "This saves" not in text
    assert "reaper restore" in mail
    assert "az ml compute start" not in mail


def test_the_mail_about_it_claims_no_saving_and_names_its_undo(server: Server, vision: Workspace):
    scene = to_stop_natively(server, vision)
    finding = scene.one.due().finding()
    [mail] = map(flat, scene.one.mails())
    [subject] = subjects(scene)
    assert "switched to its own idle shutdown" in subject
    assert "Its idle shutdown was switched on: it runs on until PT60M without use have passed" in mail
    assert "until it shuts down" in mail
    assert "reaper restore" in mail
    for text in (mail, subject):
        assert "saving" not in text.lower()
        assert "was stopped" not in text
    assert saved_usd_per_hour(finding) == 0.0


def test_the_report_and_its_json_claim_no_saving(server: Server, vision: Workspace):
    scene = to_stop_natively(server, vision)
    report = scene.one.due().sweep()
    text = flat(render_text(report))
    assert "switched to its own idle shutdown" in text
    assert "saving" not in text
    [row] = json.loads(render_json(report))["findings"]
    assert row["saves_usd_per_hour"] == 0.0


def test_a_plan_calls_it_an_idle_shutdown(server: Server, vision: Workspace):
    scene = to_stop_natively(server, vision)
    report = scene.one.due().sweep(Mode.ANNOUNCE)
    [finding] = report.findings
    assert finding.step.name is StepName.STOP
    assert finding.step.because.endswith("that it would be switched to its own idle shutdown")
    assert plan_report.counts_text([plan_file.action_row(finding)]) == "1 idle shutdown"


def test_a_stop_is_told_as_before(server: Server, vision: Workspace):
    scene = idle_instance(server, vision)
    finding = scene.one.due().finding()
    [subject] = subjects(scene)
    assert "was stopped, saving $" in subject
    assert saved_usd_per_hour(finding) > 0


def test_one_that_is_on_and_stops_nothing_can_be_stopped(server: Server, vision: Workspace):
    scene = to_stop_natively(server, vision)
    scene.thing.set(IDLE, "PT60M")
    scene.one.finding()
    [mail] = map(flat, scene.one.mails())
    assert (
        "Its idle shutdown (PT60M) is already on; if that doesn't stop it, `stop_by: stop` does. It keeps costing money" in mail
    )
    assert "can't be" not in mail


def test_a_tag_with_office_hours_blocks_it(server: Server, vision: Workspace):
    scene = to_stop_natively(server, vision)
    scene.thing.tagged(**{"owner": "ada@example.com", "reaper:hours": "mon-fri 09:00-17:00 UTC"})
    blocked = scene.one.finding().case.blocked[StepName.STOP]
    assert blocked
    assert blocked.because == "it has office hours, which its own idle shutdown (`stop_by: native`) wouldn't heed"


HOURS = "hours: {on: mon-fri 07:00-21:00, tz: UTC}"


@pytest.mark.parametrize(
    ("defaults", "rule", "problem"),
    [
        pytest.param(
            "",
            HOURS,
            "not valid with hours, which the cloud's own idle shutdown doesn't heed; remove the hours, or use",
            id="hours",
        ),
        pytest.param(
            "", "freeze: [year-end]", "not valid with freeze, which the cloud's own idle shutdown doesn't heed", id="freeze"
        ),
        pytest.param("freeze: [year-end]", "grace: 3d", "write `freeze: []`, or use `stop_by: stop`", id="the defaults' freeze"),
        pytest.param("freeze: [year-end]", HOURS, "not valid with hours", id="both"),
    ],
)
def test_native_is_refused_with_what_it_does_not_heed(defaults: str, rule: str, problem: str):
    text = f"version: 1\n{CALENDARS}\ndefaults: {{{defaults}}}\nrules:\n  - {{name: a, action: stop, stop_by: native, {rule}}}\n"
    with pytest.raises(PolicyError) as refused:
        parse_policy(text, "p.yaml", registry.kind_names())
    assert problem in str(refused.value)
    assert str(refused.value).startswith("p.yaml:5: rules[0].stop_by: ")


@pytest.mark.parametrize("rule", ["stop_by: native, freeze: []", "stop_by: stop"])
def test_without_a_freeze_or_natively_it_is_accepted(rule: str):
    text = f"version: 1\n{CALENDARS}\ndefaults: {{freeze: [year-end]}}\nrules:\n  - {{name: a, action: stop, {rule}}}\n"
    assert parse_policy(text, "p.yaml", registry.kind_names()).rules


def test_it_saves_nothing_for_a_month(server: Server, vision: Workspace):
    scene = to_stop_natively(server, vision)
    scene.one.due().sweep()
    for _ in range(3):
        scene.one.later(days=10)
        savings = scene.one.sweep().savings
        assert not (savings and savings.has_any)


def test_a_notice_of_an_idle_shutdown_is_none_of_a_stop(server: Server, vision: Workspace):
    scene = to_stop_natively(server, vision)
    scene.one.due().stop_by = "stop"
    assert scene.one.finding().step.name is StepName.WARN
    assert scene.thing.body["properties"]["properties"]["state"] == "Running"
