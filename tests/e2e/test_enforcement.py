"""Mode enforce from notice to restore on both clouds, with the real SDKs against the sandboxes and a clock that is stepped on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reaper.acting import manifest, restore
from reaper.errors import SettingsError
from reaper.finding import Finding, Report
from reaper.handover import Decided
from reaper.ledger import opening
from reaper.model import Mode
from reaper.pending import plan_file
from reaper.policy.file import PolicySource, load_policy
from reaper.run import HandedOver, open_run, run, run_phases
from reaper.settings import Settings
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server as Aws
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.server import Server as Azure
from reaper_sandbox.shortcuts import sessions_of

NOW = datetime(2026, 11, 21, 10, 17, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
OWNER = "ana@example.com"
POLICY = """
version: 1
defaults: {{action: {action}, idle_after: 24h, grace: 3d, remind_every: 7d}}
limits: {{max_share: 100%}}
owners: {{tags: [owner], domains: [example.com], fallback: admins@example.com}}
channels: [{{type: folder, path: "{folder}"}}]
"""


Truth = tuple[Callable[[], object], Callable[[dict[str, str]], None], Callable[[datetime], None]]
"""What runs, and how it is tagged and used behind the reaper's back."""


@dataclass
class Stage:
    """One idle resource on one cloud, its truth, a clock, a ledger, an archive and a folder of mails."""

    cloud: str
    set_clock: Callable[[datetime], None]
    running: Callable[[], object]
    tag: Callable[[dict[str, str]], None]
    use: Callable[[datetime], None]
    home: Path
    action: str = "stop"
    now: datetime = NOW
    more: str = ""

    @property
    def settings(self) -> Settings:
        return Settings(
            mode=Mode.ENFORCE,
            cloud=self.cloud,
            regions=("us-east-1",),
            ledger=f"sqlite://{self.home}/ledger.db",
            manifests=str(self.home / "manifests"),
        )

    @property
    def source(self) -> PolicySource:
        return load_policy(POLICY.format(folder=self.home / "mails", action=self.action) + self.more)

    def sweep(self, **fields: object) -> Report:
        return run(self.settings, self.source, lambda: self.now, **fields)  # type: ignore[arg-type]

    def audit(self) -> Report:
        return run(replace(self.settings, mode=Mode.AUDIT), self.source, lambda: self.now)

    def later(self, **time: float) -> Report:
        self.now += timedelta(**time)
        self.set_clock(self.now)
        return self.sweep()

    def bench(self) -> restore.RestoreContext:
        return restore.RestoreContext(
            ledger=opening.open_ledger(self.settings.ledger, os.environ),
            archive=manifest.open_archive(self.settings.manifests, os.environ),
            open_session=lambda target: sessions_of(self.settings, target.cloud)[0],
            clock=lambda: self.now,
            by="lee",
        )


def one(report: Report) -> Finding:
    [finding] = report.findings
    assert all(c.status == "ok" for c in report.coverage), report.coverage
    return finding


@pytest.fixture(params=["aws", "azure"])
def stage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    for name in [n for n in os.environ if n.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))]:
        monkeypatch.delenv(name)
    with (Aws if request.param == "aws" else Azure)(NOW) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        running, tag, use = _on_aws(server) if request.param == "aws" else _on_azure(server)
        yield Stage(request.param, lambda moment: setattr(server, "now", moment), running, tag, use, tmp_path)


def _on_aws(server: Aws) -> Truth:
    account = Account(server)
    endpoint = account.endpoint("quiet", variants=(Variant(count=3),), tags={"owner": OWNER})
    account.alive("quiet", "AllTraffic", NOW - 20 * DAY, NOW + 90 * DAY)

    def tag(tags: dict[str, str]) -> None:
        endpoint.tags = {"owner": OWNER, **tags}

    def use(when: datetime) -> None:
        account.invoked("quiet", "AllTraffic", when)

    return lambda: account.contents.endpoints["quiet"].variants[0].count, tag, use


def _on_azure(server: Azure) -> Truth:
    cluster = server.subscription("11111111-1111-1111-1111-111111111111").workspace("vision").cluster("quiet", nodes=(3, 6))
    cluster.tagged({"owner": OWNER})
    signals.nodes(cluster, active=0, idle=3, since=NOW - 20 * DAY, until=NOW + 90 * DAY)
    scale = cluster.body["properties"]["properties"]

    def use(when: datetime) -> None:
        signals.nodes(cluster, active=1, idle=2, since=when, until=when + timedelta(minutes=1))

    return lambda: dict(scale["scaleSettings"]), lambda tags: cluster.tagged({"owner": OWNER, **tags}), use


def due(stage: Stage) -> Stage:
    assert one(stage.sweep()).step.name == "warn"
    stage.now += 3 * DAY
    stage.set_clock(stage.now)
    return stage


