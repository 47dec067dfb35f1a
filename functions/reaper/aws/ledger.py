"""The ledger in one DynamoDB table: partition key `pk`, sort key `sk` (both texts), time-to-live attribute `expires`.

Conditional writes: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.ConditionExpressions.html
Expired items stay readable for days, hence the filters: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import boto3

from reaper.aws.cloud import Cloud
from reaper.errors import CloudError, SettingsError, Trouble
from reaper.ledger import KEEP, History, Recalled, Summary, readable
from reaper.model import Memory, Target
from reaper.row import (
    digest,
    fresh,
    from_history,
    from_memory,
    from_summary,
    micros,
    place,
    same,
    short,
    stamp,
    to_history,
    to_memory,
    to_summary,
    touched,
)

PERMISSIONS = (
    "dynamodb:BatchGetItem",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
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
LOST = "ConditionalCheckFailedException"

Item = dict[str, dict[str, str]]


class Dynamo:
    """`reaper.ledger.Ledger` in a table."""

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

    def remember(self, id: str, memory: Memory, expected_version: int, now: datetime) -> bool:
        key, writer, forgotten = _key("memory", id), uuid.uuid4().hex, stamp(now - KEEP)
        item = key | _row(from_memory(memory), touched(memory, now), id=id, writer=writer)
        item["version"] = {"N": str(expected_version + 1)}
        if expected_version:
            condition, values = "version = :version AND touched >= :forgotten", {":version": {"N": str(expected_version)}}
        else:
            condition, values = "attribute_not_exists(pk) OR touched < :forgotten", {}
        if self._put(item, condition, values | {":forgotten": {"S": forgotten}}):
            return True
        # The SDK repeats a call whose reply was lost; then it is our own write that stands in the way.
        return self._get(key).get("writer", {}).get("S") == writer

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

    def _delete(self, key: Item, condition: str, values: Mapping[str, Any]) -> bool:
        return self._conditional("DeleteItem", condition, values, Key=key)

    def _conditional(self, operation: str, condition: str, values: Mapping[str, Any] | None, **params: Any) -> bool:
        """Whether the write was done; False only when its condition did not hold."""
        checks = {"ConditionExpression": condition, "ExpressionAttributeValues": values} if condition else {}
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
