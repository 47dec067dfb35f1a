"""What every store of a workflow's run keeps to."""

from __future__ import annotations

import pytest

from reaper.errors import CloudError, Reason
from reaper.workflow.store import open_run_store


def check_store(address: str) -> None:
    """A run's texts under this address: written, replaced, never written over by `create`, listed by prefix, apart from another run's."""
    store, neighbor = open_run_store(address, "run-1"), open_run_store(address, "run-10")
    assert (store.read("run.json"), store.names()) == (None, [])
    assert store.create("run.json", '{"ü": 1}')
    assert not store.create("run.json", "another")
    assert store.read("run.json") == '{"ü": 1}'
    store.write("observed/0.json", "first")
    store.write("observed/0.json", "second")
    neighbor.write("observed/1.json", "a neighbor's")
    assert store.read("observed/0.json") == "second"
    assert store.names("observed/") == ["observed/0.json"]
    assert store.names() == ["observed/0.json", "run.json"]


def check_missing_place(address: str) -> None:
    """Where there is no bucket or container, nothing is told as empty."""
    with pytest.raises(CloudError) as caught:
        open_run_store(address, "run-1").read("run.json")
    assert caught.value.reason is Reason.GONE
