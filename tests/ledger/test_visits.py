"""What a mail's link opens is read back from every store, until the link expires."""

from __future__ import annotations

from dataclasses import replace

import boto3
import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.ledger_places import ARM, ARN
from reaper.ledger.forget import FORGOTTEN, forget_address
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import Visit, VisitResource

CHURN = VisitResource(
    id=ARN,
    kind="sagemaker-endpoint",
    name="churn",
    where="AWS account 1",
    max_days=30,
    usd_per_hour=1.408,
    idle_since=NOW - 9 * DAY,
)
BLUE = VisitResource(id=ARM, kind="azureml-online-deployment", name="“é” \U0001f642", where="<b>", max_days=7)
VISIT = Visit(
    id="one-mail-one-visit-one",
    address="jo@example.com",
    is_owner=False,
    sent_at=NOW,
    expires=NOW + 30 * DAY,
    tz="Europe/Berlin",
    resources=(CHURN, BLUE),
)
LONG = tuple(replace(CHURN, id=f"{ARN}-{'x' * 1500}-{number}") for number in range(60))


@pytest.mark.parametrize("resources", [VISIT.resources, LONG], ids=["two", "sixty with long IDs"])
def test_a_visit_is_read_back_until_its_link_expires(ledger: Ledger, resources: tuple[VisitResource, ...]):
    visit = replace(VISIT, resources=resources)
    ledger.add_visit(visit)
    for now in (NOW, visit.expires - HOUR):
        assert ledger.visit(VISIT.id, now) == visit
    assert ledger.visit(VISIT.id, visit.expires + HOUR) is None
    assert ledger.visit("another-mail-another-m", NOW) is None


def test_a_visit_is_never_replaced(ledger: Ledger):
    ledger.add_visit(VISIT)
    ledger.add_visit(replace(VISIT, address="lee@example.com"))
    assert ledger.visit(VISIT.id, NOW) == VISIT


def test_a_visit_is_deleted_after_its_link_has_expired(ledger_location):
    ledger = ledger_location.open_ledger()
    ledger.add_visit(VISIT)
    if ledger_location.address.startswith("dynamodb:"):
        [item] = boto3.client("dynamodb").scan(TableName=ledger_location.address.removeprefix("dynamodb://"))["Items"]
        assert item["expires"] == {"N": str(int(VISIT.expires.timestamp()))}
        return
    ledger.forget_before(VISIT.expires - 400 * DAY - HOUR)
    assert [row.key.name for row in ledger.store.scan()] == [VISIT.id]
    ledger.forget_before(VISIT.expires - 400 * DAY + 2 * DAY)
    assert [row for row in ledger.store.scan() if row.key.name == VISIT.id] == []


def test_forgetting_an_address_leaves_the_link_usable(ledger: Ledger):
    ledger.add_visit(VISIT)
    assert [(row.sort, row.columns, row.error) for row in forget_address(ledger, "JO@example.com")] == [
        ("visit", ("address",), "")
    ]
    assert ledger.visit(VISIT.id, NOW) == replace(VISIT, address=FORGOTTEN)
    assert ledger.visit(VISIT.id, VISIT.expires + HOUR) is None
