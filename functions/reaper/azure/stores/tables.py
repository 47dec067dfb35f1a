"""Rows in one table of Table Storage. Writes that must not be lost carry the ETag of the entity as read.

`table://account/table`. A connection string of the same account in AZURE_STORAGE_CONNECTION_STRING is used if there is one (Azurite
accepts nothing else), otherwise DefaultAzureCredential. Table Storage has no time to live, so `forget_before` reads the whole table, at
most once a day.
https://learn.microsoft.com/en-us/azure/storage/tables/table-storage-design-guide

Conditional writes: https://learn.microsoft.com/en-us/rest/api/storageservices/update-entity2
Error codes: https://learn.microsoft.com/en-us/rest/api/storageservices/table-service-error-codes
Keys: at most 512 characters, none of / \\ # ? and control characters; properties: at most 64 KiB of UTF-16:
https://learn.microsoft.com/en-us/rest/api/storageservices/understanding-the-table-service-data-model
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from itertools import accumulate, islice
from typing import Any
from urllib.parse import quote, unquote

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.core.pipeline import PipelineResponse
from azure.data.tables import TableClient, TableEntity, UpdateMode

from reaper.azure.requests import first_line
from reaper.azure.session import new_credential
from reaper.azure.stores import trusted_hosts
from reaper.errors import CloudError, Reason, SettingsError
from reaper.ledger.rows import (
    FIRST_NAME,
    LAST_NAME,
    VALUE_PREFIX,
    AtVersion,
    Category,
    Condition,
    FreeFor,
    Having,
    Key,
    Row,
    clock_skew,
    is_met,
    sortable_time,
)

PERMISSION = "Microsoft.Storage/storageAccounts/tableServices/tables/entities"
PUBLIC_SUFFIX = "table.core.windows.net"
CLIENT_OPTIONS: dict[str, Any] = {"connection_timeout": 5, "read_timeout": 30, "retry_total": 4, "retry_backoff_max": 20}
"""Timeouts in seconds and tries that fit a function; the SDK's defaults wait for minutes."""
MAX_SINGLE_READS = 12
"""Up to this many rows of a partition are read one by one. For more, all between them are read, 1,000 to a page."""
MAX_LEASE_RACES = 8
"""How often a lease is tried again if it was written in between: perhaps by another activity of the same run, which has it too."""
MAX_KEY_CHARS = 400
"""The length of an encoded string; longer ones end in a hash."""
MAX_PROPERTY_CHARS = 15_000
"""The length of each property that has a part of a named row's value."""
OWN_PROPERTIES = frozenset({"PartitionKey", "RowKey", "touched", "version", "writer"})
LAST_CLEANUP_KEY = ("tidied", "-")
CLEANUP_INTERVAL = timedelta(days=1)
RANGE = "PartitionKey eq @partition and RowKey ge @first and RowKey le @last"

Entity = Mapping[str, Any]


