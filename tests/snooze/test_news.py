"""The page of a snooze link says what has happened since its mail: what was done, and what isn't idle any more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.records import a_record, an_act
from fakes.snooze_requests import ID, KEYS, VISIT, Page, look, send, visit_of
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger
from reaper.model import AnnouncedAction, Result, State, StepName
from reaper.record import Record, SideChange, after_undo, before_action, closed_unknown, with_result
from reaper.snooze import pages
from reaper.snooze.links import sign_link
from reaper.snooze.pages import Reply

SENT = NOW - 2 * DAY
LATER = NOW - DAY
"""When something happened: `Fri 20 Nov 2026, 11:17 Europe/Berlin`."""
ON = "on Fri 20 Nov 2026, 11:17 Europe/Berlin"
NOTEBOOK = "arn:aws:sagemaker:us-east-1:123456789012:notebook-instance/draft"
COMPUTE = "/subscriptions/0/resourceGroups/ml/providers/Microsoft.MachineLearningServices/workspaces/w/computes/gpu"
DEPLOYMENT = "/subscriptions/0/resourceGroups/ml/providers/Microsoft.MachineLearningServices/workspaces/w/onlineEndpoints/e/deployments/blue"
WARNED = a_record(
    idle_since=NOW - 9 * DAY, seen_idle_at=LATER, warned_at=SENT, to="jo@example.com", announced=AnnouncedAction.STOP
)
SCALED_IN = "it is scaling in: AllTraffic from 3 to 1; the autoscaling minimum was lowered first"
RESTORE = f"To undo this, ask your admins to run reaper restore {ID}"


@pytest.fixture(params=["memory:", "sqlite://{}/ledger.db"], ids=["memory", "SQLite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    opened = opening.open_ledger(request.param.format(tmp_path), {})
    opened.add_visit(replace(VISIT, sent_at=SENT, tz="Europe/Berlin"))
    yield opened
    opened.close()


def write(ledger: Ledger, record: Record, id: str = ID) -> None:
    assert ledger.write_record(id, record, ledger.record(id, NOW).version, NOW)


def begun(action: StepName = StepName.STOP, **fields: Any) -> Record:
    """The record once the action was begun."""
    return before_action(WARNED, an_act(action, LATER, **{"id": ID, "name": "churn", **fields}))


def done(action: StepName = StepName.STOP, because: str = SCALED_IN, part: str | None = None, **fields: Any) -> Record:
    """The record of an action that was carried out, and whose owner knows of it."""
    record = with_result(begun(action, **fields), Result.DONE, because, part)
    return replace(record, act=replace(record.act, notified_at=LATER))


def shown(ledger: Ledger, **request: Any) -> str:
    """The page in one line."""
    reply = look(ledger, **request)
    assert reply.status == 200
    return re.sub(r"\s+", " ", Page(reply.body.replace("<br>", " ")).text)


def boxes(reply: Reply) -> dict[str, bool]:
    """The boxes and whether each is ticked."""
    fields = [attrs for tag, attrs in Page(reply.body).tags if tag == "input" and attrs["name"] == "r"]
    return {str(attrs["value"]): "checked" in attrs for attrs in fields}


def test_before_an_action_the_page_is_as_it_was(ledger: Ledger):
    write(ledger, WARNED)
    text = shown(ledger)
    assert "Idle since Thu 12 Nov 2026, 11:17 Europe/Berlin (9 days), about $304 wasted" in text
    assert "It looks unused. If you still need it" in text
    assert "undo" not in text


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        pytest.param({}, f"Scaled in {ON}, from 3 instances to 1. {RESTORE}", id="scaled in"),
        pytest.param(
            {"because": "it is scaling in: a from 1 to 0", "part": "1 of 2 variants"},
            f"Partly scaled in {ON}, from 1 instance to 0 (1 of 2 variants). {RESTORE}",
            id="a part",
        ),
        pytest.param(
            {"action": StepName.DELETE, "because": "it is being deleted; its configuration from 3 to 1 stays"},
            f"Deleted {ON}",
            id="deleted",
        ),
        pytest.param(
            {"kind": "sagemaker-notebook", "id": NOTEBOOK, "name": "draft", "because": "it is stopping; its volume stays"},
            f"Stopped {ON}. To undo this: aws sagemaker start-notebook-instance --region us-east-1 --notebook-instance-name draft",
            id="an owner can undo it",
        ),
        pytest.param(
            {
                "kind": "azureml-online-deployment",
                "id": DEPLOYMENT,
                "name": "blue",
                "because": "scaling it from 3 instances to one has started; the next sweep checks the result",
            },
            f"Scaled to one instance {ON}, from 3 instances to 1. To undo this, ask your admins to run reaper restore",
            id="on Azure",
        ),
        pytest.param(
            {
                "kind": "azureml-compute-instance",
                "id": COMPUTE,
                "name": "gpu",
                "because": "its idle shutdown was switched on: it runs on until 60 minutes without use have passed",
            },
            f"Switched to its own idle shutdown {ON}. To undo this, ask your admins to run reaper restore {COMPUTE}",
            id="its own idle shutdown",
        ),
        pytest.param({"kind": "of-another-version"}, f"Stopped {ON}, from 3 instances to 1. {RESTORE}", id="an unknown kind"),
    ],
)
def test_what_was_done_is_said_with_its_undo(ledger: Ledger, fields: dict[str, Any], sentence: str):
    write(ledger, done(**fields))
    text = shown(ledger)
    assert sentence in text
    assert "was $33.79 a day" in text
    assert "Idle since" not in text
    assert "wasted" not in text


@pytest.mark.parametrize(
    ("record", "may_keep"),
    [
        pytest.param(done(), False, id="nothing follows"),
        pytest.param(done(part="1 of 2 variants"), True, id="the rest may follow"),
        pytest.param(done(StepName.DELETE), False, id="it is deleted"),
        pytest.param(replace(done(), notice=WARNED.notice), True, id="the mail about it announced more"),
        pytest.param(replace(done(), act=replace(done().act, notified_at=None)), True, id="its mail isn't out yet"),
        pytest.param(replace(done(), idle_since=NOW - HOUR), True, id="it is idle again"),
        pytest.param(begun(), True, id="it is under way, or was interrupted"),
    ],
)
def test_only_what_may_follow_can_be_kept(ledger: Ledger, record: Record, may_keep: bool):
    write(ledger, record)
    reply = look(ledger)
    assert ("<form" in reply.body, boxes(reply)) == (may_keep, {"1": False} if may_keep else {})
    assert ("Keep “churn”?" if may_keep else "Nothing is left to keep") in reply.body
    sent = send(ledger)
    assert sent.status == (200 if may_keep else 400)
    assert (ledger.snooze(ID, NOW).until == pages.snooze_end(NOW, 7)) is may_keep
    assert ("It was too late to keep this. Nothing was saved." in sent.body) is not may_keep
    assert ON in sent.body


def test_of_several_the_done_one_is_unticked_and_out_of_the_sum(ledger: Ledger):
    ledger.add_visit(replace(visit_of(3), id="three-mail-three-visit", sent_at=SENT, tz="Europe/Berlin"))
    token = sign_link("three-mail-three-visit", VISIT.expires, KEYS)
    for number, record in enumerate((done(), WARNED, replace(done(), notice=WARNED.notice)), 1):
        write(ledger, record, f"{ID}-{number}")
    text = shown(ledger, token=token)
    assert "Keep these 2 resources?" in text
    assert "They looked unused when the mail was sent. See below what has happened since." in text
    assert "costs $101 for the 1 preselected" in text
    assert boxes(look(ledger, token=token)) == {"2": True, "3": False}
    assert boxes(look(ledger, token=token, rows=[3])) == {"2": False, "3": False}, "its own link ticks no other"
    assert boxes(look(ledger, token=token, rows=[2])) == {"2": True, "3": False}
    reply = send(ledger, t=token, rows=[1, 2, 3])
    text = re.sub(r"\s+", " ", Page(reply.body).text)
    assert "2 resources are snoozed" in text
    assert text.count(f"Scaled in {ON}, from 3 instances to 1. To undo this") == 2
    assert "This had happened before, and stays as it is: churn-1" in text
    assert [ledger.snooze(f"{ID}-{n}", NOW).until is not None for n in (1, 2, 3)] == [False, True, True]
    assert boxes(send(ledger, t=token, rows=[3], days="0")) == {"2": False, "3": True}, "as it was sent"


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        pytest.param(begun(changes=(SideChange(what="m", before=2, ours=1),)), "May have been scaled in", id="no result"),
        pytest.param(closed_unknown(begun()), "May have been scaled in", id="closed"),
        pytest.param(closed_unknown(begun(StepName.DELETE)), "May have been deleted", id="a delete"),
    ],
)
def test_an_unknown_result_is_for_the_admins(ledger: Ledger, record: Record, sentence: str):
    write(ledger, record)
    text = shown(ledger)
    assert f"{sentence} {ON}; ask your admins" in text
    assert "undo" not in text
    assert "wasted" not in text


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(after_undo(done(), NOW - HOUR), id="restored"),
        pytest.param(replace(with_result(begun(), Result.REFUSED, "it was put back"), called_at=NOW - HOUR), id="put back"),
        pytest.param(
            replace(with_result(begun(StepName.START), Result.DONE, "it is starting"), called_at=NOW - HOUR),
            id="started again",
        ),
    ],
)
def test_what_was_undone_is_as_usual_but_counted_anew(ledger: Ledger, record: Record):
    write(ledger, record)
    text = shown(ledger)
    assert "Changed or restored on Sat 21 Nov 2026, 10:17 Europe/Berlin; its idle time counts from then" in text
    assert "Scaled in" not in text
    assert "costs $101" in text
    write(ledger, replace(record, idle_since=NOW - HOUR, seen_idle_at=NOW))
    assert "Idle since Sat 21 Nov 2026, 10:17 Europe/Berlin (1 hour), about $1.41 wasted" in shown(ledger)


def test_what_the_mail_itself_told_of_is_no_news(ledger: Ledger):
    act = an_act(StepName.STOP, SENT - HOUR, result=Result.DONE, notified_at=SENT)
    write(ledger, replace(WARNED, act=act, called_at=SENT - HOUR, idle_since=None))
    text = shown(ledger)
    assert "Scaled in" not in text
    assert "Idle since Thu 12 Nov 2026, 11:17 Europe/Berlin, as the mail says" in text


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (State.ACTIVE, f"In use again {ON}"),
        (State.YOUNG, f"Used or changed shortly before {ON.removeprefix('on ')}"),
        (State.EXEMPT, f"Stopped or kept, as seen {ON}"),
        (State.UNKNOWN, f"Since {ON.removeprefix('on ')}, its use isn't known"),
    ],
)
def test_what_is_not_idle_wastes_nothing(ledger: Ledger, state: State, sentence: str):
    write(ledger, replace(WARNED, state=state, state_at=LATER))
    text = shown(ledger)
    assert sentence in text
    assert "It looked unused when the mail was sent. See below what has happened since. If you still need it" in text
    assert "Idle since" not in text
    assert "wasted" not in text
    assert "costs $101" in text, "it still costs that to keep it"
    assert send(ledger).status == 200


def test_use_after_an_action_is_said_too(ledger: Ledger):
    write(ledger, replace(done(kind="sagemaker-notebook"), state=State.ACTIVE, state_at=NOW - HOUR))
    assert re.search(r"Stopped on Fri 20 Nov .* In use again on Sat 21 Nov 2026, 10:17 Europe/Berlin", shown(ledger))


def test_an_unreadable_record_protects_and_can_be_kept(ledger: Ledger, monkeypatch: pytest.MonkeyPatch):
    write(ledger, done())
    row_of = ledger.store.get_many

    def garbled(keys: Any) -> Any:
        return {
            key: replace(row, columns={"document": "x"}) if key.category == "record" else row for key, row in row_of(keys).items()
        }

    monkeypatch.setattr(ledger.store, "get_many", garbled)
    text = shown(ledger)
    assert "What has happened to it since the mail can't be read. Until it can, it is left alone." in text
    assert "wasted" not in text
    assert boxes(look(ledger)) == {"1": False}
    assert send(ledger).status == 200
    assert ledger.snooze(ID, NOW).until == pages.snooze_end(NOW, 7)
    assert send(ledger, do="disown").status == 503, "whom its last notice went to can't be read"


def test_a_hostile_name_in_an_action_stays_text(ledger: Ledger):
    write(ledger, done(kind="sagemaker-notebook", name="<script>alert(1)</script>", because="from 9 to 1<b>"))
    assert "<script>" not in look(ledger).body
    assert "&lt;script&gt;" in look(ledger).body
    write(ledger, done(name="\u202egnp", id=f"{ID}\n"))
    assert "To undo this" not in look(ledger).body, "no line that people paste"
