"""Phase 4: each mail once, what changed since the decision is dropped, and outcomes are always reported."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR
from fakes.failing_ledger import FailingLedger
from fakes.fake_cloud import DENIED, STARTABLE
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, policy
from fakes.records import changed
from reaper.act import act
from reaper.conclude import conclude, leases_of
from reaper.decide import decide
from reaper.errors import CloudError, Reason
from reaper.finding import Outcome, Report
from reaper.handover import Acted, Decided, Observed
from reaper.ledger.ledger import RunLeases
from reaper.model import AnnouncedAction, Mode, Result, StepName
from reaper.notices.message import Audience
from reaper.observe import observe
from reaper.record import Notice, Record, Snooze, Snoozes
from reaper.report import json
from reaper.run import OpenRun

HOURS = '\nrules: [{name: office, hours: {on: "mon-fri 07:00-21:00", tz: UTC}}]'


@dataclass(frozen=True, kw_only=True)
class Phases:
    """One run up to conclude, which can be run as often as a test likes."""

    opened: OpenRun
    observed: Observed
    decided: Decided
    acted: Sequence[Acted] = ()

    def conclude(self, **fields: Any) -> Report:
        """The report of concluding the run."""
        acted = fields.get("acted", self.acted)
        return conclude([self.observed], fields.get("decided", self.decided), acted, self.opened.conclude)


def phases(deployment: FakeDeployment, mode: Mode = Mode.ENFORCE) -> Phases:
    """The next run, observed, decided and acted on."""
    opened = deployment.open_run(mode)
    observed = observe(opened.run, next(iter(opened.observe)), opened.run.started_at)
    decided = decide([observed], opened.decide)
    acted = []
    for target in decided.leased if mode.acts else ():
        leases = RunLeases(
            ledger=deployment.ledger,
            run_id=opened.run.id,
            clock=opened.conclude.clock,
            renewed_at=deployment.now,
            targets={target},
        )
        acted.append(act(decided.for_target(target), deployment.open_act(target, leases)))
    return Phases(opened=opened, observed=observed, decided=decided, acted=acted)


@pytest.fixture
def deployment() -> FakeDeployment:
    """One idle resource whose owner has no notice yet, in a ledger whose calls can be watched."""
    deployment = FakeDeployment(ledger=FailingLedger())
    deployment.cloud.add("churn", tags={"owner": "jo@example.com"})
    return deployment


def due(deployment: FakeDeployment) -> FakeDeployment:
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.channel.messages.clear()
    return deployment


def to_owner(deployment: FakeDeployment) -> list[str]:
    return [m.subject for m in deployment.channel.messages if m.audience is Audience.OWNERS]


def to_admins(deployment: FakeDeployment) -> list[str]:
    return [m.subject for m in deployment.channel.messages if m.audience is Audience.ADMINS]


def notice_gaps(report: Report) -> list[str | None]:
    return [row.error for row in report.coverage if row.kind == "notices"]


def write(deployment: FakeDeployment, **fields: Any) -> None:
    """Another run's write to the row, or a person's to its snooze."""
    id_, ledger, now, record = deployment.cloud.id("churn"), deployment.ledger, deployment.now, deployment.record("churn")
    new, snoozes = changed((record, Snoozes(own=deployment.snooze("churn"))), **fields)
    is_snooze = snoozes.own != deployment.snooze("churn")
    assert is_snooze or ledger.write_record(id_, new, record.version, now)
    assert not is_snooze or ledger.write_snooze(id_, snoozes.own, snoozes.own.version, now)


def writes_during(deployment: FakeDeployment, step: Callable[[], object]) -> list[str]:
    """The ids of the rows that it writes."""
    written: list[str] = []
    assert isinstance(deployment.ledger, FailingLedger)
    deployment.ledger.fail_on = lambda call, id_: written.append(id_) if call == "remembered" else None
    step()
    deployment.ledger.fail_on = lambda call, id_: None
    return written


def test_the_report_carries_the_tag_keys_of_its_policy(deployment: FakeDeployment):
    deployment.policy = policy(f"{POLICY}\nreport: {{tags: team}}")
    run_report = phases(deployment).conclude()
    assert run_report.run.report_tags == ("team",)
    assert json.report_json(run_report)["run"]["report_tags"] == ["team"]


def test_a_notice_is_sent_and_written_once_by_two_concludes(deployment: FakeDeployment):
    run = phases(deployment)
    first = run.conclude()
    record, mails = deployment.record("churn"), len(deployment.channel.messages)
    assert (finding_of(first, "churn").outcome.result, record.notice.warned_at, mails) == (Result.DONE, deployment.now, 2)
    deployment.now += HOUR
    assert writes_during(deployment, run.conclude) == []
    assert (deployment.record("churn"), len(deployment.channel.messages)) == (record, mails)


def test_two_concludes_send_the_mail_about_an_action_once(deployment: FakeDeployment):
    run = phases(due(deployment))
    report = run.conclude()
    record, mails = deployment.record("churn"), len(deployment.channel.messages)
    assert (finding_of(report, "churn").outcome.result, record.act.notified_at, mails) == (Result.DONE, deployment.now, 2)
    deployment.now += HOUR
    assert writes_during(deployment, run.conclude) == []
    assert (deployment.record("churn"), len(deployment.channel.messages)) == (record, mails)


@pytest.mark.parametrize("at", ["remember", "remembered"], ids=["failed", "lost its reply"])
def test_a_second_conclude_does_not_repeat_a_mail_if_its_write_failed(deployment: FakeDeployment, at: str):
    run, failed = phases(due(deployment)), list[str]()
    assert isinstance(deployment.ledger, FailingLedger)

    def fail_once(call: str, id_: str) -> None:
        if call == at and not failed:
            failed.append(call)
            raise CloudError(Reason.UNREACHABLE, "dynamodb:PutItem", "no answer")

    deployment.ledger.fail_on = fail_once
    run.conclude()
    assert (failed, len(to_owner(deployment))) == ([at], 1)
    run.conclude()
    assert len(to_owner(deployment)) == 1


def test_a_summary_of_office_hours_is_sent_once_by_two_concludes(deployment: FakeDeployment):
    deployment.cloud.kind_name = STARTABLE
    deployment.policy = policy(POLICY.replace("grace: 3d", "grace: 1h") + HOURS)
    deployment.sweep()
    deployment.now += 7 * DAY
    deployment.cloud.things["churn"].running_since = deployment.now - 5 * DAY
    deployment.channel.messages.clear()
    run = phases(deployment)
    assert run.decided.findings[0].needs_summary
    run.conclude()
    assert len(to_owner(deployment)) == 1
    run.conclude()
    assert len(to_owner(deployment)) == 1


def test_two_concludes_report_an_earlier_action_once_after_a_later_one(deployment: FakeDeployment):
    due(deployment).channel.is_closed = True
    deployment.sweep()
    deployment.channel.is_closed = False
    churn = deployment.cloud.things["churn"]
    churn.running_since, churn.changed = deployment.now - 40 * DAY, None
    deployment.now += 9 * DAY
    notice = Notice(warned_at=deployment.now - 4 * DAY, to="jo@example.com", action=AnnouncedAction.STOP)
    record = deployment.record("churn")
    assert deployment.ledger.write_record(
        deployment.cloud.id("churn"), replace(record, notice=notice), record.version, deployment.now
    )
    run = phases(deployment)
    run.conclude()
    assert len(to_owner(deployment)) == 2, "one about the action of this run, one about that of the earlier run"
    run.conclude()
    assert len(to_owner(deployment)) == 2


def test_no_summary_goes_to_whom_it_is_not_any_more(deployment: FakeDeployment):
    deployment.cloud.kind_name = STARTABLE
    deployment.policy = policy(POLICY.replace("grace: 3d", "grace: 1h") + HOURS)
    deployment.sweep()
    deployment.now += 7 * DAY
    deployment.cloud.things["churn"].running_since = deployment.now - 5 * DAY
    deployment.channel.messages.clear()
    run = phases(deployment)
    assert run.decided.findings[0].needs_summary
    said = Snooze(disowned_by="jo@example.com", disowned_at=deployment.now)
    assert deployment.ledger.write_snooze(deployment.cloud.id("churn"), said, 0, deployment.now)
    run.conclude()
    assert to_owner(deployment) == []


def test_an_odd_text_in_a_reply_ends_neither_the_action_nor_the_run(deployment: FakeDeployment):
    def odd(call: str, name: str) -> None:
        if call == "carry":
            raise CloudError(Reason.UNREACHABLE, call, "half a pair: \ud800")

    due(deployment).cloud.fail_on = odd
    finding = finding_of(deployment.sweep(), "churn")
    assert (finding.outcome.result, finding.outcome.begun) == (Result.FAILED, True)
    assert deployment.record("churn").act.result is Result.FAILED
    assert len(to_owner(deployment)) == 1


def test_two_concludes_report_an_earlier_runs_action_once(deployment: FakeDeployment):
    due(deployment).channel.is_closed = True
    deployment.sweep()
    deployment.channel.is_closed = False
    del deployment.cloud.things["churn"]
    run = phases(deployment)
    assert [each.act.id for each in run.decided.unreported] == [deployment.cloud.id("churn")]
    run.conclude()
    assert len(to_owner(deployment)) == 1
    run.conclude()
    assert len(to_owner(deployment)) == 1


@pytest.mark.parametrize(
    ("fields", "because"),
    [
        pytest.param({"snoozed_by": "jo@example.com"}, "snoozed until 2026-11-22 10:17 UTC by jo@example.com", id="snoozed"),
        pytest.param({"idle_since": None}, "its ledger record changed since this was decided", id="changed"),
    ],
)
def test_what_changed_between_decide_and_conclude_gets_no_mail(deployment: FakeDeployment, fields: dict[str, Any], because: str):
    run = phases(deployment)
    until = {"snoozed_until": deployment.now + DAY, "snoozed_at": deployment.now} if "snoozed_by" in fields else {}
    write(deployment, **fields, **until)
    before = deployment.record("churn")
    finding = finding_of(run.conclude(), "churn")
    assert (finding.step.name, to_owner(deployment)) == (StepName.NONE, [])
    assert "snoozed_by" in fields or deployment.record("churn") == before
    assert because in finding.step.because


def test_a_snooze_between_two_mails_drops_the_second(deployment: FakeDeployment):
    deployment.cloud.add("other", tags={"owner": "zoe@example.com"})
    run = phases(deployment)

    def snooze_the_other(message: object) -> None:
        snooze = Snooze(until=deployment.now + DAY, at=deployment.now, by="zoe")
        if not deployment.snooze("other").until:
            assert deployment.ledger.write_snooze(deployment.cloud.id("other"), snooze, 0, deployment.now)

    deployment.channel.on_message = snooze_the_other
    report = run.conclude()
    assert [m.to for m in deployment.channel.messages if m.audience is Audience.OWNERS] == ["jo@example.com"]
    assert finding_of(report, "other").step.name is StepName.NONE


def test_a_message_about_two_drops_the_one_that_changed(deployment: FakeDeployment):
    deployment.cloud.add("other", tags={"owner": "jo@example.com"})
    run = phases(deployment)
    assert isinstance(deployment.ledger, FailingLedger)
    recalls: list[str] = []

    def snooze_before_the_mail(call: str, id_: str) -> None:
        recalls.extend([call] * (call == "recall"))
        if call == "recall" and len(recalls) == 2:
            deployment.ledger.write_snooze(
                deployment.cloud.id("other"),
                Snooze(until=deployment.now + DAY, at=deployment.now),
                0,
                deployment.now,
            )

    deployment.ledger.fail_on = snooze_before_the_mail
    run.conclude()
    [message] = [m for m in deployment.channel.messages if m.audience is Audience.OWNERS]
    assert message.resource_ids == (deployment.cloud.id("churn"),)
    assert deployment.record("other").notice is None


def test_without_its_lease_a_run_reports_outcomes_but_sends_no_notices(deployment: FakeDeployment):
    due(deployment).cloud.add("new", tags={"owner": "jo@example.com"})
    run = phases(deployment)
    deployment.now += HOUR
    assert deployment.ledger.take_lease(run.decided.leased[0], "another run", deployment.now, DAY)
    report = run.conclude()
    [message] = [m for m in deployment.channel.messages if m.audience is Audience.OWNERS]
    assert message.resource_ids == (deployment.cloud.id("churn"),)
    assert "another sweep has taken over" in (finding_of(report, "new").outcome.error or "")
    assert notice_gaps(report) == ["1 notice not sent: another sweep has taken over this target"]


def test_notices_without_an_allowed_address_are_a_row_of_the_coverage(deployment: FakeDeployment):
    deployment.policy = policy(re.sub(r"owners: .*", "owners: {domains: [elsewhere.org]}", POLICY))
    deployment.cloud.add("second", tags={"owner": "sam@example.com"})
    report = deployment.sweep()
    assert finding_of(report, "churn").outcome.result is Result.FAILED
    assert notice_gaps(report) == ["2 notices without an allowed address: set owners.fallback, or add a domain to owners.domains"]


@pytest.mark.parametrize(
    ("intent", "result", "begun"),
    [
        pytest.param({"result": Result.DONE, "because": "it was stopped"}, Result.DONE, True, id="done"),
        pytest.param({}, Result.FAILED, True, id="not known"),
        pytest.param({"run": "another"}, Result.REFUSED, False, id="not begun"),
    ],
)
def test_without_an_outcome_the_intent_says_what_became_of_it(
    deployment: FakeDeployment, intent: dict, result: Result, begun: bool
):
    run = phases(due(deployment), Mode.ENFORCE)
    stored = deployment.record("churn")
    fields = {"result": None, "because": None, "notified_at": None, **intent}
    assert deployment.ledger.write_record(deployment.cloud.id("churn"), changed(stored, **fields), stored.version, deployment.now)
    outcome: Outcome = finding_of(run.conclude(acted=()), "churn").outcome
    assert (outcome.result, outcome.begun) == (result, begun)


def test_the_leases_are_given_back(deployment: FakeDeployment):
    run = phases(deployment)
    assert not deployment.ledger.take_lease(run.decided.leased[0], "another run", deployment.now, DAY)
    run.conclude()
    assert deployment.ledger.take_lease(run.decided.leased[0], "another run", deployment.now, DAY)


def test_the_leases_are_given_back_if_concluding_breaks_off(deployment: FakeDeployment):
    run = phases(deployment)

    def end(message: object) -> None:
        raise MemoryError

    deployment.channel.on_message = end
    with pytest.raises(MemoryError):
        run.conclude()
    assert deployment.ledger.take_lease(run.decided.leased[0], "another run", deployment.now, DAY)


def test_a_summary_older_than_the_last_one_is_not_sent(deployment: FakeDeployment):
    def deny(call: str, name: str) -> None:
        if call == "list":
            raise DENIED

    older = phases(deployment)
    deployment.cloud.fail_on = deny
    gap = phases(deployment).observed.coverage
    deployment.cloud.fail_on = lambda call, name: None
    older = replace(older, observed=replace(older.observed, coverage=gap))
    deployment.now += HOUR
    deployment.ledger.give_back_lease(older.decided.leased[0], older.opened.run.id)
    phases(deployment).conclude()
    deployment.channel.messages.clear()
    older.conclude()
    assert to_admins(deployment) == []


def test_an_older_summary_with_actions_is_still_sent(deployment: FakeDeployment):
    older = phases(due(deployment))
    deployment.now += HOUR
    deployment.ledger.give_back_lease(older.decided.leased[0], older.opened.run.id)
    phases(deployment).conclude()
    deployment.channel.messages.clear()
    older.conclude()
    assert ["1 action taken" in subject for subject in to_admins(deployment)] == [True]


def test_a_summary_of_other_places_is_still_sent(deployment: FakeDeployment):
    older = phases(deployment)
    row = replace(older.observed.coverage[0], region="eu-west-1")
    older = replace(older, observed=replace(older.observed, coverage=(row,)))
    deployment.now += HOUR
    deployment.ledger.give_back_lease(older.decided.leased[0], older.opened.run.id)
    del deployment.cloud.things["churn"]
    deployment.cloud.add("another")
    phases(deployment).conclude()
    deployment.channel.messages.clear()
    older.conclude()
    assert len(to_admins(deployment)) == 1


def test_a_summary_of_a_wrong_clock_silences_no_later_one(deployment: FakeDeployment):
    deployment.now += 365 * DAY
    deployment.sweep()
    deployment.now -= 364 * DAY
    deployment.channel.messages.clear()
    deployment.cloud.add("second")
    deployment.sweep()
    assert len(to_admins(deployment)) == 1


@pytest.mark.parametrize("reads", [2, 3])
def test_without_memories_no_notice_is_sent_and_none_counts(deployment: FakeDeployment, reads: int):
    deployment.sweep()
    deployment.now += 7 * DAY
    deployment.channel.messages.clear()
    before, deployment.policy = deployment.record("churn"), policy(POLICY.replace("grace: 3d", "grace: 20d"))
    deployment.cloud.add("second", tags={"owner": "jo@example.com"})
    count = 0

    def fail(call: str, resource_id: str) -> None:
        nonlocal count
        count += call == "recall"
        if call == "recall" and count == reads:
            raise DENIED

    deployment.ledger.fail_on = fail  # type: ignore[attr-defined]
    report = deployment.sweep()
    deployment.ledger.fail_on = lambda call, resource_id: None  # type: ignore[attr-defined]
    finding = finding_of(report, "churn")
    assert (finding.step.name, finding.outcome.result) == (StepName.REMIND, Result.FAILED)
    assert to_owner(deployment) == []
    assert deployment.record("churn").notice.reminded_at == before.notice.reminded_at
    assert deployment.record("second").notice is None
    assert (deployment.record("second") == Record()) is (reads == 2), "what was not recalled is not written"
    assert [row.kind for row in report.coverage if row.error] == ["ledger"]


@pytest.mark.parametrize("held", [True, False], ids=["on hold", "denied"])
def test_the_weekly_summary_is_sent_whatever_becomes_of_the_stop(deployment: FakeDeployment, held: bool):
    limits = f"limits: {{max_acts: 20, max_share: 100%, max_usd_per_hour: 1000, max_scheduled: {0 if held else 20}}}"
    hours = 'hours: {on: "mon-sun 07:00-19:00", tz: UTC, start: ours}'
    deployment.cloud.kind_name = STARTABLE
    deployment.policy = policy(f"""
