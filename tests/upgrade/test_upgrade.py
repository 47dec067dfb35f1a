"""A ledger of version 49f8b6c under this version: earlier notices count as far as they still may, and nothing kept is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from fakes.builders import DAY, HOUR, TARGET
from fakes.fake_deployment import FakeDeployment, finding_of
from reaper.actions import hold_ledger, restore
from reaper.model import AnnouncedAction, Mode, Result, StepName
from upgrade.conftest import Upgraded

Load = Callable[..., Upgraded]
NIGHT, NOON = datetime(2026, 11, 20, 4, tzinfo=UTC), datetime(2026, 11, 20, 13, tzinfo=UTC)
SAM, JO, ADMINS = "sam@example.com", "jo@example.com", "ml-admins@example.com"
UNKNOWN = "It isn't known whether the action was carried out: a run of an earlier version started it on 2026-11-20"
SHUT = "another sweep is processing this target"
OPEN = {"k1-stop-made": StepName.STOP, "k2-stop-unmade": StepName.STOP, "k4-delete-unmade": StepName.DELETE}


def swept(old: Upgraded, when: datetime, mode: Mode = Mode.ENFORCE):
    old.deployment.now = when
    return old.deployment.sweep(mode)


def performed_moves(deployment: FakeDeployment, name: str) -> list[StepName]:
    """What the new product did to it."""
    return [move for move, one, _ in deployment.cloud.log if one == name]


def about(texts: list[str], name: str) -> list[str]:
    """Every paragraph of the mails that is about it."""
    return [part.partition("\n\n")[0] for text in texts for part in text.split(f" {name}\n")[1:]]


def test_an_old_notice_past_its_date_leads_to_the_action(upgraded: Load):
    old = upgraded("notices")
    finding = finding_of(swept(old, NOON), "past-due")
    assert (finding.step.name, finding.outcome.result, performed_moves(old.deployment, "past-due")) == (
        StepName.STOP,
        Result.DONE,
        [StepName.STOP],
    )
    assert old.deployment.memory("past-due").last_action_result is Result.DONE


def test_an_old_notice_before_its_date_waits_without_another_mail(upgraded: Load):
    old = upgraded("notices")
    memory = old.deployment.memory("announced")
    swept(old, NOON)
    swept(old, memory.act_not_before - HOUR)
    assert (performed_moves(old.deployment, "announced"), about(old.mails(JO), "announced")) == ([], [])
    assert old.deployment.memory("announced").warned_at == memory.warned_at
    swept(old, memory.act_not_before + HOUR)
    assert performed_moves(old.deployment, "announced") == [StepName.STOP]


def test_an_old_reminder_keeps_its_interval_and_its_date(upgraded: Load):
    old = upgraded("notices")
    memory = old.deployment.memory("slow-reminded")
    swept(old, NOON)
    assert old.deployment.memory("slow-reminded") == memory
    swept(old, memory.reminded_at + 7 * DAY)
    assert len(about(old.mails(JO), "slow-reminded")) == 1
    swept(old, memory.act_not_before - HOUR)
    assert performed_moves(old.deployment, "slow-reminded") == []
    swept(old, memory.act_not_before + HOUR)
    assert performed_moves(old.deployment, "slow-reminded") == [StepName.STOP]


def test_a_stop_by_hours_needs_an_enrolment_even_if_announced(upgraded: Load):
    old = upgraded("notices")
    assert old.deployment.memory("office-told").act_not_before < NIGHT
    assert finding_of(swept(old, NIGHT), "office-told").step.name is StepName.WARN
    assert (performed_moves(old.deployment, "office-told"), old.deployment.memory("office-told").announced_action) == (
        [],
        AnnouncedAction.HOURS,
    )
    [text] = about(old.mails(JO), "office-told")
    assert "stopped outside its office hours" in text or "scaled in outside its office hours" in text
    swept(old, NIGHT + HOUR)
    assert performed_moves(old.deployment, "office-told") == [StepName.STOP]


def test_a_resource_stopped_by_hours_is_started_the_next_day(upgraded: Load):
    old = upgraded("notices")
    swept(old, NIGHT)
    assert performed_moves(old.deployment, "office-night") == []
    swept(old, NOON)
    assert performed_moves(old.deployment, "office-night") == [StepName.START]
    swept(old, NOON + 8 * HOUR)
    assert performed_moves(old.deployment, "office-night") == [StepName.START], "its owner was never told of the office hours"


def test_unfinished_actions_are_reported_once_and_never_continued(upgraded: Load):
    old = upgraded("notices")
    report = swept(old, NOON)
    for name, move in OPEN.items():
        memory = old.deployment.memory(name)
        assert (memory.last_action, memory.last_action_result, performed_moves(old.deployment, name)) == (move, Result.FAILED, [])
        assert memory.warned_at in {None, NOON}, "what was told before gives no right to anything"
        assert len([text for text in about(old.mails(SAM), name) if UNKNOWN in text]) == 1
    assert [c.kind for c in report.coverage if c.error and "isn't known" in c.error] == ["acts"]
    swept(old, NOON + 2 * HOUR)
    assert sum(text.count(UNKNOWN) for text in old.mails(SAM)) == len(OPEN)


def test_an_unfinished_action_is_repeated_only_after_a_new_notice(upgraded: Load):
    old = upgraded("notices")
    swept(old, NOON)
    swept(old, NOON + 2 * HOUR)
    swept(old, NOON + 3 * DAY - HOUR)
    assert performed_moves(old.deployment, "k2-stop-unmade") + performed_moves(old.deployment, "k4-delete-unmade") == []
    swept(old, NOON + 3 * DAY + 3 * HOUR)
    assert (performed_moves(old.deployment, "k2-stop-unmade"), performed_moves(old.deployment, "k4-delete-unmade")) == (
        [StepName.STOP],
        [StepName.DELETE],
    )


@pytest.mark.parametrize("name", ["done-stop", "k1-stop-made", "k3-delete-made"])
def test_an_old_action_is_undone_from_its_own_manifest(upgraded: Load, name: str):
    old = upgraded("notices")
    swept(old, NOON)
    assert name not in old.deployment.cloud.things or old.deployment.cloud.things[name].running_since is None
    restored = restore.restore_resource(old.deployment.cloud.id(name), old.deployment.restore_context())
    assert (restored.error, old.deployment.cloud.things[name].running_since) == (None, old.deployment.now)
    assert old.deployment.memory(name).last_action is None


def test_an_old_snooze_counts_and_its_end_leads_to_a_new_notice(upgraded: Load):
    old = upgraded("notices")
    memory = old.deployment.memory("snoozed")
    report = swept(old, NOON)
    assert (finding_of(report, "snoozed").case.verdict.state, old.deployment.memory("snoozed")) == ("exempt", memory)
    assert (finding_of(report, "woken").step.name, old.deployment.memory("woken").snoozed_until) == (StepName.WARN, None)
    swept(old, NOON + 3 * DAY - HOUR)
    assert performed_moves(old.deployment, "snoozed") + performed_moves(old.deployment, "woken") == []
    swept(old, NOON + 3 * DAY)
    assert performed_moves(old.deployment, "woken") == [StepName.STOP]
    swept(old, memory.snoozed_until + HOUR)
    assert (
        performed_moves(old.deployment, "snoozed"),
        finding_of(swept(old, memory.snoozed_until + HOUR), "snoozed").step.name,
    ) == (
        [],
        StepName.NONE,
    )


def test_a_snooze_link_mailed_before_the_upgrade_still_works(upgraded: Load):
    old = upgraded("notices")
    old.deployment.now = NOON
    assert old.click("linked", 7).status == 200
    report = old.deployment.sweep()
    assert (finding_of(report, "linked").case.verdict.state, performed_moves(old.deployment, "linked")) == ("exempt", [])
    assert old.deployment.memory("linked").snoozed_until >= NOON + 7 * DAY
    assert performed_moves(old.deployment, "past-due") == [StepName.STOP], "the same but for the click"


def test_the_lease_of_a_dead_run_counts_until_it_expires(upgraded: Load):
    old = upgraded("notices")
    report = swept(old, old.deployment.now + 2 * HOUR / 60)
    assert {f.step.because for f in report.findings if f.step.name is StepName.NONE} >= {SHUT}
    assert (old.deployment.cloud.log, old.mails(SAM)) == ([], [])
    swept(old, NIGHT)
    assert len(about(old.mails(SAM), "k1-stop-made")) == 1
    assert old.deployment.ledger.take_lease(TARGET, "the next", NIGHT, HOUR)


def test_history_and_statistics_survive_the_upgrade(upgraded: Load):
    old = upgraded("notices")
    ids = [*map(old.deployment.cloud.id, old.links), "overview"]
    before = {id_: old.deployment.ledger.history(id_) for id_ in ids}
    usual = old.deployment.ledger.statistics(TARGET, "sagemaker-endpoint", 50)
    assert (len(usual), [e.what for e in before[old.deployment.cloud.id("snoozed")]]) == (6, ["warned", "kept"])
    swept(old, NOON)
    for id_, entries in before.items():
        assert entries
        assert old.deployment.ledger.history(id_)[: len(entries)] == entries
    assert old.deployment.ledger.statistics(TARGET, "sagemaker-endpoint", 50)[1:] == usual


def test_the_admins_get_one_summary_after_the_upgrade(upgraded: Load):
    old = upgraded("notices")
    swept(old, NOON)
    assert len(old.mails(ADMINS)) == 1
    swept(old, NOON + HOUR / 2)
    swept(old, NOON + HOUR)
    assert len(old.mails(ADMINS)) == 1


def test_an_old_hold_lasts_until_a_release_while_over_the_limits(upgraded: Load):
    old = upgraded("holds", most=1)
    when = old.deployment.now + DAY
    moves = {finding_of(swept(old, when), f"second-{n}").step.name for n in (1, 2, 3)}
    assert (moves, old.deployment.cloud.log) == ({StepName.HOLD}, [])
    assert any("ON HOLD" in text for text in old.mails(ADMINS))
    hold_ledger.release_hold(old.deployment.ledger, "lee", old.deployment.now)
    swept(old, when + HOUR)
    assert sorted(name for move, name, _ in old.deployment.cloud.log) == ["second-1", "second-2", "second-3"]


def test_a_narrower_run_does_not_end_an_old_hold(upgraded: Load):
    old = upgraded("holds", most=20)
    old.deployment.now += DAY
    report = old.deployment.sweep(regions=["us-east-1"])
    assert {finding_of(report, f"second-{n}").step.name for n in (1, 2, 3)} == {StepName.HOLD}
    assert old.deployment.cloud.log == []
    old.deployment.sweep_after(hours=1)
    assert sorted(name for move, name, _ in old.deployment.cloud.log) == ["second-1", "second-2", "second-3"]


def test_a_release_before_the_first_new_run_ends_an_old_hold(upgraded: Load):
    old = upgraded("holds", most=1)
    assert [h.limit for h in hold_ledger.current_holds(old.deployment.ledger)] == ["older"]
    hold_ledger.release_hold(old.deployment.ledger, "lee", old.deployment.now)
    assert hold_ledger.current_holds(old.deployment.ledger) == []
    old.deployment.sweep_after(hours=1)
    assert sorted(name for move, name, _ in old.deployment.cloud.log) == ["second-1", "second-2", "second-3"]


def test_an_old_hold_for_a_jump_still_counts(upgraded: Load):
    old = upgraded("holds", most=20)
    west = replace(TARGET, region="eu-west-1")
    [jump, *usual] = old.deployment.ledger.statistics(west, "sagemaker-endpoint", 50)
    assert (jump.was_jump, jump.idle, {s.was_jump for s in usual}, {s.idle for s in usual}) == (True, 4, {False}, {0})
    old.deployment.now += 4 * DAY
    moves = {f.step.name for f in old.deployment.sweep().findings if f.case.resource.name.startswith("shop-")}
    assert (moves, [name for _, name, _ in old.deployment.cloud.log if name.startswith("shop-")]) == ({StepName.HOLD}, [])
