"""The sample notice: three idle resources of one owner, as a sweep in enforce mode would report them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from reaper.aws.kinds.sagemaker_endpoint.description import EndpointDetails, ScaleInPlan
from reaper.case import Blocked, Case, Evidence, Owner, Price
from reaper.duration import format_duration
from reaper.evidence import MAX_SLOTS, SLOT_LENGTH
from reaper.finding import Announcement, Finding, Outcome, Step
from reaper.model import Ceiling, Confidence, Mode, Resource, Result, Role, Rule, State, StepName, Target, Verdict
from reaper.notices.forecast import NoticeContext
from reaper.notices.message import Message
from reaper.notices.owner_notice import owner_notices
from reaper.policy.schema import Owners
from reaper.snooze import links
from reaper.snooze.links import Keys, LinkSigner

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
KEYS = Keys(current="k", ring={"k": bytes(32)})
SIGNER = LinkSigner(base="https://sample.invalid", keys=KEYS, new_id=lambda: "sample".ljust(22, "-"))
VIRGINIA = Target(cloud="aws", account="123456789012", region="us-east-1")
AZURE = Target(cloud="azure", account="11111111-2222-3333-4444-555555555555")
ENDPOINTS = "arn:aws:sagemaker:us-east-1:123456789012:endpoint"
WORKSPACE = (
    f"/subscriptions/{AZURE.account}/resourceGroups/vision/providers/Microsoft.MachineLearningServices/workspaces/vision-dev"
)


def sample_message(address: str, now: datetime, contact: str | None = None) -> Message:
    """The sample mail to `address`: a real notice that says in its subject and first line that it's a sample."""
    context = replace(sample_context(address, now, contact), sample=True)
    [message] = owner_notices(sample_findings(address, now), context)
    return message


def sample_context(address: str, now: datetime, contact: str | None = None) -> NoticeContext:
    """The context of the sample mail. Its snooze links lead to no page."""
    return NoticeContext(
        now=now,
        mode=Mode.ENFORCE,
        owners=Owners(domains=[address.rpartition("@")[2]], contact=contact),
        run_id="sample",
        has_room=True,
        open_visit=partial(links.open_visit, SIGNER, now),
    )


def sample_findings(address: str, now: datetime) -> list[Finding]:
    """Two endpoints and a compute instance, all owned by `address`."""
    scale_in = ScaleInPlan(instances_by_variant={"AllTraffic": 1})
    endpoint = partial(Resource, kind="sagemaker-endpoint", target=VIRGINIA, region="us-east-1")
    churn = endpoint(
        id=f"{ENDPOINTS}/churn-scoring", name="churn-scoring", created=now - 90 * DAY, size="ml.g5.4xlarge x2",
        details=EndpointDetails(scale_in=scale_in),
    )  # fmt: skip
    name = "ranker-experiment-7"
    ranker = endpoint(id=f"{ENDPOINTS}/{name}", name=name, created=now - 30 * DAY, size="ml.g4dn.xlarge")
    instance = Resource(
        kind="azureml-compute-instance", id=f"{WORKSPACE}/computes/dana-gpu", name="dana-gpu", target=AZURE, region="westeurope",
        created=now - 45 * DAY, size="Standard_NC6s_v3",
    )  # fmt: skip
    likely = f"running for {format_duration(4 * DAY)}, no job since"
    at_minimum = Blocked(because="it already runs no more than one instance per variant", already_done=True)
    return [
        _finding(churn, 4.06, _proven(9 * DAY + 4 * HOUR, now), address, now),
        _finding(ranker, 0.736, _proven(3 * DAY + HOUR, now), address, now, at_minimum),
        _finding(instance, 3.06, replace(_proven(4 * DAY, now), because=likely, confidence=Confidence.LIKELY), address, now),
    ]


def _proven(idle_for: timedelta, now: datetime) -> Verdict:
    because = f"no activity in Invocations for {format_duration(idle_for)}, while CPUUtilization reported every hour"
    return Verdict(state=State.IDLE, because=because, idle_for=idle_for, confidence=Confidence.PROVEN, last_busy=now - idle_for)


def _finding(
    resource: Resource, usd_per_hour: float, verdict: Verdict, address: str, now: datetime, blocked: Blocked | None = None
) -> Finding:
    """A finding of a resource of which a stop would save half."""
    idle_for = verdict.idle_for or timedelta(0)
    return Finding(
        case=Case(
            resource=resource,
            rule=Rule(name="rule 'sample'", action=Ceiling.STOP, idle_after=DAY, grace=3 * DAY, remind_every=7 * DAY),
            verdict=verdict,
            usd_per_hour=usd_per_hour,
            owner=Owner(address=address, source="tag reaper:owner"),
            price=Price(usd_per_hour=usd_per_hour, source="sample", as_of="2026-11-20"),
            evidence=(_traffic(idle_for),) if verdict.confidence is Confidence.PROVEN else (),
            blocked={StepName.STOP: blocked, StepName.DELETE: None},
            saves_usd_per_hour={StepName.STOP: usd_per_hour / 2},
        ),
        step=Step(name=StepName.WARN, because="idle for more than 1 day under rule 'sample'"),
        outcome=Outcome(result=Result.PLANNED),
        idle_since=now - idle_for,
        idle_for=idle_for,
        announced=Announcement(action=StepName.STOP, at=now + 3 * DAY)
        if blocked is None and verdict.confidence is Confidence.PROVEN
        else None,
        wasted_usd=round(usd_per_hour * (idle_for / HOUR), 2),
    )


def _traffic(idle_for: timedelta) -> Evidence:
    """Traffic on weekdays until the resource fell silent."""
    busy, day = MAX_SLOTS - int(idle_for / SLOT_LENGTH), (6, 88, 100, 31)
    slots = tuple(day[i % 4] * (9 - i % 7) // 9 if i < busy and i // 4 % 7 < 5 else 0 for i in range(MAX_SLOTS))
    return Evidence(
        signal="Invocations", subject="", role=Role.ACTIVITY, points=0, last_busy=None, peak=0, complete=True, slots=slots
    )
