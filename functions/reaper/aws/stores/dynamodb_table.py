"""One table of DynamoDB: consistent reads and conditional writes of items.

Conditional writes: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.ConditionExpressions.html
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason, SettingsError

MAX_BATCH_KEYS = 100
"""The limit of BatchGetItem."""
MAX_EMPTY_ROUNDS = 8
"""How many batches in a row may return nothing before the read fails."""
CONDITION_FAILED = "ConditionalCheckFailedException"

Item = dict[str, dict[str, str]]


class DynamoTable:
    """Items by partition key `pk` and sort key `sk`. Raises CloudError, or SettingsError if the table itself is missing."""

    def __init__(self, cloud: CloudSession, name: str, pause: Callable[[float], None] = time.sleep) -> None:
        self._cloud = cloud
        self._name = name
        self._pause = pause

    def batch_get(self, keys: list[Item]) -> Iterator[Item]:
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

    def query(
        self, pk: Mapping[str, str], *, newest_first: bool = False, limit: int | None = None, first: str | None = None
    ) -> list[Item]:
        """The items of a partition, in the order of their sort keys: all, or those from the sort key `first` on."""
        values = {":pk": pk, **({":first": {"S": first}} if first else {})}
        rows = self._paged_items(
            "Query",
            KeyConditionExpression="pk = :pk AND sk >= :first" if first else "pk = :pk",
            ExpressionAttributeValues=values,
            ScanIndexForward=not newest_first,
            **({"Limit": limit} if limit else {}),
        )
        return list(islice(rows, limit))

    def scan(self) -> Iterator[Item]:
        """Every item. Needs `dynamodb:Scan`, which the deployment's own roles don't have."""
        return self._paged_items("Scan")

    def get(self, key: Item) -> Item:
        """The item, empty if there is none."""
        reply = self._call("GetItem", "ResponseMetadata", TableName=self._name, Key=key, ConsistentRead=True)
        item: Item = reply.get("Item", {})
        return item

    def put(self, item: Item, condition: str = "", values: Mapping[str, Any] | None = None) -> bool:
        """Replace the item. Returns whether the condition was met."""
        return self._write_if("PutItem", condition, values, Item=item)

    def update(self, key: Item, item: Item, removed: Collection[str], condition: str, values: Mapping[str, Any]) -> bool:
        """Set the attributes of `item` and remove `removed`; every other attribute stays. Returns whether the condition was met."""
        names = {f"#{n}": name for n, name in enumerate([*item, *sorted(removed)])}
        placeholders = {name: placeholder for placeholder, name in names.items()}
        parts = ["SET " + ", ".join(f"{placeholders[name]} = :{placeholders[name][1:]}" for name in item)] if item else []
        parts += ["REMOVE " + ", ".join(placeholders[name] for name in sorted(removed))] if removed else []
        return self._write_if(
            "UpdateItem",
            condition,
            {**values, **{f":{placeholders[name][1:]}": value for name, value in item.items()}},
            Key=key,
            UpdateExpression=" ".join(parts),
            ExpressionAttributeNames=names,
        )

    def delete(self, key: Item, condition: str = "", values: Mapping[str, Any] | None = None) -> bool:
        """Delete the item, if there is one. Returns whether the condition was met."""
        return self._write_if("DeleteItem", condition, values, Key=key)

    def _paged_items(self, operation: str, **params: Any) -> Iterator[Item]:
        while True:
            reply = self._call(operation, "Items", TableName=self._name, ConsistentRead=True, **params)
            yield from reply["Items"]
            if not reply.get("LastEvaluatedKey"):
                return
            params["ExclusiveStartKey"] = reply["LastEvaluatedKey"]

    def _write_if(self, operation: str, condition: str, values: Mapping[str, Any] | None, **params: Any) -> bool:
        """Whether the write took effect. False only if its condition was not met."""
        conditions: dict[str, Any] = {"ConditionExpression": condition} if condition else {}
        conditions |= {"ExpressionAttributeValues": values} if values else {}
        try:
            self._call(operation, "ResponseMetadata", TableName=self._name, **params, **conditions)
        except CloudError as error:
            if error.code == CONDITION_FAILED:
                return False
            raise
        return True

    def _call(self, operation: str, want: str, **params: Any) -> dict[str, Any]:
        try:
            return self._cloud.call("dynamodb", operation, want, **params)
        except CloudError as error:
            if error.reason is Reason.GONE:
                raise SettingsError(f"REAPER_LEDGER=dynamodb://{self._name}: no such table in {self._cloud.region}") from error
            raise
