"""The deployed files, indexed and run by Microsoft's worker library on Python 3.13, with the locked requirements and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import pytest
import trustme

import azurite
from deploy.pythons import python
from on_azure import bundle, tokens
from on_azure.durable_engine import SYSTEM_KEY
from on_azure.functions_host import KEY
from reaper import registry
from reaper.azure.functions import starting
from reaper.azure.functions.orchestration import ACT_ON_ITEM, CONCLUDE_RUN, DECIDE_RUN, LIST_TARGETS, OBSERVE_ITEM
from reaper.snooze.links import Keys, sign_link
from reaper_sandbox.azure import fleet
from reaper_sandbox.azure.server import Server

PYTHON = python("3.13")
SITE = "/subscriptions/1/resourcegroups/rg/providers/microsoft.web/sites/reaper"
pytestmark = pytest.mark.skipif(
    PYTHON is None, reason="no Python 3.13 on this machine: the function app was NOT run by Microsoft's worker"
)


@dataclass(frozen=True, slots=True)
class Running:
    """The app under its host, the Azure it talks to, and where its log goes."""

    url: str
    azure: Server
    blobs: str | None
    log: Path

    def ask(self, path: str, body: bytes | None = None, key: str | None = KEY) -> tuple[int, bytes]:
        headers = {"x-functions-key": key} if key else {}
        request = urllib.request.Request(f"{self.url}{path}", data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def sweep(self, body: object) -> tuple[int, dict[str, Any]]:
        """A manual call: the report of its run, or the refusal."""
        status, text = self.ask("/api/sweep", body if isinstance(body, bytes) else json.dumps(body).encode())
        answer = json.loads(text)
        if status != 202:
            return status, answer
        assert self.ask(answer["status"])[0] == 202
        self.run()
        status, text = self.ask(answer["status"])
        return status, json.loads(text)

    def tick(self, body: bytes = b"{}") -> dict[str, Any]:
        """The timer, and the run that it starts: what became of it."""
        assert self.ask("/admin/functions/sweep_on_schedule", body) == (202, b"")
        return self.run()

    def run(self) -> dict[str, Any]:
        status, text = self.ask("/admin/run", b"{}")
        assert status == 200, text
        return dict(json.loads(text))

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = (line.partition(" reaper ")[2] for line in self.log.read_text().splitlines() if " reaper {" in line)
        return [event for line in lines if (event := json.loads(line))["event"] == name]


@pytest.fixture(scope="module")
def packages() -> Path:
    assert PYTHON
    try:
        return bundle.packages(PYTHON, "azure-functions-runtime")
    except bundle.Missing as why:
        pytest.skip(f"{why}: the function app was NOT run by Microsoft's worker")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str | None, bytes]]:
    """A blob service, if one can be had, and the certificate authority to trust it by."""
    folder, authority = tmp_path_factory.mktemp("blobs"), trustme.CA()
    mine = authority.issue_cert("127.0.0.1")
    mine.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "cert.pem").write_bytes(b"".join(part.bytes() for part in mine.cert_chain_pems))
    try:
        with azurite.blobs(folder / "cert.pem", folder / "key.pem") as url:
            yield url, authority.cert_pem.bytes()
    except azurite.Missing:
        yield None, b""


@pytest.fixture(scope="module")
def running(packages: Path, store: tuple[str | None, bytes], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("app")
    with Server() as azure, tokens.endpoint() as identity, (folder / "log").open("w") as log:
        fleet.settle(azure, datetime.now(UTC))
        trust = folder / "ca.pem"
        trust.write_bytes(Path(azure.ca).read_bytes() + store[1])
        env = {"IDENTITY_ENDPOINT": identity, "REQUESTS_CA_BUNDLE": str(trust), "PYTHONPATH": str(packages)} | settings(
            azure, store[0]
        )
        if store[0]:
            container(f"{store[0]}/reports", trust)
            container(f"{store[0]}/runs", trust)
        with host(folder, {**azure.env, **env}, log) as url:
            yield Running(url, azure, store[0], folder / "log")


@pytest.fixture
def stored(running: Running) -> Running:
    """The app where it has blobs, which every run needs."""
    if not running.blobs:
        pytest.skip("no Azurite here: the function app was NOT run by Microsoft's worker")
    return running


@contextmanager
def host(folder: Path, env: dict[str, str], log: IO[str]) -> Iterator[str]:
    """The app under its host with these settings: its address."""
    command = [
        str(PYTHON),
        str(Path(__file__).with_name("functions_host.py")),
        str(bundle.app(Path(tempfile.mkdtemp(dir=folder)))),
    ]
    process = subprocess.Popen(
        command, env={**plain(), **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
    )
    assert process.stdout
    url = process.stdout.readline().strip()
    assert url, (folder / "log").read_text()
    yield url
    process.communicate(timeout=20)


@pytest.fixture(scope="module")
def page(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The app where snooze keys are configured."""
    folder = tmp_path_factory.mktemp("page")
    mine = {"REAPER_LEDGER": f"sqlite://{folder}/ledger.db", "REAPER_SNOOZE_KEYS": "env:KEEP_KEYS", "KEEP_KEYS": "s" * 40}
    env = {"PYTHONPATH": str(packages), "REAPER_SCHEDULE": "0 0 6 * * *", "REAPER_DEPLOYMENT": SITE}
    with Server() as azure, (folder / "log").open("w") as log, host(folder, {**env, **mine}, log) as url:
        yield Running(url, azure, None, folder / "log")


