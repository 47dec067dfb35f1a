"""One table of Table Storage: reads and conditional writes, with the SDK's errors as CloudError.

Conditional writes: https://learn.microsoft.com/en-us/rest/api/storageservices/update-entity2
Error codes: https://learn.microsoft.com/en-us/rest/api/storageservices/table-service-error-codes
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.data.tables import TableClient, TableEntity, UpdateMode

from reaper.azure.stores import trusted_hosts
from reaper.errors import CloudError, Reason, SettingsError

PERMISSION = "Microsoft.Storage/storageAccounts/tableServices/tables/entities"
PUBLIC_SUFFIX = "table.core.windows.net"
CLIENT_OPTIONS: dict[str, Any] = {"connection_timeout": 5, "read_timeout": 30, "retry_total": 4, "retry_backoff_max": 20}
"""Timeouts in seconds and tries that fit a function; the SDK's defaults wait for minutes."""


class Table:
    """Entities by partition and key. Raises CloudError, or SettingsError if the table itself is missing."""

    def __init__(self, client: TableClient, address: str) -> None:
        self._client = client
        self._address = address

    def get(self, partition: str, key: str) -> TableEntity | None:
        """The entity with its ETag, or None."""
        with self._sdk_errors_as_cloud_errors("read"):
            try:
                return self._client.get_entity(partition, key)
            except HttpResponseError as error:
                if error.status_code == 404 and not _is_table_missing(error):
                    return None
                raise

    def query(self, condition: str, page: int = 1000, **parameters: str) -> Iterator[TableEntity]:
        """Every entity that meets the OData condition, in the order of its keys; `@name` in the condition is a parameter."""
        with self._sdk_errors_as_cloud_errors("read"):
            yield from self._client.query_entities(condition, results_per_page=min(max(page, 1), 1000), parameters=parameters)

    def put(self, entity: Mapping[str, Any]) -> None:
        """Write the entity unconditionally."""
        with self._sdk_errors_as_cloud_errors("write"):
            self._client.upsert_entity(dict(entity), mode=UpdateMode.REPLACE)

    def swap(self, stored: TableEntity | None, entity: Mapping[str, Any]) -> bool:
        """Replace `stored` (None: no entity) if it hasn't changed. Returns False if another writer came first."""
        if stored is None:
            return self._is_written("write", lambda: self._client.create_entity(dict(entity)), absent=False)
        return self._is_written(
            "write",
            lambda: self._client.update_entity(dict(entity), mode=UpdateMode.REPLACE, **_if_unchanged(stored)),
            absent=True,
        )

    def delete(self, stored: TableEntity) -> bool:
        """Delete `stored` if it hasn't changed. Returns False if another writer came first."""
        return self._is_written("delete", lambda: self._client.delete_entity(stored, **_if_unchanged(stored)), absent=True)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _is_written(self, permission: str, write: Callable[[], Any], *, absent: bool) -> bool:
        """Whether the write's condition was met. `absent`: the entity may be deleted by now, which is a lost race, too."""
        with self._sdk_errors_as_cloud_errors(permission):
            try:
                write()
            except HttpResponseError as error:
                is_gone = absent and error.status_code == 404 and not _is_table_missing(error)
                if error.status_code in {409, 412} or is_gone:
                    return False
                raise
        return True

    @contextmanager
    def _sdk_errors_as_cloud_errors(self, permission: str) -> Iterator[None]:
        try:
            yield
        except HttpResponseError as error:
            if error.status_code == 404:
                raise SettingsError(f"REAPER_LEDGER={self._address}: no such table") from error
            raise _error_from_reply(f"{PERMISSION}/{permission}", error) from error
        except AzureError as error:
            raise CloudError(Reason.UNREACHABLE, f"{PERMISSION}/{permission}", _first_line(error)) from error


def connect_table(account: str, name: str, connection_string: str | None) -> Table:
    """The table `name` of an account, given by its name or, outside the public cloud, by its full host name.

    Uses the connection string if it belongs to that account, otherwise DefaultAzureCredential. Raises SettingsError.
    """
    address = f"table://{account}/{name}"
    if connection_string:
        try:
            client = TableClient.from_connection_string(connection_string, name, **CLIENT_OPTIONS)
        except ValueError as error:
            raise SettingsError(f"AZURE_STORAGE_CONNECTION_STRING can't be used: {_first_line(error)}") from error
        if client.account_name == account.partition(".")[0]:
            return Table(client, address)
        client.close()
    from azure.identity import DefaultAzureCredential

    host = account if "." in account else f"{account}.{PUBLIC_SUFFIX}"
    if because := trusted_hosts.refused_because(f"https://{host}", "table"):
        raise SettingsError(f"REAPER_LEDGER={address}: {because}")
    return Table(TableClient(f"https://{host}", name, credential=DefaultAzureCredential(), **CLIENT_OPTIONS), address)


def _if_unchanged(stored: TableEntity) -> dict[str, Any]:
    return {"etag": stored.metadata["etag"], "match_condition": MatchConditions.IfNotModified}


def _error_from_reply(permission: str, error: HttpResponseError) -> CloudError:
    code = _error_code(error)
    if isinstance(error, ClientAuthenticationError) or error.status_code in {401, 403}:
        return CloudError(Reason.DENIED, permission, _first_line(error), code=code, missing=permission)
    if error.status_code in {429, 503}:
        return CloudError(Reason.THROTTLED, permission, f"still throttled after all retries ({code})", code=code)
    return CloudError(Reason.REFUSED, permission, f"{code}: {_first_line(error)}", code=code)


def _is_table_missing(error: HttpResponseError) -> bool:
    return _error_code(error) == "TableNotFound"


def _error_code(error: HttpResponseError) -> str:
    """The service's error code, which the SDK passes on in three different ways."""
    code = getattr(error, "error_code", None)
    quoted = re.search(r"ErrorCode:(\w+)", str(error.message))
    return str(getattr(code, "value", code) or (quoted[1] if quoted else error.status_code or "no reply"))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__
