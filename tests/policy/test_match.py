"""Which rule applies to a resource, and how its tags change the rule."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fakes.builders import NOW, resource
from reaper import registry
from reaper.model import BilledPart, Ceiling
from reaper.policy.parse import parse_policy
from reaper.policy.rules import effective_rule, idle_after_range, shortest_idle_after
from reaper.policy.schema import Policy

KINDS = registry.kind_names()
STARTABLE = ("azureml-compute-instance", "sagemaker-notebook")
TEXT = """
version: 1
defaults: {action: stop, idle_after: 24h}
rules:
  - name: production
    match: {tags: {Env: [prod, production]}}
    action: ignore
  - name: dear
    match: {usd_per_hour: ">= 5"}
    action: delete
    idle_after: 2h
  - name: named
    match: {name: "dev-*", region: us-east-1, size: "ml.g5.*", tags: {team: "*", frozen: null}}
    action: notify
"""


def parse(text: str) -> Policy:
    return parse_policy(text, "policy.yaml", KINDS, STARTABLE)


@pytest.mark.parametrize(
    ("fields", "usd", "name", "action"),
    [
        pytest.param({"tags": {"env": "prod"}}, 1.0, "rule 'production'", Ceiling.IGNORE, id="tag keys ignore case"),
        pytest.param({"tags": {"env": "Prod"}}, 1.0, "the policy's defaults", Ceiling.STOP, id="tag values do not"),
        pytest.param({}, 5.0, "rule 'dear'", Ceiling.DELETE, id="price"),
        pytest.param({}, 4.99, "the policy's defaults", Ceiling.STOP, id="a lower price"),
        pytest.param(
            {}, None, "rule 'dear' or the policy's defaults", Ceiling.STOP, id="an unknown price takes the gentler of both"
        ),
        pytest.param(
            {"name": "dev-1", "size": "ml.g5.xlarge x2", "tags": {"team": "a"}},
            1.0,
            "rule 'named'",
            Ceiling.NOTIFY,
            id="all conditions",
        ),
        pytest.param(
            {"name": "dev-1", "size": "ml.g5.xlarge", "tags": {}}, 1.0, "the policy's defaults", Ceiling.STOP, id="tag absent"
        ),
        pytest.param(
            {"name": "dev-1", "size": "ml.g5.xlarge", "tags": {"team": "a", "Frozen": "1"}},
            1.0,
            "the policy's defaults",
            Ceiling.STOP,
            id="tag present",
        ),
    ],
)
def test_the_first_rule_that_matches_decides(fields: dict, usd: float | None, name: str, action: Ceiling):
    holds = effective_rule(parse(TEXT), resource(**fields), usd, NOW)
    assert (holds.name, holds.action) == (name, action)


def test_an_ignore_rule_protects_the_resource():
    assert (
        effective_rule(parse(TEXT), resource(tags={"env": "prod"}), None, NOW).protected_because
        == "rule 'production' says ignore"
    )


def test_an_unknown_price_takes_the_longer_idle_after():
    holds = effective_rule(parse(TEXT), resource(), None, NOW)
    assert holds.idle_after == timedelta(hours=24)


def test_snooze_max_is_the_longer_one_of_two_possible_rules():
    text = 'version: 1\ndefaults: {snooze_max: 2w}\nrules: [{name: dear, match: {usd_per_hour: ">= 5"}, snooze_max: 3d}]'
    lengths = [effective_rule(parse(text), resource(), usd, NOW).snooze_max.days for usd in (9.0, 1.0, None)]
    assert lengths == [3, 14, 14]
    assert effective_rule(parse("version: 1"), resource(), 1.0, NOW).snooze_max == timedelta(days=30)


@pytest.mark.parametrize(
    ("may", "tag", "expected"),
    [
        pytest.param("[protect, tighten]", "2h", 2, id="tighten is allowed by default"),
        pytest.param("[protect, tighten]", "48h", 24, id="loosen is not"),
        pytest.param("[protect, loosen]", "48h", 48, id="loosen when allowed"),
        pytest.param("[protect]", "2h", 24, id="no tightening"),
    ],
)
def test_tags_change_idle_after_only_within_tags_may(may: str, tag: str, expected: int):
    policy = parse(f"version: 1\ndefaults: {{tags_may: {may}}}")
    holds = effective_rule(policy, resource(tags={"reaper:idle-after": tag}), None, NOW)
    assert holds.idle_after == timedelta(hours=expected)
    assert bool(holds.notes) == (expected == 24)


def test_an_action_tag_lowers_the_ceiling_and_never_raises_it():
    policy = parse("version: 1\ndefaults: {action: stop, tags_may: [protect, tighten, loosen]}")
    assert effective_rule(policy, resource(tags={"reaper:action": "notify"}), None, NOW).action is Ceiling.NOTIFY
    raised = effective_rule(policy, resource(tags={"reaper:action": "delete"}), None, NOW)
    assert raised.action is Ceiling.STOP
    assert raised.notes == ("tag reaper:action=delete ignored: stop is the strongest action under the policy's defaults",)


def test_a_keep_tag_protects_even_if_tags_may_is_empty():
    policy = parse("version: 1\ndefaults: {tags_may: []}")
    assert effective_rule(policy, resource(tags={"reaper:keep": "true"}), None, NOW).protected_because


def test_a_short_idle_after_tag_affects_only_its_own_resource():
    policy = parse(TEXT)
    quick, usual = (
        resource(id="quick", tags={"reaper:idle-after": "45m"}),
        resource(id="usual", tags={"reaper:idle-after": "99h"}),
    )
    assert shortest_idle_after(policy) == timedelta(hours=2)
    assert idle_after_range(policy, quick, 1.0, NOW)[0] == timedelta(minutes=45)
    assert idle_after_range(policy, usual, 1.0, NOW) == idle_after_range(policy, resource(), 1.0, NOW)


def test_an_unknown_size_takes_the_gentler_rule():
    policy = parse("""
version: 1
defaults: {action: delete}
rules: [{name: dear, match: {size: "ml.p5.*"}, action: ignore}]
""")
    second = resource(
        size="ml.m5.large x1, ml.p5.48xlarge x1", parts=(BilledPart(component="Hosting", instance="ml.p5.48xlarge"),)
    )
    assert effective_rule(policy, second, 1.0, NOW).action is Ceiling.IGNORE
    assert effective_rule(policy, resource(size="unknown x1", parts=None), None, NOW).action is Ceiling.IGNORE
    assert effective_rule(policy, resource(size="ml.m5.large x1", parts=()), None, NOW).action is Ceiling.DELETE
