"""`accept` in a policy file: what it protects and until when, what is refused, and what `policy check` says of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.builders import DAY, resource
from fakes.fake_deployment import FakeDeployment, finding_of
from reaper import registry
from reaper.errors import PolicyError
from reaper.model import Mode, Rule, State
from reaper.policy.accepted import expiry_notes
from reaper.policy.file import PolicySource
from reaper.policy.lint import lint_policy
from reaper.policy.parse import parse_policy
from reaper.policy.rules import effective_rule, idle_after_range
from reaper.policy.schema import Policy
from reaper.run import new_run
from reaper.settings import Settings

NOW = datetime(2027, 1, 20, 12, tzinfo=UTC)
SAID = "accepted until 2027-01-31 by Lee: the demo"
UNSURE = " (it may match: its price or size is unknown)"


def entry(match: str, until: str = "2027-01-31", reason: str = "the demo", by: str = "Lee") -> str:
    return f"{{match: {match}, until: {until}, reason: {reason}, by: {by}}}"


def parse(*entries: str, more: str = "defaults: {action: delete, act_on: proven}") -> Policy:
    return parse_policy(f"version: 1\n{more}\naccept: [{', '.join(entries)}]\n", "p.yaml", registry.kind_names())


def warnings(*entries: str, now: datetime = NOW) -> list[str]:
    text = "\n".join(["version: 1", "accept:", *(f"  - {each}" for each in entries), ""])
    return lint_policy(parse_policy(text, "p.yaml", registry.kind_names()), text, "p.yaml", now)


def ruled(policy: Policy, now: datetime = NOW, usd: float | None = 1.0, **tags: str) -> Rule:
    return effective_rule(policy, resource(tags=tags), usd, now)


@pytest.mark.parametrize(
    ("match", "usd", "because"),
    [
        pytest.param("{name: churn}", 1.0, SAID, id="it matches"),
        pytest.param("{name: Churn}", 1.0, None, id="another name"),
        pytest.param("{name: churn, tags: {env: dev}}", 1.0, None, id="all conditions must hold"),
        pytest.param('{usd_per_hour: "< 5"}', None, f"{SAID}{UNSURE}", id="an unknown price may match"),
        pytest.param('{usd_per_hour: "< 5"}', 9.0, None, id="a known price doesn't"),
        pytest.param("{size: ml.g5.*}", 1.0, f"{SAID}{UNSURE}", id="an unknown size may match"),
        pytest.param('{usd_per_hour: "< 5", name: other}', None, None, id="an unknown price can't match alone"),
    ],
)
def test_what_an_acceptance_matches_is_protected(match: str, usd: float | None, because: str | None):
    assert ruled(parse(entry(match)), usd=usd).protected_because == because


@pytest.mark.parametrize(
    ("zone", "end"),
    [
        ("UTC", datetime(2027, 2, 1, tzinfo=UTC)),
        ("America/New_York", datetime(2027, 2, 1, 5, tzinfo=UTC)),
        ("Pacific/Kiritimati", datetime(2027, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_the_whole_last_day_counts_in_the_owners_zone(zone: str, end: datetime):
    policy = parse(entry("{name: churn}"), more=f"owners: {{tz: {zone}, domains: [example.com]}}")
    assert ruled(policy, end - timedelta(seconds=1)).protected_because == SAID
    assert ruled(policy, end).protected_because is None


def test_another_reason_comes_first_and_both_are_said():
    policy = parse(entry("{name: churn}"))
    assert ruled(policy, **{"reaper:keep": "yes"}).protected_because == f"kept by tag reaper:keep='yes'; {SAID}"


def test_a_reason_of_several_lines_becomes_one():
    policy = parse(entry("{name: churn}", reason='"the\\ndemo\\u202e"'))
    assert ruled(policy).protected_because == f"{SAID} "


def test_of_several_acceptances_the_last_to_end_is_said():
    policy = parse(entry("{name: churn}"), entry("{kind: sagemaker-*}", "2027-03-01", by="Kim"), entry("{name: x}", "2028-01-01"))
    assert ruled(policy).protected_because == "accepted until 2027-03-01 by Kim: the demo"
    assert ruled(policy, datetime(2027, 2, 28, tzinfo=UTC)).protected_because == "accepted until 2027-03-01 by Kim: the demo"


def test_what_the_canary_leaves_out_is_protected_too():
    policy = parse(entry("{name: churn}"), more="defaults: {action: stop}\nenforce_only: {tags: {canary: here}}")
    assert (ruled(policy).only_notices, ruled(policy).protected_because) == (True, SAID)


MATCHES = st.sampled_from(
    ["{name: churn}", "{kind: sagemaker-*}", '{usd_per_hour: ">= 5"}', "{size: ml.p5.*}", "{tags: {env: prod}}", "{name: other}"]
)
ENTRIES = st.builds(entry, MATCHES, st.sampled_from(["2026-12-31", "2027-01-20", "2027-01-31", "9999-12-31"]))
POLICIES = st.sampled_from(
    [
        "defaults: {action: delete, act_on: proven}",
        "rules: [{name: a, match: {tags: {env: prod}}, action: ignore}, {name: b, action: stop}]",
        'rules: [{name: a, match: {usd_per_hour: ">= 5"}, action: stop, idle_after: 2h}, {name: b, idle_after: 3d}]',
        'rules: [{name: a, match: {name: churn}, action: stop, hours: {on: "mon-fri 07:00-10:00", tz: UTC, force: true}}]',
        "defaults: {action: stop}\nenforce_only: {tags: {env: prod}}",
    ]
)
TAGS = st.dictionaries(
    st.sampled_from(["env", "reaper:keep", "reaper:action", "reaper:idle-after", "reaper:hours"]),
    st.sampled_from(["prod", "dev", "true", "false", "ignore", "stop", "12h", "mon-fri 07:00-21:00 UTC"]),
    max_size=3,
)


@given(entries=st.lists(ENTRIES, max_size=3), more=POLICIES, tags=TAGS, usd=st.sampled_from([None, 1.0, 9.0]))
def test_acceptances_only_add_protection_and_change_nothing_else(
    entries: list[str], more: str, tags: dict[str, str], usd: float | None
):
    accepting, plain = parse(*entries, more=more), parse(more=more)
    theirs, without = ruled(accepting, usd=usd, **tags), ruled(plain, usd=usd, **tags)
    rest = {name: getattr(without, name) for name in ("protected_because", "protection_ended_at", "in_doubt")}
    assert replace(theirs, **rest) == without
    assert (theirs.protected_because or "").startswith(without.protected_because or "")
    assert bool(theirs.protected_because) >= bool(without.protected_because)
    ranges = [idle_after_range(policy, resource(tags=tags), usd, NOW) for policy in (accepting, plain)]
    assert ranges[0] == ranges[1], "an accepted resource is observed as any other"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(entry("{}"), "accept[0].match: expected a condition such as name, kind or tags", id="an empty match"),
        pytest.param(entry("{tags: {}}"), "accept[0].match.tags: say what it matches", id="no tags"),
        pytest.param(entry("{kind: '*', name: ['*']}"), "without any, everything would be accepted", id="every kind and name"),
        pytest.param(entry(""), "accept[0].match: None is not valid", id="no match"),
        pytest.param("{match: {name: a}, until: 2027-01-31, by: Lee}", "accept[0].reason: this key is missing", id="no reason"),
        pytest.param("{match: {name: a}, reason: a, by: b}", "accept[0].until: this key is missing", id="no day"),
        pytest.param(entry("{name: a}", by='" "'), "accept[0].by: ' ' is not valid", id="a blank name"),
        pytest.param(entry("{name: a}", "31.1.2027"), "expected a day such as 2026-11-01", id="another form"),
        pytest.param(entry("{name: a}", "2027-02-30"), "accept[0].until: '2027-02-30' is not valid", id="no such day"),
        pytest.param(entry("{name: a}", "never"), "accept[0].until: 'never' is not valid", id="no end"),
        pytest.param(entry("{kind: sagemaker-endpiont}"), "unknown kind 'sagemaker-endpiont'; did you mean", id="unknown kind"),
        pytest.param("{macth: {name: a}}", "unknown key; did you mean match?", id="a misspelled key"),
        pytest.param(", ".join([entry("{name: a}")] * 201), "200", id="too many"),
    ],
)
def test_an_acceptance_that_makes_no_sense_is_an_error(text: str, message: str):
    with pytest.raises(PolicyError) as raised:
        parse(text)
    assert message in str(raised.value)
    assert raised.value.problems[0].startswith("p.yaml:3: accept")


def test_an_accept_without_entries_accepts_nothing():
    assert parse_policy("version: 1\naccept:\n", "p.yaml", registry.kind_names()).accept == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            entry("{name: demo-*, tags: {env: [dev, test], team: null}}", "2027-01-19"),
            "p.yaml:3: The acceptance of name demo-*, tag env=dev or test, no tag team by Lee expired on 2027-01-19. "
            "Remove it or renew it.",
            id="expired",
        ),
        pytest.param(
            entry("{cloud: azure, kind: sagemaker-*}"),
            "p.yaml:3: acceptance 'cloud azure, kind sagemaker-* by Lee' never matches: its kinds are not in cloud azure",
            id="it contradicts itself",
        ),
        pytest.param(entry("{tags: {Env: a, env: b}}"), "'Env' and 'env' are the same tag", id="a tag twice"),
        pytest.param(entry("{region: us-esat-1}"), "unknown region 'us-esat-1'; did you mean us-east-1?", id="a region"),
    ],
)
def test_policy_check_warns_about_acceptances(text: str, message: str):
    [warning] = warnings(text)
    assert message in warning


@pytest.mark.parametrize("until", ["2027-01-20", "2027-01-31", "2029-01-19"])
def test_policy_check_accepts_days_within_two_years(until: str):
    assert warnings(entry("{name: demo-*}", until)) == []


@pytest.mark.parametrize(("days", "said"), [(15, ""), (14, ""), (13, "expires after"), (0, "expires after"), (-1, "expired on")])
def test_the_end_is_said_two_weeks_before(days: int, said: str):
    until = (NOW + timedelta(days=days)).date().isoformat()
    notes = [note for _, note in expiry_notes(parse(entry("{name: churn}", until)), NOW)]
    assert [said in note for note in notes] == ([True] if said else [])


def source(until: str) -> PolicySource:
    text = f"version: 1\naccept:\n  - {entry('{name: demo-*}', until)}\n"
    return PolicySource(name="p.yaml", text=text, policy=parse_policy(text, "p.yaml", registry.kind_names()))


@pytest.mark.parametrize("until", ["2029-01-22", "9999-12-31"])
def test_no_run_begins_while_something_is_accepted_for_too_long(until: str):
    new_run(Settings(mode=Mode.NOTIFY), source("2029-01-21"), lambda: NOW)
    with pytest.raises(PolicyError) as error:
        new_run(Settings(mode=Mode.NOTIFY), source(until), lambda: NOW)
    why = "is more than two years ahead; write 2029-01-21 or an earlier day, and renew it then"
    assert str(error.value) == f"p.yaml:3: accept[0].until: {until} {why}"


@pytest.mark.parametrize(
    ("match", "is_said"),
    [
        pytest.param("{name: gone}", True, id="anywhere"),
        pytest.param("{cloud: azure, name: gone}", False, id="another deployment sweeps Azure"),
        pytest.param("{kind: sagemaker-notebook}", False, id="a kind that was not swept"),
        pytest.param('{account: ["210987654321"]}', False, id="another account"),
        pytest.param("{region: eu-west-1}", False, id="another region"),
        pytest.param('{account: ["123456789012"], region: us-*, name: gone}', True, id="where the sweep was"),
    ],
)
def test_only_what_the_sweep_was_about_can_match_nothing(match: str, is_said: bool):
    deployment = FakeDeployment(policy=parse(entry(match, "2027-12-31"), more=""), now=NOW)
    deployment.cloud.add("churn", created=NOW - 60 * DAY)
    assert bool(deployment.sweep().run.acceptances) is is_said


@pytest.mark.parametrize("match", ["{name: host}", "{name: host, kind: sagemaker-endpoint}"])
@pytest.mark.parametrize("told", [False, True], ids=["never told", "told before"])
@pytest.mark.parametrize("is_swept", [False, True], ids=["inner alone", "both swept"])
def test_what_lives_in_an_accepted_host_is_left_alone(match: str, told: bool, is_swept: bool):
    more = "defaults: {action: stop, idle_after: 24h, grace: 3d}\nowners: {fallback: lee@example.com}"
    accepting = parse(entry(match), more=more)
    deployment = FakeDeployment(policy=parse(more=more) if told else accepting, now=NOW)
    deployment.cloud.kind_name = "sagemaker-inference-component"
    for name, host in (*([("host", "")] if is_swept else []), ("inner", "host")):
        deployment.cloud.add(name, host=host, created=NOW - 60 * DAY, running_since=NOW - 60 * DAY)
    for _ in range(5):
        report = deployment.sweep()
        deployment.policy = accepting
        deployment.now += DAY
    assert (deployment.cloud.log, deployment.record("inner").notice) == ([], None)
    assert not [note for note in report.run.acceptances if "matched nothing" in note]
    inner = finding_of(report, "inner")
    assert (inner.case.verdict.state, inner.case.verdict.because) == (State.EXEMPT, f"its host is {SAID}")


@pytest.mark.parametrize(
    ("entries", "usd", "ended"),
    [
        pytest.param([entry("{name: churn}")], 1.0, None, id="it goes on"),
        pytest.param([entry("{name: churn}", "2027-01-19")], 1.0, datetime(2027, 1, 19, 23, tzinfo=UTC), id="it is over"),
        pytest.param([entry("{name: churn}", "2027-01-20")], 1.0, None, id="its last day"),
        pytest.param([entry("{name: other}", "2027-01-19")], 1.0, None, id="another's"),
        pytest.param(
            [entry("{name: churn}", "2027-01-02"), entry("{kind: '*endpoint'}", "2027-01-11"), entry("{name: churn}")],
            1.0,
            datetime(2027, 1, 11, 23, tzinfo=UTC),
            id="the last of several",
        ),
        pytest.param(
            [entry('{usd_per_hour: "< 5"}', "2027-01-19")], None, datetime(2027, 1, 19, 23, tzinfo=UTC), id="it may have matched"
        ),
        pytest.param([entry('{usd_per_hour: "< 5"}', "2027-01-19")], 9.0, None, id="it can't have matched"),
    ],
)
def test_the_rule_names_the_end_of_an_acceptance_that_is_over(entries: list[str], usd: float | None, ended: datetime | None):
    assert ruled(parse(*entries, more="owners: {tz: Europe/Berlin}"), usd=usd).protection_ended_at == ended


@pytest.mark.parametrize(
    ("tags", "ended"),
    [
        pytest.param({"reaper:keep-until": "2027-01-18"}, datetime(2027, 1, 19, 12, tzinfo=UTC), id="a day, over everywhere"),
        pytest.param({"reaper:keep-until": "2027-01-19"}, datetime(2027, 1, 20, 12, tzinfo=UTC), id="over this moment"),
        pytest.param({"reaper:keep-until": "2027-01-20"}, None, id="a day that isn't over"),
        pytest.param({"reaper:keep-until": "soon"}, None, id="not a day"),
        pytest.param(
            {"reaper:keep-until": "2027-01-03", "Reaper:Keep-Until": "2027-01-04T08:00:00Z"},
            datetime(2027, 1, 4, 12, tzinfo=UTC),
            id="the later of two",
        ),
    ],
)
def test_the_rule_names_the_end_of_a_keep_until_that_is_over(tags: dict[str, str], ended: datetime | None):
    assert ruled(parse(), **tags).protection_ended_at == ended
    accepted = parse(entry("{name: churn}", "2027-01-09"))
    over = datetime(2027, 1, 10, tzinfo=UTC)
    assert ruled(accepted, **tags).protection_ended_at == max(ended or over, over), "the later of both"


def test_the_end_of_an_acceptance_of_its_host_is_named_too():
    inner = resource(kind="sagemaker-inference-component", host_id="arn:aws:sagemaker:us-east-1:123456789012:endpoint/house")
    policy = parse(entry("{name: house}", "2027-01-19"))
    assert effective_rule(policy, inner, None, NOW).protection_ended_at == datetime(2027, 1, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("accept", "usd", "tags", "doubt"),
    [
        pytest.param("{name: churn}", None, {}, False, id="accepted for sure"),
        pytest.param('{usd_per_hour: "< 5"}', None, {}, True, id="perhaps accepted"),
        pytest.param('{usd_per_hour: "< 5"}', None, {"reaper:keep": "true"}, False, id="kept for sure"),
        pytest.param('{usd_per_hour: "< 5"}', 9.0, {}, False, id="a known price"),
        pytest.param("{name: other}", None, {}, True, id="a rule that may match"),
        pytest.param("{name: other}", 9.0, {}, False, id="a rule that matches"),
    ],
)
def test_only_an_unknown_price_or_size_leaves_the_rule_in_doubt(
    accept: str, usd: float | None, tags: dict[str, str], doubt: bool
):
    rules = 'rules: [{name: dear, match: {usd_per_hour: ">= 8"}, action: notify}]' if "other" in accept else ""
    assert ruled(parse(entry(accept), more=rules), usd=usd, **tags).in_doubt is doubt
