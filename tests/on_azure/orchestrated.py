"""A function app without its host: the deployment's own functions, started and replayed by the engine, over five simulated subscriptions.

Ledger, runs, manifests and reports are at Azurite. The clock of the whole process is moved.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import azure.functions as func
import pytest
import time_machine
import trustme
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient

import azurite
from fakes.shifted_clocks import compare_own_clock, compare_true_clocks
from on_azure import durable_engine, tokens
from on_azure.durable_engine import Engine, Instance
from reaper.azure.functions import report as run_report
from reaper.azure.functions import starting, triggers
from reaper.azure.session import new_credential
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Thing

NOW = datetime(2026, 11, 21, 10, 17, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=20)
SUBS = tuple(f"{digit}" * 8 + f"-{digit * 4}" * 3 + f"-{digit * 12}" for digit in "12345")
FUNCTIONS = {f.get_function_name(): f.get_user_function() for f in triggers.app.get_functions()}
LOOP = asyncio.new_event_loop()
"""One for all tests, because the SDK keeps one connection for the whole process."""
APP = "/subscriptions/x/resourceGroups/rg/providers/Microsoft.Web/sites/reaper"
POLICY = """
version: 1
defaults: {{action: stop, idle_after: 24h, grace: 3d}}
limits: {{max_share: 100%, max_usd_per_hour: 1000}}
owners: {{tags: [owner], domains: [example.com], fallback: admins@example.com}}
channels: [{{type: folder, path: "{folder}"}}]
"""


@dataclass(frozen=True, slots=True)
class Storage:
    """Azurite: the connection string of its tables, the address of its blobs, and the certificate authority to trust that by."""

    tables: str
    blobs: str
    authority: bytes


@dataclass
class Deployment:
    """The app, the engine that runs it, and the Azure around it. `clusters`: the idle cluster of each subscription."""

    server: Server
    engine: Engine
    home: Path
    binding: str
    blobs: str
    travel: time_machine.Traveller
    clusters: dict[str, Thing] = field(default_factory=dict)

    def later(self, **time: float) -> None:
        """Move the clock on, everywhere."""
        self.travel.shift(timedelta(**time))
        self.engine.now = max(self.engine.now, self.server.now)
        self.server.world.operations.settle(self.server.now)

    def tick(self, *, late: bool = False) -> None:
        """The timer."""
        self._call("sweep_on_schedule", timer=SimpleNamespace(past_due=late))

    def post(self, body: object = None) -> func.HttpResponse:
        """A manual start."""
        raw = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        return self._call("sweep_by_hand", req=func.HttpRequest("POST", "http://127.0.0.1/api/sweep", body=raw))

    def ask(self, run: str) -> tuple[int, Any]:
        """What the app says about a run."""
        address = f"http://127.0.0.1/api/sweep/{run}"
        request = func.HttpRequest("GET", address, body=b"", route_params={"run": run})
        answer = self._call("sweep_status", req=request)
        return answer.status_code, json.loads(answer.get_body())

    def run(self) -> Instance:
        """Run the current instance to its end. It leaves no timer that would keep it waiting."""
        instance = self.engine.run(starting.INSTANCE)
        assert instance.left_timers == 0
        return instance

    def sweep(self) -> dict[str, Any]:
        """A scheduled run: its report."""
        self.tick()
        instance = self.run()
        assert instance.status == "Completed", instance.output
        status, report = self.ask(str(instance.output["run"]))
        assert status == 200, report
        return dict(report)

    def warned(self) -> None:
        """Run once, which notifies the owners, and wait for the end of their grace."""
        assert {f["step"] for f in self.sweep()["findings"]} == {"warn"}
        self.later(days=3, minutes=1)
        self.engine.calls.clear()

    def least(self) -> dict[str, int]:
        """The minimum nodes of each subscription's cluster: 0 once it was stopped."""
        return {
            sub[0]: cluster.body["properties"]["properties"]["scaleSettings"]["minNodeCount"]
            for sub, cluster in self.clusters.items()
        }

    def changes(self) -> list[str]:
        """The subscription of each change that was requested, by its first digit."""
        return [request.path.split("/")[2][0] for request in self.server.requests if request.method == "PATCH"]

    def mails(self) -> list[str]:
        folder = self.home / "mails"
        return [path.read_text() for path in sorted(folder.glob("*"))] if folder.is_dir() else []

    def mails_to(self, address: str) -> list[str]:
        return [mail for mail in self.mails() if f"To: {address}" in mail]

    def _call(self, name: str, **given: Any) -> Any:
        return LOOP.run_until_complete(FUNCTIONS[name](client=self.binding, **given))


