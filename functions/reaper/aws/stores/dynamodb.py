"""Rows in one DynamoDB table: partition key `pk`, sort key `sk` (both strings), time-to-live attribute `expires`.

Conditional writes: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.ConditionExpressions.html
Expired items stay readable for days, so readers check `touched`:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import islice
from typing import Any

from reaper.aws.session import CloudSession, new_session
from reaper.errors import CloudError, Reason, SettingsError
from reaper.ledger.rows import (
    FIRST_NAME,
    LAST_NAME,
    NEVER,
    READ_BY_KEY,
    RETENTION,
    AtVersion,
    Category,
    Condition,
    FreeFor,
    Having,
    Key,
    Row,
    clock_skew,
)
from reaper.model import Target

PERMISSIONS = (
    "dynamodb:BatchGetItem",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:DeleteItem",
    "dynamodb:Query",
)
"""The permissions that the ledger needs on its table. `reaper forget` also needs `dynamodb:Scan`, which no role of the deployment has."""
MAX_BATCH_KEYS = 100
"""The limit of BatchGetItem."""
MAX_EMPTY_ROUNDS = 8
"""How many batches in a row may return nothing before the read fails."""
CONDITION_FAILED = "ConditionalCheckFailedException"
MAX_KEY_BYTES = 1800
"""For a partition key, which may have 2,048 bytes."""
MAX_SORT_KEY_BYTES = 900
"""For a sort key, which may have 1,024 bytes."""
OWN_ATTRIBUTES = frozenset({"pk", "sk", "expires", "touched", "version", "writer"})
"""The attributes of an item that are not columns."""

Item = dict[str, dict[str, str]]


class DynamoStore:
    """`reaper.ledger.rows.RowStore` in a table. Raises CloudError, or SettingsError if the table itself is missing."""

    def __init__(self, cloud: CloudSession, name: str, pause: Callable[[float], None] = time.sleep) -> None:
        self._cloud = cloud
        self._name = name
        self._pause = pause
        self.clock_skew = timedelta(0)

    def get(self, key: Key) -> Row | None:
        item = self._get(item_key(key))
        return _row_of(key, item) if item else None

    def get_many(self, keys: Collection[Key]) -> dict[Key, Row]:
        items = {(item["pk"]["S"], item["sk"]["S"]): item for item in self._batch_get([item_key(key) for key in keys])}
        places = {key: item_key(key) for key in keys}
        stored = {key: items.get((place["pk"]["S"], place["sk"]["S"])) for key, place in places.items()}
        return {key: _row_of(key, item) for key, item in stored.items() if item}

    def query(
        self, category: Category, place: str, first: str = FIRST_NAME, last: str = LAST_NAME, limit: int | None = None
    ) -> list[Row]:
        names = {":first": item_key(Key(category, place, first))["sk"], ":last": item_key(Key(category, place, last))["sk"]}
        items = self._paged_items(
            "Query",
            KeyConditionExpression="pk = :pk AND sk BETWEEN :first AND :last",
            ExpressionAttributeValues={":pk": item_key(Key(category, place, first))["pk"], **names},
            **({"Limit": limit} if limit else {}),
        )
        return [_row_of(Key(category, place, item["sk"]["S"]), item) for item in islice(items, limit)]

    def put(self, key: Key, columns: Mapping[str, str], touched: str, condition: AtVersion | FreeFor | None = None) -> bool:
        item = _item_of(columns, touched)
        if isinstance(condition, AtVersion):
            item |= {"version": {"N": str(condition.version + 1)}, "writer": {"S": uuid.uuid4().hex}}
        if self._is_written("PutItem", condition, Item=item_key(key) | item):
            return True
        return self._is_own_write(key, item)

    def delete(self, key: Key, having: Having | None = None) -> None:
        self._is_written("DeleteItem", having, Key=item_key(key))

    def forget_before(self, moment: str) -> int:
        """Does nothing: the table's time to live deletes old items at no cost."""
        return 0

    def scan(self) -> Iterator[Row]:
        """Every row: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Scan.html"""
        for item in self._paged_items("Scan"):
            category, _, place = item["pk"]["S"].partition("#")
            if category in READ_BY_KEY:
                yield _row_of(Key(Category(category), "", place), item)
            elif category in set(Category):
                yield _row_of(Key(Category(category), place, item["sk"]["S"]), item)

    def close(self) -> None:
        """Nothing to close: the SDK's connections end with the process."""

    def _batch_get(self, keys: list[Item]) -> Iterator[Item]:
        """The items of these keys. Asks again for keys that a reply left unprocessed."""
        rounds = 0
        while keys:
            part, keys = keys[:MAX_BATCH_KEYS], keys[MAX_BATCH_KEYS:]
            request = {self._name: {"Keys": part, "ConsistentRead": True}}
            reply = self._call("BatchGetItem", "Responses", RequestItems=request)
            yield from reply["Responses"].get(self._name, [])
            unprocessed = reply.get("UnprocessedKeys", {}).get(self._name, {}).get("Keys", [])
            keys += unprocessed
            rounds = rounds + 1 if len(unprocessed) == len(part) else 0
            if rounds >= MAX_EMPTY_ROUNDS:
                raise CloudError(Reason.THROTTLED, "dynamodb:BatchGetItem", f"{len(keys)} keys were still unprocessed")
            if unprocessed:
                self._pause(min(0.05 * 2**rounds, 3.0))

    def _get(self, key: Item) -> Item:
        reply = self._call("GetItem", "ResponseMetadata", TableName=self._name, Key=key, ConsistentRead=True)
        item: Item = reply.get("Item", {})
        return item

    def _paged_items(self, operation: str, **params: Any) -> Iterator[Item]:
        while True:
            reply = self._call(operation, "Items", TableName=self._name, ConsistentRead=True, **params)
            yield from reply["Items"]
            if not reply.get("LastEvaluatedKey"):
                return
            params["ExclusiveStartKey"] = reply["LastEvaluatedKey"]

    def _is_written(self, operation: str, condition: Condition | None, **params: Any) -> bool:
        """Whether the write took effect. False only if its condition was not met."""
        text, values = _expression(condition)
        conditions: dict[str, Any] = {"ConditionExpression": text} if text else {}
        conditions |= {"ExpressionAttributeValues": values} if values else {}
        if isinstance(condition, Having):  # its name may be one of DynamoDB's reserved words
            conditions["ExpressionAttributeNames"] = {"#having": condition.column}
        try:
            self._call(operation, "ResponseMetadata", TableName=self._name, **params, **conditions)
        except CloudError as error:
            if error.code == CONDITION_FAILED:
                return False
            raise
        return True

    def _is_own_write(self, key: Key, item: Item) -> bool:
        """Whether the stored row is this very one: the SDK repeats a call whose reply was lost, and then its condition isn't met."""
        return "writer" in item and self._get(item_key(key)).get("writer") == item["writer"]

    def _call(self, operation: str, want: str, **params: Any) -> dict[str, Any]:
        try:
            reply = self._cloud.call("dynamodb", operation, want, **params)
        except CloudError as error:
            if error.reason is Reason.GONE:
                raise SettingsError(f"REAPER_LEDGER=dynamodb://{self._name}: no such table in {self._cloud.region}") from error
            raise
        self.clock_skew = clock_skew(reply.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date"))
        return reply


def open_store(address: str, environ: Mapping[str, str], *, read_only: bool = False) -> DynamoStore:
    """The rows in a table of the session's region, else of the only one in REAPER_REGIONS. Makes no call yet. Raises SettingsError."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{3,255}", address):
        raise SettingsError(f"REAPER_LEDGER=dynamodb://{address}: expected the name of a table")
    session = new_session()
    region = session.region_name or environ.get("REAPER_REGIONS", "").strip()
    if not re.fullmatch(r"[a-z0-9-]+-\d", region):
        raise SettingsError(f"REAPER_LEDGER=dynamodb://{address}: no AWS region; set AWS_REGION")
    return DynamoStore(CloudSession(session, Target(cloud="aws", account="unknown", region=region)), address)


def item_key(key: Key) -> Item:
    """A partition of its own for each row that is only read by key: a role may then be limited to them."""
    place, name = (key.name, "-") if key.category in READ_BY_KEY else (key.place, _shorten(key.name, MAX_SORT_KEY_BYTES))
    return {"pk": {"S": f"{key.category}#{_shorten(place, MAX_KEY_BYTES)}"}, "sk": {"S": name}}


def _shorten(key: str, max_bytes: int) -> str:
    """The key unchanged, or its beginning and a hash of the whole if it has more than `max_bytes` bytes."""
    plain = key.encode()
    if len(plain) <= max_bytes:
        return key
    return f"{plain[: max_bytes - 65].decode(errors='ignore')}~{sha256(plain).hexdigest()}"


def _item_of(columns: Mapping[str, str], touched: str) -> Item:
    """The columns, and the epoch second at which DynamoDB may delete them as `expires`."""
    item = {name: {"S": text} for name, text in columns.items()}
    expires = int(datetime.fromisoformat(touched).timestamp() + RETENTION.total_seconds())
    return item | {"touched": {"S": touched}} | ({"expires": {"N": str(expires)}} if touched != NEVER else {})


def _row_of(key: Key, item: Item) -> Row:
    """An attribute of another type than string stays in the row as None, so that it counts as unreadable, not as missing."""
    return Row(
        key=key,
        columns={name: value.get("S") for name, value in item.items() if name not in OWN_ATTRIBUTES},
        version=item.get("version", {}).get("N"),
        touched=item.get("touched", {}).get("S", ""),
    )


def _expression(condition: Condition | None) -> tuple[str, dict[str, Any]]:
    """The condition as DynamoDB writes it, and its values."""
    if condition is None:
        return "", {}
    if isinstance(condition, Having):
        return "#having = :text", {":text": {"S": condition.text}}
    if isinstance(condition, FreeFor):
        known = {":holder": {"S": condition.holder}, ":now": {"S": condition.now}}
        return "attribute_not_exists(pk) OR holder = :holder OR touched <= :now", known
    lapsed = {":lapsed": {"S": condition.lapsed_before}} if condition.lapsed_before else {}
    if not condition.version:
        return "attribute_not_exists(pk)" + (" OR touched < :lapsed" if lapsed else ""), lapsed
    known = {":version": {"N": str(condition.version)}, **lapsed}
    return "version = :version" + (" AND touched >= :lapsed" if lapsed else ""), known
