"""What a distributed map writes about its items, with files as AWS writes them, and reasons that come out of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest

from reaper.aws.functions.workflow import MAX_REASON_CHARS, NOT_STARTED, item_failures
from reaper_sandbox.aws.server import Server

KEY = "runs/workflow/1/observe/0f-1e/manifest.json"
RESULTS = {"MapRunArn": "arn:aws:states:…", "ResultWriterDetails": {"Bucket": "bucket", "Key": KEY}}
Write = Callable[..., dict[str, Any]]


@pytest.fixture
def write(server: Server) -> Write:
    """A function that writes the files of a map, by status, and returns the map's output."""
    client = boto3.client("s3")
    client.create_bucket(Bucket="bucket")

    def files(**records: list[dict[str, Any]]) -> dict[str, Any]:
        listed: dict[str, Any] = {"SUCCEEDED": [], "FAILED": [], "PENDING": []}
        for status, rows in records.items():
            key = KEY.replace("manifest.json", f"{status}_0.json")
            listed[status].append({"Key": key, "Size": 1})
            client.put_object(Bucket="bucket", Key=key, Body=json.dumps(rows).encode())
        client.put_object(
            Bucket="bucket", Key=KEY, Body=json.dumps({"DestinationBucket": "bucket", "ResultFiles": listed}).encode()
        )
        return RESULTS

    return files


def record(number: int, status: str = "FAILED", **more: str) -> dict[str, Any]:
    """One item. Input and output are JSON texts."""
    given = json.dumps({"run": "0123456789ab", "item": number})
    return {"ExecutionArn": "arn:aws:states:…", "Name": "1", "Input": given, "Status": status, **more}


def caught(number: int, error: str, cause: str) -> dict[str, Any]:
    """An item whose error was caught: it succeeds, and its output says what happened."""
    return record(number, "SUCCEEDED", Output=json.dumps({"item": number, "Error": error, "Cause": cause}))


def test_a_result_is_no_failure(write: Write):
    answered = record(0, "SUCCEEDED", Output=json.dumps({"run": "0123456789ab", "item": 0, "resources": 3}))
    assert item_failures(write(SUCCEEDED=[answered])) == {}


def test_a_caught_error_is_told_in_the_functions_own_words(write: Write):
    cause = json.dumps({"errorType": "MemoryError", "errorMessage": "out of\nmemory", "stackTrace": []})
    found = item_failures(write(SUCCEEDED=[caught(4, "MemoryError", cause)]))
    assert found == {4: "its step of the workflow failed: MemoryError: out of memory"}


def test_a_timeout_of_the_state_has_no_message(write: Write):
    found = item_failures(write(SUCCEEDED=[caught(4, "States.Timeout", "")]))
    assert found == {4: "its step of the workflow failed: States.Timeout"}


def test_what_no_catch_sees_is_found_in_the_file_of_failures(write: Write):
    """A payload that is too large, or a path that isn't there, ends the item outright, and the map is green."""
    failed = [record(2, Error="States.DataLimitExceeded", Cause="The state/task returned a result with a size exceeding …")]
    found = item_failures(write(FAILED=[*failed, record(3, "TIMED_OUT")], PENDING=[record(5, "PENDING")]))
    assert found[2].startswith("its step of the workflow failed: States.DataLimitExceeded: The state/task returned")
    assert found[3] == "its step of the workflow failed: TIMED_OUT"
    assert found[5] == NOT_STARTED


def test_reasons_stay_short(write: Write):
    assert len(item_failures(write(FAILED=[record(1, Error="E", Cause="long " * 500)]))[1]) == MAX_REASON_CHARS


def test_a_map_that_was_skipped_has_no_failures(server: Server):
    assert item_failures({}) == {}
    assert server.calls == []


@pytest.mark.parametrize("content", ["", "[]", '{"ResultFiles": null}', '{"ResultFiles": {"FAILED": [{"Size": 1}]}}'])
def test_what_cannot_be_read_loses_reasons_and_nothing_else(write: Write, content: str, caplog: pytest.LogCaptureFixture):
    write()
    boto3.client("s3").put_object(Bucket="bucket", Key=KEY, Body=content.encode())
    assert item_failures(RESULTS) == {}
    assert "can't be read" in caplog.text or "null" in content


@pytest.mark.parametrize("files", [[1], {"FAILED": 1}, {"FAILED": [1]}, {"FAILED": [{}]}, "x"])
def test_an_odd_list_of_files_loses_reasons_and_nothing_else(write: Write, files: Any):
    results = write(FAILED=[record(1)])
    boto3.client("s3").put_object(Bucket="bucket", Key=KEY, Body=json.dumps({"ResultFiles": files}).encode())
    assert item_failures(results) == {}


def test_a_record_that_cannot_be_read_hides_no_other(write: Write):
    odd = [{"Status": "FAILED"}, record(1, Error="E", Cause="")]
    assert item_failures(write(FAILED=odd)) == {1: "its step of the workflow failed: E"}