version: 1
defaults: {{action: stop, idle_after: 2h, grace: 1d, remind_every: 7d}}
{limits}
owners: {{domains: [example.com], fallback: ml-admins@example.com}}
rules: [{{name: hours, match: {{name: "*"}}, action: stop, {hours}}}]
""")
    deployment.now = deployment.now.replace(hour=22)
    churn = deployment.cloud.things["churn"]

    def deny(call: str, name: str) -> None:
        if call == "carry":
            raise DENIED

    deployment.cloud.fail_on = deny
    subjects = []
    for _ in range(16):
        churn.uses = [deployment.now - 6 * HOUR - day * DAY for day in range(20)]
        deployment.channel.messages.clear()
        deployment.sweep()
        subjects.append(to_owner(deployment))
        deployment.now += DAY
    summaries = [day for day, sent in enumerate(subjects) if any(s.startswith("Weekly summary") for s in sent)]
    assert summaries == [7, 14]


def test_a_lease_that_cannot_be_prolonged_is_a_row_of_the_coverage(deployment: FakeDeployment):
    due(deployment)
    opened = deployment.open_run(Mode.ENFORCE)
    observed = observe(opened.run, next(iter(opened.observe)), opened.run.started_at)
    decided = decide([observed], opened.decide)
    leases = leases_of(decided, opened.conclude.ledger, opened.conclude.clock)
    assert leases is not None

    def fail(call: str, resource_id: str) -> None:
        if call == "lease":
            raise DENIED

    deployment.ledger.fail_on = fail  # type: ignore[attr-defined]
    [target] = decided.leased
    acted = act(decided.for_target(target), deployment.open_act(target, leases))
    assert [outcome.result for outcome in acted.outcomes.values()] == [Result.REFUSED]
    assert [row.kind for row in acted.coverage] == ["ledger"]
    assert deployment.cloud.log == []


def test_a_repeated_act_leaves_the_outcome_of_the_first(deployment: FakeDeployment):
    run = phases(due(deployment))
    [target] = run.decided.leased
    leases = leases_of(run.decided, run.opened.conclude.ledger, run.opened.conclude.clock)
    assert leases is not None
    again = act(run.decided.for_target(target), deployment.open_act(target, leases))
    report = run.conclude(acted=[again])
    finding = finding_of(report, "churn")
    assert (finding.outcome.result, finding.outcome.begun, finding.outcome.already_done) == (Result.DONE, True, False)
    assert len(deployment.cloud.log) == 1
    assert any("was scaled in" in subject for subject in to_owner(deployment))


def test_a_failure_while_the_findings_are_joined_gives_the_leases_back(deployment: FakeDeployment):
    run = phases(deployment)
    broken = replace(run, acted=[None])  # type: ignore[list-item]
    with pytest.raises(AttributeError):
        broken.conclude()
    assert deployment.ledger.take_lease(run.decided.leased[0], "another run", deployment.now, DAY)


def test_a_host_snoozed_since_the_decision_silences_what_lives_in_it(deployment: FakeDeployment):
    deployment.cloud.add("inner", host="churn", tags={"owner": "fay@example.com"})
    run = phases(deployment)
    write(deployment, snoozed_until=deployment.now + DAY, snoozed_at=deployment.now)
    report = run.conclude()
    assert "its host is snoozed until" in finding_of(report, "inner").step.because
    assert to_owner(deployment) == []


# --- two runs on one ledger: the first stalls past its lease, and a second one tells the owners meanwhile

OWNERS = ("ana", "bo", "cy", "dee")


@pytest.fixture
def owned() -> FakeDeployment:
    """Four resources of four owners, each warned three days ago."""
    deployment = FakeDeployment(ledger=FailingLedger())
    for name in OWNERS:
        deployment.cloud.add(name, tags={"owner": f"{name}@example.com"})
    return due(deployment)


def mails(deployment: FakeDeployment) -> dict[str, int]:
    """How many mails each owner got."""
    to = [m.to.partition("@")[0] for m in deployment.channel.messages if m.audience is Audience.OWNERS]
    return {name: to.count(name) for name in OWNERS}


def stall_at(deployment: FakeDeployment, read: int, meanwhile: Callable[[], object]) -> None:
    """From now on the ledger's recalled are read so many times before the run stalls for an hour. Only then is the last one read."""
    reads = 0

    def stall(call: str, _: str) -> None:
        nonlocal reads
        reads += call == "recall"
        if reads == read:
            deployment.ledger.fail_on = lambda call, id: None  # type: ignore[attr-defined]
            deployment.now += HOUR
            meanwhile()

    deployment.ledger.fail_on = stall  # type: ignore[attr-defined]


