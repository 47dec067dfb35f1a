"""What the admins know already: exact for what must be reported, nearly exact and bounded for the rest, and one row whatever the fleet."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from fakes.builders import DAY, HOUR, NOW, TARGET
from fakes.fake_deployment import POLICY, FakeDeployment, policy
from fakes.histories import history_of
from fakes.sample_findings import finding, report
from reaper.case import Coverage
from reaper.errors import CloudError, Reason
from reaper.ledger.rows import Category, Key, NamedRow
from reaper.limits import holds
from reaper.model import Mode, Status, StepName
from reaper.notices import summary_mail
from reaper.notices.admin_summary import MAX_HOLD_KEYS, OnHold, topics, urgent_topics
from reaper.notices.message import Audience

OTHER = "222222222222"
MANY = [f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/e-{n}" for n in range(20_000)]


def test_topics_are_never_forgotten_or_wrongly_known():
    row = summary_mail.topics_row({"hold:1"}, MANY[:10_000])
    assert summary_mail.known_topics({"hold:1", "hold:2"}, MANY, row) == {"hold:1", *MANY[:10_000]}


def test_the_row_is_bounded_and_its_error_rate_holds():
    crowd = [f"r{n}" for n in range(65_000)]
    row = summary_mail.topics_row((), crowd)
    assert len(row["many"]) <= 180_000
    assert len(summary_mail.known_topics((), MANY, row)) < len(MANY) * 0.002


def test_urgent_topics_are_never_mistaken_for_known_ones():
    row = summary_mail.topics_row((), [*MANY, "hold:1"])
    assert summary_mail.known_topics({"hold:1"}, (), row) == frozenset()


def test_an_unreadable_row_has_no_topics():
    assert summary_mail.known_topics({"a"}, {"b"}, {}) == frozenset()
    assert summary_mail.known_topics({"a"}, {"b"}, {"exact": "", "many": "?"}) == frozenset()


def test_the_topic_of_a_hold_has_its_beginning():
    run_report = report(finding("a", move=StepName.HOLD))
    id_ = run_report.findings[0].case.resource.id
    first, second = (
        urgent_topics(run_report, OnHold(since={id_: {NOW}})),
        urgent_topics(run_report, OnHold(since={id_: {NOW + DAY}})),
    )
    assert len(first) == len(second) == 1
    assert first != second
    assert urgent_topics(run_report, OnHold(since={id_: {NOW, NOW + DAY}})) == first | second, (
        "one hold more is news, one less is none"
    )
    assert first <= topics(run_report, OnHold(since={id_: {NOW}}))


def test_very_many_holds_share_one_key_per_place():
    one = finding("a", move=StepName.HOLD)
    crowd = report(*[one] * (MAX_HOLD_KEYS + 1))
    assert len(urgent_topics(crowd)) == 1
    assert urgent_topics(crowd) != urgent_topics(report(*[one] * (MAX_HOLD_KEYS + 2)))


# --- through whole sweeps


def summaries(deployment: FakeDeployment) -> int:
    return sum(1 for message in deployment.channel.messages if message.audience is Audience.ADMINS)


def two_places() -> FakeDeployment:
    """Something idle in each of two accounts; the admins know."""
    deployment = FakeDeployment(policy=policy(POLICY.replace("action: stop", "action: notify")), accounts=(TARGET.account, OTHER))
    deployment.cloud.add("a")
    deployment.cloud.add("b", account=OTHER)
    deployment.sweep()
    assert summaries(deployment) == 1
    return deployment


def test_a_narrow_run_forgets_nothing_of_other_places():
    deployment = two_places()
    deployment.cloud.add("c")
    deployment.now += HOUR
    deployment.sweep(accounts=[TARGET.account])
    assert summaries(deployment) == 2
    deployment.now += HOUR
    deployment.sweep()
    assert summaries(deployment) == 2


def test_places_swept_in_turn_are_told_once_each():
    deployment = two_places()
    deployment.ledger.store.delete(Key(Category.STATE, "", "summary"))
    for _ in range(3):
        for account in deployment.accounts:
            deployment.now += HOUR
            deployment.sweep(accounts=[account])
    assert summaries(deployment) == 3
    deployment.cloud.add("c")
    for account in (*deployment.accounts, *deployment.accounts):
        deployment.now += HOUR
        deployment.sweep(accounts=[account])
    assert summaries(deployment) == 4


def test_a_place_that_could_not_be_read_once_is_not_new_afterwards():
    deployment = two_places()
    works = deployment.cloud.fail_on

    def denied(call: str, name: str) -> None:
        raise CloudError(Reason.DENIED, call, "not allowed")

    deployment.cloud.fail_on = denied
    deployment.now += HOUR
    deployment.sweep()
    assert summaries(deployment) == 2
    deployment.cloud.fail_on = works
    deployment.now += HOUR
    deployment.sweep()
    assert summaries(deployment) == 2


def test_a_run_over_the_whole_replaces_what_narrow_ones_said():
    deployment = two_places()
    for name, accounts in (("c", [TARGET.account]), ("d", None)):
        deployment.cloud.add(name)
        deployment.now += HOUR
        deployment.sweep(accounts=accounts)
    assert len(summary_mail.sent_summaries(deployment.ledger.read_row("summary"))) == 1


def test_many_summaries_stay_within_bounds():
    deployment = FakeDeployment(accounts=tuple(f"{n:012}" for n in range(20)))
    for account in deployment.accounts:
        deployment.cloud.add(f"e-{account}", account=account)
        deployment.sweep(Mode.NOTIFY, accounts=[account])
        deployment.now += HOUR
    row = deployment.ledger.read_row("summary")
    assert len(summary_mail.sent_summaries(row)) == summary_mail.MAX_SUMMARIES


def test_the_row_of_an_organization_fits_into_an_item_of_dynamodb():
    kinds = [f"kind-{n}" for n in range(5)]
    places = [(f"{n:012}", f"region-{m}", kind) for n in range(250) for m in range(17) for kind in kinds]
    rows = [Coverage(cloud="aws", account=a, region=r, kind=k, status=Status.PARTIAL) for a, r, k in places]
    run_report = replace(report(), coverage=rows)
    row, exact = NamedRow(), urgent_topics(run_report)
    for n in range(9):
        mine = summary_mail.SentSummary(
            run=f"r{n}",
            started="",
            places=summary_mail._read_places(replace(run_report, coverage=rows[n % 3 :])),
            topics=summary_mail.topics_row(exact, [f"r{n}" for n in range(20_000)]),
        )
        row = NamedRow(values=summary_mail._with_summary(mine, row), version=n)
        assert sum(map(len, row.values.values())) <= summary_mail.MAX_CHARACTERS
    [last, *_] = summary_mail.sent_summaries(row)
    assert (last.run, len(exact) > 20_000) == ("r8", True)
    assert summary_mail.known_topics(exact, (), last.topics) == exact
    assert summary_mail.known_topics({*exact, "hold:1"}, (), last.topics) == frozenset(), "one more is news"


def held_once() -> FakeDeployment:
    """Two things that are due where only one may be acted on; the admins know."""
    limits = "{max_acts: 1, max_share: 100%, max_usd_per_hour: 1000}"
    deployment = FakeDeployment(policy=policy(POLICY.replace("{max_acts: 20, max_share: 100%, max_usd_per_hour: 1000}", limits)))
    deployment.cloud.add("a")
    deployment.cloud.add("b")
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.sweep()
    assert summaries(deployment) == 2
    return deployment


def test_a_lasting_hold_is_reported_once():
    deployment = held_once()
    for _ in range(3):
        deployment.now += HOUR
        deployment.sweep()
    assert summaries(deployment) == 2


def test_a_hold_that_returns_is_reported_again():
    deployment = held_once()
    holds.release_actions(deployment.ledger, "lee", deployment.now, timedelta(minutes=30))
    deployment.now += HOUR
    assert {f.step.name for f in deployment.sweep().findings} == {StepName.HOLD}
    assert summaries(deployment) == 3


def test_known_topics_are_one_row_without_history():
    deployment = held_once()
    assert history_of(deployment.ledger, "overview") == []
    assert deployment.ledger.read_row("summary").version == 2


def test_a_run_over_thousands_of_places_replaces_every_other_summary():
    rows = [Coverage(cloud="aws", account=f"{n:012}", region="r", kind="k", status=Status.OK) for n in range(5_000)]
    row = NamedRow()
    for n, read in enumerate((rows[:100], rows[1:], rows)):
        places = summary_mail._read_places(replace(report(), coverage=read))
        mine = summary_mail.SentSummary(run=f"r{n}", started="", places=places, topics={})
        row = NamedRow(values=summary_mail._with_summary(mine, row))
        assert [each.run for each in summary_mail.sent_summaries(row)] == [f"r{n}"]
