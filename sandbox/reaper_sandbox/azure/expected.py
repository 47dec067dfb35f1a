"""What a sweep has to find out about a resource of the fleet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Expected:
    """The verdict under the default policy (idle after 24 h, looking back 14 d), its confidence (idle only), and why."""

    kind: str
    state: str
    why: str
    confidence: str | None = None


def cluster(state: str, why: str, confidence: str | None = None) -> Expected:
    """A compute cluster's verdict."""
    return Expected("azureml-compute-cluster", state, why, confidence)


def instance(state: str, why: str, confidence: str | None = None) -> Expected:
    """A compute instance's verdict."""
    return Expected("azureml-compute-instance", state, why, confidence)


def deployment(state: str, why: str, confidence: str | None = None) -> Expected:
    """An online deployment's verdict."""
    return Expected("azureml-online-deployment", state, why, confidence)
