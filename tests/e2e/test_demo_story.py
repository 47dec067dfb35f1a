"""The demo's second chapter as a newcomer runs it: what it tells is what is in the mails, manifests, ledger and report it leaves behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from functools import cached_property
from html import unescape
from pathlib import Path

import pytest

import forks
from reaper.ledger import opening
from reaper.ledger.rows import Recalled
from reaper.model import BilledPart, Resource, StepName, Target
from reaper.prices import PriceBook
from reaper.record import Record, Snooze
from reaper_sandbox.demo import story_fleet

REAPER = Path(sys.executable).with_name("reaper")
ELSEWHERE = {
    "REAPER_MODE": "audit",
    "REAPER_POLICY": "/nowhere/policy.yaml",
    "REAPER_LEDGER": "dynamodb://nowhere",
    "REAPER_MANIFESTS": "s3://nowhere/manifests",
    "REAPER_REGIONS": "ap-southeast-2",
    "REAPER_SUBSCRIPTIONS": "99999999-9999-9999-9999-999999999999",
    "REAPER_ARM_ENDPOINT": "https://127.0.0.1:9",
    "REAPER_SNOOZE_URL": "https://elsewhere.example.net",
    "REAPER_SNOOZE_KEYS": "env:NOWHERE",
    "REAPER_TOPIC": "arn:aws:sns:us-east-1:999999999999:nowhere",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_PROFILE": "nowhere",
    "AWS_REGION": "ap-southeast-2",
    "AWS_DEFAULT_REGION": "ap-southeast-2",
    "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential",
    "AZURE_CLIENT_ID": "nowhere",
    "IDENTITY_ENDPOINT": "http://127.0.0.1:9",
}
"""A caller's own settings, all of which lead nowhere."""


@dataclass(frozen=True)
class Story:
    """What it printed, the folder of the story, and what is in the caller's other folders afterwards."""

    out: str
    err: str
    home: Path
    stray_files: list[str]

    @cached_property
    def text(self) -> str:
        """The story without line breaks."""
        return re.sub(r"\s+", " ", self.out)

    def day(self, title: str) -> str:
        """What is printed about one day."""
        match = re.search(rf"^{title}[^\n]*\n(.*?)(?=^\S|\Z)", self.out, re.MULTILINE | re.DOTALL)
        assert match, title
        return re.sub(r"\s+", " ", match[1])

    @cached_property
    def mails(self) -> list[tuple[str, str, str]]:
        """Addressee, subject and plain text of every mail."""
        messages = [message_from_bytes(path.read_bytes()) for path in sorted((self.home / "mail").glob("*.eml"))]
        plain = [next(p for p in m.walk() if p.get_content_type() == "text/plain") for m in messages]
        return [
            (str(m["To"]), str(m["Subject"]), part.get_payload(decode=True).decode())
            for m, part in zip(messages, plain, strict=True)
        ]

    @cached_property
    def readings(self) -> list[tuple[str, str]]:
        """Every mail as its reader sees it, once as text and once as HTML, with its subject and no line breaks. And what costs are in."""
        readings = []
        for path in sorted((self.home / "mail").glob("*.eml")):
            message = message_from_bytes(path.read_bytes())
            unit = "a month" if str(message["Subject"]).startswith("[ML Idle Reaper]") else "a day"
            for part in (p for p in message.walk() if p.get_content_maintype() == "text"):
                body = unescape(
                    re.sub(r"<style>.*?</style>|<[^>]+>", " ", part.get_payload(decode=True).decode(), flags=re.DOTALL)
                )
                readings.append((unit, re.sub(r"\s+", " ", f"{message['Subject']}. {body}")))
        return readings

    @cached_property
    def manifests(self) -> list[dict]:
        return [json.loads(path.read_text()) for path in sorted((self.home / "manifests").glob("*/*/*.json"))]

    @cached_property
    def report(self) -> dict:
        return json.loads((self.home / "report.json").read_text())

    def record(self, name: str) -> Record:
        return self._recalled(name).record(self.finding(name)["id"])

    def snooze(self, name: str) -> Snooze:
        return self._recalled(name).snooze(self.finding(name)["id"])

    def _recalled(self, name: str) -> Recalled:
        ledger = opening.open_ledger(f"sqlite://{self.home}/ledger.db", {}, read_only=True)
        try:
            return ledger.recall([self.finding(name)["id"]], story_fleet.STORY_END)
        finally:
            ledger.close()

    def finding(self, name: str) -> dict:
        [finding] = [f for f in self.report["findings"] if f["name"] == name]
        return finding


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    root = tmp_path_factory.mktemp("story")
    for name in ("cwd", "home", "tmp", "out"):
        (root / name).mkdir()
    environ = {**os.environ, **ELSEWHERE, "HOME": str(root / "home"), "TMPDIR": str(root / "tmp")}
    environ = {k: v for k, v in environ.items() if not k.startswith("XDG_")}
    completed = forks.reaper("demo", "--story", "--output", str(root / "out"), env=environ, cwd=root / "cwd", timeout=500)
    assert completed.returncode == 0, completed.stderr[-3000:]
    stray_files = [str(p.relative_to(root)) for name in ("cwd", "home", "tmp") for p in (root / name).rglob("*")]
    return Story(completed.stdout, completed.stderr, root / "out" / "story", stray_files)