class TableStore:
    """`reaper.ledger.rows.RowStore` in a table. Raises CloudError, or SettingsError if the table itself is missing."""

    def __init__(self, client: TableClient, address: str) -> None:
        self._client = client
        self._address = address
        self.clock_skew = timedelta(0)

    def get(self, key: Key) -> Row | None:
        entity = self._get(*entity_key(key))
        return _row_of(key, entity) if entity else None

    def get_many(self, keys: Collection[Key]) -> dict[Key, Row]:
        by_partition: dict[str, dict[str, Key]] = defaultdict(dict)
        for key in keys:
            partition, name = entity_key(key)
            by_partition[partition][name] = key
        rows: dict[Key, Row] = {}
        for partition, wanted in by_partition.items():
            found: Iterable[TableEntity | None] = (self._get(partition, name) for name in sorted(wanted))
            if len(wanted) > MAX_SINGLE_READS:
                found = self._query(RANGE, partition=partition, first=min(wanted), last=max(wanted))
            rows |= {one: _row_of(one, entity) for entity in found if entity and (one := wanted.get(entity["RowKey"]))}
        return rows

    def query(
        self, category: Category, place: str, first: str = FIRST_NAME, last: str = LAST_NAME, limit: int | None = None
    ) -> list[Row]:
        partition, _ = entity_key(Key(category, place, first))
        page = 1000 if limit is None else limit
        entities = self._query(RANGE, page, partition=partition, first=encode_key(first), last=encode_key(last))
        return [_row_of(Key(category, place, decode_key(entity["RowKey"])), entity) for entity in islice(entities, limit)]

    def put(self, key: Key, columns: Mapping[str, str], touched: str, condition: AtVersion | FreeFor | None = None) -> bool:
        if condition is None:
            with self._sdk_errors_as_cloud_errors("write"):
                self._client.upsert_entity(_entity_of(key, columns, touched, None), mode=UpdateMode.REPLACE)
            return True
        for _ in range(MAX_LEASE_RACES if isinstance(condition, FreeFor) else 1):
            stored = self._get(*entity_key(key))
            if not is_met(condition, _row_of(key, stored) if stored else None):
                return False
            if self._swap(stored, _entity_of(key, columns, touched, condition)):
                return True
        return False

    def delete(self, key: Key, having: Having | None = None) -> None:
        entity = self._get(*entity_key(key))
        if entity and is_met(having, _row_of(key, entity)):
            self._delete(entity)

    def forget_before(self, moment: str) -> int:
        if not self._claim_cleanup(moment):
            return 0
        deleted = 0
        for row in list(self._query("touched lt @moment", moment=moment)):
            entity = self._get(row["PartitionKey"], row["RowKey"])  # it may have been written since
            deleted += entity is not None and entity["touched"] < moment and self._delete(entity)
        return deleted

    def scan(self) -> Iterator[Row]:
        for entity in self._query("touched ge @first", first=""):
            category, _, place = decode_key(entity["PartitionKey"]).partition(" ")
            if category in set(Category):
                yield _row_of(Key(Category(category), place, decode_key(entity["RowKey"])), entity)

    def close(self) -> None:
        self._client.close()

    def _get(self, partition: str, name: str) -> TableEntity | None:
        with self._sdk_errors_as_cloud_errors("read"):
            try:
                return self._client.get_entity(partition, name, raw_response_hook=self._compare_clocks)
            except HttpResponseError as error:
                if error.status_code == 404 and not _is_table_missing(error):
                    return None
                raise

    def _query(self, condition: str, page: int = 1000, **parameters: str) -> Iterator[TableEntity]:
        """Every entity that meets the OData condition, in the order of its keys; `@name` in the condition is a parameter."""
        with self._sdk_errors_as_cloud_errors("read"):
            size, hook = min(max(page, 1), 1000), self._compare_clocks
            yield from self._client.query_entities(
                condition, results_per_page=size, parameters=parameters, raw_response_hook=hook
            )

    def _compare_clocks(self, reply: PipelineResponse[Any, Any]) -> None:
        self.clock_skew = clock_skew(reply.http_response.headers.get("Date"))

    def _swap(self, stored: TableEntity | None, entity: dict[str, Any]) -> bool:
        """Whether the entity is stored now. If the reply to the write was lost, the entity already has our own `writer`."""
        try:
            is_written = self._is_replaced(stored, entity)
        except CloudError as error:
            if error.reason is not Reason.UNREACHABLE or not self._is_own_write(entity):
                raise
            return True
        return is_written or self._is_own_write(entity)

    def _is_replaced(self, stored: TableEntity | None, entity: dict[str, Any]) -> bool:
        """Replace `stored` (None: no entity) if it hasn't changed. Returns False if another writer came first."""
        update = partial(self._client.update_entity, entity, mode=UpdateMode.REPLACE)
        return self._is_written("write", partial(self._client.create_entity, entity) if stored is None else update, stored)

    def _is_own_write(self, entity: Entity) -> bool:
        stored = self._get(entity["PartitionKey"], entity["RowKey"])
        return stored is not None and stored.get("writer") == entity["writer"]

    def _delete(self, stored: TableEntity) -> bool:
        """Delete `stored` if it hasn't changed. Returns False if another writer came first."""
        return self._is_written("delete", partial(self._client.delete_entity, stored), stored)

    def _is_written(self, permission: str, write: Callable[..., object], stored: TableEntity | None) -> bool:
        """Make the write. Returns False if `stored` (None: no entity) changed, or was deleted, since it was read."""
        unchanged = {"etag": stored.metadata["etag"], "match_condition": MatchConditions.IfNotModified} if stored else {}
        with self._sdk_errors_as_cloud_errors(permission):
            try:
                write(**unchanged)
            except HttpResponseError as error:
                is_gone = stored is not None and error.status_code == 404 and not _is_table_missing(error)
                if error.status_code in {409, 412} or is_gone:
                    return False
                raise
        return True

    def _claim_cleanup(self, moment: str) -> bool:
        """Whether to clean up now: not within a day of the last cleanup, and only one of several sweeps at once."""
        last = self._get(*LAST_CLEANUP_KEY)
        first, end = (sortable_time(datetime.fromisoformat(moment) + days) for days in (-CLEANUP_INTERVAL, CLEANUP_INTERVAL))
        if last and first < str(last.get("touched", "")) < end:
            return False
        partition, name = LAST_CLEANUP_KEY
        return self._is_replaced(last, {"PartitionKey": partition, "RowKey": name, "touched": moment})

    @contextmanager
    def _sdk_errors_as_cloud_errors(self, permission: str) -> Iterator[None]:
        try:
            yield
        except HttpResponseError as error:
            if error.status_code == 404:
                raise SettingsError(f"REAPER_LEDGER={self._address}: no such table") from error
            raise _error_from_reply(f"{PERMISSION}/{permission}", error) from error
        except AzureError as error:
            raise CloudError(Reason.UNREACHABLE, f"{PERMISSION}/{permission}", first_line(error)) from error