def test_notice_stop_restore_and_new_notice(stage: Stage):
    before = stage.running()
    assert one(stage.sweep()).step.name == "warn"
    assert one(stage.later(days=2)).step.name == "none"
    stopped = one(stage.later(days=1))
    assert (stopped.step.name, stopped.outcome.result) == ("stop", "done"), stopped.outcome
    assert stage.running() != before
    assert one(stage.later(hours=2)).step.name == "none"
    result = restore.restore_resource(stopped.case.resource.id, stage.bench())
    assert (result.error, result.undone and result.undone.not_restored) == (None, ())
    assert stage.running() == before
    assert one(stage.later(days=2)).step.name == "warn"
    assert one(stage.later(days=3)).step.name == "stop"


def test_a_keep_tag_put_on_after_the_notice_wins(stage: Stage):
    due(stage).tag({"reaper:keep": "true"})
    before = stage.running()
    assert one(stage.sweep()).case.verdict.state == "exempt"
    assert stage.running() == before


KEPT = {"reaper:keep-until": "2026-11-22T12:00:00+00:00"}
ACCEPTED = "accept: [{match: {name: '*quiet'}, until: 2026-11-22, reason: a demo, by: Lee}]\n"
CANARY = "enforce_only: {tags: {canary: here}}\n"


@pytest.mark.parametrize(
    ("tags", "more", "seen"),
    [
        pytest.param(KEPT, "", False, id="a keep-until that no sweep saw"),
        pytest.param({}, ACCEPTED, False, id="an acceptance that no sweep saw"),
        pytest.param({"reaper:keep": "true"}, "", True, id="a keep for a day"),
        pytest.param({}, CANARY, True, id="a day out of the canary"),
    ],
)
def test_a_protection_between_two_sweeps_brings_a_new_notice(stage: Stage, tags: dict[str, str], more: str, seen: bool):
    before = stage.running()
    assert one(stage.sweep()).step.name == "warn"
    stage.tag(tags)
    stage.more = more
    if seen:
        assert one(stage.later(days=1)).step.name != "stop"
        stage.tag({})
        stage.more = ""
        stage.now -= DAY
    assert one(stage.later(days=3)).step.name == "warn"
    assert one(stage.later(days=2)).step.name == "none"
    assert stage.running() == before
    assert one(stage.later(days=1)).step.name == "stop"
    assert stage.running() != before


def test_a_plan_can_be_applied_and_undone(stage: Stage):
    before = stage.running()
    audit = due(stage).audit()
    text = plan_file.plan_json(audit, {key: getattr(stage.settings, key) for key in plan_file.SCOPE_SETTINGS}, stage.now)
    assert [act["move"] for act in json.loads(text)["acts"]] == ["stop"]
    assert stage.running() == before
    agreed = plan_file.parse_plan(text, "plan.json", stage.now)
    report = stage.sweep(agreed=agreed)
    assert ([r.is_done for r in plan_file.action_results(agreed, report)], stage.running() == before) == ([True], False)
    stage.now += HOUR
    stage.set_clock(stage.now)
    [result] = restore.undo_run(report.run.id, stage.bench())
    assert isinstance(result, restore.RestoreResult)
    assert (result.error, stage.running()) == (None, before)


def test_a_plan_is_refused_if_tags_changed(stage: Stage):
    before = stage.running()
    due(stage)
    report = stage.audit()
    agreed = plan_file.parse_plan(
        plan_file.plan_json(report, {key: getattr(stage.settings, key) for key in plan_file.SCOPE_SETTINGS}, stage.now),
        "p",
        stage.now,
    )
    stage.tag({"team": "vision"})
    after = stage.sweep(agreed=agreed)
    [line] = map(plan_file.result_sentence, plan_file.action_results(agreed, after))
    assert "changed since the plan was made: tags" in line
    assert stage.running() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda text: text.replace('"stop"', '"delete"'), "edited after it was written", id="changed by hand"),
        pytest.param(lambda text: text[: len(text) // 2], "not a plan file of", id="cut short"),
        pytest.param(lambda text: "[]", "not a plan file of", id="something else"),
    ],
)
def test_an_edited_plan_is_refused(stage: Stage, change, message):
    report = due(stage).sweep()
    text = change(plan_file.plan_json(report, {key: getattr(stage.settings, key) for key in plan_file.SCOPE_SETTINGS}, stage.now))
    with pytest.raises(SettingsError, match=message):
        plan_file.parse_plan(text, "plan.json", stage.now)