def begin_another_action(deployment: FakeDeployment) -> None:
    """Every row gets the intent of a later run, and loses this one's."""
    for name in OWNERS:
        record = deployment.record(name)
        begun = changed(record, acted=StepName.START, run="run-9", notified_at=None)
        assert deployment.ledger.write_record(deployment.cloud.id(name), begun, record.version, deployment.now)


@pytest.mark.parametrize("read", [2, 3, 5], ids=["before its first mail", "before its second", "before its last"])
def test_a_run_that_stalls_repeats_no_mail_of_its_successor(owned: FakeDeployment, read: int):
    run = phases(owned)
    stall_at(owned, read, owned.sweep)
    report = run.conclude()
    assert mails(owned) == dict.fromkeys(OWNERS, 1)
    assert {finding_of(report, name).outcome.result for name in OWNERS} == {Result.DONE}
    assert len(owned.cloud.log) == len(OWNERS)


def test_a_mail_is_not_repeated_once_its_row_has_another_action(owned: FakeDeployment):
    run = phases(owned)
    stall_at(owned, 2, lambda: (owned.sweep(), begin_another_action(owned)))
    run.conclude()
    assert mails(owned) == dict.fromkeys(OWNERS, 1)


def test_a_run_that_stalls_still_tells_what_was_not_told(owned: FakeDeployment):
    def sweep_in_vain() -> None:
        owned.channel.is_closed = True
        owned.sweep()
        owned.channel.is_closed = False

    run = phases(owned)
    stall_at(owned, 2, sweep_in_vain)
    run.conclude()
    assert mails(owned) == dict.fromkeys(OWNERS, 1)


