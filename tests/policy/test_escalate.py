"""`escalate` in the policy: after how many reminders and to which addresses; what makes no sense is refused by line, key and value."""

from __future__ import annotations

import jsonschema
import pytest

from reaper import registry
from reaper.errors import PolicyError
from reaper.policy import lint, schema, yaml_lines
from reaper.policy.parse import parse_policy
from reaper.policy.schema import Policy

KINDS = registry.kind_names()
HEAD = "version: 1\nowners: {domains: [example.com], fallback: ops@elsewhere.test}\n"


def parse(text: str) -> Policy:
    return parse_policy(text, "p.yaml", KINDS)


@pytest.mark.parametrize(
    ("text", "after", "to"),
    [
        ("{after: 2 reminders, to: [tag:manager, admins]}", 2, ["tag:manager", "admins"]),
        ("{after: 1 reminder, to: tag:reaper:lead}", 1, ["tag:reaper:lead"]),
        ("{after: 20 reminders, to: [lee@example.com, ops@elsewhere.test]}", 20, ["lee@example.com", "ops@elsewhere.test"]),
    ],
)
def test_an_escalation_is_read_and_fits_the_schema(text, after, to):
    escalate = parse(f"{HEAD}escalate: {text}").escalate
    assert escalate is not None
    assert (escalate.after, escalate.to) == (after, to)
    jsonschema.validate(yaml_lines.parse_with_lines(f"{HEAD}escalate: {text}", "p")[0], schema.policy_schema(KINDS))
    assert parse(HEAD).escalate is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{after: 2, to: admins}", "p.yaml:3: escalate.after: 2 is not valid: expected 1 to 20 reminders, such as 2 reminders"),
        ("{after: 0 reminders, to: admins}", "escalate.after: '0 reminders' is not valid: expected 1 to 20 reminders"),
        ("{after: 21 reminders, to: admins}", "escalate.after: '21 reminders' is not valid: expected 1 to 20 reminders"),
        ("{after: 7d, to: admins}", "escalate.after: '7d' is not valid: expected 1 to 20 reminders"),
        ("{after: 2 reminders}", "p.yaml:3: escalate.to: this key is missing"),
        ("{after: 2 reminders, to: []}", "escalate.to: value should have at least 1 item"),
        (
            "{after: 2 reminders, to: [admins, manager]}",
            "p.yaml:3: escalate.to[1]: 'manager' is not valid: expected tag:KEY such as tag:manager, admins, or one plain",
        ),
        ("{after: 2 reminders, to: 'tag:'}", "'tag:' is not valid: expected tag:KEY"),
        ("{after: 2 reminders, to: [{tag: manager}]}", "escalate.to[0]: expected tag:KEY"),
        (
            "{after: 2 reminders, to: [admins, boss@elsewhere.test]}",
            "p.yaml:3: escalate.to[1]: no mail may go to boss@elsewhere.test: add elsewhere.test to owners.domains, or remove the address",
        ),
        ("{afer: 2 reminders, to: admins}", "escalate.afer: unknown key; did you mean after?"),
        ("2 reminders", "escalate: '2 reminders' is not valid: expected keys and values, such as `{after: 2 reminders"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_fix(text, expected):
    with pytest.raises(PolicyError) as refused:
        parse(f"{HEAD}escalate: {text}")
    assert expected in str(refused.value)


def test_lint_warns_of_tags_whose_addresses_get_no_mail():
    text = "version: 1\nescalate:\n  after: 2 reminders\n  to: [tag:manager, admins]\n"
    assert lint.lint_policy(parse(text), text, "p.yaml") == [
        "p.yaml:4: owners.domains is empty, so no escalation goes to tag:manager; list your mail domain"
    ]
    allowed = f"{HEAD}{text.removeprefix('version: 1')}"
    assert lint.lint_policy(parse(allowed), allowed, "p.yaml") == []
