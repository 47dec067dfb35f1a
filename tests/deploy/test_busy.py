"""The script that publishes Busy: run as a program against a simulated Jupyter, a simulated /proc, and both clouds' services on loopback."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest

from deploy.machine import ARN, LONG_AGO, Loopback, Machine, iso, kernel, serving
from reaper.aws import sagemaker as aws_busy
from reaper.aws import targets
from reaper.aws.kinds import sagemaker_notebook
from reaper.aws.reader import Batch
from reaper.azure.kinds import azureml_compute_instance as azure_busy
from reaper.evidence import last_busy, point_count
from reaper.model import Resource
from reaper.observation import Reading, Window
from reaper_sandbox.aws.fault import denied, on
from reaper_sandbox.aws.server import Server

WORKSPACE = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/rg/providers/Microsoft.MachineLearningServices/workspaces/w"
PUBLISHED, FAILED, CANNOT_TELL = 0, 1, 3
HOUR = timedelta(hours=1)


@pytest.fixture
def web() -> Iterator[Loopback]:
    with serving() as loopback:
        yield loopback


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as running:
        for name, value in running.env.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def machine(tmp_path: Path, web: Loopback, aws: Server) -> Machine:
    return Machine(tmp_path, web, {"PATH": "/usr/bin:/bin", **aws.env})


@pytest.fixture
def ready(machine: Machine) -> Machine:
    """The same, five minutes after the first run, which has nothing to compare with."""
    assert machine.run() == CANNOT_TELL
    machine.five_minutes_pass()
    return machine


def readings() -> tuple[Reading, Reading]:
    """What the reaper reads of it: activity and heartbeat. The ARN is spelled as the API lists it, not as the machine does."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    cloud = targets.target_sessions(("us-east-1",), (), boto3.Session())[0]
    resource = Resource(
        kind="sagemaker-notebook", id=ARN.lower(), name="vision", target=cloud.target, region="us-east-1", created=None
    )
    window = Window(start=now - 14 * 24 * HOUR, end=now + 2 * HOUR, recent_since=now)
    batch = Batch(cloud=cloud, table=sagemaker_notebook.KIND, window=window)
    activity, heartbeat = aws_busy.busy_readings([resource], batch)[resource.id]
    return activity, heartbeat


def test_a_machine_at_rest_beats_without_activity(ready: Machine):
    assert ready.run() == PUBLISHED, ready.output
    activity, heartbeat = readings()
    assert (last_busy(activity), point_count(heartbeat)) == (None, 1)


def test_work_is_activity_and_heartbeat_in_one(ready: Machine):
    ready.jupyter([kernel("busy", LONG_AGO)], [])
    assert ready.run() == PUBLISHED
    activity, heartbeat = readings()
    assert last_busy(activity) is not None
    assert point_count(heartbeat) == 1


Work = Callable[[Machine], object]
AT_WORK: dict[str, Work] = {
    "a busy kernel": lambda m: m.jupyter([kernel("idle", LONG_AGO), kernel("busy", LONG_AGO)], []),
    "a kernel in a state we do not know": lambda m: m.jupyter([kernel("restarting", LONG_AGO)], []),
    "a kernel that ran since": lambda m: m.jupyter([kernel("idle", iso(time.time() - 100))], []),
    "a kernel that started since": lambda m: m.jupyter([kernel("starting", iso(time.time() - 100))], []),
    "a terminal that printed since": lambda m: m.jupyter([], [{"name": "1", "last_activity": iso(time.time() - 100)}]),
    "a silent job in a terminal": lambda m: m.process(78, tty=34816, session=77, command="python train.py"),
    "a processor at work": lambda m: m.works(150),
    "a GPU at work": lambda m: m.gpu("0\\n97\\n"),
}
UNCLEAR: dict[str, Work] = {
    "Jupyter refuses": lambda m: m.jupyter(403, 403),
    "Jupyter answers with a page": lambda m: m.jupyter("<html>sign in</html>", []),
    "Jupyter answers something else": lambda m: m.jupyter({"message": "no"}, []),
    "terminals fail": lambda m: m.jupyter([], 500),
    "a kernel without a time": lambda m: m.jupyter([{"execution_state": "idle"}], []),
    "a kernel with a time without a zone": lambda m: m.jupyter([kernel("idle", LONG_AGO[:-1])], []),
    "a kernel that is no kernel": lambda m: m.jupyter(["idle"], []),
    "a kernel that Jupyter does not list": lambda m: [
        m.process(pid, tty=0, session=pid, command="python -m ipykernel_launcher") for pid in (90, 91)
    ],
    "no figure of the processor": lambda m: (m.folder / "proc" / "stat").unlink(),
    "a GPU that cannot be read": lambda m: m.gpu("0\\n", status=9),
    "a GPU whose tool is silent": lambda m: m.gpu(""),
    "a GPU whose tool is missing": lambda m: (m.folder / "proc/driver/nvidia/gpus/0000:00:1e.0").mkdir(parents=True),
    "a GPU that does not say": lambda m: m.gpu("[N/A]\\n"),
}


