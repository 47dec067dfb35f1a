"""The built Lambda bundle, under AWS's own runtime client, over HTTP, with exactly the template's policies evaluated on every call."""

from __future__ import annotations

import json
import os
import subprocess
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pytest

from deploy import policies, sam, wire
from deploy.pythons import python
from deploy.runtime import Runtime
from deploy.test_template import AUDIT, NAMES
from deploy.translate import translate
from reaper_sandbox.aws import reply, scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import Fault, denied, on
from reaper_sandbox.aws.fleet import SEEDING
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

NOW = datetime.now(UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
LIBRARIES = sam.BUILD / "runtime-libraries"


def missing(why: str) -> None:
    warnings.warn(f"NOT TESTED: the Lambda bundle, because {why}", stacklevel=1)
    pytest.skip(why)


@pytest.fixture(scope="module")
def bundle() -> Path:
    try:
        return sam.bundle_for_here()
    except sam.Missing as why:
        missing(str(why))
        raise


@pytest.fixture(scope="module")
def libraries() -> Path:
    """What the runtime brings along: its client and boto3."""
    return packages(LIBRARIES, "awslambdaric", "boto3")


def packages(home: Path, *requirements: str) -> Path:
    """A folder with these packages, as the runtime's Python would have them."""
    install = [sam.UV, "pip", "install", "--quiet", "--target", home, "--python-version", sam.RUNTIME, "--only-binary", ":all:"]
    if not home.exists():
        subprocess.run([*install, *requirements], check=True)
    return home


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(NOW) as running:
        yield running


@pytest.fixture
def allowed(server: Server) -> policies.Policies:
    """The template's policies, asked about every call that reaches the server."""
    rights = policies.Policies(policies.of_template(translate(sam.ROOT / "template.yaml"), NAMES, only=AUDIT))

    admin = boto3.Session(region_name="us-east-1")
    settings = {"endpoint_url": server.url, "aws_access_key_id": "AKIAIOSFODNN7EXAMPLE", "aws_secret_access_key": "x"}
    admin.client("sns", **settings).create_topic(Name="summary")
    admin.client("s3", **settings).create_bucket(Bucket="reports-bucket")
    admin.client("ssm", **settings).put_parameter(Name="/ml-idle-reaper/policy", Value="version: 1\n", Type="String")
    server.rules.append(wire.guard(server, rights))
    return rights


@pytest.fixture
def environ(server: Server) -> dict[str, str]:
    return {
        **server.env,
        "REAPER_MODE": "audit",
        "REAPER_POLICY": "ssm:/ml-idle-reaper/policy",
        "REAPER_REGIONS": "us-east-1",
        "REAPER_REPORTS": "s3://reports-bucket/reports",
        "REAPER_TOPIC": NAMES["SummaryTopic"],
        "REAPER_QUIET": "true",
        "REAPER_DEPLOYMENT": "arn:aws:cloudformation:us-east-1:123456789012:stack/team-a/1f0c",
    }


STATES = {
    **dict.fromkeys(("quiet", "host", "component", "nb", "ana/JupyterLab/default"), "idle"),
    **{name: verdict.split()[0] for module in SEEDING for name, verdict in module.FLEET_VERDICTS.items()},
}


@pytest.fixture
def fleet(server: Server) -> Account:
    """One silent resource of each kind, so that every call is made."""
    account = Account(server)
    account.endpoint("quiet")
    account.endpoint("host", variants=[Variant(name="host", model=None, scaling=(1, 1))])
    account.component("component", "host")
    scaled.wake(account, scaled.copies(account, "component"))
    account.component_alive("component", NOW - 15 * DAY, NOW + DAY)
    for endpoint, variant in (("quiet", "AllTraffic"), ("host", "host")):
        account.alive(endpoint, variant, NOW - 15 * DAY, NOW + DAY)
    account.notebook("nb")
    account.app(space="ana")
    for module in SEEDING:
        module.seed_fleet(account.contents, NOW)
    return account


def test_the_bundle_is_small_and_carries_no_sdk_of_either_cloud():
    try:
        built = sam.bundle()
    except sam.Missing as why:
        missing(str(why))
    assert sam.megabytes(built) <= 14
    names = {p.name for p in built.iterdir()}
    assert not names & {"boto3", "botocore", "azure", "msal", "moto", "typer", "rich"}
    assert "aarch64" in str(next((built / "pydantic_core").glob("*.so")))


def test_a_scheduled_sweep_needs_exactly_what_the_template_grants(bundle, libraries, server, fleet, allowed, environ):
    everywhere = environ | {"REAPER_REGIONS": "all"}
    with Runtime(python(sam.RUNTIME), libraries, bundle, "reaper.aws.functions.sweep.handler", everywhere) as runtime:
        invocation = runtime.invoke({})
    assert invocation.error is None, invocation.log[-3000:]
    assert allowed.denied == []
    assert allowed.unused() == {"logs:CreateLogStream", "logs:PutLogEvents"}, "Lambda itself writes the log"
    states = {f["name"]: f["state"] for f in invocation.answer["findings"]}
    assert states == STATES
    idle = list(states.values()).count("idle")
    assert {c["status"] for c in invocation.answer["coverage"]} == {"ok"}
    assert _sent(server)[0]["Subject"].startswith(f"[ML Idle Reaper] {idle} idle ML resources cost at least $")
    assert _stored(server)["run"] == invocation.answer["run"]
    metrics = next(json.loads(line) for line in invocation.log.splitlines() if '"SweepSeconds"' in line)
    assert (metrics["Idle"], metrics["Failures"], metrics["service"]) == ([float(idle)], [0.0], "ml-idle-reaper")
    [measured] = metrics["_aws"]["CloudWatchMetrics"]
    assert ([sorted(names) for names in measured["Dimensions"]], metrics["stack"]) == ([["service", "stack"]], "team-a")


def test_a_hand_made_call_takes_the_options_but_never_a_higher_mode(bundle, libraries, server, fleet, allowed, environ):
    two = environ | {"REAPER_REGIONS": "us-east-1,eu-west-1"}
    with Runtime(python(sam.RUNTIME), libraries, bundle, "reaper.aws.functions.sweep.handler", two) as runtime:
        some = runtime.invoke({"kinds": ["sagemaker-notebook"], "regions": ["us-east-1"], "mode": "audit"})
        raised = runtime.invoke({"mode": "enforce"})
        wrong = runtime.invoke({"kindz": []})
        enveloped = runtime.invoke(
            {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}, "region": "us-east-1", "id": "x"}
        )
    assert {f["kind"] for f in some.answer["findings"]} == {"sagemaker-notebook"}
    assert raised.error["errorType"] == "SettingsError"
    assert "did you mean 'kinds'?" in wrong.error["errorMessage"]
    assert len(enveloped.answer["findings"]) == len(STATES)