def test_an_outcome_is_told_although_its_row_has_another_action(owned: FakeDeployment):
    run = phases(owned)
    stall_at(owned, 2, lambda: begin_another_action(owned))
    run.conclude()
    assert mails(owned) == dict.fromkeys(OWNERS, 1)


def test_an_earlier_runs_outcome_is_not_repeated_after_a_stall_either(owned: FakeDeployment):
    phases(owned)  # its conclude never runs
    owned.now += HOUR
    run = phases(owned)
    assert len(run.decided.unreported) == len(OWNERS)
    stall_at(owned, 2, owned.sweep)
    run.conclude()
    assert mails(owned) == dict.fromkeys(OWNERS, 1)


# --- what a later sweep writes


@pytest.mark.parametrize("quicker", [0.0, 0.5, 50.0], ids=["as quick", "half a second", "almost a minute"])
def test_a_later_sweep_rewrites_no_idle_row_whose_notice_is_not_due(deployment: FakeDeployment, quicker: float):
    deployment.cloud.add("used-once", tags={"owner": "fay@example.com"}, uses=[deployment.now - 2 * DAY])

    def sweep(seconds: float) -> list[str]:
        """One that reads for so long; the rows that it writes."""
        end = deployment.now + timedelta(seconds=seconds)
        deployment.cloud.fail_on = lambda call, name: setattr(deployment, "now", end)
        return writes_during(deployment, deployment.sweep)

    assert sorted(sweep(60)) == sorted(map(deployment.cloud.id, ("churn", "used-once")))
    before = {name: deployment.record(name) for name in ("churn", "used-once")}
    deployment.now += 3 * HOUR
    assert sweep(60 - quicker) == []
    assert {name: deployment.record(name) for name in before} == before
    deployment.now += 2 * DAY  # over half of what is proven of one, so the time when that was last seen idle is renewed
    assert sweep(60 - quicker) == [deployment.cloud.id("used-once")]
    assert {name: deployment.record(name).idle_since for name in before} == {n: m.idle_since for n, m in before.items()}