@pytest.mark.parametrize("work", AT_WORK.values(), ids=AT_WORK)
def test_any_work_publishes_one(ready: Machine, work: Work):
    ready.process(79, tty=0, session=79, command="python -m ipykernel_launcher -f a.json")
    work(ready)
    assert (ready.run(), ready.output[:11]) == (PUBLISHED, "published 1")


@pytest.mark.parametrize("work", UNCLEAR.values(), ids=UNCLEAR)
def test_what_cannot_be_told_publishes_nothing(ready: Machine, work: Work, aws: Server):
    work(ready)
    assert ready.run() == CANNOT_TELL, ready.output
    assert [c.action for c in aws.calls if c.service == "cloudwatch"] == []


@pytest.mark.parametrize("work", UNCLEAR.values(), ids=UNCLEAR)
def test_work_is_published_also_where_something_else_cannot_be_told(ready: Machine, work: Work):
    work(ready)
    ready.process(78, tty=34816, session=77, command="python train.py")
    assert (ready.run(), ready.output[:11]) == (PUBLISHED, "published 1")


def test_without_jupyter_nothing_is_published(ready: Machine, aws: Server):
    assert ready.run("--jupyter", "http://127.0.0.1:9") == CANNOT_TELL
    assert [c.action for c in aws.calls if c.service == "cloudwatch"] == []


def test_jupyter_is_not_asked_through_a_proxy(ready: Machine):
    ready.env["http_proxy"] = "http://127.0.0.1:9"
    assert ready.run() == FAILED  # it could tell, and went through the proxy to publish


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(lambda m: m.jupyter([], []), id="nothing is open"),
        pytest.param(lambda m: m.jupyter([kernel("dead", LONG_AGO), kernel("starting", LONG_AGO)], []), id="kernels that hang"),
        pytest.param(lambda m: m.jupyter([], 404), id="terminals are switched off"),
        pytest.param(lambda m: m.works(50), id="the machine's own agents"),
        pytest.param(lambda m: m.gpu("0\\n1\\n"), id="a GPU at rest"),
        pytest.param(lambda m: m.process(78, tty=34816, session=77, state="Z"), id="a job that ended"),
    ],
)
def test_rest_publishes_zero(ready: Machine, rest: Work):
    rest(ready)
    assert (ready.run(), ready.output.strip()) == (PUBLISHED, "published 0")


def test_the_machines_own_zone_does_not_matter(ready: Machine):
    ready.env["TZ"] = "America/New_York"
    ready.jupyter([kernel("idle", iso(time.time() - HOUR.total_seconds()))], [])
    assert (ready.run(), ready.output.strip()) == (PUBLISHED, "published 0")
    ready.five_minutes_pass()
    ready.jupyter([kernel("idle", iso(time.time() - 100))], [])
    assert (ready.run(), ready.output[:11]) == (PUBLISHED, "published 1")