def replay(name: str, context: str) -> str:
    """The orchestrator, under the SDK's own replay."""
    assert name == starting.ORCHESTRATOR
    return str(FUNCTIONS["sweep_run"](func.OrchestrationContext(context)))


def activity(name: str, given: str) -> str:
    """An activity. What goes in and out is JSON."""
    return json.dumps(FUNCTIONS[name](json.loads(given)))


@contextmanager
def blob_service(folder: Path) -> Iterator[str]:
    """A blob service whose certificate is signed by `ca.pem` in that folder. Raises azurite.Missing."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    mine = authority.issue_cert("127.0.0.1")
    mine.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "cert.pem").write_bytes(b"".join(part.bytes() for part in mine.cert_chain_pems))
    with azurite.blobs(folder / "cert.pem", folder / "key.pem") as url:
        yield url


@contextmanager
def deployment(storage: Storage, tmp_path: Path, patch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """The deployment in mode enforce, with containers and a table of its own."""
    for name in [n for n in os.environ if n.startswith(("AZURE_", "REAPER_", "IDENTITY_"))]:
        patch.delenv(name)
    patch.setattr(triggers, "PAUSES_S", (0.0, 0.0))
    patch.setattr(run_report, "WAIT_S", 0.05)
    patch.setattr(starting, "WAIT_S", 0.0)
    engine = Engine(replay, activity, now=NOW)
    with ExitStack() as stack:
        server = stack.enter_context(Server())
        server.world.operations.takes = timedelta(0)
        identity = stack.enter_context(tokens.endpoint())
        (tmp_path / "ca.pem").write_bytes(Path(server.ca).read_bytes() + storage.authority)
        own, stores = uuid.uuid4().hex, ("manifests", "reports", "runs")
        env = server.env | {
            "IDENTITY_ENDPOINT": identity,
            "REQUESTS_CA_BUNDLE": str(tmp_path / "ca.pem"),
            "AZURE_STORAGE_CONNECTION_STRING": storage.tables,
            "REAPER_DEPLOYMENT": APP,
            "REAPER_LEDGER": f"table://{azurite.ACCOUNT}/ledger{own}",
            "REAPER_MODE": "enforce",
            "REAPER_POLICY": POLICY.format(folder=tmp_path / "mails"),
            **{f"REAPER_{store.upper()}": f"{storage.blobs}/{store}-{own}" for store in stores},
        }
        for name, value in env.items():
            patch.setenv(name, value)
        with TableServiceClient.from_connection_string(storage.tables) as service:
            service.create_table(f"ledger{own}")
        with BlobServiceClient(storage.blobs, credential=new_credential()) as account:
            for store in stores:
                account.create_container(f"{store}-{own}")
        endpoint = durable_engine.serve(engine)
        stack.callback(endpoint.shutdown)
        binding = durable_engine.client_binding(f"http://127.0.0.1:{endpoint.server_port}")
        travel = stack.enter_context(time_machine.travel(NOW, tick=True))
        compare_true_clocks()
        stack.callback(compare_own_clock)
        yield Deployment(server, engine, tmp_path, binding, storage.blobs, travel, _clusters(server))


def _clusters(server: Server) -> dict[str, Thing]:
    """An idle cluster in each subscription, all of one owner."""
    clusters = {}
    for sub in SUBS:
        cluster = server.subscription(sub).workspace("vision").cluster(f"gpus-{sub[0]}", nodes=(1, 4), created=LONG_AGO)
        cluster.tagged(owner="ana@example.com")
        signals.nodes(cluster, active=0, idle=1, since=LONG_AGO)
        clusters[sub] = cluster
    return clusters
