"""Each ledger of version 49f8b6c, loaded into each kind of store, together with the resources that it describes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from azure.data.tables import TableClient

from fakes import ledger_places
from fakes.fake_cloud import FakeResource
from fakes.fake_deployment import FakeDeployment, policy
from fakes.ledger_places import LedgerLocation
from reaper.snooze.handler import handle_request
from reaper.snooze.request import Reply, Request, SnoozeContext
from reaper.snooze.token import Keys
from upgrade.make_policy import KEYS, POLICY

HERE = Path(__file__).parent


@dataclass
class Upgraded:
    """The new product on an old ledger. `links` were mailed by the old version."""

    deployment: FakeDeployment
    links: dict[str, str]

    def click(self, name: str, days: int) -> Reply:
        """Send the form of the mailed link now, to a page that has been given its deployment since."""
        form = f"t={self.links[name].partition('t=')[2]}&days={days}&reason=needed&name=jo".encode()
        keys = Keys(**KEYS, deployment="arn:aws:cloudformation:us-east-1:123456789012:stack/reaper/1")
        desk = SnoozeContext(ledger=lambda: self.deployment.ledger, keys=lambda wanted: keys, now=self.deployment.now)
        return handle_request(Request(method="POST", path="/keep", body=form), desk)

    def mails(self, to: str) -> list[str]:
        return [m.text for m in self.deployment.channel.messages if m.to == to]


@pytest.fixture(params=["sqlite", "dynamodb", "table"])
def upgraded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Upgraded]]:
    """A function from the name of a fixture, and `max_acts`, to the new product on that ledger."""
    with pytest.MonkeyPatch.context() as patch:
        opened: list[LedgerLocation] = []

        def load(play: str, most: int = 20) -> Upgraded:
            store = LOADED[request.param](request, patch, tmp_path, play)
            opened.append(store)
            return _upgraded(store, play, most)

        yield load
        for store in opened:
            store.close()


def _upgraded(ledger_location: LedgerLocation, play: str, most: int) -> Upgraded:
    world = json.loads((HERE / f"{play}.world.json").read_text())
    deployment = FakeDeployment(
        policy=policy(POLICY.replace("MOST", str(most))),
        now=datetime.fromisoformat(world["now"]),
        ledger=ledger_location.open_ledger(),
        regions=("us-east-1", "eu-west-1"),
        runs=world["runs"],
    )
    deployment.store.texts.update(world["manifests"])
    for stored in world["things"]:
        deployment.cloud.add(
            **{name: value for name, value in _resource_fields(stored).items() if name in {f.name for f in fields(FakeResource)}}
        )
    return Upgraded(deployment, world["links"])


RENAMED = {"up": "running_since", "deaf": "metric_gaps", "vague": "without_heartbeat", "patchy": "incomplete_replies"}
"""Fields of a fake resource by the names that version 49f8b6c of the tests gave them."""


def _resource_fields(stored: dict[str, Any]) -> dict[str, Any]:
    times = {name: datetime.fromisoformat(stored[name]) for name in ("created", "changed", "up") if stored[name]}
    values = {**stored, **times, "uses": [datetime.fromisoformat(use) for use in stored["uses"]]}
    return {RENAMED.get(name, name): value for name, value in values.items()}


def _sqlite(request: pytest.FixtureRequest, patch: pytest.MonkeyPatch, folder: Path, play: str) -> LedgerLocation:
    with closing(sqlite3.connect(folder / "ledger.db")) as connection:
        connection.executescript((HERE / f"{play}.sql").read_text())
    return LedgerLocation(f"sqlite://{folder}/ledger.db", {})


def _dynamodb(request: pytest.FixtureRequest, patch: pytest.MonkeyPatch, folder: Path, play: str) -> LedgerLocation:
    store = ledger_places.dynamodb(request.getfixturevalue("moto_url"), patch)
    client, table = boto3.client("dynamodb"), store.address.rpartition("/")[2]
    for item in json.loads((HERE / f"{play}.dynamodb.json").read_text()):
        client.put_item(TableName=table, Item=item)
    return store


def _table(request: pytest.FixtureRequest, patch: pytest.MonkeyPatch, folder: Path, play: str) -> LedgerLocation:
    store = ledger_places.table(request.getfixturevalue("azurite_tables"))
    name = store.address.rpartition("/")[2]
    with TableClient.from_connection_string(store.environ["AZURE_STORAGE_CONNECTION_STRING"], name) as client:
        for entity in json.loads((HERE / f"{play}.table.json").read_text()):
            client.create_entity(entity)
    return store


LOADED: dict[str, Callable[..., LedgerLocation]] = {"sqlite": _sqlite, "dynamodb": _dynamodb, "table": _table}
