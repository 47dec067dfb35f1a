"""The page's keys in Secrets Manager: how long a place that hangs may hold a request."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.config import Config

from hanging import hanging
from reaper.aws.stores import secrets
from reaper.errors import CloudError, Reason

TEMPLATE = Path(__file__).parents[2] / "template.yaml"


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[socket.socket]]:
    """Those that a Secrets Manager takes that hangs."""
    with hanging() as (port, taken):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "x")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        yield taken


def test_a_hanging_store_fails_after_two_tries(connections: list[socket.socket], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(secrets, "LIMITS", secrets.LIMITS.merge(Config(read_timeout=0.1)))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "9")
    with pytest.raises(CloudError) as refused:
        secrets.read_secret("keys")
    assert refused.value.reason is Reason.UNREACHABLE
    assert len(connections) == 2


def test_reading_the_keys_ends_before_the_function_times_out():
    [stopped] = re.findall(r"\n  SnoozeFunction:\n(?:    .*\n)*?      Timeout: (\d+)\n", TEMPLATE.read_text())
    limits = secrets.LIMITS
    longest = (limits.connect_timeout + limits.read_timeout) * limits.retries["total_max_attempts"]
    assert longest <= int(stopped) / 2
