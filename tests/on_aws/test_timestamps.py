"""Moments in replies are read as botocore reads them, only faster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.utils import parse_timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from reaper.aws import session
from reaper.aws.session import CloudSession
from reaper.model import Target
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant


def _read(parse: Any, value: Any) -> datetime | type[BaseException]:
    try:
        return parse(value)
    except (ArithmeticError, AttributeError, OSError, RuntimeError, TypeError, ValueError) as error:
        return type(error)


ODD = (
    True,
    None,
    "",
    "soon",
    "nan",
    float("nan"),
    float("inf"),
    10**12,
    -(10**12),
    "2026-02-30T00:00:00Z",
    "2026-11-22T10:00:00",
)
GOOD = (0, -1, 1.5, 1_763_800_000.123456, "1763800000", "2026-11-22T10:00:00Z", "2026-11-22T10:00:00.123456789Z")
OTHERS = ("2026-11-22T10:00:00+01:00", "Sun, 22 Nov 2026 10:00:00 GMT", "20261122T100000Z", "2026-11-22 10:00:00Z")


@pytest.mark.parametrize("value", [*ODD, *GOOD, *OTHERS], ids=repr)
def test_every_time_format_is_read_as_botocore_reads_it(value: Any) -> None:
    assert _read(session.parse_moment, value) == _read(parse_timestamp, value)


@settings(deadline=None)
@given(st.one_of(st.integers(), st.floats(), st.text(max_size=30), st.datetimes().map(lambda t: t.isoformat() + "Z")))
def test_any_timestamp_is_read_as_botocore_reads_it(value: Any) -> None:
    assert _read(session.parse_moment, value) == _read(parse_timestamp, value)


def test_replies_use_our_timestamp_parser(account: Account) -> None:
    cloud = CloudSession(boto3.Session(), Target(cloud="aws", account="1", region="us-east-1"))
    account.endpoint("churn", variants=[Variant()], created=datetime(2026, 1, 1, tzinfo=UTC))

    [row] = cloud.paged_rows("sagemaker", "ListEndpoints", "Endpoints")

    assert row["CreationTime"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert row["CreationTime"].tzinfo is UTC
