"""What can be done to which Azure kind."""

from __future__ import annotations

from on_azure.conftest import INSTANCE
from reaper import registry
from reaper.model import StepName


def test_only_compute_instances_can_be_started():
    startable = {kind.name for kind in registry.kinds("azure") if StepName.START in kind.actions}
    assert startable == {INSTANCE}