def test_the_story_writes_only_to_its_output_folder(story: Story):
    assert story.stray_files == []
    assert {p.name for p in story.home.parent.iterdir()} == {"story"}


def test_the_story_goes_to_stdout_and_progress_to_stderr(story: Story):
    assert "\x1b" not in story.out
    assert max(map(len, story.out.partition("Two weeks later")[0].splitlines())) <= 120
    assert re.search(r"Sun 15 Nov 09:30 \(\d+ of \d+\)", story.err)
    assert "Traceback" not in story.err


def test_the_story_has_every_day_in_order(story: Story):
    days = re.findall(r"^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day (\d+) November 2026$", story.out, re.MULTILINE)
    assert [int(day) for day in days] == list(range(2, 16))


def test_every_mail_in_the_story_is_a_file(story: Story):
    subjects = {f"{to}: {' '.join(subject.split())}" for to, subject, _ in story.mails}
    lines = re.findall(r" mail (\S+@\S+: .{150})", story.text)
    assert len(lines) > 10
    assert [line for line in lines if not line.startswith(tuple(subjects))] == []


def test_story_notices_match_the_mails_cost_and_date(story: Story):
    first = story.day("Monday 2 November")
    named = re.findall(
        r"- ([a-z0-9-]+): (\$[\d.,]+ a day, \$[\d.,]+ wasted since \w+ \d+ \w+|price unknown)\. ((?:It will be|From) .*?2026, \d\d:\d\d [A-Z][\w/]+)",
        first,
    )
    told = story_fleet.SILENT_ENDPOINTS.keys() - {"fair-demo"}  # it is accepted
    assert {name for name, *_ in named} == {*told, "gpu-nightly", "kim-sandbox", "dev-mia", "dev-ana"}
    for name, cost, following in named:
        mine = [text for _, _, text in story.mails if f" {name}\n" in text]
        assert any(f"Cost: {cost}\n" in text and f"Next: {following}" in text for text in mine), name


def test_a_story_snooze_lasts_until_it_ends(story: Story):
    assert "tom opens the link in the mail and sends the form: “churn-model” is snoozed" in story.day("Tuesday 3 November")
    assert "exempt churn-model: snoozed until 2026-11-07 10:00 UTC by tom@example.com" in story.day("Tuesday 3 November")
    assert "churn-model: $22.13 a day" in story.day("Monday 9 November")
    assert "on or after Thu 12 Nov 2026" in story.day("Monday 9 November")
    assert story.snooze("churn-model").until == datetime(2026, 11, 7, 10, tzinfo=UTC), (
        "it may host components, which it kept, too"
    )


def test_use_before_the_date_voids_a_notice(story: Story):
    assert "active fraud-scorer: Invocations of AllTraffic showed use" in story.day("Wednesday 4 November")
    assert (story.finding("fraud-scorer")["state"], story.record("fraud-scorer").notice) == ("active", None)
    assert [m for m in story.manifests if m["name"] == "fraud-scorer"] == []


