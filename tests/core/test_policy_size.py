"""A policy that is too long, too deep or too large is an error like any other: it never stops or outlasts a run."""

from __future__ import annotations

from itertools import pairwise
from string import ascii_lowercase

import pytest

from reaper import document, lint, registry, source
from reaper.errors import PolicyError
from reaper.policy import MAX_RULES, Policy

HEAD = "version: 1\n"
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in pairwise(ascii_lowercase)
)


def parse(text: str) -> Policy:
    return document.parse(text, "policy.yaml", registry.names())


def rules(count: int, more: str = "") -> str:
    return HEAD + "rules:\n" + "".join(f"- {{name: r{n}{more}}}\n" for n in range(count))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(rules(60_000), r"^policy.yaml:1: the policy has [\d,]+ bytes, expected at most 262,144", id="60,000 rules"),
        pytest.param(HEAD + "#" + "ü" * 131_072, "expected at most 262,144", id="bytes, not letters"),
        pytest.param(rules(MAX_RULES + 1), r"^policy.yaml:2: rules: .*at most 500", id="too many rules"),
        pytest.param(HEAD + "rules: " + "[" * 3000 + "]" * 3000, "policy.yaml:1: nested too deep", id="deep lists"),
        pytest.param(HEAD + "rules: " + "{a: " * 3000 + "}" * 3000, "policy.yaml:1: nested too deep", id="deep mappings"),
        pytest.param(HEAD + "rules:" + "\n" + "".join(f"{' ' * n}-\n" for n in range(600)), "policy.yaml", id="deep blocks"),
        pytest.param(HEAD + "rules: &a [*a]\n", "nested too deep", id="what holds itself"),
        pytest.param(HEAD + LAUGHS, "aliases that grow without end", id="a billion laughs"),
    ],
)
def test_a_policy_that_is_too_much_is_a_policy_error(text: str, said: str):
    with pytest.raises(PolicyError, match=said):
        parse(text)
    with pytest.raises(PolicyError):
        source.load(text)


def test_as_many_rules_as_may_be_are_read_and_checked():
    text = rules(MAX_RULES, ", match: {tags: {team: a}}")
    policy = parse(text)
    assert len(policy.rules) == MAX_RULES
    assert len(lint.lint(policy, text, "policy.yaml")) == document.MOST


def test_the_first_hundred_problems_are_told_and_the_others_counted():
    with pytest.raises(PolicyError) as caught:
        parse(rules(300, ", action: stpo"))
    assert len(caught.value.problems) == document.MOST + 1
    assert caught.value.problems[-1] == "policy.yaml: 200 more problems"


@pytest.mark.parametrize("limit", ["1e999", "9" * 400 + ".0"])
def test_no_limit_is_infinite(limit: str):
    with pytest.raises(PolicyError, match=r"limits.max_usd_per_hour: .* is not valid: expected a finite number"):
        parse(f"{HEAD}limits: {{max_usd_per_hour: {limit}}}\n")
