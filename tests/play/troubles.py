"""What is out of order: for a whole day, or for one call of a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from play.clouds import Accident
from play.scripts import Script
from reaper_sandbox.aws import fault as aws_fault
from reaper_sandbox.azure import fault as azure_fault

if TYPE_CHECKING:
    from play.season import Season

AWS_ACTS = r"sagemaker:(Stop|Delete|Update|Start).*|application-autoscaling:(Register|Delete).*"
AZURE_ACTS = r"Microsoft\.MachineLearningServices/.*(write|delete|stop/action|start/action)"
ACTS = f"{AWS_ACTS}|{AZURE_ACTS}"
WRITES = r"dynamodb:(Put|Update|Delete)Item"
HALVES = (
    (
        "after",
        r"application-autoscaling:RegisterScalableTarget|Microsoft\.MachineLearningServices/workspaces/onlineEndpoints/write",
    ),
    ("before", r"sagemaker:UpdateEndpointWeightsAndCapacities|.*/onlineEndpoints/deployments/delete"),
    ("after", r"sagemaker:(Update|Delete)InferenceComponent.*|.*/onlineEndpoints/write"),
)
"""Where to kill a process between two calls of one action: right after the first, or right before the second."""
OUTAGES: dict[str, tuple[str, str, Any, Any]] = {
    "metrics": ("GetMetricData", r".*metrics.*", aws_fault.throttled(), azure_fault.error(503)),
    "permission": (
        "ListTags|DescribeNotebookInstance|UpdateEndpoint.*",
        r".*/computes/.*",
        aws_fault.denied(),
        azure_fault.denied(),
    ),
    "ledger": ("(BatchGet|Get|Put|Update|Delete)Item|Query", r"never", aws_fault.error(500), azure_fault.error(500)),
    "writes": ("(Put|Update|Delete)Item", r"never", aws_fault.error(500), azure_fault.error(500)),
}
"""What does not work for a day: the AWS operations and Azure paths, and how they fail."""


def arm(play: Season, accident: str) -> None:
    """Something is to happen to one of the next command's calls."""
    if accident == "half":
        how, action = play.dice.choice(HALVES) if play.struck else HALVES[0]
        play.wire.accident = Accident(action=action, how=how, skip=play.dice.choice((0, 0, 1)) if play.struck else 0)
        return
    how = {"kill": play.dice.choice(("before", "after")), "lost": "lost"}[accident]
    choices = (
        (ACTS, "smtp:Data", WRITES)
        if accident == "lost"
        else (ACTS, ACTS, "smtp:Data", WRITES, WRITES, "sagemaker:DescribeEndpoint")
    )
    action = play.dice.choice(choices)
    play.wire.accident = Accident(
        action=action, how=how, skip=play.dice.choice((0, 0, 1, 2)) if action != WRITES else play.dice.randint(0, 30)
    )


def names(play: Season, also: str) -> Iterator[str]:
    if also:
        yield also
    if play.wire.accident and play.wire.accident.happened:
        lost = "lost mail" if "smtp" in play.wire.accident.happened else "lost"
        yield lost if play.wire.accident.how == "lost" else "kill"


@contextmanager
def out_of_order(play: Season, script: Script) -> Iterator[None]:
    """What is out of order for the day."""
    aws, azure = play.aws.rules, play.azure.rules
    saved = (list(aws), list(azure))
    if script.outage == "mail":
        play.post.down = "451 4.3.0 come back later"
    elif script.outage:
        broken = OUTAGES[script.outage]
        aws += [aws_fault.on(broken[0], broken[2])]
        azure += [azure_fault.on(".*", broken[1], broken[3])]
    yield
    play.post.down = None
    aws[:], azure[:] = saved