def test_too_many_actions_stay_on_hold_until_released(story: Story):
    day = story.day("Thursday 5 November")
    assert "exceed max_share: 25%" in day
    assert "Run `reaper release --account 123456789012` to allow it" in day
    assert day.index("on hold recommender-old") < day.index("runs `reaper release --all`") < day.index("stopped recommender-old")
    assert any(to == "ml-admins@example.com" and "ON HOLD (" in text for to, _, text in story.mails)
    assert "mail ml-admins@example.com: [ML Idle Reaper] 4 actions on hold" in day
    endpoints = [m["at"] for m in story.manifests if m["name"] in {"recommender-old", "gb300-trial", "legacy-ranker"}]
    assert min(endpoints).startswith("2026-11-05T19:30")


def test_what_a_stop_leaves_is_deleted_after_a_notice_of_its_own(story: Story):
    assert "recommender-old: $67.58 a day, it cost $101 a day. It will be deleted on or after Tue 10 Nov" in story.day(
        "Thursday 5 November"
    )
    assert "deleted recommender-old: it is being deleted" in story.day("Tuesday 10 November")
    acted = [(m["action"], m["at"][:16]) for m in story.manifests if m["name"] == "recommender-old"]
    assert sorted(acted) == [("delete", "2026-11-10T19:30"), ("stop", "2026-11-05T19:30")]


def test_a_company_day_starts_no_machine_and_a_freeze_moves_dates(story: Story):
    """Without the freeze of the last weekend, churn-model would be scaled in from Mon 16 Nov."""
    assert not [m for m in story.manifests if m["name"].startswith("dev-") and m["at"].startswith("2026-11-10")]
    assert "it will be scaled in from Wed 18 Nov: churn-model" in story.day("Friday 13 November")


def test_what_is_accepted_is_told_once_that_is_over(story: Story):
    assert "exempt fair-demo: accepted until 2026-11-08 by pat: the trade fair" in story.day("Monday 2 November")
    assert "fair-demo: $5.52 a day" in story.day("Monday 9 November")
    assert min(m for to, m, _ in story.mails if to == "pat@example.com").endswith(
        "it will be scaled in from Thu 12 Nov: fair-demo"
    )
    [warning] = [text for to, subject, text in story.mails if "ACCEPTED FINDINGS" in text][:1]
    assert "The acceptance of name fair-demo by pat expire" in warning


def test_small_costs_are_never_told_and_weekends_are_quiet(story: Story):
    assert "no mail max-notes: its owner's notice is worth $1.63 a day, below notify_above: $3 a day" in story.text
    assert [m for m in story.mails if m[0] == "max@example.com"] == []
    assert (story.finding("max-notes")["state"], story.record("max-notes").notice) == ("idle", None)
    assert "no mail churn-model: its notice waits until 2026-11-09 09:00 UTC" in story.day("Sunday 8 November")


def test_admins_read_of_holds_in_their_room_and_managers_of_reminders(story: Story):
    assert "slack the admins' room: [ML Idle Reaper] 4 actions on hold" in story.day("Thursday 5 November")
    assert f"mail {story_fleet.MANAGER}: Escalation: 1 ML resource still idle despite reminders: gb300-trial" in story.text
    assert [subject for to, subject, _ in story.mails if to == story_fleet.MANAGER] == [
        "Escalation: 1 ML resource still idle despite reminders: gb300-trial"
    ]


def test_other_kinds_and_accounts_are_not_on_hold(story: Story):
    """max_share holds its own kind, and the Azure subscription is under its limits."""
    acted = {m["name"]: m["at"][:16] for m in story.manifests if m["name"] in {"gpu-nightly", "kim-sandbox"}}
    assert acted == dict.fromkeys(["gpu-nightly", "kim-sandbox"], "2026-11-05T09:30")


def test_a_keep_tag_set_before_the_recheck_wins(story: Story):
    assert "refused pricing-ab: it is exempt now: kept by tag reaper:keep='true'" in story.day("Thursday 5 November")
    assert [m for m in story.manifests if m["name"] == "pricing-ab"] == []
    assert story.finding("pricing-ab")["state"] == "exempt"


