"""Cards for Slack and Teams: what they say, that they fit, and that a name can't do anything in them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fakes.builders import DAY, NOW, resource, rule
from fakes.fake_deployment import POLICY, FakeDeployment, policy
from fakes.mails import compose_summary, owner_notices
from fakes.sample_findings import finding, occasion, only, report
from fakes.sample_reports import hostile
from fakes.saved_money import save
from fakes.snooze_requests import KEYS
from reaper.case import Blocked
from reaper.cli import sample
from reaper.model import Mode, StepName
from reaper.notices.message import Message
from reaper.notices.render import card_payload
from reaper.snooze import links
from reaper.snooze.links import LinkSigner

SIGNER = LinkSigner(base="https://keep.example.com", keys=KEYS)
ROOM = {"has_room": True, "open_visit": partial(links.open_visit, SIGNER, NOW)}
SCHEMAS = {
    service: json.loads((Path(__file__).parent / name).read_text())
    for service, name in (("slack", "slack_message.json"), ("teams", "adaptive_card.json"))
}
SERVICES = pytest.mark.parametrize("service", list(SCHEMAS))
TOO_MANY_CHARACTERS, TOO_MANY_BYTES = 12_000, 28_000
MORE = "more; the report lists all"


def written(message: Message, service: str) -> dict[str, Any]:
    """The payload, which the service takes."""
    payload = card_payload(message, service)
    assert payload is not None
    jsonschema.validate(payload, SCHEMAS[service])
    if service == "teams":
        assert len(json.dumps(payload, ensure_ascii=False).encode()) < TOO_MANY_BYTES
    else:
        assert sum(len(block["text"]["text"]) for block in payload["blocks"]) < TOO_MANY_CHARACTERS
    return payload


def texts(payload: Any) -> list[str]:
    """Every text that a person reads, in order."""
    if isinstance(payload, list):
        return [text for part in payload for text in texts(part)]
    if not isinstance(payload, dict):
        return []
    own = [payload["text"]] if isinstance(payload.get("text"), str) and payload.get("type") else []
    return own + [text for key, part in payload.items() if key != "text" or isinstance(part, dict) for text in texts(part)]


def words(message: Message, service: str) -> str:
    return "\n".join(texts(written(message, service)))


def sample_mail() -> Message:
    return sample.sample_message("dana@example.com", NOW)


def summary() -> Message:
    return compose_summary(report(*(finding(f"churn-{n}", address="dana@example.com") for n in range(3))), occasion())


def take_back() -> Message:
    deployment = FakeDeployment()
    deployment.cloud.add("churn", tags={"owner": "jo@example.com"})
    deployment.sweep()
    deployment.cloud.things["churn"].uses.append(deployment.now - DAY / 8)
    deployment.now += DAY / 24
    deployment.sweep()
    return only([m for m in deployment.channel.messages if m.subject.startswith("Correction")])


def monthly() -> Message:
    deployment = FakeDeployment(policy=policy(f"{POLICY}notices: {{monthly: true}}"), now=NOW)
    deployment.cloud.add("churn", tags={"owner": "jo@example.com"})
    deployment.sweep(Mode.NOTIFY)
    save(deployment.ledger, NOW, DAY, 30.0, name="ranker")
    deployment.now += 15 * DAY
    deployment.sweep(Mode.NOTIFY)
    return only([m for m in deployment.channel.messages if "month" in m.attributes])


@SERVICES
@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(
            sample_mail,
            [
                "[Sample] 3 idle ML resources cost $189 a day; nothing will be stopped",
                "Everything in it is made up",
                "Owner: dana@example.com. $1,241 wasted since Thu 12 Nov.",
                "churn-scoring",
                "SageMaker endpoint, ml.g5.4xlarge x2, us-east-1, account 123456789012",
                "Evidence: no activity in Invocations for 9 days 4 hours, while CPUUtilization reported every hour",
                "Evidence (indirect): running for 4 days, no job since",
                "Cost: $97.44 a day, $893 wasted since Thu 12 Nov",
                "Next: It will be scaled in on or after Tue 24 Nov 2026, 10:17 UTC unless it is used or kept before then.",
                "add the tag reaper:keep-until=2026-11-28",
            ],
            id="owner",
        ),
        pytest.param(
            summary,
            [
                "3 idle ML resources cost $4,380 a month",
                "$1,296 wasted since Thu 12 Nov.",
                "churn-0",
                "Evidence: no activity in Invocations",
                "Cost: $1,460 a month, $432 wasted since Thu 12 Nov",
                "Run r1, notify mode.",
            ],
            id="summary",
        ),
        pytest.param(
            take_back, ["Correction: churn was used on ", "Owner: jo@example.com.", "no longer counts."], id="take-back"
        ),
        pytest.param(monthly, ["November 2026: $720 saved", "actions saved $720", "What comes next: If enforced"], id="monthly"),
    ],
)
def test_a_card_says_what_its_mail_says(make: Any, said: list[str], service: str):
    shown = words(make(), service)
    assert [sentence for sentence in said if sentence not in shown] == []


@SERVICES
def test_what_waits_for_admins_comes_first(service: str):
    held = finding("held", move=StepName.HOLD)
    held = replace(held, step=replace(held.step, because="would stop, but is on hold because 21 actions exceed max_acts: 20"))
    message = compose_summary(report(finding("dear", usd=90.0), held), occasion(), failures=["channel ses: refused"])
    shown = words(message, service)
    assert shown.index("channel ses: refused") < shown.index("held") < shown.index("dear")
    assert "Would stop, but is on hold because 21 actions exceed max_acts: 20." in shown


HOSTILE = [
    pytest.param("<!channel> @here <@U1> <at>all</at>", id="mentions"),
    pytest.param("*bold* _it_ ~no~ `code` **x**", id="formats"),
    pytest.param("[x](javascript:alert) <http://evil.example|Keep it> &lt;!here&gt;", id="links"),
    pytest.param("\u202egpj.exe\u2066 \u200f", id="RTL"),
    pytest.param("x" * 3001, id="3,001 characters"),
    pytest.param("<&>" * 40 + "*" * 40, id="all escaped"),
    pytest.param("\U0001f480" * 120, id="emoji"),
]


@SERVICES
@pytest.mark.parametrize("text", HOSTILE)
def test_other_peoples_words_do_nothing_in_a_card(text: str, service: str):
    thing = resource(id=f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/{text}", name=text, size=text)
    notice = only(owner_notices([finding(resource=thing, because=text, rule=rule(name=text))], occasion(**ROOM)))
    for message in (notice, compose_summary(hostile(text), occasion(), failures=[text])):
        payload = written(message, service)
        whole = json.dumps(payload, ensure_ascii=False)
        assert not re.search(r"(?<!\w)@here|<[!@a/]|\]\(|[\u202e\u2066\u200f]", whole)
        if service == "slack":
            sections = "\n".join(texts(payload["blocks"][1:]))
            in_brackets = re.findall(r"<([^>]*)>", sections)
            assert {link.partition("?")[0] for link in in_brackets} <= {"https://keep.example.com/keep"}
            unlinked = re.sub(r"<[^>]*>", "", sections)  # a token may have any letters
            own_bold = re.sub(r"^\*[^\n]*?\*(?=$|:)", "", unlinked, flags=re.MULTILINE)
            assert not re.search(r"(?<![\w\u2060])[*_~`]\w", own_bold)


@SERVICES
@pytest.mark.parametrize("text", HOSTILE)
def test_an_owners_card_leaves_no_resource_out(text: str, service: str):
    """A notice counts for each of its resources, however long their names are."""
    blocked = Blocked(because=text)
    made = [
        finding(
            resource=resource(id=f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/n{n}", name=f"n{n}-{text}"),
            because=text,
            acts={StepName.STOP: blocked, StepName.DELETE: blocked} if n % 2 else {StepName.STOP: None, StepName.DELETE: None},
        )
        for n in range(51)
    ]
    messages = owner_notices(made, occasion(**ROOM))
    for message in messages:
        shown = words(message, service)
        names = {resource_id.rpartition("/")[2] for resource_id in message.resource_ids}
        assert {name for name in names if f"{name}-" not in shown} == set()
        assert MORE not in shown
        dates = shown.count("on or after Tue 24 Nov 2026, 10:17 UTC")
        assert dates >= sum(int(name[1:]) % 2 == 0 for name in names)
    assert sum(len(message.resource_ids) for message in messages) == 51


@SERVICES
def test_admins_read_how_many_resources_their_card_leaves_out(service: str):
    made = [finding(f"churn-{n}", address="dana@example.com", because="y" * 290) for n in range(51)]
    shown = words(compose_summary(report(*made), occasion()), service)
    [left_out] = re.findall(rf"and (\d+) {MORE}", shown)
    assert int(left_out) + len(set(re.findall(r"churn-\d+", shown))) == 51


@SERVICES
def test_a_card_has_one_link_at_most_which_is_the_rooms(service: str):
    notice = only(owner_notices([finding("a"), finding("b")], occasion(**ROOM)))
    payload = json.dumps(written(notice, service))
    assert notice.visit is not None
    assert notice.card.visit is not None
    assert payload.count("https://") == 1
    assert payload.count(str(notice.card.keep)) == 1
    assert notice.visit.id not in payload
    assert [each.id for each in notice.card.visit.resources] == [each.id for each in notice.visit.resources]
    without = only(owner_notices([finding("a")], occasion(open_visit=ROOM["open_visit"])))
    assert "https://" not in json.dumps(written(without, service))
