"""The ledger in one DynamoDB table: partition key `pk`, sort key `sk` (both texts), time-to-live attribute `expires`.

Conditional writes: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.ConditionExpressions.html
Expired items stay readable for days, hence the filters: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import boto3

from reaper.aws.session import Cloud
from reaper.errors import CloudError, SettingsError, Trouble
from reaper.ledger.codec import (
    columns,
    digest,
    fresh,
    from_history,
    from_memory,
    from_summary,
    from_unfinished,
    micros,
    place,
    same,
    short,
    stamp,
    to_history,
    to_memory,
    to_summary,
    to_unfinished,
    touched,
)
from reaper.ledger.port import KEEP, History, Recalled, State, Summary, Unfinished, readable
from reaper.model import Memory, Target

PERMISSIONS = (
    "dynamodb:BatchGetItem",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "dynamodb:DeleteItem",
    "dynamodb:Query",
)
"""What the ledger needs on its table."""
AT_ONCE = 100
"""Keys in one BatchGetItem, its own limit."""
LONGEST = 1800
"""Bytes of an id in a key; a partition key may have 2,048."""
ROUNDS = 8
"""How often in a row a batch may come back without anything before we give up."""
LONGEST_SORT = 900
"""Bytes of an id in a sort key, which may have 1,024."""
VALUE = "v_"
"""What the attributes of a named row begin with, so that none of them is taken for the table's own."""
BOOKKEEPING = frozenset({"pk", "sk", "id", "expires", "touched", "version", "writer"})
"""The attributes of a memory that are no columns of it, and that each write of one names besides: the keep-links' page may write no others."""
LOST = "ConditionalCheckFailedException"

Item = dict[str, dict[str, str]]