def test_every_cost_in_a_mail_has_the_one_unit_of_its_reader(story: Story):
    assert {unit for unit, _ in story.readings} == {"a day", "a month"}
    for unit, text in story.readings:
        text = re.sub(
            r"(is worth \$[\d.]+ a day, )?below notify_above: \$3 a day", "", text
        )  # in the unit of the key, usd_per_day
        amounts = re.findall(r"\$\d[\d,]*(?:\.\d+)?(?: (?:a|an|per) \w+| wasted since \w{3} \d+ \w{3}| \(list price\))?", text)
        assert {re.sub(r"\$[\d,.]+ ?| since .*", "", amount) for amount in amounts} <= {unit, "wasted", "(list price)"}, text
        assert not re.search(r"an hour|per hour|/hour|dollars", text, re.IGNORECASE)


def test_no_mail_speaks_of_several_resources_as_of_one(story: Story):
    several = 0
    for _, subject, text in story.mails:
        head = "\n".join([subject, *(line for line in text.partition("\n1. ")[0].splitlines() if "Keep it" not in line)])
        counts = {(int(count), noun) for count, noun in re.findall(r"(\d+) (?:idle )?(ML resources?)\b", head)}
        assert all(noun == ("ML resource" if count == 1 else "ML resources") for count, noun in counts), subject
        if "[ML Idle Reaper]" not in subject and max(counts)[0] > 1:
            several += 1
            assert not re.search(r"\b(it|its|this resource|costs)\b", head, re.IGNORECASE), head
    assert several >= 4


def test_after_actions_a_summary_says_what_they_save(story: Story):
    subjects = [subject for to, subject, _ in story.mails if "taken, saving" in subject]
    assert len(subjects) == 3, "what office hours stop starts again in the morning"
    assert not [s for s in subjects if " idle " in s.replace("idle share", "")]


def test_stopped_resources_are_smaller_at_the_end(story: Story):
    assert story.finding("gb300-trial")["size"].rpartition(" ")[2] == "x1"
    assert story.finding("kim-sandbox")["status"] == "Stopped"
    assert "its minimum is 0 nodes" in story.finding("gpu-nightly")["because"]


def test_a_deleted_resource_is_restored_the_same(story: Story):
    assert sorted(m["name"] for m in story.manifests if m["action"] == "delete") == ["legacy-ranker", "recommender-old"]
    restored = story.day("Monday 9 November")
    assert "it was recreated, the same as before in variants, configuration, tags, autoscaling" in restored
    assert (story.finding("legacy-ranker")["state"], story.record("legacy-ranker").notice) == ("active", None)


def test_a_metrics_outage_stops_nothing_in_use(story: Story):
    day = story.day("Thursday 12 November")
    assert "on hold churn-model, fair-demo: because 11 of 13 sagemaker-endpoint resources are idle, up from 24%" in day
    assert [subject for to, subject, _ in story.mails if to == "shop@example.com"] == [], "their owner reads nothing untrue"
    assert "idle share jumped in 1 place" in day
    assert {story.finding(name)["state"] for name in story_fleet.BUSY_ENDPOINTS} == {"active"}
    assert "churn-model: $22.13 a day, $341 wasted since Thu 29 Oct. It will be scaled in on or after Wed 18 Nov" in story.day(
        "Friday 13 November"
    )
    assert [m["name"] for m in story.manifests if m["name"] in story_fleet.BUSY_ENDPOINTS] == []
    stopped = {m["name"] for m in story.manifests if m["at"].startswith("2026-11-12")}
    assert stopped == {"dev-ana", "dev-mia"}, "the breaker holds what the outage may be behind, not what a calendar asks for"


def test_office_hours_stop_evenings_and_start_mornings(story: Story):
    stops = Counter(m["name"] for m in story.manifests if m["name"].startswith("dev-"))
    assert set(stops) == {"dev-ana", "dev-mia"}
    for name in stops:
        assert f"{name} stopped {stops[name]} times" in story.text
        assert f"{name} started {stops[name] - 1} times" in story.text
        assert story.record(name).act.action is StepName.STOP
    assert not [s for _, s, _ in story.mails if "was started" in s], "a start in the morning is no news"