def test_a_denied_list_is_in_the_answer_the_summary_and_the_metrics(bundle, libraries, server, fleet, allowed, environ):
    server.rules.append(on("ListEndpoints", denied()))
    with Runtime(python(sam.RUNTIME), libraries, bundle, "reaper.aws.functions.sweep.handler", environ) as runtime:
        invocation = runtime.invoke({})
    row = next(c for c in invocation.answer["coverage"] if c["kind"] == "sagemaker-endpoint")
    assert (row["status"], row["missing"]) == ("denied", "sagemaker:ListEndpoints")
    assert "COVERAGE GAPS" in _sent(server)[0]["Message"]
    assert '"Failures":[1.0]' in invocation.log.replace(" ", "")


@pytest.mark.parametrize("text", ["version:", "version: 1\nrulez: []\n", "[", "#"])
def test_a_policy_that_does_not_parse_fails_the_sweep_before_any_read(
    bundle, libraries, server, fleet, allowed, environ, text: str
):
    """A failed invocation is what the alarm counts, and the message says which line of the policy it is."""
    put_policy(server, text)
    with Runtime(python(sam.RUNTIME), libraries, bundle, "reaper.aws.functions.sweep.handler", environ) as runtime:
        invocation = runtime.invoke({})
    assert invocation.error["errorType"] == "PolicyError"
    assert "ssm:/ml-idle-reaper/policy:" in invocation.error["errorMessage"]
    assert [call.action for call in server.calls if call.service == "sagemaker"] == []


