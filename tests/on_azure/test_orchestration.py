"""A run as a Durable orchestration over five subscriptions, replayed by the SDK's own engine, with everything that can go wrong between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import azurite
from on_azure.orchestrated import SUBS, Deployment, deployment


@pytest.fixture
def deployed(azurite_tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    try:
        with deployment(azurite_tables, tmp_path, monkeypatch) as running:
            yield running
    except azurite.Missing as why:
        pytest.skip(f"{why}: the orchestration was NOT tried")


def rows(report: dict, status: str) -> dict[str, str]:
    """The errors of the rows with that status, by the first digit of the subscription."""
    return {row["account"][:1]: row["error"] for row in report["coverage"] if row["status"] == status}


def test_a_run_notifies_once_and_then_stops_everywhere(deployed: Deployment):
    deployed.warned()
    [notice] = deployed.mails_to("ana@example.com")
    assert all(f"gpus-{sub[0]}" in notice for sub in SUBS)
    report = deployed.sweep()
    assert {(f["step"], f["outcome"]) for f in report["findings"]} == {("stop", "done")}
    assert set(deployed.least().values()) == {0}
    assert len(deployed.mails_to("ana@example.com")) == 2
    assert deployed.engine.most_at_once == len(SUBS)