class Dynamo:
    """`reaper.ledger.port.Ledger` in a table."""

    def __init__(self, cloud: Cloud, table: str, pause: Callable[[float], None] = time.sleep) -> None:
        self._cloud = cloud
        self._table = table
        self._pause = pause

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        asked = {id: _key("memory", id) for id in ids}
        keys = {key["pk"]["S"]: key for key in asked.values()}
        found = {item["pk"]["S"]: item for item in self._items(list(keys.values())) if _fresh(item, now)}
        held = {id: found[key["pk"]["S"]] for id, key in asked.items() if key["pk"]["S"] in found}
        return readable(held, _memory)

    def remember(
        self, id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        key, writer = _key("memory", id), uuid.uuid4().hex
        item = _row(from_memory(memory, fields), touched(memory, now), id=id, writer=writer)
        item["version"] = {"N": str(expected_version + 1)}
        condition, values = _unchanged(expected_version, now, whole=fields is None)
        if self._update(key, item, columns(fields) - item.keys(), condition, values):
            return True
        # The SDK repeats a call whose reply was lost; then it is our own write that stands in the way.
        return self._get(key).get("writer", {}).get("S") == writer

    def unfinished(self, target: Target, now: datetime) -> list[Unfinished]:
        rows = [row for row in self._query(_key("open", place(target))["pk"]) if _fresh(row, now)]
        return sorted((to_unfinished(_texts(row), target) for row in rows), key=lambda entry: (entry.at, entry.id))

    def begin(self, entry: Unfinished) -> None:
        self._put(_open_key(entry.target, entry.id) | _row(from_unfinished(entry), entry.at))

    def end(self, target: Target, id: str) -> None:
        self._delete(_open_key(target, id))

    def state(self, name: str) -> State:
        item = self._get(_key("state", name))
        texts = {key.removeprefix(VALUE): value for key, value in _texts(item).items() if key.startswith(VALUE)}
        return State(values=texts, version=int(item["version"]["N"])) if item else State()

    def write_state(self, name: str, values: Mapping[str, str], expected_version: int, now: datetime) -> bool:
        key, writer = _key("state", name), uuid.uuid4().hex
        texts = {f"{VALUE}{field}": value for field, value in values.items()} | {"writer": writer, "touched": stamp(now)}
        item = key | {field: {"S": value} for field, value in texts.items()} | {"version": {"N": str(expected_version + 1)}}
        condition, known = "attribute_not_exists(pk)", {}
        if expected_version:
            condition, known = "version = :version", {":version": {"N": str(expected_version)}}
        return self._put(item, condition, known) or self._get(key).get("writer", {}).get("S") == writer

    def lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        item = _key("lease", place(target)) | _row({"holder": holder}, now + ttl)
        condition = "attribute_not_exists(pk) OR holder = :holder OR touched <= :now"
        return self._put(item, condition, {":holder": {"S": holder}, ":now": {"S": stamp(now)}})

    def release(self, target: Target, holder: str) -> None:
        self._delete(_key("lease", place(target)), "holder = :holder", {":holder": {"S": holder}})

    def record(self, summary: Summary) -> None:
        sort = f"{micros(summary.started):020d}#{summary.run}"
        self._put(_key(*_series(summary.target, summary.kind), sort) | _row(from_summary(summary), summary.started))

    def summaries(self, target: Target, kind: str, limit: int) -> list[Summary]:
        rows = self._query(_key(*_series(target, kind))["pk"], newest_first=True, limit=limit)
        return [to_summary(_texts(row)) for row in rows]

    def note(self, entry: History) -> None:
        sort = f"{micros(entry.when):020d}#{digest(entry)}"
        self._put(_key("history", entry.id, sort) | _row(from_history(entry), entry.when))

    def history(self, id: str) -> list[History]:
        return [to_history(_texts(row)) for row in self._query(_key("history", id)["pk"])]

    def forget_before(self, moment: datetime) -> int:
        """Nothing: the table's time to live does it, for nothing and without reading the whole table."""
        return 0

    def close(self) -> None:
        """The SDK's connections go with the process."""

    def _items(self, keys: list[Item]) -> Iterator[Item]:
        """The items of those keys, what the table did not get to in one reply asked for again."""
        rounds = 0
        while keys:
            part, keys = keys[:AT_ONCE], keys[AT_ONCE:]
            asked = {self._table: {"Keys": part, "ConsistentRead": True}}
            reply = self._call("BatchGetItem", "Responses", RequestItems=asked)
            yield from reply["Responses"].get(self._table, [])
            left = reply.get("UnprocessedKeys", {}).get(self._table, {}).get("Keys", [])
            keys += left
            rounds = rounds + 1 if len(left) == len(part) else 0
            if rounds >= ROUNDS:
                raise CloudError(Trouble.THROTTLED, "dynamodb:BatchGetItem", f"{len(keys)} keys stay unprocessed")
            if left:
                self._pause(min(0.05 * 2**rounds, 3.0))

    def _query(self, pk: Mapping[str, str], *, newest_first: bool = False, limit: int | None = None) -> list[Item]:
        rows = self._pages(
            "Query",
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": pk},
            ScanIndexForward=not newest_first,
            **({"Limit": limit} if limit else {}),
        )
        return list(islice(rows, limit))

    def _pages(self, operation: str, **params: Any) -> Iterator[Item]:
        while True:
            reply = self._call(operation, "Items", TableName=self._table, ConsistentRead=True, **params)
            yield from reply["Items"]
            if not reply.get("LastEvaluatedKey"):
                return
            params["ExclusiveStartKey"] = reply["LastEvaluatedKey"]

    def _get(self, key: Item) -> Item:
        reply = self._call("GetItem", "ResponseMetadata", TableName=self._table, Key=key, ConsistentRead=True)
        found: Item = reply.get("Item", {})
        return found

    def _put(self, item: Item, condition: str = "", values: Mapping[str, Any] | None = None) -> bool:
        return self._conditional("PutItem", condition, values, Item=item)

    def _update(self, key: Item, item: Item, gone: Collection[str], condition: str, values: Mapping[str, Any]) -> bool:
        """Sets the attributes of `item` and removes `gone`; every other attribute stays."""
        names = {f"#{n}": name for n, name in enumerate([*item, *sorted(gone)])}
        places = {name: place for place, name in names.items()}
        parts = ["SET " + ", ".join(f"{places[name]} = :{places[name][1:]}" for name in item)]
        parts += ["REMOVE " + ", ".join(places[name] for name in sorted(gone))] if gone else []
        return self._conditional(
            "UpdateItem",
            condition,
            {**values, **{f":{places[name][1:]}": value for name, value in item.items()}},
            Key=key,
            UpdateExpression=" ".join(parts),
            ExpressionAttributeNames=names,
        )

    def _delete(self, key: Item, condition: str = "", values: Mapping[str, Any] | None = None) -> bool:
        return self._conditional("DeleteItem", condition, values, Key=key)

    def _conditional(self, operation: str, condition: str, values: Mapping[str, Any] | None, **params: Any) -> bool:
        """Whether the write was done; False only when its condition did not hold."""
        checks: dict[str, Any] = {"ConditionExpression": condition} if condition else {}
        checks |= {"ExpressionAttributeValues": values} if values else {}
        try:
            self._call(operation, "ResponseMetadata", TableName=self._table, **params, **checks)
        except CloudError as error:
            if error.code == LOST:
                return False
            raise
        return True

    def _call(self, operation: str, want: str, **params: Any) -> dict[str, Any]:
        try:
            return self._cloud.call("dynamodb", operation, want, **params)
        except CloudError as error:
            if error.trouble is Trouble.GONE:
                raise SettingsError(f"REAPER_LEDGER=dynamodb://{self._table}: no such table in {self._cloud.region}") from error
            raise


def open(address: str, environ: Mapping[str, str], *, read_only: bool = False) -> Dynamo:
    """The ledger in that table of the session's own region. Nothing is asked of AWS yet. Raises SettingsError for a bad name."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{3,255}", address):
        raise SettingsError(f"REAPER_LEDGER=dynamodb://{address}: expected a table's name")
    session = boto3.Session()
    if not session.region_name:
        raise SettingsError(f"REAPER_LEDGER=dynamodb://{address}: no AWS region: set AWS_REGION")
    return Dynamo(Cloud(session, Target(cloud="aws", account="unknown", region=session.region_name)), address)


def _key(sort_of: str, id: str, sort: str = "-") -> Item:
    return {"pk": {"S": f"{sort_of}#{short(same(id), LONGEST)}"}, "sk": {"S": sort}}


def _open_key(target: Target, id: str) -> Item:
    return {**_key("open", place(target)), "sk": {"S": short(same(id), LONGEST_SORT)}}


def _unchanged(expected_version: int, now: datetime, *, whole: bool) -> tuple[str, dict[str, Any]]:
    """Under which condition a memory is still the one that was read. What is forgotten but still there is only ever replaced whole."""
    if not expected_version and not whole:
        return "attribute_not_exists(pk)", {}
    forgotten = {":forgotten": {"S": stamp(now - KEEP)}}
    if not expected_version:
        return "attribute_not_exists(pk) OR touched < :forgotten", forgotten
    return "version = :version AND touched >= :forgotten", {":version": {"N": str(expected_version)}, **forgotten}


def _series(target: Target, kind: str) -> tuple[str, str]:
    return "summary", f"{place(target)}/{kind}"


def _row(row: Mapping[str, str], at: datetime, **more: str) -> Item:
    """A row with the moment its time to live counts from, as a text that sorts and as the epoch second that DynamoDB wants."""
    expires = (micros(at) + KEEP // timedelta(microseconds=1)) // 1_000_000
    texts = {name: {"S": value} for name, value in {**row, **more, "touched": stamp(at)}.items()}
    return {**texts, "expires": {"N": str(expires)}}


def _texts(item: Item) -> dict[str, str]:
    return {name: value["S"] for name, value in item.items() if "S" in value}


def _fresh(item: Item, now: datetime) -> bool:
    return fresh(item.get("touched", {}).get("S"), now)


def _memory(id: str, item: Item) -> Memory:
    """An attribute of another type than text stays in the row, as None: it is there and cannot be read."""
    return to_memory({name: value.get("S") for name, value in item.items()}, item.get("version", {}).get("N"), id)
