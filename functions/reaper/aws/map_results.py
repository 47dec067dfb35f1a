"""Why items of a distributed map have no result, by what the state machine wrote about them.

A child that fails outright isn't seen by the map's own states: https://docs.aws.amazon.com/step-functions/latest/dg/input-output-resultwriter.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from reaper.aws import text_store
from reaper.aws.telemetry import logger
from reaper.errors import ReaperError

MAX_REASON_CHARS = 300
NOT_STARTED = "its step of the workflow wasn't started"
Record = Mapping[str, Any]


def item_failures(results: Mapping[str, Any]) -> dict[int, str]:
    """The reason for each item that failed. `results`: the map's output, empty if the map was skipped.

    What can't be read is logged: the items themselves are compared with their results elsewhere, so only reasons get lost.
    """
    failures: dict[int, str] = {}
    try:
        for status, record in _records(results.get("ResultWriterDetails") or {}):
            if failure := _failure(status, record):
                failures.setdefault(*failure)
    except (ReaperError, ValueError, LookupError, TypeError, AttributeError) as error:
        logger.error("the results of the map can't be read", error=str(error), results=results)
    return failures


def _records(details: Mapping[str, str]) -> Iterator[tuple[str, Record]]:
    """Status and record of each item in the files that the manifest names."""
    if not details:
        return
    manifest = json.loads(text_store.read_text(f"s3://{details['Bucket']}/{details['Key']}"))
    for status, files in manifest["ResultFiles"].items():
        for file in files:
            for record in json.loads(text_store.read_text(f"s3://{details['Bucket']}/{file['Key']}")):
                yield status, record


def _failure(status: str, record: Record) -> tuple[int, str] | None:
    """The item's number and why it failed; None if it has a result."""
    if status == "SUCCEEDED":
        output = _parsed(record.get("Output"))
        if not isinstance(output, dict) or "Error" not in output:
            return None
        return int(output["item"]["item"]), _reason(output["Error"], output.get("Cause"))
    number = int(_parsed(record["Input"])["item"]["item"])
    if status == "PENDING":
        return number, NOT_STARTED
    return number, _reason(record.get("Error") or record.get("Status") or status, record.get("Cause"))


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
