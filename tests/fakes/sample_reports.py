"""Reports to show: a believable estate on both clouds, one of any size, and one whose every text is hostile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from fakes.builders import DAY, HOUR, NOW, resource, rule
from reaper.case import Case, Coverage, Evidence, Owner, Price
from reaper.duration import format_duration
from reaper.evidence import MAX_SLOTS
from reaper.finding import Finding, FinishedRun, Outcome, Report, Step
from reaper.model import Confidence, Mode, Result, Role, State, Status, StepName, Target, Verdict

RUN = FinishedRun(
    id="4f1c02be77aa",
    started_at=NOW,
    finished_at=NOW + timedelta(seconds=9),
    mode=Mode.AUDIT,
    version="1.0.0",
    policy_sha256="9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab",
)
ACCOUNTS = {"aws": "123456789012", "azure": "11111111-2222-3333-4444-555555555555"}
MLW = "/subscriptions/{}/resourceGroups/research/providers/Microsoft.MachineLearningServices/workspaces/research"
BUSY = {"sagemaker-endpoint": ("Invocations", "CPUUtilization"), "azureml-compute-cluster": ("Active Nodes", "Total Nodes")}
STEPS = {State.IDLE: Step(name=StepName.WARN, because="idle for more than 1 day under the policy's defaults")}

# name, kind, region, size, dollars an hour, owner, days idle, likely
IDLE = (
    ("llm-ranker-a100", "sagemaker-endpoint", "us-east-1", "ml.p4d.24xlarge x1", 37.688, "mara.lindt@example.com", 6.4, False),
    ("recsys-shadow", "sagemaker-endpoint", "us-east-1", "ml.g5.12xlarge x2", 14.18, "jo.martin@example.com", 11.2, False),
    ("nightly-train-v100", "azureml-compute-cluster", "westeurope", "Standard_NC24s_v3 x1", 12.24, "ines@example.com", 3.1, False),
    ("vision-labeling", "sagemaker-notebook", "eu-west-1", "ml.g4dn.12xlarge", 5.867, None, 9.9, True),
    ("churn-scoring-staging", "sagemaker-endpoint", "eu-west-1", "ml.g5.xlarge x2", 2.816, "jo.martin@example.com", 9.2, False),
    ("demo-for-board", "azureml-online-deployment", "northeurope", "Standard_NC6s_v3 x1", 3.06, "mara.lindt@example.com", 13.6, False),
    ("gpu-sandbox-tm", "azureml-compute-instance", "westeurope", "Standard_NC6s_v3", 3.06, "tom.okafor@example.com", 4.8, True),
    ("embedding-v2-canary", "sagemaker-endpoint", "us-east-1", "ml.g5.2xlarge x1", 1.515, "data-platform@example.com", 8.3, False),
    ("forecast-weekly", "sagemaker-inference-component", "us-east-1", "ml.g5.xlarge x1", 1.408, "data-platform@example.com", 2.4, False),
    ("old-experiments", "sagemaker-notebook", "us-east-1", "ml.p3.2xlarge", 3.825, "ex.employee@example.com", 13.9, True),
    ("studio-yuki", "sagemaker-studio-app", "eu-west-1", "ml.g4dn.xlarge", 0.736, "yuki.sato@example.com", 5.5, False),
    ("pricing-model-b", "sagemaker-endpoint", "eu-west-1", "ml.m5.2xlarge x2", 0.922, "jo.martin@example.com", 7.7, False),
    ("translation-poc", "sagemaker-endpoint", "us-east-1", "ml.trn1.2xlarge x1", None, "yuki.sato@example.com", 12.0, False),
)  # fmt: skip
UNKNOWN = (
    ("payments-fraud", "sagemaker-endpoint", "us-east-1", "ml.m5.4xlarge x2", 1.843, "CPUUtilization stopped 2 days 6 hours ago, so silence proves nothing"),
    ("research-a100", "azureml-compute-instance", "westeurope", "Standard_NC24ads_A100_v4", 3.673, "its tags couldn't be read, and a tag may protect it"),
    ("search-rerank", "sagemaker-endpoint", "us-east-1", "ml.g5.xlarge x1", 1.408, "the reply for Invocations was incomplete"),
)  # fmt: skip
WORDS = ("ranker", "churn", "vision", "forecast", "search", "fraud", "labels", "embed", "speech", "pricing")


def report(findings: tuple[Finding, ...] | None = None, **fields: Any) -> Report:
    """Thirteen idle ones of 48, three unknown, three lists with gaps."""
    return Report(
        **{"run": RUN, "coverage": tuple(coverage()), "findings": tuple(estate()) if findings is None else findings, **fields}
    )


def finding(state: State = State.IDLE, usd: float | None = 2.816, owner: str | None = "jo@example.com", **fields: Any) -> Finding:
    """One line of the report: idle for nine days, proven and priced by default; what is left goes to the resource."""
    idle_for = fields.pop("idle_for", 9 * DAY + 4 * HOUR) if state is State.IDLE else None
    confidence = fields.pop("confidence", Confidence.PROVEN) if state is State.IDLE else None
    because = fields.pop(
        "because",
        f"no activity in Invocations for {format_duration(idle_for)}, while CPUUtilization reported every hour"
        if idle_for
        else state,
    )
    evidence = fields.pop("evidence", ())
    thing = resource(**{"size": "ml.g5.xlarge x2", "status": "InService", **fields})
    verdict = Verdict(
        state=state, because=because, idle_for=idle_for, confidence=confidence, last_busy=NOW - idle_for if idle_for else None
    )
    return Finding(
        case=Case(
            resource=thing,
            rule=rule(name="the policy's defaults"),
            verdict=verdict,
            usd_per_hour=usd,
            owner=Owner(address=owner, source="tag reaper:owner" if owner else "nobody: no tag and no fallback"),
            price=None if usd is None else Price(usd_per_hour=usd, source="snapshot", as_of="2026-09-24"),
            evidence=evidence,
        ),
        step=STEPS.get(state, Step(name=StepName.NONE, because=f"nothing to do: it is {state}")),
        outcome=Outcome(result=Result.PLANNED),
        idle_since=NOW - idle_for if idle_for else None,
        idle_for=idle_for,
        wasted_usd=round(usd * (idle_for / HOUR), 2) if usd and idle_for else None,
    )


def estate() -> Iterator[Finding]:
    """The resources of a middling company."""
    for index, (name, kind, region, size, usd, owner, days, likely) in enumerate(IDLE):
        place = _place(kind, name, region)
        tags = (
            {"reaper:owner": owner, "team": WORDS[index % 4], "cost-center": f"{4400 + index * 7}"}
            if owner
            else {"team": "labeling"}
        )
        shown = _evidence(kind, index, days, likely)
        sure = Confidence.LIKELY if likely else Confidence.PROVEN
        since = NOW - days * DAY
        why = (
            {"because": f"running since {since:%Y-%m-%d %H:%M} UTC, no new Jupyter log events, no Busy signal as proof"}
            if likely
            else {}
        )
        yield finding(
            usd=usd,
            owner=owner,
            name=name,
            size=size,
            tags=tags,
            evidence=shown,
            confidence=sure,
            idle_for=days * DAY,
            **place,
            **why,
        )
    for index, (name, kind, region, size, usd, because) in enumerate(UNKNOWN):
        tags = None if "tags" in because else {"env": "dev"}
        shown = _evidence(kind, index, 5, False, gap=9 if "stopped" in because else 0, complete="incomplete" not in because)
        place = _place(kind, name, region)
        yield finding(
            State.UNKNOWN, usd, "ml-admins@example.com", name=name, size=size, because=because, tags=tags, evidence=shown, **place
        )
    yield from many(32, (State.ACTIVE, State.ACTIVE, State.EXEMPT, State.YOUNG, State.ACTIVE), seed=3)


def many(count: int, states: tuple[State, ...] = tuple(State), seed: int = 1) -> Iterator[Finding]:
    """So many endpoints with their states in turn and their prices at random."""
    dice = Random(seed)
    reasons = {
        State.ACTIVE: "Invocations shows use 20 minutes ago",
        State.YOUNG: "created 3 hours ago, less than 1 day",
        State.EXEMPT: "kept by tag reaper:keep=true",
        State.UNKNOWN: "the reply for Invocations was incomplete",
    }
    for index in range(count):
        state, name = states[index % len(states)], f"{dice.choice(WORDS)}-{index:05}"
        region, owner = dice.choice(("us-east-1", "eu-west-1")), f"{dice.choice(WORDS)}@example.com"
        why = {} if state is State.IDLE else {"because": reasons[state]}
        shown = _evidence("sagemaker-endpoint", index, 9.2, False) if state in {State.IDLE, State.UNKNOWN} else ()
        usd = round(dice.uniform(0.1, 9), 3)
        place = _place("sagemaker-endpoint", name, region)
        yield finding(state, usd, owner, name=name, tags={"team": dice.choice(WORDS)}, evidence=shown, **why, **place)


def hostile(text: str) -> Report:
    """A report in which everything that a stranger can choose is that text."""
    made = finding(
        owner=text, because=text, evidence=_evidence("sagemaker-endpoint", 1, 9, False), name=text, size=text, tags={text: text}
    )
    shown = tuple(replace(e, signal=text, subject=text) for e in made.case.evidence)
    case = replace(made.case, rule=rule(name=text, notes=(text,)), evidence=shown)
    made = replace(made, case=case, step=Step(name=StepName.WARN, because=text))
    bad = Coverage(cloud="aws", account=text, region=text, kind=text, status=Status.FAILED, missing=text, error=text)
    return report((made,), coverage=(bad,))


def coverage() -> Iterator[Coverage]:
    """Five AWS and three Azure kinds, each where they were looked for."""
    kinds = {
        "aws": ("endpoint", "inference-component", "notebook", "studio-app"),
        "azure": ("compute-cluster", "compute-instance", "online-deployment"),
    }
    regions = {"aws": ("us-east-1", "us-west-2", "eu-west-1"), "azure": (None,)}
    for cloud, prefix in (("aws", "sagemaker"), ("azure", "azureml")):
        for region in regions[cloud]:
            for index, kind in enumerate(kinds[cloud]):
                yield _gap(
                    Coverage(
                        cloud=cloud, account=ACCOUNTS[cloud], region=region, kind=f"{prefix}-{kind}", status=Status.OK,
                        resources=(9, 3, 6, 2)[index] if region != "us-west-2" else 0, calls={f"{prefix}:List": 3 + index},
                    )
                )  # fmt: skip


def _gap(row: Coverage) -> Coverage:
    if (row.region, row.kind) == ("us-west-2", "sagemaker-notebook"):
        missing = "sagemaker:ListNotebookInstances"
        error = f"{missing}: AccessDeniedException: not authorized to perform this action"
        return replace(row, status=Status.DENIED, missing=missing, error=error)
    if (row.region, row.kind) == ("us-east-1", "sagemaker-endpoint"):
        return replace(row, status=Status.PARTIAL, error="cloudwatch:GetMetricData: 1 series came back incomplete (PartialData)")
    if row.kind == "azureml-compute-instance":
        missing = "Microsoft.Resources/tags/read"
        return replace(
            row, status=Status.DENIED, missing=missing, error=f"{missing}: AuthorizationFailed: the client has no such permission"
        )
    return row


def _place(kind: str, name: str, region: str) -> dict[str, Any]:
    if kind.startswith("azureml"):
        part = "onlineEndpoints/board/deployments" if kind.endswith("deployment") else "computes"
        account = ACCOUNTS["azure"]
        return {
            "kind": kind,
            "id": f"{MLW.format(account)}/{part}/{name}",
            "target": Target(cloud="azure", account=account),
            "region": region,
        }
    account = ACCOUNTS["aws"]
    id = f"arn:aws:sagemaker:{region}:{account}:{kind.removeprefix('sagemaker-')}/{name}"
    return {"kind": kind, "id": id, "target": Target(cloud="aws", account=account, region=region), "region": region}


def _evidence(kind: str, seed: int, days: float, likely: bool, gap: int = 0, complete: bool = True) -> tuple[Evidence, ...]:
    """Use on working days until it fell silent, and a heartbeat unless there is none or it stopped `gap` slots ago."""
    if likely:
        return ()
    dice, busy = Random(seed), max(0, MAX_SLOTS - int(days * 4))
    use = tuple(dice.choice((0, 12, 45, 70, 100)) if i < busy and i // 4 % 7 < 5 and i % 4 != 3 else 0 for i in range(MAX_SLOTS))
    signal, heart = BUSY.get(kind, ("Invocations", "CPUUtilization"))
    subject = "AllTraffic" if kind == "sagemaker-endpoint" else ""
    last = NOW - timedelta(days=days) if any(use) else None
    beats = (1,) * (MAX_SLOTS - gap) + (0,) * gap
    return (
        Evidence(signal=signal, subject=subject, role=Role.ACTIVITY, points=sum(map(bool, use)), last_busy=last, peak=4821.0 if any(use) else 0.0, complete=complete, slots=use),
        Evidence(signal=heart, subject=subject, role=Role.HEARTBEAT, points=6 * sum(beats), last_busy=None, peak=60.0, complete=True, slots=beats),
    )  # fmt: skip
