"""Made-up findings, for a sample of the mails: three idle resources of one owner, as a sweep in mode enforce would find them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace

from reaper.evidence import MAX_SLOTS, SLOT_LENGTH
from reaper.model import (
    Blocked,
    Case,
    Ceiling,
    Confidence,
    Evidence,
    Finding,
    Mode,
    Outcome,
    Owner,
    Price,
    Resource,
    Result,
    Role,
    Rule,
    State,
    Step,
    StepName,
    Target,
    Verdict,
)
from reaper.notices.message import Message
from reaper.notices.owner_notice import NoticeContext, owner_notices
from reaper.policy.schema import Owners

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
VIRGINIA = Target(cloud="aws", account="123456789012", region="us-east-1")
AZURE = Target(cloud="azure", account="11111111-2222-3333-4444-555555555555")
WORKSPACE = (
    f"/subscriptions/{AZURE.account}/resourceGroups/vision/providers/Microsoft.MachineLearningServices/workspaces/vision-dev"
)


def sample_findings(address: str, now: datetime) -> list[Finding]:
    """Two endpoints and a compute instance, all owned by `address`."""
    endpoint = "arn:aws:sagemaker:us-east-1:123456789012:endpoint"
    churn = Resource(
        kind="sagemaker-endpoint", id=f"{endpoint}/churn-scoring", name="churn-scoring", target=VIRGINIA, region="us-east-1",
        created=now - 90 * DAY, size="ml.g5.4xlarge x2", facts={"scale_in": SimpleNamespace(first_variant={"AllTraffic": 1})},
    )  # fmt: skip
    ranker = Resource(
        kind="sagemaker-endpoint", id=f"{endpoint}/ranker-experiment-7", name="ranker-experiment-7", target=VIRGINIA,
        region="us-east-1", created=now - 30 * DAY, size="ml.g4dn.xlarge",
    )  # fmt: skip
    instance = Resource(
        kind="azureml-compute-instance", id=f"{WORKSPACE}/computes/dana-gpu", name="dana-gpu", target=AZURE, region="westeurope",
        created=now - 45 * DAY, size="Standard_NC6s_v3",
    )  # fmt: skip
    silent = "Invocations silent for {} while CPUUtilization reported every hour"
    one = Blocked(because="it already runs no more than one instance per variant", already_done=True)
    return [
        _sample_finding(churn, (9 * DAY + 4 * HOUR, silent.format("9 d 4 h"), Confidence.PROVEN), (4.06, None), address, now),
        _sample_finding(ranker, (3 * DAY + HOUR, silent.format("3 d 1 h"), Confidence.PROVEN), (0.736, one), address, now),
        _sample_finding(instance, (4 * DAY, "up for 4 d and no job since", Confidence.LIKELY), (3.06, None), address, now),
    ]


def sample_message(address: str, now: datetime, contact: str | None = None) -> Message:
    """The sample mail to `address`: a real notice, but that it says in its subject and at its top what it is."""
    [made] = owner_notices(sample_findings(address, now), replace(sample_context(address, now, contact), sample=True))
    return made


def sample_context(address: str, now: datetime, contact: str | None = None) -> NoticeContext:
    """What the sample mail is made with; its Keep it links lead nowhere."""
    return NoticeContext(
        now=now,
        mode=Mode.ENFORCE,
        owners=Owners(domains=[address.rpartition("@")[2]], contact=contact),
        run_id="sample",
        snooze_link=lambda resource_id: "https://sample.invalid/keep?t=sample",
    )


def _sample_finding(
    resource: Resource,
    seen: tuple[timedelta, str, Confidence],
    stop: tuple[float, Blocked | None],
    address: str,
    now: datetime,
) -> Finding:
    """`stop`: what it costs an hour, of which stopping it saves half, and what bars that."""
    (idle_for, because, confidence), (usd_per_hour, bar) = seen, stop
    rule = Rule(name="rule 'sample'", action=Ceiling.STOP, idle_after=DAY, grace=3 * DAY, remind_every=7 * DAY)
    verdict = Verdict(state=State.IDLE, because=because, idle_for=idle_for, confidence=confidence, last_busy=now - idle_for)
    case = Case(
        resource=resource,
        rule=rule,
        verdict=verdict,
        usd_per_hour=usd_per_hour,
        blocked={StepName.STOP: bar, StepName.DELETE: None},
        saves_usd_per_hour={StepName.STOP: usd_per_hour / 2},
    )
    return Finding(
        case=case,
        step=Step(name=StepName.WARN, because="idle for more than 1 d under rule 'sample'"),
        outcome=Outcome(result=Result.PLANNED),
        owner=Owner(address=address, source="tag reaper:owner"),
        price=Price(usd_per_hour=usd_per_hour, source="sample", as_of="2026-11-20"),
        wasted_usd=round(usd_per_hour * (idle_for / HOUR), 2),
        evidence=_sample_evidence(idle_for, confidence),
    )


def _sample_evidence(idle_for: timedelta, confidence: Confidence) -> tuple[Evidence, ...]:
    """Traffic on weekdays up to the hour it fell silent."""
    if confidence is Confidence.LIKELY:
        return ()
    busy = MAX_SLOTS - int(idle_for / SLOT_LENGTH)
    day = (6, 88, 100, 31)
    shape = tuple(day[i % 4] * (9 - i % 7) // 9 if i < busy and i // 4 % 7 < 5 else 0 for i in range(MAX_SLOTS))
    signal = Evidence(
        signal="Invocations", subject="", role=Role.ACTIVITY, points=0, last_busy=None, peak=0, complete=True, slots=shape
    )
    return (signal,)
