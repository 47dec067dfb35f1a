from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from fakes.builders import DAY, NOW, activity, heartbeat, observation, resource
from fakes.fake_cloud import FAKE_KIND
from fakes.fake_deployment import POLICY, policy
from reaper.aws.kinds.sagemaker_endpoint.description import EndpointDetails, ScaleInPlan
from reaper.case import Case
from reaper.finding import wasted_usd
from reaper.judge import assess
from reaper.kind import Kind
from reaper.model import BilledPart, Resource, State, StepName
from reaper.prices import PriceBook

PRICES = PriceBook(
    {"aws": {"prices": {"us-east-1": {"Hosting": {"ml.g5.xlarge": [2.0, "list"]}}}, "dates": {}, "as_of": "2026-11-01"}}
)
HOSTING = (BilledPart(component="Hosting", instance="ml.g5.xlarge"),)


def endpoint(**fields: object) -> Resource:
    return resource(**{"status": "InService", "parts": HOSTING, "details": EndpointDetails(scale_in=ScaleInPlan()), **fields})


def assessed(thing: Resource, kind: Kind = FAKE_KIND, text: str = POLICY) -> Case:
    return assess(observation(activity(), heartbeat(), resource=thing), kind, policy(text), PRICES, NOW)


def test_a_case_has_verdict_owner_price_waste_and_evidence():
    case = assessed(endpoint(tags={"owner": "jo@example.com"}))
    assert (case.verdict.state, case.owner.address, case.price and case.price.usd_per_hour) == (State.IDLE, "jo@example.com", 2.0)
    idle_for = case.verdict.idle_for
    assert wasted_usd(case, idle_for) == round(2.0 * ((idle_for or timedelta()) / timedelta(hours=1)), 2) > 0
    assert [e.signal for e in case.evidence] == ["Invocations", "CPUUtilization"]
    assert case.saves_usd_per_hour == {StepName.STOP: 2.0, StepName.DELETE: 2.0}


def test_without_a_price_nothing_is_wasted_or_saved():
    case = assessed(endpoint(parts=None))
    assert (case.price, case.usd_per_hour, wasted_usd(case, case.verdict.idle_for), case.saves_usd_per_hour) == (
        None,
        None,
        None,
        {},
    )


def test_what_could_not_be_read_of_it_blocks_every_action():
    case = assessed(endpoint(unread_because="its tags can't be read"))
    assert {blocked and blocked.because for blocked in case.blocked.values()} == {"its tags can't be read"}


def test_a_kind_that_fails_on_a_resource_blocks_every_action():
    def fail(one: Resource) -> dict:
        raise KeyError(one.name)

    case = assessed(endpoint(), replace(FAKE_KIND, blocked_actions=fail))
    assert set(case.blocked) == set(FAKE_KIND.actions)
    assert all(blocked is not None for blocked in case.blocked.values())


def test_use_makes_a_case_active_and_not_wasting():
    observed = observation(activity({3: 5.0}), heartbeat(), resource=endpoint())
    case = assess(observed, FAKE_KIND, policy(POLICY), PRICES, NOW)
    assert (case.verdict.state, wasted_usd(case, case.verdict.idle_for)) == (State.ACTIVE, None)
    assert NOW - (case.verdict.last_busy or NOW) < DAY
