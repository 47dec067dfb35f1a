"""Whatever takes an action away between two sweeps uses up its notice: the next one comes first, with a full grace."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.fake_cloud import KIND, STARTABLE, FakeResource
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, policy
from fakes.records import changed
from reaper.ledger.ledger import update_record
from reaper.model import Mode, Pause, StepName
from reaper.pending import stop_switch
from reaper.record import Snooze

Change = Callable[[FakeDeployment, FakeResource], None]
ACCEPTED = "accept: [{{match: {{name: {name}}}, until: {until:%Y-%m-%d}, reason: a demo, by: Lee}}]\n"
CANARY = "enforce_only: {tags: {canary: here}}\n"
PRICED = "rules: [{name: costly, match: {usd_per_hour: '>= 100'}, action: ignore}]\n"


def deployed(host: str = "", text: str = POLICY) -> tuple[FakeDeployment, FakeResource]:
    """A thing of lee's that is idle, with its notice of a stop in three days."""
    deployment = FakeDeployment(policy=policy(text))
    deployment.cloud.kind_name = "sagemaker-inference-component" if host else KIND
    thing = deployment.cloud.add("churn", tags={"reaper:owner": "lee@example.com"}, host=host)
    assert step(deployment) is StepName.WARN
    return deployment, thing


def step(deployment: FakeDeployment, mode: Mode = Mode.ENFORCE, after: timedelta = timedelta()) -> StepName:
    deployment.now += after
    return finding_of(deployment.sweep(mode), "churn").step.name


def keep_until(deployment: FakeDeployment, thing: FakeResource) -> None:
    thing.tags = {**(thing.tags or {}), "Reaper:Keep-Until": f"{NOW + DAY:%Y-%m-%dT%H:%M:%S+00:00}"}


def accept(name: str) -> Change:
    def change(deployment: FakeDeployment, thing: FakeResource) -> None:
        deployment.policy = policy(POLICY + ACCEPTED.format(name=name, until=NOW + DAY))

    return change


def seen(tags: dict[str, str] | None = None, text: str = POLICY, mode: Mode = Mode.ENFORCE) -> Change:
    """One sweep a day later finds these tags and that policy; then all is as it was."""

    def change(deployment: FakeDeployment, thing: FakeResource) -> None:
        before, deployment.policy, own = deployment.policy, policy(text), thing.tags
        thing.tags = {**(own or {}), **(tags or {})}
        assert step(deployment, mode, DAY) is not StepName.STOP
        deployment.policy, thing.tags = before, own

    return change


def snoozed(name: str) -> Change:
    def change(deployment: FakeDeployment, thing: FakeResource) -> None:
        deployment.cloud.accounts.setdefault(name, thing.account)
        at, until = NOW + HOUR, NOW + DAY

        id_, given = deployment.cloud.id(name), Snooze(until=until, at=at, by="lee")
        deployment.ledger.write_snooze(id_, given, deployment.snooze(name).version, at)

    return change


def not_mine(deployment: FakeDeployment, thing: FakeResource) -> None:
    thing.tags = {"reaper:owner": "sam@example.com"}
    deployment.sweep(Mode.NOTIFY)
    thing.tags = {"reaper:owner": "lee@example.com"}


def notify_without_a_price(deployment: FakeDeployment, thing: FakeResource) -> None:
    thing.instance = "ml.unheard.of"
    seen({"reaper:action": "notify"}, text=POLICY + PRICED)(deployment, thing)
    thing.instance = "ml.g5.xlarge"


@pytest.mark.parametrize(
    ("change", "host"),
    [
        pytest.param(keep_until, "", id="a keep-until"),
        pytest.param(accept("churn"), "", id="an acceptance"),
        pytest.param(accept("house"), "house", id="an acceptance of its host"),
        pytest.param(snoozed("churn"), "", id="a snooze"),
        pytest.param(snoozed("house"), "house", id="a snooze of its host"),
        pytest.param(seen({"reaper:keep": "true"}), "", id="a keep, seen"),
        pytest.param(seen({"reaper:keep": "true"}, mode=Mode.NOTIFY), "", id="a keep, seen in notify"),
        pytest.param(seen({"reaper:kep": "true"}, mode=Mode.ANNOUNCE), "", id="a keep with a typo, seen in announce"),
        pytest.param(seen({"reaper:action": "ignore"}, mode=Mode.NOTIFY), "", id="ignore by tag"),
        pytest.param(seen(text=POLICY.replace("action: stop", "action: ignore"), mode=Mode.NOTIFY), "", id="ignore by rule"),
        pytest.param(seen({"reaper:action": "notify"}), "", id="notify by tag"),
        pytest.param(seen(text=POLICY.replace("action: stop", "action: notify")), "", id="notify by rule"),
        pytest.param(seen(text=POLICY + CANARY), "", id="out of the canary"),
        pytest.param(seen(text=POLICY + CANARY, mode=Mode.ANNOUNCE), "", id="out of the canary, in announce"),
        pytest.param(notify_without_a_price, "", id="notify by tag, under a rule in doubt"),
        pytest.param(not_mine, "", id="another owner for a day"),
    ],
)
def test_what_takes_an_action_away_between_sweeps_uses_up_its_notice(change: Change, host: str):
    deployment, thing = deployed(host)
    change(deployment, thing)
    deployment.now = max(deployment.now, NOW + 3 * DAY + HOUR)
    mails = len(deployment.channel.messages)
    first = step(deployment, after=HOUR)
    assert first is not StepName.STOP
    if first is StepName.WARN:
        assert "on or after" in deployment.channel.messages[mails].text
    assert step(deployment, after=2 * DAY) is StepName.NONE
    assert step(deployment, after=DAY + HOUR) is StepName.STOP