def test_a_plan_expires(stage: Stage):
    text = plan_file.plan_json(
        due(stage).sweep(), {key: getattr(stage.settings, key) for key in plan_file.SCOPE_SETTINGS}, stage.now
    )
    assert plan_file.parse_plan(text, "p", stage.now + DAY - timedelta(seconds=1)).actions_by_id
    with pytest.raises(SettingsError, match="expired at 2026-11-25T10:17:00Z"):
        plan_file.parse_plan(text, "p", stage.now + DAY)


@pytest.mark.parametrize(
    ("ahead", "message"), [(timedelta(0), "expired at 2026-12-01"), (2 * DAY, "in the future")], ids=["no end", "tomorrow's"]
)
def test_a_plan_lasts_a_week_at_most_whatever_it_says(stage: Stage, ahead: timedelta, message: str):
    scope = {key: getattr(stage.settings, key) for key in plan_file.SCOPE_SETTINGS}
    text = plan_file.plan_json(due(stage).sweep(), scope, stage.now + ahead, timedelta(days=3000))
    with pytest.raises(SettingsError, match=message):
        plan_file.parse_plan(text, "p", stage.now if ahead else stage.now + 7 * DAY)


@pytest.mark.parametrize("applied", [False, True], ids=["a sweep", "apply"])
@pytest.mark.parametrize(
    ("change", "because"),
    [
        pytest.param(
            lambda file: file.write_text(file.read_text().replace("stop", "ignore")), "policy has changed", id="changed"
        ),
        pytest.param(lambda file: file.unlink(), "No such file", id="unreadable"),
    ],
)
def test_a_policy_that_changes_during_the_run_stops_nothing(
    stage: Stage, change: Callable[[Path], object], because: str, applied: bool
):
    file, before = stage.home / "policy.yaml", stage.running()
    file.write_text(stage.source.text)
    due(stage)
    source = load_policy(str(file))
    plan = plan_file.plan_json(stage.audit(), {key: getattr(stage.settings, key) for key in plan_file.SCOPE_SETTINGS}, stage.now)
    agreed = plan_file.parse_plan(plan, "p", stage.now) if applied else None

    def meanwhile(value: HandedOver) -> HandedOver:
        if isinstance(value, Decided):
            change(file)
        return value

    report = run_phases(open_run(stage.settings, source, lambda: stage.now, agreed=agreed), meanwhile)
    [finding] = report.findings
    assert (finding.step.name, finding.outcome.result, stage.running()) == ("stop", "refused", before)
    assert because in (finding.outcome.because or "")


EVENT = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:{}\nEND:VEVENT\nEND:VCALENDAR\n"


@pytest.mark.parametrize(
    ("content", "because"),
    [
        pytest.param(EVENT.format("20261225"), None, id="moved, and not begun"),
        pytest.param(EVENT.format("20261124"), "frozen by year-end until 2026-11-25 00:00 UTC", id="begun"),
        pytest.param("<html>Sign in</html>", "the freeze calendar 'year-end' can't be read", id="unreadable"),
    ],
)
def test_a_freeze_that_is_made_during_the_run_stops_nothing(stage: Stage, content: str, because: str | None):
    file, before = stage.home / "year-end.ics", stage.running()
    due(stage)
    file.write_text(EVENT.format("20261224"))
    frozen = stage.source.text.replace("defaults: {", "defaults: {freeze: [year-end], ")
    policy = stage.home / "policy.yaml"
    policy.write_text(f"{frozen}calendars: {{year-end: {{ics: year-end.ics}}}}\n")

    def meanwhile(value: HandedOver) -> HandedOver:
        if isinstance(value, Decided):
            file.write_text(content)
        return value

    finding = one(run_phases(open_run(stage.settings, load_policy(str(policy)), lambda: stage.now), meanwhile))
    assert (finding.step.name, finding.outcome.result) == ("stop", "refused" if because else "done")
    assert (stage.running() == before) is bool(because)
    assert (because or "") in (finding.outcome.because or "")


PUBLISHED = {"aws": timedelta(seconds=70), "azure": timedelta(seconds=210)}
"""How long after a use its metric can be read: Azure Monitor takes about three minutes, and nobody can see sooner."""


def test_use_between_judging_and_acting_refuses_the_action(stage: Stage):
    before = stage.running()
    due(stage)
    stage.now += timedelta(minutes=2, seconds=50)
    stage.set_clock(stage.now)

    def meanwhile(value: HandedOver) -> HandedOver:
        """Called after the sweep has judged, before anything is looked at again."""
        if isinstance(value, Decided):
            stage.use(stage.now - PUBLISHED[stage.cloud])
        return value

    finding = one(run_phases(open_run(stage.settings, stage.source, lambda: stage.now), meanwhile))
    assert (finding.step.name, finding.outcome.result, stage.running()) == ("stop", "refused", before), finding.outcome
    assert "it is active now" in (finding.outcome.because or "")
