"""An empty location for each kind of ledger, so that one suite runs against all of them."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from azure.data.tables import TableClient, TableServiceClient, UpdateMode

import azurite
from fakes.in_memory_store import InMemoryStore
from reaper.aws.stores.dynamodb import item_key
from reaper.azure.stores.tables import entity_key
from reaper.ledger import opening, sqlite
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import Key, Row, record_key
from reaper.model import Target

ARN = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn"
ARM = "/subscriptions/0f0f/resourceGroups/Rg-Ä/providers/Microsoft.MachineLearningServices/workspaces/w/onlineEndpoints/e/deployments/blue"
HERE = Target(cloud="aws", account="123456789012", region="us-east-1")
THERE = Target(cloud="azure", account="0f0f0f0f")
AWS = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "eu-west-1",
    "AWS_MAX_ATTEMPTS": "3",
}


in_memory = pytest.mark.parametrize("ledger_location", ["memory"], indirect=True)
"""For what the ledger itself does: the stores only keep rows, so one of them is enough."""


class LedgerLocation:
    """An empty place at `address`. Every client that opens it sees what the others write."""

    def __init__(self, address: str, environ: Mapping[str, str]) -> None:
        self.address, self.environ = address, environ
        self._opened: list[Ledger] = []

    def open_ledger(self) -> Ledger:
        """One more ledger on the same place; a fleeting one has no other place than itself."""
        if self.address != "memory:" or not self._opened:
            is_fake = self.address == "memory:"
            self._opened.append(Ledger(InMemoryStore()) if is_fake else opening.open_ledger(self.address, self.environ))
        return self._opened[-1]

    def overwrite(self, id: str, field: str, value: str | int) -> None:
        """Put `value` where a record that is there keeps `field`, behind the ledger's back."""
        scheme, _, place = self.address.partition(":")
        GARBLE[scheme](self, place.removeprefix("//"), id, field, value)

    def copy(self, id: str, others: Sequence[str]) -> None:
        """What the place holds as the record of `id` under other ids too, each with its id for a receipt, behind the ledger's back."""
        scheme, _, place = self.address.partition(":")
        COPY[scheme](self, place.removeprefix("//"), id, others)

    def stored_columns(self, id: str) -> Mapping[str, Any]:
        """What the place itself holds as the record, column by column."""
        scheme, _, place = self.address.partition(":")
        return STORED[scheme](self, place.removeprefix("//"), id)

    def close(self) -> None:
        for opened in self._opened:
            opened.close()


def dynamodb(url: str, patch: pytest.MonkeyPatch) -> LedgerLocation:
    """A new table as template.yaml makes it. The process's environment is changed: boto3 reads nothing else."""
    for variable, value in (AWS | {"AWS_DEFAULT_REGION": AWS["AWS_REGION"], "AWS_ENDPOINT_URL": url}).items():
        patch.setenv(variable, value)
    name = f"ledger-{uuid.uuid4().hex}"
    boto3.client("dynamodb").create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": n, "AttributeType": "S"} for n in ("pk", "sk")],
    )
    return LedgerLocation(f"dynamodb://{name}", {})


def table(connection_string: str) -> LedgerLocation:
    """A new table at Azurite."""
    name = f"ledger{uuid.uuid4().hex}"
    with TableServiceClient.from_connection_string(connection_string) as service:
        service.create_table(name)
    return LedgerLocation(f"table://{azurite.ACCOUNT}/{name}", {"AZURE_STORAGE_CONNECTION_STRING": connection_string})


def _memory_rows(ledger_location: LedgerLocation) -> dict[Key, Row]:
    store = ledger_location.open_ledger().store
    assert isinstance(store, InMemoryStore)
    return store.rows


def _garble_memory(ledger_location: LedgerLocation, place: str, id: str, field: str, value: Any) -> None:
    rows, key = _memory_rows(ledger_location), record_key(id)
    if field == "version":
        rows[key] = replace(rows[key], version=value)
    else:
        rows[key] = replace(rows[key], columns={**rows[key].columns, field: value})


def _garble_sqlite(ledger_location: LedgerLocation, place: str, id: str, field: str, value: Any) -> None:
    with closing(sqlite3.connect(place)) as connection, connection:
        [(row,)] = connection.execute(f"SELECT row FROM rows {sqlite.BY_KEY}", record_key(id))
        if field == "version":
            connection.execute(f"UPDATE rows SET version = ? {sqlite.BY_KEY}", (value, *record_key(id)))
        else:
            row = json.dumps({**json.loads(row), field: value})
            connection.execute(f"UPDATE rows SET row = ? {sqlite.BY_KEY}", (row, *record_key(id)))


def _garble_dynamodb(ledger_location: LedgerLocation, place: str, id: str, field: str, value: Any) -> None:
    boto3.client("dynamodb").update_item(
        TableName=place,
        Key=item_key(record_key(id)),
        UpdateExpression="SET #field = :value",
        ConditionExpression="attribute_exists(pk)",
        ExpressionAttributeNames={"#field": field},
        ExpressionAttributeValues={":value": {"N": str(value)} if isinstance(value, int) else {"S": value}},
    )