def denied(deployment: FakeDeployment, thing: FakeResource) -> None:
    thing.tags, own = None, thing.tags
    step(deployment, after=DAY)
    thing.tags = own


def partial(deployment: FakeDeployment, thing: FakeResource) -> None:
    thing.incomplete_replies = True
    step(deployment, after=DAY)
    thing.incomplete_replies = False


def blocked(deployment: FakeDeployment, thing: FakeResource) -> None:
    thing.blocked_because = "it is in a transition"
    step(deployment, after=DAY)
    thing.blocked_because = ""


def unpriced(deployment: FakeDeployment, thing: FakeResource) -> None:
    before, deployment.policy, thing.instance = deployment.policy, policy(POLICY + PRICED), "ml.unheard.of"
    step(deployment, after=DAY)
    deployment.policy, thing.instance = before, "ml.g5.xlarge"


def paused(deployment: FakeDeployment, thing: FakeResource) -> None:
    stop_switch.set_pause(deployment.ledger, Pause(until=NOW + 2 * DAY, by="lee"), deployment.now)
    step(deployment, after=DAY)


def held(deployment: FakeDeployment, thing: FakeResource) -> None:
    before, deployment.policy = deployment.policy, policy(POLICY.replace("max_acts: 20", "max_acts: 0"))
    assert step(deployment, after=3 * DAY) is StepName.HOLD
    deployment.policy = before


def longer(deployment: FakeDeployment, thing: FakeResource) -> None:
    before, deployment.policy = deployment.policy, policy(POLICY.replace("idle_after: 24h", "idle_after: 90d"))
    step(deployment, after=DAY)
    deployment.policy = before


@pytest.mark.parametrize(
    "change",
    [
        denied,
        partial,
        blocked,
        unpriced,
        paused,
        held,
        longer,
        *(seen(text=POLICY + CANARY, mode=m) for m in (Mode.NOTIFY, Mode.AUDIT)),
    ],
)
def test_what_merely_delays_or_hides_an_action_leaves_its_notice(change: Change):
    deployment, thing = deployed()
    change(deployment, thing)
    deployment.now = NOW + 3 * DAY
    assert step(deployment, after=HOUR) is StepName.STOP


def tagged_for_the_look(deployment: FakeDeployment, thing: FakeResource, tag: dict[str, str], number: int) -> None:
    """The next sweep withdraws its stop: the tag is there from that look at the resource until the sweep ends."""
    own, looks = dict(thing.tags or {}), count(1)

    def put(call: str, name: str) -> None:
        if call == "look" and next(looks) == number:
            thing.tags = {**own, **tag}

    deployment.cloud.before_call = put
    assert step(deployment) is StepName.STOP
    assert deployment.cloud.log == []
    deployment.cloud.before_call, thing.tags = lambda call, name: None, own


LOOKS = pytest.mark.parametrize("number", [1, 2, 3], ids=["first look", "end of the look", "permit"])


@LOOKS
@pytest.mark.parametrize("tag", [{"reaper:keep": "true"}, {"reaper:action": "notify"}], ids=["keep", "notify"])
def test_a_tag_that_only_a_look_before_an_action_saw_uses_up_its_notice(tag: dict[str, str], number: int):
    deployment, thing = deployed()
    deployment.now += 3 * DAY
    tagged_for_the_look(deployment, thing, tag, number)
    assert step(deployment, after=HOUR) is StepName.WARN
    assert step(deployment, after=3 * DAY) is StepName.STOP


@pytest.mark.parametrize("number", [2, 3])
def test_another_tag_that_a_look_before_an_action_saw_leaves_its_notice(number: int):
    deployment, thing = deployed()
    deployment.now += 3 * DAY
    tagged_for_the_look(deployment, thing, {"note": "mine"}, number)
    assert step(deployment, after=HOUR) is StepName.STOP
    assert [move for move, _, _ in deployment.cloud.log] == [StepName.STOP]


