"""Why items of a distributed map have no result, by what the state machine wrote about them.

A child that fails outright isn't seen by the map's own states: https://docs.aws.amazon.com/step-functions/latest/dg/input-output-resultwriter.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from reaper.aws import text_store
from reaper.aws.telemetry import logger
from reaper.errors import ReaperError

MAX_REASON_CHARS = 300
NOT_STARTED = "its step of the workflow wasn't started"
Record = Mapping[str, Any]
T = TypeVar("T", dict[str, Any], list[Any])


def item_failures(results: Mapping[str, Any]) -> dict[int, str]:
    """The reason for each item that failed. `results`: the map's output, empty if the map was skipped.

    What can't be read is logged: the items themselves are compared with their results elsewhere, so only reasons get lost.
    """
    details = results.get("ResultWriterDetails")
    if not details:
        return {}
    failures: dict[int, str] = {}
    for status, file in _result_files(_read(details, details.get("Key"), dict) or {}):
        for record in _read(details, file, list) or ():
            try:
                failures |= _failure(status, record)
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                logger.error("a result of the map can't be read", error=str(error), status=status)
    return failures


def _result_files(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The status and the key of each file that the manifest names; none if it isn't of the form that Step Functions writes."""
    try:
        return [(status, str(file["Key"])) for status, files in (manifest.get("ResultFiles") or {}).items() for file in files]
    except (LookupError, TypeError, AttributeError) as error:
        logger.error("the results of the map can't be read", error=str(error))
        return []


def _read(details: Mapping[str, str], key: str | None, form: type[T]) -> T | None:
    """A JSON file beside the manifest, if it is there and of that form."""
    try:
        content = json.loads(text_store.read_text(f"s3://{details.get('Bucket')}/{key}"))
    except (ReaperError, ValueError) as error:
        logger.error("the results of the map can't be read", error=str(error), key=key)
        return None
    if not isinstance(content, form):
        logger.error("the results of the map can't be read", error=f"expected a {form.__name__}", key=key)
        return None
    return content


def _failure(status: str, record: Record) -> dict[int, str]:
    """The item's number and why it failed; nothing if it has a result."""
    if status == "SUCCEEDED":
        output = _parsed(record.get("Output"))
        if not isinstance(output, dict) or "Error" not in output:
            return {}
        return {int(output["item"]): _reason(output["Error"], output.get("Cause"))}
    number = int(_parsed(record["Input"])["item"])
    if status == "PENDING":
        return {number: NOT_STARTED}
    return {number: _reason(record.get("Error") or record.get("Status") or status, record.get("Cause"))}


def _reason(error: str, cause: object) -> str:
    """The error with the function's own message, which a cause has as JSON text."""
    try:
        details = _parsed(cause)
    except ValueError:
        details = cause
    message = details.get("errorMessage") if isinstance(details, dict) else details
    text = f"{error}: {message}" if message else str(error)
    return f"its step of the workflow failed: {' '.join(text.split())}"[:MAX_REASON_CHARS]


def _parsed(text: object) -> Any:
    """Input and output are JSON texts within the JSON."""
    return json.loads(text) if isinstance(text, str) else text