def settings(azure: Server, blobs: str | None) -> dict[str, str]:
    mail = {
        "REAPER_EMAIL_ENDPOINT": azure.url,
        "REAPER_EMAIL_SENDER": "reaper@example.com",
        "REAPER_EMAIL_TO": "a@example.com, b@example.com",
    }
    stored = {"REAPER_REPORTS": f"{blobs}/reports/daily", "REAPER_RUNS": f"{blobs}/runs"} if blobs else {}
    return {"AZURE_CLIENT_ID": "the-reaper", "REAPER_SCHEDULE": "0 0 6 * * *", "REAPER_LEDGER": "memory:", **mail, **stored}


def snooze_link(deployment: str) -> str:
    """A token as a sweep of that deployment signs it."""
    expires = datetime.now(UTC) + timedelta(days=30)
    return sign_link("one-mail-one-visit-one", expires, Keys(current="k1", ring={"k1": b"s" * 40}, deployment=deployment))


def plain() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_", "PYTHON"))}


def container(url: str, trust: Path) -> None:
    _blob(f"{url}?restype=container", trust, "PUT")


def _blob(url: str, trust: Path, method: str = "GET") -> bytes:
    import ssl

    headers = {"Authorization": f"Bearer {tokens.unsigned(tokens.STORAGE)}", "x-ms-version": "2024-11-04", "Content-Length": "0"}
    request = urllib.request.Request(url, method=method, headers=headers)
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=str(trust)), timeout=20) as reply:
        content: bytes = reply.read()
    return content


def test_the_bundle_has_no_sdk_of_the_other_cloud_and_no_command_line(packages: Path):
    names = {path.name.lower() for path in packages.iterdir()}
    assert {"boto3", "botocore", "typer", "rich", "moto", "aws_lambda_powertools"} & names == set()


def test_the_requirements_name_no_registry_and_pin_everything_by_hash():
    lines = bundle.REQUIREMENTS.read_text().splitlines()
    assert [line for line in lines if "://" in line or line.startswith("-")] == []
    assert all("==" in line for line in lines if not line.startswith(" "))
    assert sum("==" in line for line in lines) <= sum("--hash=sha256:" in line for line in lines)


def test_the_worker_indexes_a_timer_and_a_route(running: Running):
    bindings = json.loads(running.ask("/admin/functions")[1])
    [timer] = [b for b in bindings["sweep_on_schedule"] if b["type"] == "timerTrigger"]
    assert (timer["type"], timer["schedule"], timer["runOnStartup"]) == ("timerTrigger", "%REAPER_SCHEDULE%", False)
    route = next(b for b in bindings["sweep_by_hand"] if b["type"] == "httpTrigger")
    assert (route["route"], route["authLevel"].lower(), sorted(m.lower() for m in route["methods"])) == (
        "sweep",
        "function",
        ["get", "post"],
    )


def test_the_worker_indexes_the_orchestration_and_its_activities(running: Running):
    bindings = json.loads(running.ask("/admin/functions")[1])
    kinds = {name: [b["type"] for b in bound] for name, bound in bindings.items()}
    assert [b["orchestration"] for b in bindings["sweep_run"]] == [starting.ORCHESTRATOR]
    activities = {name for name, types in kinds.items() if types == ["activityTrigger"]}
    assert activities == {LIST_TARGETS, OBSERVE_ITEM, DECIDE_RUN, ACT_ON_ITEM, CONCLUDE_RUN}
    clients = {name for name, types in kinds.items() if "durableClient" in types}
    assert clients == {"sweep_on_schedule", "sweep_by_hand", "sweep_status"}
    [route] = [b for b in bindings["sweep_status"] if b["type"] == "httpTrigger"]
    assert (route["route"], route["authLevel"].lower(), [m.lower() for m in route["methods"]]) == (
        "sweep/{run}",
        "function",
        ["get"],
    )


def test_the_timer_sweeps_stores_the_report_and_mails_the_admins(stored: Running):
    mails = len(stored.azure.mails)
    assert stored.tick()["status"] == "Completed"
    event = stored.events("swept")[-1]
    assert (event["Resources"], event["Failures"]) == (len(fleet.EXPECTED), 0)
    assert {"Idle", "Unknown", "IdleUSDPerHour", "SweepSeconds"} <= event.keys()
    mail, other = stored.azure.mails[mails:]
    assert [one["recipients"]["to"] for one in (mail, other)] == [[{"address": "a@example.com"}], [{"address": "b@example.com"}]]
    assert mail["content"]["subject"].startswith("[ML Idle Reaper] ")
    assert "idle-min-nodes" in mail["content"]["plainText"]
    assert "<!doctype html>" in mail["content"]["html"]
    assert stored.azure.mutations == []


