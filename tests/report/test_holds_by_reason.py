"""What is on hold: each reason once, with its resources and the command that allows it, in every format and in the admins' mail."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fakes.builders import NOW
from fakes.mails import compose_summary
from fakes.sample_findings import finding, occasion, report
from reaper.errors import SettingsError
from reaper.finding import Finding, Step
from reaper.model import HoldReason, StepName
from reaper.pending import plan_file
from reaper.report import html, markdown, summary, text
from reaper.settings import Settings

SHARE = HoldReason(because="2 of 3 endpoints exceed max_share: 60%", since=NOW, release="--account 123456789012")
COUNT = HoldReason(because="3 actions in all accounts exceed run.max_acts: 2", since=NOW, release="--all")


def held(name: str, *reasons: HoldReason) -> Finding:
    because = "; ".join(reason.because for reason in reasons)
    return finding(name, step=Step(name=StepName.HOLD, because=because, held=StepName.STOP, hold_reasons=reasons))


HELD = report(held("one", SHARE, COUNT), held("two", SHARE, COUNT), held("three", COUNT))


@pytest.mark.parametrize(
    "render",
    [
        pytest.param(text.render, id="terminal"),
        pytest.param(markdown.render, id="markdown"),
        pytest.param(html.render, id="page"),
        pytest.param(lambda r: compose_summary(r, occasion()).text, id="mail"),
        pytest.param(lambda r: compose_summary(r, occasion()).html, id="mail as HTML"),
    ],
)
def test_each_reason_is_shown_once_with_its_resources(render):
    shown = re.sub(r"<script.*?</script>|<[^>]*>", "", render(HELD).replace("\\", ""), flags=re.DOTALL)
    assert (shown.count(SHARE.because), shown.count(COUNT.because)) == (1, 1)
    under_share, under_count = shown.partition(SHARE.because)[2].split(COUNT.because)
    assert [name in under_share for name in ("one", "two", "three")] == [True, True, False]
    assert all(name in under_count for name in ("one", "two", "three"))


def test_a_hold_without_a_structured_reason_is_not_lost():
    lost = finding("a", step=Step(name=StepName.HOLD, because="on hold, because the ledger can't be read"))
    [(reason, findings)] = summary.holds_of([lost]).items()
    assert (reason.because, findings) == (lost.step.because, [lost])


def test_a_hold_that_no_release_ends_names_no_command():
    assert summary.release_command(replace(SHARE, release="")) == ""
    assert "reaper release" not in text.render(report(held("a", replace(SHARE, release=""))))


@pytest.mark.parametrize("release", ["--all; touch x", "--account $(touch x)", "--account 1\x1b[2J", "--all\n"])
def test_a_plan_file_puts_nothing_else_into_the_command(release: str):
    plan = plan_file.plan_json(report(held("a", replace(SHARE, release=release))), plan_file.scope_of(Settings()), NOW)
    with pytest.raises(SettingsError, match="not a plan file"):
        plan_file.parse_plan(plan, "plan.json", NOW)
