"""A policy that is too long, too deep or too large is an error like any other: it never stops or outlasts a run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from string import ascii_lowercase

import pytest

from reaper import registry
from reaper.errors import PolicyError
from reaper.policy import file as policy_file
from reaper.policy import lint, yaml_lines
from reaper.policy.parse import MAX_PROBLEMS, parse_policy
from reaper.policy.schema import MAX_RULES, Policy

HEAD = "version: 1\n"
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in pairwise(ascii_lowercase)
)


def parse(text: str) -> Policy:
    return parse_policy(text, "policy.yaml", registry.kind_names())


def rules(count: int, more: str = "") -> str:
    return HEAD + "rules:\n" + "".join(f"- {{name: r{n}{more}}}\n" for n in range(count))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(rules(60_000), r"^policy.yaml:1: longer than 262,144 bytes; remove some rules", id="60,000 rules"),
        pytest.param(HEAD + "#" + "ü" * 131_072, "longer than 262,144", id="bytes, not letters"),
        pytest.param(rules(MAX_RULES + 1), r"^policy.yaml:2: rules: .*at most 500", id="too many rules"),
        pytest.param(HEAD + "rules: " + "[" * 3000 + "]" * 3000, "policy.yaml:1: too deep", id="deep lists"),
        pytest.param(HEAD + "rules: " + "{a: " * 3000 + "}" * 3000, "policy.yaml:1: too deep", id="deep mappings"),
        pytest.param(HEAD + "rules:" + "\n" + "".join(f"{' ' * n}-\n" for n in range(600)), "policy.yaml", id="deep blocks"),
        pytest.param(HEAD + "rules: &a [*a]\n", "too deep", id="what holds itself"),
        pytest.param(HEAD + LAUGHS, "aliases that grow without end", id="a billion laughs"),
    ],
)
def test_an_oversized_policy_is_an_error(text: str, message: str):
    with pytest.raises(PolicyError, match=message):
        parse(text)
    with pytest.raises(PolicyError):
        policy_file.load_policy(text)


def test_the_maximum_number_of_rules_is_accepted():
    text = rules(MAX_RULES, ", match: {tags: {team: a}}")
    policy = parse(text)
    assert len(policy.rules) == MAX_RULES
    assert len(lint.lint_policy(policy, text, "policy.yaml")) == MAX_PROBLEMS


def test_one_hundred_problems_are_listed_and_the_rest_counted():
    with pytest.raises(PolicyError) as caught:
        parse(rules(300, ", action: stpo"))
    assert len(caught.value.problems) == MAX_PROBLEMS + 1
    assert caught.value.problems[-1] == "policy.yaml: 200 more problems"


@pytest.mark.parametrize("limit", ["1e999", "9" * 400 + ".0"])
def test_an_infinite_limit_is_an_error(limit: str):
    with pytest.raises(PolicyError, match=r"limits.max_usd_per_hour: .* is not valid: expected a finite number"):
        parse(f"{HEAD}limits: {{max_usd_per_hour: {limit}}}\n")


def test_an_endless_file_is_read_up_to_the_limit():
    with pytest.raises(PolicyError, match="longer than 262,144 bytes"):
        policy_file.load_policy("/dev/zero")


@pytest.mark.parametrize(("length", "may"), [(yaml_lines.MAX_BYTES, True), (yaml_lines.MAX_BYTES + 1, False)])
def test_a_file_of_exactly_the_maximum_size_is_read(tmp_path: Path, length: int, may: bool):
    file = tmp_path / "policy.yaml"
    file.write_bytes((HEAD + "#").encode().ljust(length - 2, b"x") + "ü".encode())
    if may:
        assert len(policy_file.load_policy(str(file)).text.encode()) == length
        return
    with pytest.raises(PolicyError, match="longer than 262,144 bytes"):
        policy_file.load_policy(str(file))


def test_a_binary_policy_file_is_an_error(tmp_path: Path):
    (tmp_path / "policy.yaml").write_bytes(b"version: 1 # \xff")
    with pytest.raises(PolicyError, match=r"policy.yaml:1: not valid UTF-8"):
        policy_file.load_policy(str(tmp_path / "policy.yaml"))


def laughing(depth: int) -> str:
    lists = [f"&a0 [{', '.join('x' * 9)}]"]
    lists += [f"&a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, depth)]
    return f"[{', '.join(lists)}]"


@pytest.mark.parametrize(
    "key", [laughing(30), "&a [*a]", "{a: b}", "[" * 250 + "]" * 250], ids=["laughs", "itself", "map", "deep"]
)
def test_a_collection_as_key_is_an_error_without_repeating_it(key: str):
    with pytest.raises(PolicyError, match=r"^p.yaml:2: the policy: a list or mapping can't be a key"):
        parse_policy(f"{HEAD}? {key}\n: v\n", "p.yaml", [])


LONG = "*azureml-online-deployment" + "x" * 1900
MANY = f"[&a '{LONG}', {', '.join(['*a'] * 9000)}]"
HOURS = "hours: {on: 'mon 07:00-08:00', tz: UTC, force: true}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"rules: [{{name: x, match: {{kind: {MANY}}}, {HOURS}}}]", id="forced for good"),
        pytest.param(f"rules: [{{name: x, match: {{kind: {MANY}}}}}]", id="no kinds"),
        pytest.param(f"owners: {{domains: {MANY}}}", id="domains"),
        pytest.param(f"channels: [{{type: {MANY}}}]", id="a channel's type"),
        pytest.param(
            f"channels: [&c {{type: folder, path: x, secret: 'env:{LONG[1:].replace('-', '_')}'}}{', *c' * 4000}]", id="secrets"
        ),
        pytest.param(f"channels: [&c {{type: '{LONG}'}}{', *c' * 4000}]", id="channels of no type"),
        pytest.param(f"rules: [{{{', '.join(f'{n}{LONG[:200]}: x' for n in range(900))}}}]", id="unknown keys"),
        pytest.param(MANY, id="no keys at all"),
        pytest.param(f"rules: *{'a' * 200_000}", id="an alias of nothing"),
        pytest.param(f"!{'a' * 200_000} x", id="a tag"),
    ],
)
def test_policy_errors_repeat_values_in_bounded_length(text: str):
    with pytest.raises(PolicyError) as caught:
        parse_policy(text if text[0] in "[!" else HEAD + text, "p.yaml", registry.kind_names(), ["sagemaker-notebook"])
    assert max(map(len, caught.value.problems)) <= 1000
    assert len(caught.value.problems) <= MAX_PROBLEMS + 1


def test_an_error_names_the_first_values_and_counts_the_rest():
    kinds = ", ".join(["azureml-online-deployment"] * 9000)
    with pytest.raises(PolicyError, match=r"for azureml-online-deployment, azureml-online-deployment, \S+ and 8,997 more, which"):
        parse_policy(
            f"{HEAD}rules: [{{name: x, match: {{kind: [{kinds}]}}, {HOURS}}}]",
            "p.yaml",
            registry.kind_names(),
            ["sagemaker-notebook"],
        )


@pytest.mark.parametrize(("value", "may"), [("x" * 2000, True), ("x" * 2001, False)])
def test_overlong_keys_and_values_are_errors(value: str, may: bool):
    for text in (
        f"{HEAD}rules: [{{name: x, match: {{name: {value}}}}}]",
        f"{HEAD}rules: [{{name: x, match: {{tags: {{? {value} : y}}}}}}]",
    ):
        try:
            parse(text)
            read = True
        except PolicyError as error:
            read = "is too long; use at most 2,000 characters" not in str(error)
        assert read is may


def test_lint_warnings_are_bounded_in_length():
    values = ", ".join(["&a 'X" + "x" * 1900 + "'", *["*a"] * 3000])
    text = f"{HEAD}rules: [{{name: x, action: ignore, match: {{tags: {{t: [{values}]}}, region: [{values.replace('a', 'b')}]}}}}]"
    hints = lint.lint_policy(parse(text), text, "policy.yaml")
    assert hints
    assert max(map(len, hints)) <= 1000