def test_the_report_lies_in_a_blob_and_the_mail_says_where(stored: Running):
    address = stored.tick()["output"]["stored"]
    assert address.startswith(f"{stored.blobs}/reports/daily/{datetime.now(UTC):%Y/%m/}")
    assert f"Full report: {address}" in stored.azure.mails[-1]["content"]["plainText"]
    report = json.loads(_blob(address, stored.log.with_name("ca.pem")))
    assert len(report["findings"]) == len(fleet.EXPECTED)


def test_without_snooze_keys_there_is_no_page_to_call(running: Running):
    assert "Keep" not in json.loads(running.ask("/admin/functions")[1])
    assert running.ask("/api/keep?t=x", key=None)[0] == 404


def test_the_snooze_page_is_anonymous_and_leaves_no_trace_in_the_log(page: Running):
    assert json.loads(page.ask("/admin/functions")[1])["Keep"][0]["authLevel"].lower() == "anonymous"
    mine, foreign = snooze_link(SITE), snooze_link(f"{SITE}-2")
    assert [page.ask(f"/api/keep?t={token}", key=None)[0] for token in ("x", "", foreign)] == [403] * 3
    status, shown = page.ask(f"/api/keep?t={mine}", key=None)
    assert (status, "This link isn" in shown.decode()) == (410, True), "its ledger is empty"
    assert page.ask("/api/keep", f"t={mine}&r=1&days=3".encode(), key=None)[0] == 410
    log = page.log.read_text()
    assert "the ledger has no resources for this link" in log
    assert "another deployment" in log
    assert "Traceback" not in log
    assert mine[-43:] not in log


def test_a_late_run_is_noticed(stored: Running):
    before = len(stored.events("late"))
    stored.tick(b'{"past_due": true}')
    assert len(stored.events("late")) == before + 1


@pytest.mark.parametrize("body", [{}, {"mode": "audit", "cloud": "azure"}, b""], ids=["an empty object", "options", "no body"])
def test_a_hand_made_call_is_answered_with_the_report(stored: Running, body: object):
    status, report = stored.sweep(body)
    assert status == 200
    states = {f["id"].rpartition("/")[2]: (f["state"], f["confidence"]) for f in report["findings"]}
    assert states == {name: (e.state, e.confidence) for name, e in fleet.EXPECTED.items()}


def test_a_hand_made_call_can_ask_for_less(stored: Running):
    status, report = stored.sweep({"kinds": ["azureml-compute-cluster"], "subscriptions": [fleet.SECOND]})
    assert status == 200
    assert {(row["kind"], row["account"]) for row in report["coverage"]} == {("azureml-compute-cluster", fleet.SECOND)}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"{", "isn't JSON", id="no JSON"),
        pytest.param([], "a list, expected an object", id="no object"),
        pytest.param({"kindz": []}, "did you mean 'kinds'", id="an unknown key"),
        pytest.param({"kinds": ["azureml-cluster"]}, "unknown kind", id="an unknown kind"),
        pytest.param({"kinds": ["sagemaker-endpoint"]}, "Azure only", id="a kind of the other cloud"),
        pytest.param({"cloud": "aws"}, "Azure only", id="the other cloud"),
        pytest.param({"mode": "enforce"}, "enforce", id="a raised mode"),
        pytest.param({"mode": 7}, "mode", id="a mode that is no text"),
        pytest.param({"subscriptions": ["not a subscription"]}, "isn't a subscription ID", id="no subscription id"),
    ],
)
def test_what_cannot_be_asked_for_gets_400_with_the_reason(stored: Running, body: object, reason: str):
    status, answer = stored.sweep(body)
    assert (status, reason in answer["error"]) == (400, True), answer


def test_without_the_key_nothing_is_swept(running: Running):
    before = len(running.azure.requests)
    assert running.ask("/api/sweep", b"{}", key=None)[0] == 401
    assert running.ask("/api/sweep/0123456789ab", key=None)[0] == 401
    assert len(running.azure.requests) == before


def test_the_bundle_knows_the_kinds_of_both_clouds_for_one_policy_file(stored: Running):
    assert len(registry.kind_names()) > len(registry.kinds("azure"))
    assert stored.sweep({"kinds": ["*"]})[0] == 200


def test_the_sdks_do_not_log_every_request(stored: Running):
    stored.sweep({})
    assert "http_logging_policy" not in stored.log.read_text()


def test_no_answer_has_an_address_of_the_engine(stored: Running):
    started = stored.ask("/api/sweep", b"{}")[1]
    answers = [started, stored.ask(json.loads(started)["status"])[1], stored.ask("/api/sweep", b"{}")[1]]
    stored.run()
    answers.append(stored.ask(json.loads(started)["status"])[1])
    assert [a for a in answers if b"code=" in a or SYSTEM_KEY.encode() in a] == []
