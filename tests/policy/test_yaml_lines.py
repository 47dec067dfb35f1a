"""Whatever stands in a policy's text, it is a policy or a PolicyError that names the line: YAML is a large language."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reaper import registry
from reaper.errors import PolicyError
from reaper.policy import lint
from reaper.policy.parse import parse_policy

PLACES = [
    "limits: {{max_usd_per_hour: {}}}",
    "limits: {{max_acts: {}}}",
    "defaults: {{idle_after: {}}}",
    "rules: [{{name: {}}}]",
    "rules: [{{name: a, match: {{name: {}}}}}]",
    "rules: [{{name: a, match: {{tags: {{t: {}}}}}}}]",
    "rules: [{{name: a, match: {{tags: {{? {} : x}}}}}}]",
    "owners: {}",
    "rules: {}",
]
TAGS = ["timestamp", "float", "int", "binary", "bool", "null", "omap", "pairs", "set", "seq", "map", "merge", "value", "str"]
VALUES = ["foo", "''", "_", "'0x'", "'1:2'", "'-'", ".", "é", "2001-01-01", "'2001-01-01T99:99:99Z'", "[a]", "[a: b]", "{a: b}"]
ODD = [
    "!foo x",
    "!python/object:os.system x",
    "!!python/object/apply:os.system [ls]",
    "!<tag:x,1:y> x",
    '"\\Uffffffff"',
    '"\\ud800"',
]
ODD += [
    "9" * 5000,
    "-" + "9" * 4999,
    "1e999",
    "- - -",
    "*a",
    "&a",
    "%",
    "@",
    "`",
    "<<: *x",
    "? ",
    "\x00",
    "\ud800",
    "\ufeff",
    "!",
    "!!",
]


def check(text: str) -> None:
    """Read it; whatever else than PolicyError it raises, the test fails with it."""
    problems: list[str] = []
    try:
        lint.lint_policy(parse_policy(text, "p.yaml", registry.kind_names(), ["sagemaker-notebook"]), text, "p.yaml")
    except PolicyError as error:
        problems = error.problems
    assert all(problem.startswith("p.yaml:") for problem in problems)


@pytest.mark.parametrize("value", [*(f"!!{tag} {value}" for tag in TAGS for value in VALUES), *ODD])
def test_no_yaml_tag_or_value_crashes_the_parser(value: str):
    for place in PLACES:
        check(f"version: 1\n{place.format(value)}\n")
    check(value)


@pytest.mark.parametrize("value", ["!!timestamp foo", "!!binary abc", "!!set {a}", "!!omap [a: b]", "!own x", "!!map [a]"])
def test_an_unsupported_yaml_tag_is_an_error_with_its_line(value: str):
    with pytest.raises(PolicyError, match=r"^p.yaml:2: owners.tags: unsupported YAML tag '!.*'; write the value without a tag"):
        parse_policy(f"version: 1\nowners: {{tags: {value}}}\n", "p.yaml", [])


@pytest.mark.parametrize("value", ["!!float ''", "!!float _", "!!int ''", "!!int 0x10", "!!bool x", "!!null x", "!!int 1.5"])
def test_a_value_that_contradicts_its_yaml_tag_is_an_error(value: str):
    for place in PLACES[:1] + PLACES[4:6]:
        with pytest.raises(PolicyError, match=r"^p.yaml:2: [\w\[\].]+: '.*' isn't a valid (float|int|bool|null)"):
            parse_policy(f"version: 1\n{place.format(value)}\n", "p.yaml", [])


@pytest.mark.parametrize(("value", "read"), [("!!float 1", 1.0), ("!!int '7'", 7.0), ("!!float .5e1", 5.0), ("7", 7.0)])
def test_a_yaml_tag_that_fits_its_value_is_accepted(value: str, read: float):
    policy = parse_policy(f"version: 1\nlimits: {{max_usd_per_hour: {value}}}\n", "p.yaml", [])
    assert policy.limits.max_usd_per_hour == read


PIECES = st.sampled_from(
    [
        "version",
        "1",
        "rules",
        "name",
        "match",
        "tags",
        "owners",
        "limits",
        "max_acts",
        ": ",
        ":",
        "- ",
        "\n",
        "\n  ",
        "[",
        "]",
        "{",
        "}",
    ]
    + [
        ", ",
        "? ",
        "&a ",
        "*a",
        "<<",
        "'",
        '"',
        "\\U",
        "\\x",
        "ffffffff",
        "|",
        ">",
        "#",
        "%YAML 1.1",
        "---",
        "...",
        "\t",
        "\r",
        "~",
        "é",
    ]
    + [f"!!{tag} " for tag in TAGS]
)


@settings(deadline=None, max_examples=400)
@given(st.lists(st.one_of(PIECES, PIECES, PIECES, st.text(max_size=3)), max_size=40).map("".join))
def test_any_yaml_is_a_policy_or_an_error_with_its_line(text: str):
    check(text)
    check(f"version: 1\n{text}")


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(PLACES), st.lists(PIECES, min_size=1, max_size=12).map("".join))
def test_any_value_is_read_or_an_error_with_its_line(place: str, value: str):
    check(f"version: 1\n{place.format(value)}\n")
