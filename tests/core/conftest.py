"""Every kind of ledger on an empty place of its own: a test that takes `store` or `kept` runs once for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto.server import ThreadedMotoServer

import azurite
from core import stores
from core.stores import Store
from reaper.ledger import Ledger


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def azurite_tables() -> Iterator[str]:
    try:
        with azurite.tables() as connection_string:
            yield connection_string
    except azurite.Missing as why:
        pytest.skip(f"TABLE STORAGE IS NOT TESTED: no Azurite: {why}")


@pytest.fixture(params=["memory", "sqlite", "dynamodb", "table"])
def store(request, tmp_path) -> Iterator[Store]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "memory":
            made = Store("memory:", {})
        elif request.param == "sqlite":
            made = Store(f"sqlite://{tmp_path}/state/ledger.db", {})
        elif request.param == "dynamodb":
            made = stores.dynamodb(request.getfixturevalue("moto_url"), patch)
        else:
            made = stores.table(request.getfixturevalue("azurite_tables"))
        yield made
        made.close()


@pytest.fixture
def kept(store: Store) -> Ledger:
    return store.open()