@LOOKS
def test_a_tag_that_only_a_look_saw_uses_up_an_enrolment(number: int):
    deployment = FakeDeployment(policy=policy(POLICY + OFFICE), now=MONDAY)
    deployment.cloud.kind_name = STARTABLE
    thing = deployment.cloud.add("churn", tags={"reaper:owner": "lee@example.com"})
    assert step(deployment) is StepName.WARN
    deployment.now += 2 * DAY + HOUR
    tagged_for_the_look(deployment, thing, {"reaper:keep": "true"}, number)
    assert [step(deployment, after=DAY) for _ in range(3)] == [StepName.NONE] * 3


def test_a_snooze_of_its_host_that_only_the_look_saw_uses_up_its_notice():
    deployment, thing = deployed("house")
    deployment.now += 3 * DAY

    def snooze(call: str, name: str) -> None:
        if call == "look":
            snoozed("house")(deployment, thing)

    deployment.cloud.before_call = snooze
    deployment.sweep()
    assert deployment.cloud.log == []
    assert deployment.record("churn").notice is None


OFFICE = """rules:
  - {name: nights, match: {name: "*"}, grace: 2d, action: stop, hours: {on: "mon-fri 07:00-19:00", tz: UTC, start: ours, force: true}}
"""
MONDAY = datetime(2026, 11, 16, 19, 30, tzinfo=UTC)


@pytest.mark.parametrize("accepted", [False, True])
@pytest.mark.parametrize("sees", [False, True])
def test_an_acceptance_that_ends_before_office_hours_uses_up_the_enrolment(accepted: bool, sees: bool):
    deployment = FakeDeployment(policy=policy(POLICY + OFFICE), now=MONDAY)
    deployment.cloud.kind_name = STARTABLE
    thing = deployment.cloud.add("churn", created=MONDAY - 60 * DAY, running_since=MONDAY - 60 * DAY)
    assert step(deployment) is StepName.WARN
    if accepted:
        deployment.policy = policy(POLICY + OFFICE + ACCEPTED.format(name="churn", until=MONDAY + 3 * DAY))
    if sees:
        step(deployment, after=2 * DAY)
    stopped: list[datetime] = []
    deployment.now = datetime(2026, 11, 20, tzinfo=UTC)
    for _ in range(3):
        deployment.now += HOUR
        thing.uses += [deployment.now - timedelta(minutes=minutes) for minutes in (65, 45, 25, 5)]
        deployment.sweep()
        stopped += [when for move, _, when in deployment.cloud.log if move is StepName.STOP]
    assert bool(stopped) is not accepted


@pytest.mark.parametrize("rules", ["", OFFICE], ids=["without office hours", "under office hours"])
def test_a_void_enrolment_keeps_no_notice_from_an_owner_in_notify(rules: str):
    deployment = FakeDeployment(policy=policy(POLICY + OFFICE), now=MONDAY)
    deployment.cloud.kind_name = STARTABLE
    deployment.cloud.add("churn", tags={"reaper:owner": "lee@example.com"})
    assert step(deployment) is StepName.WARN
    deployment.policy = policy(POLICY + rules)
    seen({"reaper:keep": "true"}, POLICY + rules, Mode.NOTIFY)(deployment, deployment.cloud.things["churn"])
    steps = [step(deployment, Mode.NOTIFY, DAY) for _ in range(14)]
    assert StepName.NONE in steps
    assert {StepName.WARN, StepName.REMIND} & set(steps)
    assert "on or after" not in deployment.channel.messages[-1].text


def used(deployment: FakeDeployment, thing: FakeResource) -> None:
    thing.uses.append(deployment.now + timedelta(minutes=30))
    step(deployment, after=DAY)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(seen({"reaper:keep": "true"}), id="a keep"),
        pytest.param(seen({"reaper:action": "notify"}), id="notify by tag"),
        pytest.param(seen({"reaper:owner": "sam@example.com"}), id="another owner"),
        pytest.param(seen(text=POLICY + CANARY), id="out of the canary"),
        pytest.param(used, id="use"),
    ],
)
@pytest.mark.parametrize("by", ["its row", "its notice"])
def test_what_uses_up_a_notice_counts_even_while_it_is_dated_ahead(change: Change, by: str):
    deployment, thing = deployed()
    ahead = {"reminders": 1} if by == "its row" else {"warned_at": NOW + 2 * DAY}
    update_record(deployment.ledger, deployment.cloud.id("churn"), lambda record: changed(record, **ahead), NOW + 2 * DAY)
    change(deployment, thing)
    assert deployment.record("churn").notice is None
    assert step(deployment, after=2 * HOUR) is StepName.NONE, "a clock is wrong: no date can be told until that is past"
    assert step(deployment, after=4 * DAY + HOUR) is StepName.WARN


def test_a_row_that_is_merely_dated_ahead_stays():
    deployment, _ = deployed()
    update_record(deployment.ledger, deployment.cloud.id("churn"), lambda record: changed(record, reminders=1), NOW + 2 * DAY)
    before = deployment.record("churn")
    assert step(deployment, after=DAY) is StepName.NONE
    assert deployment.record("churn") == before
