"""Every kind of ledger on an empty place of its own: a test that takes `store` or `kept` runs once for each."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

import azurite
from fakes import ledger_places
from fakes.ledger_places import LedgerLocation
from reaper.ledger.port import Ledger


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    """One request at a time: DynamoDB's conditional updates are atomic, moto's are not."""
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


@pytest.fixture(scope="session")
def azurite_tables() -> Iterator[str]:
    try:
        with azurite.tables() as connection_string:
            yield connection_string
    except azurite.Missing as why:
        pytest.skip(f"TABLE STORAGE IS NOT TESTED: no Azurite: {why}")


@pytest.fixture(params=["memory", "sqlite", "dynamodb", "table"])
def ledger_location(request, tmp_path) -> Iterator[LedgerLocation]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "memory":
            made = LedgerLocation("memory:", {})
        elif request.param == "sqlite":
            made = LedgerLocation(f"sqlite://{tmp_path}/state/ledger.db", {})
        elif request.param == "dynamodb":
            made = ledger_places.dynamodb(request.getfixturevalue("moto_url"), patch)
        else:
            made = ledger_places.table(request.getfixturevalue("azurite_tables"))
        yield made
        made.close()


@pytest.fixture
def ledger(ledger_location: LedgerLocation) -> Ledger:
    return ledger_location.open_ledger()