def open_store(address: str, environ: Mapping[str, str], *, read_only: bool = False) -> TableStore:
    """The rows in `account/table`. Makes no call yet.

    The account is given by its name or, outside the public cloud, by its full host name. Uses the connection string if it belongs to that
    account, otherwise DefaultAzureCredential. Raises SettingsError, and CloudError if the credentials there are can't be used.
    """
    parts = re.fullmatch(r"([a-z0-9]{3,24}(?:\.[a-z0-9.-]+)?)/([A-Za-z][A-Za-z0-9]{2,62})", address)
    if not parts:
        expected = "expected table://account/table, with only letters and digits in the name of the table"
        raise SettingsError(f"REAPER_LEDGER=table://{address}: {expected}")
    account, name = parts.groups()
    if connection_string := environ.get("AZURE_STORAGE_CONNECTION_STRING"):
        try:
            client = TableClient.from_connection_string(connection_string, name, **CLIENT_OPTIONS)
        except ValueError as error:
            raise SettingsError(f"AZURE_STORAGE_CONNECTION_STRING can't be used: {first_line(error)}") from error
        if client.account_name == account.partition(".")[0]:
            return TableStore(client, f"table://{address}")
        client.close()
    host = account if "." in account else f"{account}.{PUBLIC_SUFFIX}"
    if because := trusted_hosts.refused_because(f"https://{host}", "table"):
        raise SettingsError(f"REAPER_LEDGER=table://{address}: {because}")
    client = TableClient(f"https://{host}", name, credential=new_credential(), **CLIENT_OPTIONS)
    return TableStore(client, f"table://{address}")


def entity_key(key: Key) -> tuple[str, str]:
    """Partition and row key."""
    return encode_key(f"{key.category} {key.place}" if key.place else key.category), encode_key(key.name)


def encode_key(text: str) -> str:
    """The string as a key: a slash becomes |, any other character that isn't plain becomes its UTF-8 bytes as =XX. Different strings have
    different keys: one that is too long ends in its hash."""
    if len(key := _encoded(text)) <= MAX_KEY_CHARS:
        return key
    kept = sum(1 for length in accumulate(len(_encoded(char)) for char in text) if length <= MAX_KEY_CHARS - 65)
    return f"{_encoded(text[:kept])}~{sha256(text.encode()).hexdigest()}"


def decode_key(key: str) -> str:
    """The inverse of `encode_key`, as far as the key wasn't shortened. The same key is made of it again in any case."""
    return unquote(key.replace("=", "%").replace("|", "/"))


def _encoded(text: str) -> str:
    return quote(text, safe="@:+/").replace("%", "=").replace("/", "|")


def _entity_of(key: Key, columns: Mapping[str, Any], touched: str, condition: Condition | None) -> dict[str, Any]:
    """The row as an entity. `touched`: the start of its retention. Every write under a condition is marked as its writer's own."""
    partition, name = entity_key(key)
    entity: dict[str, Any] = {"PartitionKey": partition, "RowKey": name, "touched": touched}
    if condition is not None:
        entity["writer"] = uuid.uuid4().hex
    if isinstance(condition, AtVersion):
        entity["version"] = condition.version + 1
    for column, value in columns.items():
        if not column.startswith(VALUE_PREFIX) or value is None:
            entity[column] = value
            continue
        # The values of named rows may be longer than a property: `v_name` becomes `v_name_0`, `v_name_1` and so on.
        for number, at in enumerate(range(0, max(len(value), 1), MAX_PROPERTY_CHARS)):
            entity[f"{column}_{number}"] = value[at : at + MAX_PROPERTY_CHARS]
    return entity


def _row_of(key: Key, entity: Entity) -> Row:
    """The row in an entity, its values' parts joined."""
    columns: dict[str, Any] = {}
    parts: dict[str, dict[int, str]] = defaultdict(dict)
    for name, value in entity.items():
        column, _, number = name.rpartition("_")
        if not name.startswith(VALUE_PREFIX):
            columns |= {name: value} if name not in OWN_PROPERTIES else {}
        elif number.isdecimal() and isinstance(value, str):
            parts[column][int(number)] = value
        else:
            columns[name] = None  # not as this store writes it, so the row can't be read
    columns |= {column: "".join(texts[number] for number in sorted(texts)) for column, texts in parts.items()}
    touched = entity.get("touched")
    return Row(key=key, columns=columns, version=entity.get("version"), touched=touched if isinstance(touched, str) else "")


def _error_from_reply(permission: str, error: HttpResponseError) -> CloudError:
    code = _error_code(error)
    if isinstance(error, ClientAuthenticationError) or error.status_code in {401, 403}:
        return CloudError(Reason.DENIED, permission, first_line(error), code=code, missing=permission)
    if error.status_code in {429, 503}:
        return CloudError(Reason.THROTTLED, permission, f"still throttled after all retries ({code})", code=code)
    return CloudError(Reason.REFUSED, permission, f"{code}: {first_line(error)}", code=code)


def _is_table_missing(error: HttpResponseError) -> bool:
    return _error_code(error) == "TableNotFound"


def _error_code(error: HttpResponseError) -> str:
    """The service's error code, which the SDK passes on in three different ways."""
    code = getattr(error, "error_code", None)
    quoted = re.search(r"ErrorCode:(\w+)", str(error.message))
    return str(getattr(code, "value", code) or (quoted[1] if quoted else error.status_code or "no reply"))
