"""A year end in fast motion over the sandbox, by the example policies: notebooks on holidays, endpoints before and after a freeze."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from fakes.fake_deployment import policy
from on_aws.actions.deployment import ENDPOINT, NOTEBOOK, AwsDeployment
from on_aws.conftest import DAY, HOUR
from reaper.calendars.resolve import with_calendars
from reaper.policy.schema import Policy
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server
from reaper_sandbox.aws.signals import Signals

OWNERS = "owners: {tags: [owner], domains: [example.com], fallback: ml-admins@example.com, tz: Europe/Berlin}\nlimits: {max_share: 100%}\n"
LEE = {"owner": "lee@example.com"}


def example(name: str) -> Policy:
    """The example policy, with addresses and its calendars read."""
    lines = (Path(__file__).parents[3] / "policies" / name).read_text().splitlines()
    text = "\n".join([*(line for line in lines if not line.startswith("owners:")), OWNERS])
    return with_calendars(policy(text), None, utc(17, 8))


def utc(day: int, hour: int) -> datetime:
    """An hour in December, or after its end in January."""
    return datetime(2026, 12, 1, hour, 15, tzinfo=UTC) + (day - 1) * DAY


def play(deployment: AwsDeployment, until: datetime, every: int) -> list[tuple[str, str]]:
    """Sweeps until then; what they changed, as days in Berlin's winter time with the hour and the operation."""
    diary = []
    while deployment.now <= until:
        before = len(deployment.server.calls)
        deployment.sweep()
        diary += [(f"{deployment.now + HOUR:%d %b %H}", operation) for operation in deployment.changes(before)]
        deployment.now += every * HOUR
    return diary


def test_notebooks_are_stopped_on_a_holiday_and_not_started(server: Server, account: Account):
    server.now = utc(20, 8)
    notebook = account.notebook("dev-lee", tags=LEE)
    Signals(account.contents).busy_steadily(account.arn("notebook-instance/dev-lee"), utc(1, 0), utc(40, 0))
    deployment = AwsDeployment(server=server, kinds=(NOTEBOOK,), policy=example("holidays.yaml"), now=utc(20, 8))
    assert play(deployment, utc(24, 2), every=6)[-1] == ("23 Dec 21", "StopNotebookInstance")
    notebook.status, notebook.changed = "InService", utc(24, 7)  # Lee starts it by hand on Christmas Eve, which is a day off
    diary = play(deployment, utc(32, 20), every=6)
    assert diary == [
        ("24 Dec 15", "StopNotebookInstance"),
        ("28 Dec 09", "StartNotebookInstance"),
        ("28 Dec 21", "StopNotebookInstance"),
        ("29 Dec 09", "StartNotebookInstance"),
        ("29 Dec 21", "StopNotebookInstance"),
        ("30 Dec 09", "StartNotebookInstance"),
        ("30 Dec 21", "StopNotebookInstance"),
        ("31 Dec 09", "StartNotebookInstance"),
        ("31 Dec 21", "StopNotebookInstance"),
    ]
    enrolment = " ".join(deployment.mails()[0].split())
    assert "From Tue 22 Dec 2026, 21:00 Europe/Berlin on, it will be stopped outside its office hours" in enrolment
    assert "Next days off: Thu 24 Dec, Fri 25 Dec, Fri 1 Jan." in enrolment


def test_endpoints_are_announced_before_the_freeze_and_scaled_in_after_it(server: Server, account: Account):
    server.now = utc(17, 8)
    account.endpoint("churn", variants=[Variant(count=3)], tags=LEE)
    account.alive("churn", "AllTraffic", utc(1, 0), utc(60, 0))
    deployment = AwsDeployment(server=server, kinds=(ENDPOINT,), policy=example("year-end-freeze.yaml"), now=utc(17, 8))
    diary = play(deployment, utc(45, 8), every=12)
    assert diary == [("08 Jan 09", "UpdateEndpointWeightsAndCapacities")]
    notice, *reminders = (" ".join(text.split()) for text in deployment.mails())
    for text in (notice, *reminders[:2]):
        assert "on or after Fri 8 Jan 2027, 09:15 Europe/Berlin unless it is used or kept before then." in text
        assert "Nothing is stopped or deleted from Sat 19 Dec to Wed 6 Jan (year-end)." in text
    assert account.contents.endpoints["churn"].variants[0].count == 1