def test_office_hours_know_their_time_zone_without_the_systems_own_tables(bundle, libraries, server, fleet, allowed, environ):
    hours = "{on: 'mon-fri 07:00-21:00', tz: Europe/Berlin, start: ours}"
    rule = f"{{name: nights, match: {{kind: sagemaker-notebook}}, action: stop, hours: {hours}}}"
    settings = environ | {"REAPER_POLICY": f"version: 1\nrules: [{rule}]\n", "PYTHONTZPATH": ""}
    with Runtime(python(sam.RUNTIME), libraries, bundle, "reaper.aws.functions.sweep.handler", settings) as runtime:
        invocation = runtime.invoke({})
    assert invocation.error is None, invocation.error
    assert {f["rule"] for f in invocation.answer["findings"] if f["name"] == "nb"} == {"rule 'nights'"}


def test_calendars_are_read_with_the_libraries_in_the_bundle(bundle, libraries, server, fleet, allowed, environ):
    file = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;TZID=W. Europe Standard Time:20200101T000000\nDURATION:P1D\nRRULE:FREQ=YEARLY\nEND:VEVENT\nEND:VCALENDAR"
    known = "{germany: {country: DE, subdiv: BY, tz: Europe/Berlin}, company: {ics: /dev/stdin, tz: Europe/Berlin}, gone: {ics: /nowhere.ics}}"
    settings = environ | {"REAPER_POLICY": f"version: 1\ncalendars: {known}\n", "PYTHONTZPATH": "", "LANG": "de_DE.UTF-8"}
    code = (
        "from datetime import *; from reaper.policy.file import *; from reaper.calendars.resolve import *; "
        "read = with_calendars(load_policy(os.environ['REAPER_POLICY']).policy, None, datetime.now(UTC)).resolved; "
        "print(*[f'{len(each.days)} {each.unreadable_because}' for each in read.values()], sep='\\n')"
    )
    command = [python(sam.RUNTIME), "-c", f"import os; {code}"]
    completed = subprocess.run(
        command, env=settings | {"PYTHONPATH": str(bundle)}, input=file, capture_output=True, text=True, timeout=120, check=True
    )
    germany, company, gone = completed.stdout.splitlines()
    assert int(germany.removesuffix(" None")) > 24
    assert company in {"3 None", "4 None"}
    assert "can't be read" in gone
    with Runtime(python(sam.RUNTIME), libraries, bundle, "reaper.aws.functions.sweep.handler", settings) as runtime:
        invocation = runtime.invoke({})
    assert [row["error"] for row in invocation.answer["coverage"] if row["kind"] == "calendars" and "gone" in row["error"]]


CALENDARS = ["arn:aws:s3:::calendars/company.ics", "arn:aws:ssm:us-east-1:123456789012:document/year-end"]


def test_calendars_are_read_with_exactly_what_the_template_grants(bundle, libraries, server, fleet, allowed, environ):
    file = "BEGIN:VCALENDAR\nX-CALENDAR-TYPE:DEFAULT_OPEN\nBEGIN:VEVENT\nDTSTART:20200101T000000Z\nDURATION:PT1H\nRRULE:FREQ=YEARLY\nEND:VEVENT\nEND:VCALENDAR"
    server.rules.clear()
    s3 = boto3.client("s3", endpoint_url=server.url, aws_access_key_id="A" * 20, aws_secret_access_key="x")
    s3.create_bucket(Bucket="calendars")
    s3.put_object(Bucket="calendars", Key="company.ics", Body=file.encode())
    known = NAMES | {"Calendars": CALENDARS, "HasCalendars": "true"}
    rights = policies.Policies(policies.of_template(translate(sam.ROOT / "template.yaml"), known, only=AUDIT))
    server.rules.append(wire.guard(server, rights))
    for operation, data in {"GetDocument": {"Content": file}, "GetCalendarState": {"State": "OPEN"}}.items():
        server.rules.append(on(operation, Fault(answer=lambda call, data=data: reply.result(call, data))))
    calendars = "{company: {ics: s3://calendars/company.ics}, changes: {change_calendar: year-end}}"
    settings = environ | {"REAPER_POLICY": f"version: 1\ncalendars: {calendars}\n"}
    with Runtime(python(sam.RUNTIME), libraries, bundle, "reaper.aws.functions.sweep.handler", settings) as runtime:
        invocation = runtime.invoke({})
    assert rights.denied == []
    assert [row for row in invocation.answer["coverage"] if row["kind"] == "calendars"] == []
    assert not {"s3:GetObject", "ssm:GetDocument", "ssm:GetCalendarState"} & set(rights.unused())