def _garble_table(ledger_location: LedgerLocation, place: str, id: str, field: str, value: Any) -> None:
    connection_string, name = ledger_location.environ["AZURE_STORAGE_CONNECTION_STRING"], place.rpartition("/")[2]
    with TableClient.from_connection_string(connection_string, name) as client:
        partition, row = entity_key(record_key(id))
        entity = {"PartitionKey": partition, "RowKey": row, field: value}
        client.update_entity(entity, mode=UpdateMode.MERGE)


def _with_receipt(id: str) -> str:
    return json.dumps({"notice": {"receipt": id}})


def _copy_memory(ledger_location: LedgerLocation, place: str, id: str, others: Sequence[str]) -> None:
    rows = _memory_rows(ledger_location)
    row = rows[record_key(id)]
    for key, other in ((record_key(other), other) for other in others):
        rows[key] = replace(row, key=key, columns={**row.columns, "id": other, "document": _with_receipt(other)})


def _copy_sqlite(ledger_location: LedgerLocation, place: str, id: str, others: Sequence[str]) -> None:
    with closing(sqlite3.connect(place)) as connection, connection:
        [(*_, version, touched, text)] = connection.execute(f"SELECT * FROM rows {sqlite.BY_KEY}", record_key(id))
        for other in others:
            row = json.dumps({**json.loads(text), "id": other, "document": _with_receipt(other)})
            connection.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", (*record_key(other), version, touched, row))


def _copy_dynamodb(ledger_location: LedgerLocation, place: str, id: str, others: Sequence[str]) -> None:
    client = boto3.client("dynamodb")
    item = client.get_item(TableName=place, Key=item_key(record_key(id)))["Item"]
    for start in range(0, len(others), 25):
        copies = [
            {**item, **item_key(record_key(other)), "id": {"S": other}, "document": {"S": _with_receipt(other)}}
            for other in others[start : start + 25]
        ]
        reply = client.batch_write_item(RequestItems={place: [{"PutRequest": {"Item": copy}} for copy in copies]})
        assert not reply["UnprocessedItems"]


def _copy_table(ledger_location: LedgerLocation, place: str, id: str, others: Sequence[str]) -> None:
    connection_string, name = ledger_location.environ["AZURE_STORAGE_CONNECTION_STRING"], place.rpartition("/")[2]
    lots: dict[str, list[str]] = {}
    for other in others:
        lots.setdefault(entity_key(record_key(other))[0], []).append(other)
    with TableClient.from_connection_string(connection_string, name) as client:
        entity = client.get_entity(*entity_key(record_key(id)))
        for lot, ids in lots.items():
            for start in range(0, len(ids), 100):
                copies = [
                    {
                        **entity,
                        "PartitionKey": lot,
                        "RowKey": entity_key(record_key(other))[1],
                        "id": other,
                        "document": _with_receipt(other),
                    }
                    for other in ids[start : start + 100]
                ]
                client.submit_transaction([("create", copy) for copy in copies])


COPY = {"memory": _copy_memory, "sqlite": _copy_sqlite, "dynamodb": _copy_dynamodb, "table": _copy_table}
GARBLE = {"memory": _garble_memory, "sqlite": _garble_sqlite, "dynamodb": _garble_dynamodb, "table": _garble_table}


def _stored_memory(ledger_location: LedgerLocation, place: str, id: str) -> Mapping[str, Any]:
    return _memory_rows(ledger_location)[record_key(id)].columns


def _stored_sqlite(ledger_location: LedgerLocation, place: str, id: str) -> Mapping[str, Any]:
    with closing(sqlite3.connect(place)) as connection:
        [(row,)] = connection.execute(f"SELECT row FROM rows {sqlite.BY_KEY}", record_key(id))
    row_values: Mapping[str, Any] = json.loads(row)
    return row_values


def _stored_dynamodb(ledger_location: LedgerLocation, place: str, id: str) -> Mapping[str, Any]:
    key = item_key(record_key(id))
    item = boto3.client("dynamodb").get_item(TableName=place, Key=key)["Item"]
    return {name: next(iter(value.values())) for name, value in item.items()}


def _stored_table(ledger_location: LedgerLocation, place: str, id: str) -> Mapping[str, Any]:
    connection_string, name = ledger_location.environ["AZURE_STORAGE_CONNECTION_STRING"], place.rpartition("/")[2]
    with TableClient.from_connection_string(connection_string, name) as client:
        return client.get_entity(*entity_key(record_key(id)))


STORED = {"memory": _stored_memory, "sqlite": _stored_sqlite, "dynamodb": _stored_dynamodb, "table": _stored_table}


@contextmanager
def cut(url: str, when: Callable[[str, bytes], bool]) -> Iterator[str]:
    """A proxy for `url` that loses the reply to every request for which `when(method, body)` is true."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            upstream = HTTPConnection(urlsplit(url).netloc)
            upstream.request(self.command, self.path, body, dict(self.headers))
            reply = upstream.getresponse()
            content = reply.read()
            upstream.close()
            if when(self.command, body):
                self.close_connection = True
                return
            self.send_response_only(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in {"transfer-encoding", "content-length", "connection"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_MERGE = do_DELETE = _pass

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing."""

    with ExitStack() as stack:
        server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.shutdown)
        yield f"http://127.0.0.1:{server.server_port}"