def test_the_first_run_after_a_start_proves_nothing(ready: Machine):
    ready.boot, ready.used = ready.boot + 86_400, 900_000
    ready.works(0)
    assert ready.run() == CANNOT_TELL
    ready.five_minutes_pass()
    assert (ready.run(), ready.output.strip()) == (PUBLISHED, "published 0")


def test_the_first_run_ever_proves_nothing_even_where_nothing_is_open(machine: Machine):
    machine.jupyter([], [])
    assert machine.run() == CANNOT_TELL
    assert machine.output.endswith("cannot tell: processor\n")


def test_what_could_not_be_published_is_published_later(ready: Machine, aws: Server):
    aws.rules.append(on("PutMetricData", denied()))
    ready.jupyter([kernel("idle", iso(time.time() - 100))], [])
    assert ready.run() == FAILED
    assert "AccessDenied" in ready.output
    aws.rules.clear()
    assert (ready.run(), ready.output[:11]) == (PUBLISHED, "published 1")


def test_it_asks_for_nothing_but_its_own_metric(ready: Machine, aws: Server):
    ready.run()
    assert {c.action for c in aws.calls} == {"cloudwatch:PutMetricData"}


def azure(machine: Machine, web: Loopback) -> list[str]:
    environment = machine.folder / "environment.sso"
    environment.write_text(f"MSI_ENDPOINT={web.url}/MSI/auth\nMSI_SECRET=se=cret\nDEFAULT_IDENTITY_CLIENT_ID=me\n")
    web.answers |= {"/MSI/auth": {"access_token": "T"}, f"/westeurope{WORKSPACE}/metrics": ""}
    options = {"workspace": WORKSPACE, "region": "westeurope", "compute": "ci-1", "ingestion": web.url + "/{region}"}
    return [*(f"--{key}={value}" for key, value in options.items()), f"--environment={environment}"]


@pytest.mark.parametrize(("kernels", "value"), [([kernel("busy", LONG_AGO)], 1), ([], 0)])
def test_azure_gets_the_series_that_the_reaper_reads(ready: Machine, web: Loopback, kernels: list[Any], value: int):
    ready.jupyter(kernels, [])
    assert ready.run(*azure(ready, web)) == PUBLISHED, ready.output
    path, head, body = web.requests[-1]
    sent, base = json.loads(body), json.loads(body)["data"]["baseData"]
    assert (path, head["Authorization"]) == (f"/westeurope{WORKSPACE}/metrics", "Bearer T")
    query = azure_busy.BUSY
    assert (base["namespace"], (base["metric"],), base["dimNames"]) == (query.namespace, query.metrics, [query.split_by])
    assert base["series"] == [{"dimValues": ["ci-1"], "min": value, "max": value, "sum": value, "count": 1}]
    assert abs(datetime.fromisoformat(sent["time"]) - datetime.now(UTC)) < HOUR


def test_on_azure_the_instances_own_identity_speaks(ready: Machine, web: Loopback):
    ready.run(*azure(ready, web))
    path, head = next((path, head) for path, head, _ in web.requests if path.startswith("/MSI"))
    assert {k.lower(): v for k, v in head.items()}["secret"] == "se=cret"
    want = {"api-version": ["2017-09-01"], "resource": ["https://monitoring.azure.com/"], "clientid": ["me"]}
    assert parse_qs(urlsplit(path).query) == want


def test_a_refusal_of_azure_is_told_without_the_secret(ready: Machine, web: Loopback):
    options = azure(ready, web)
    web.answers[f"/westeurope{WORKSPACE}/metrics"] = 403
    assert ready.run(*options) == FAILED
    assert "403" in ready.output
    assert "cret" not in ready.output


def test_an_identity_that_is_not_there_is_told(ready: Machine, web: Loopback):
    options = azure(ready, web)
    (ready.folder / "environment.sso").unlink()
    assert ready.run(*options) == FAILED
    assert "MSI_ENDPOINT" in ready.output