def test_office_hours_get_one_notice_then_weekly_summaries(story: Story):
    first = story.day("Monday 2 November")
    for name, owner in (("dev-mia", "mia@example.com"), ("dev-ana", "ana@example.com")):
        about = [
            following
            for to, _, text in story.mails
            if to == owner
            for following in re.findall(rf"^\d+\. {name}\n(?:   .*\n)*?   Next: (.+)$", text, re.MULTILINE)
        ]
        assert sorted(text.split()[0] for text in about) == ["From", "Its"]
        enrolment, week = sorted(about)
        assert (
            "it will be stopped outside its office hours (mon-fri 09:00-19:00, UTC, except on days off in company-day)"
            in enrolment
        )
        assert "Next days off: Tue 10 Nov." in enrolment
        assert re.search(r"apply\. Since Mon 2 Nov 2026, 19:30 UTC it was stopped \d+ times and started \d+ times", week)
        assert f"- {name}: " in first
        assert re.search(rf"- {name}: [^\n]*\. Its office\s+hours", story.text)


def test_the_storys_last_sweep_equals_the_final_report(story: Story):
    sums = story.report["totals"]
    assert f"{sums['resources']} resources: {sums['by_state']['active']} active, {sums['by_state']['idle']} idle" in story.day(
        "Sunday 15"
    )
    assert f"idle costs ${sums['idle_usd_per_hour']:,.2f} an hour, {sums['unpriced_idle']} with unknown price" in story.day(
        "Sunday 15"
    )
    assert {c["status"] for c in story.report["coverage"]} == {"ok"}


def test_story_savings_are_stopped_hours_times_price(story: Story):
    """For the cluster, reckoned from its manifest and the price book; the one without a price is in hours and in no sum."""
    end = datetime.fromisoformat(story.report["run"]["started_at"])
    [stopped] = [m for m in story.manifests if m["name"] == "gpu-nightly"]
    usd = (end - datetime.fromisoformat(stopped["at"])) / timedelta(hours=1) * _cluster_usd()
    assert f"gpu-nightly ${usd:,.0f}" in story.text
    [trial] = [m for m in story.manifests if m["name"] == "gb300-trial"]
    hours = (end - datetime.fromisoformat(trial["at"])) / timedelta(hours=1)
    assert f"not counted {hours:,.0f} hours of gb300-trial, price unknown" in story.text


def test_the_storys_folders_contain_what_it_counts(story: Story):
    assert f"{len(story.mails)} in {story.home / 'mail'}" in story.text
    assert f"{len(story.manifests)} in {story.home / 'manifests'}" in story.text
    assert (story.home / "report.html").read_text().startswith("<!doctype html>")


def test_rerunning_the_story_deletes_only_its_own_files(tmp_path: Path):
    from reaper_sandbox.demo.story_run import _emptied_folder

    own = [
        tmp_path / "ledger.db",
        tmp_path / "mail" / "a@example.com-1.eml",
        tmp_path / "manifests" / "2026-11-24" / "run" / "1.json",
    ]
    other = [tmp_path / "notes.txt", tmp_path / "mail" / "notes.txt"]
    for path in [*own, *other]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    _emptied_folder(tmp_path)
    assert [p for p in own if p.exists()] == []
    assert [p for p in other if not p.exists()] == []


def test_the_story_accepts_no_policy_of_your_own(tmp_path: Path):
    completed = subprocess.run(
        [REAPER, "demo", "--story", "--policy", "version: 1", "--output", str(tmp_path / "x")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (completed.returncode, completed.stdout, (tmp_path / "x").exists()) == (2, "", False)
    assert "drop --policy and --format" in completed.stderr


def _cluster_usd() -> float:
    nodes = Resource(
        kind="azureml-compute-cluster", id="x", name="x", target=Target(cloud="azure", account=story_fleet.SUBSCRIPTION),
        region="westeurope", created=datetime.now(UTC), parts=(BilledPart(component="Linux", instance="STANDARD_NC6S_V3", count=2),),
    )  # fmt: skip
    price = PriceBook().price(nodes)
    assert price
    return price.usd_per_hour
