"""The story's verdicts as data: what a report must say of each name."""

from __future__ import annotations

from dataclasses import dataclass

ENDPOINT, COMPONENT = "sagemaker-endpoint", "sagemaker-inference-component"
NOTEBOOK, APP = "sagemaker-notebook", "sagemaker-studio-app"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """`state` and `confidence` as in the report; `confidence` is None for all but idle."""

    kind: str
    state: str
    confidence: str | None = None
    region: str = "us-east-1"


def expected(kind: str, verdict: str, region: str = "us-east-1") -> Expected:
    """The verdict of one resource: `idle likely`, `exempt`."""
    state, _, confidence = verdict.partition(" ")
    return Expected(kind=kind, state=state, confidence=confidence or None, region=region)


def _all(kind: str, verdict: str, *names: str, region: str = "us-east-1") -> dict[str, Expected]:
    return dict.fromkeys(names, expected(kind, verdict, region))


STORY: dict[str, Expected] = {
    **_all(
        ENDPOINT,
        "active",
        "fraud-scoring-busy",
        "two-variants-second-busy",
        "shadow-variant-busy",
        "async-backlog-busy",
        "components-host-busy",
    ),
    **_all(
        ENDPOINT,
        "idle proven",
        "churn-idle-9-days",
        "async-idle",
        "zero-valued-points-idle",
        "config-deleted-idle",
        "components-host-idle",
        "instance-pools-idle",
        "keep-until-last-month",
    ),
    **_all(ENDPOINT, "idle likely", "serverless-provisioned-quiet"),
    **_all(
        ENDPOINT,
        "exempt",
        "async-scaled-to-zero",
        "serverless-free",
        "failed-without-variants",
        "kept-by-tag",
        "keep-until-next-month",
        "keep-tag-misspelt",
        "keep-until-unreadable",
        "search-ranking-prod",
    ),
    **_all(ENDPOINT, "young", "deployed-an-hour-ago", "updated-this-morning", "creating-now", "update-in-progress"),
    **_all(ENDPOINT, "unknown", "heartbeat-missing", "heartbeat-stopped-3-days-ago", "heartbeat-began-late"),
    **_all(ENDPOINT, "active", "reco-eu-busy", "Demo-Case", region="eu-west-1"),
    **_all(ENDPOINT, "idle proven", "sentiment-eu-idle-4-days", "demo-case", "exotic-instance-idle", region="eu-west-1"),
    **_all(COMPONENT, "idle proven", "embedder-idle", "translator-idle"),
    **_all(COMPONENT, "active", "summarizer-busy"),
    **_all(NOTEBOOK, "active", "nb-kernel-busy", "nb-log-fresh"),
    **_all(NOTEBOOK, "idle proven", "nb-busy-series-silent"),
    **_all(NOTEBOOK, "idle likely", "nb-no-series-quiet-5-days"),
    **_all(NOTEBOOK, "unknown", "nb-busy-series-stopped"),
    **_all(NOTEBOOK, "exempt", "nb-stopped", region="eu-west-1"),
    **_all(NOTEBOOK, "young", "nb-started-an-hour-ago", region="eu-west-1"),
    **_all(APP, "active", "editor-busy/CodeEditor/default", "used-an-hour-ago/JupyterLab/default"),
    **_all(APP, "idle proven", "lab-idle/JupyterLab/default"),
    **_all(
        APP,
        "idle likely",
        "health-checks-only/JupyterLab/default",
        "left-11-days-ago/JupyterLab/default",
        "ana/KernelGateway/forgotten-gpu",
    ),
    **_all(APP, "exempt", "ana/JupyterServer/default"),
}
"""By the name that the report shows."""
