"""The embedded AWS at a fixed moment, and clients that reach it through one shared session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.server import Server
from sandbox.aws.clients import NOW, Client


@pytest.fixture(scope="session")
def session() -> boto3.Session:
    """Making clients is dear; one session makes it cheap."""
    return boto3.Session(aws_access_key_id="AKIAIOSFODNN7EXAMPLE", aws_secret_access_key="x", region_name="us-east-1")


@pytest.fixture
def server() -> Iterator[Server]:
    """An empty AWS at NOW."""
    with Server(NOW) as running:
        yield running


@pytest.fixture
def account(server: Server) -> Account:
    """Its us-east-1."""
    return Account(server)


@pytest.fixture
def client(server: Server, session: boto3.Session, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Clients of the embedded AWS that try once by default."""
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE"):
        monkeypatch.delenv(name, raising=False)

    def make(service: str, region: str = "us-east-1", attempts: int = 1, **credentials: str) -> Any:
        config = Config(retries={"total_max_attempts": attempts, "mode": "standard"}, read_timeout=60)
        return session.client(service, region_name=region, endpoint_url=server.url, config=config, **credentials)  # type: ignore[call-overload]

    return make