STORE_TWICE = """
from reaper.aws.stores import texts
from reaper.errors import CloudError
for text in ("first", "second"):
    try:
        print(texts.write("s3://reports-bucket/manifests", "run/one.json", text))
    except CloudError as error:
        print(error.reason)
"""


@pytest.mark.parametrize(
    ("version", "output"),
    [
        pytest.param("1.35.2", ["s3://reports-bucket/manifests/run/one.json", "refused"], id="the oldest that knows how"),
        pytest.param("1.35.1", ["unreachable", "unreachable"], id="one that does not: nothing is stored, so nothing is deleted"),
    ],
)
def test_a_manifest_is_written_once_whatever_boto3_the_runtime_has(bundle, server, allowed, version: str, output: list[str]):
    server.rules.clear()
    libraries = packages(sam.BUILD / f"botocore-{version}", f"boto3=={version}", f"botocore=={version}")
    environ = {**os.environ, **server.env, "PYTHONPATH": f"{bundle}{os.pathsep}{libraries}"}
    completed = subprocess.run(
        [python(sam.RUNTIME), "-c", STORE_TWICE], env=environ, capture_output=True, text=True, timeout=120, check=True
    )
    assert completed.stdout.splitlines() == output
    listing = boto3.client("s3", endpoint_url=server.url, aws_access_key_id="A" * 20, aws_secret_access_key="x").list_objects_v2(
        Bucket="reports-bucket"
    )
    assert [row["Key"] for row in listing.get("Contents", ())] == ["manifests/run/one.json"][: output.count("refused")]


def test_no_summary_when_there_is_nothing_to_say(bundle, libraries, server, allowed, environ):
    with Runtime(
        python(sam.RUNTIME), libraries, bundle, "reaper.aws.functions.sweep.handler", environ | {"REAPER_REGIONS": ""}
    ) as runtime:
        invocation = runtime.invoke({})
    assert invocation.error is None
    assert _sent(server) == []


def test_a_summary_that_is_not_accepted_makes_the_function_fail(bundle, libraries, server, fleet, allowed, environ):
    server.rules.insert(0, on("Publish", denied()))
    with Runtime(
        python(sam.RUNTIME), libraries, bundle, "reaper.aws.functions.sweep.handler", environ | {"REAPER_REGIONS": ""}
    ) as runtime:
        invocation = runtime.invoke({})
    assert "the summary was not accepted" in invocation.error["errorMessage"]
    assert _stored(server)["totals"]["by_state"]["idle"] == list(STATES.values()).count("idle")


def put_policy(server: Server, text: str) -> None:
    """Another policy where the sweep finds it, put there by a person, not the sweep."""
    client = boto3.client(
        "ssm", endpoint_url=server.url, aws_access_key_id="A" * 20, aws_secret_access_key="x", region_name="us-east-1"
    )
    rules, server.rules[:] = list(server.rules), []
    client.put_parameter(Name="/ml-idle-reaper/policy", Value=text, Type="String", Overwrite=True)
    server.rules[:] = rules


def _sent(server: Server) -> list[dict]:
    return [c.params for c in server.calls if c.action == "sns:Publish"]


def _stored(server: Server) -> dict:
    client = boto3.client(
        "s3",
        endpoint_url=server.url,
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key="x",
        region_name="us-east-1",
    )
    put = next(c for c in server.calls if c.action == "s3:PutObject")
    server.rules.clear()
    return json.loads(client.get_object(Bucket=put.params["Bucket"], Key=put.params["Key"])["Body"].read())
