"""Words of a policy that look right and match nothing, or everything: refused, normalized or warned about, never silent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.builders import NOW, TARGET, resource
from reaper import registry
from reaper.errors import PolicyError
from reaper.model import Ceiling, Rule, Target
from reaper.policy.lint import lint_policy
from reaper.policy.parse import parse_policy
from reaper.policy.rules import effective_rule
from reaper.policy.schema import Policy
from reaper.policy.tags import read_tags

GUID = "11111111-2222-3333-4444-55555555abcd"
AZURE = {"target": Target(cloud="azure", account=GUID), "region": "westeurope"}
UPPER = {"target": Target(cloud="azure", account=GUID.upper()), "region": "WestEurope"}


def parse(text: str) -> Policy:
    return parse_policy(f"version: 1\ndefaults: {{action: stop}}\n{text}\n", "p.yaml", registry.kind_names())


def problems(text: str) -> str:
    with pytest.raises(PolicyError) as raised:
        parse(text)
    return "\n".join(raised.value.problems)


def warnings(text: str) -> list[str]:
    return lint_policy(parse(text), f"version: 1\ndefaults: {{action: stop}}\n{text}\n", "p.yaml")


def said_of_the_rule(text: str) -> list[str]:
    return [warning for warning in warnings(text) if "rule 'kept'" in warning]


def ruled(text: str, **fields: object) -> Rule:
    return effective_rule(parse(text), resource(**fields), 1.0, NOW)


def accepted(match: str) -> str:
    return f"accept:\n  - {{match: {match}, until: 2027-01-31, reason: demo, by: Lee}}"


def ignored(match: str) -> str:
    return f"rules:\n  - {{name: kept, match: {match}, action: ignore}}"


PLACES = [
    pytest.param('{account: " 123456789012 "}', {}, id="an account with blanks"),
    pytest.param('{account: "1234 5678 9012"}', {}, id="an account in groups"),
    pytest.param('{region: " US-East-1"}', {}, id="a region in capitals"),
    pytest.param('{region: "US-*"}', {}, id="a glob in capitals"),
    pytest.param('{region: "West Europe"}', AZURE, id="a region by its display name"),
    pytest.param(f'{{subscription: "{GUID.upper()} "}}', AZURE, id="a subscription in capitals"),
    pytest.param(f"{{account: [{GUID.upper()}]}}", AZURE, id="a subscription as an account"),
    pytest.param(f"{{subscription: {GUID}}}", UPPER, id="a cloud that writes it in capitals"),
]


@pytest.mark.parametrize(("match", "fields"), PLACES)
def test_places_protect_however_they_are_written(match: str, fields: dict):
    assert ruled(ignored(match), **fields).action is Ceiling.IGNORE
    assert ruled(accepted(match), **fields).protected_because
    assert not said_of_the_rule(ignored(match))


@pytest.mark.parametrize("account", [" 123456789012", "123456789012 "])
def test_the_canary_covers_an_account_with_blanks(account: str):
    canary = f'enforce_only: {{accounts: ["{account}"]}}'
    assert ruled(canary).action is Ceiling.STOP
    assert ruled(canary, target=replace(TARGET, account="999999999999")).action is Ceiling.NOTIFY


@pytest.mark.parametrize(
    "account",
    ["12345678901", "1234-5678-9012", "my-team", "prod-*", f"/subscriptions/{GUID}", f"{{{GUID}}}", "１２３４５６７８９０１２"],
)
def test_what_can_be_no_account_is_a_warning(account: str):
    for text in (ignored(f'{{account: "{account}"}}'), accepted(f'{{name: a, subscription: "{account}"}}')):
        assert [w for w in warnings(text) if w.startswith("p.yaml:4") and "matches no account" in w]
    assert [w for w in warnings(f'enforce_only: {{accounts: ["{account}"]}}') if w.startswith("p.yaml:3") and "no account" in w]


@pytest.mark.parametrize("account", ["123456789012", GUID, "1234*", "*", "[12]*", f"{GUID[:8]}-*"])
def test_accounts_and_their_globs_are_no_warning(account: str):
    assert not said_of_the_rule(ignored(f'{{account: "{account}"}}'))


HIDDEN = [
    pytest.param("\\u200b", "U+200B (ZERO WIDTH SPACE)", id="zero width"),
    pytest.param("\\u00a0", "U+00A0 (NO-BREAK SPACE)", id="no-break space"),
    pytest.param("\\u202e", "U+202E (RIGHT-TO-LEFT OVERRIDE)", id="direction"),
    pytest.param("\\u2028", "U+2028 (LINE SEPARATOR)", id="line separator"),
    pytest.param("\\u00ad", "U+00AD (SOFT HYPHEN)", id="soft hyphen"),
    pytest.param("\\t", "U+0009 (a control character)", id="tab"),
    pytest.param("\\u3164", "U+3164 (HANGUL FILLER)", id="a letter without ink"),
    pytest.param("\\ufeff", "U+FEFF (ZERO WIDTH NO-BREAK SPACE)", id="byte order mark"),
]
WORDS = [
    pytest.param('rules:\n  - name: a\n    action: ignore\n    match: {{name: "{}"}}', 6, id="name"),
    pytest.param('rules:\n  - name: a\n    match:\n      tags:\n        env: [dev, "{}"]', 7, id="tag value"),
    pytest.param('rules:\n  - name: a\n    match:\n      tags:\n        "{}": x', 7, id="tag key"),
    pytest.param('rules:\n  - name: a\n    match: {{region: "{}"}}', 5, id="region"),
    pytest.param('rules:\n  - name: a\n    match: {{size: ["{}"]}}', 5, id="size"),
    pytest.param('accept:\n  - {{match: {{name: "{}"}}, until: 2027-01-31, reason: a, by: b}}', 4, id="accept"),
    pytest.param('enforce_only:\n  accounts: ["{}"]', 4, id="canary account"),
    pytest.param('enforce_only:\n  tags:\n    "{}": x', 5, id="canary tag"),
    pytest.param('owners:\n  tags: [owner, "{}"]', 4, id="owner tag"),
    pytest.param('report:\n  tags: "{}"', 4, id="report tag"),
    pytest.param('escalate: {{after: 1 reminder, to: ["tag:{}"]}}', 3, id="escalation tag"),
    pytest.param('budgets:\n  - {{name: b, usd_per_month: 5, match: {{name: "{}"}}}}', 4, id="budget"),
]


@pytest.mark.parametrize(("character", "named"), HIDDEN)
@pytest.mark.parametrize(("text", "line"), WORDS)
def test_what_cannot_be_seen_is_an_error_that_names_it(text: str, line: int, character: str, named: str):
    said = problems(text.format(f"te{character}am"))
    assert said.startswith(f"p.yaml:{line}: ")
    assert f"character 3, {named}, can't be seen" in said


@pytest.mark.parametrize(
    "text",
    [each.values[0] for each in WORDS if each.id in ("tag key", "canary tag", "owner tag", "report tag", "escalation tag")],
)
def test_where_there_are_no_globs_none_is_suggested(text: str):
    assert problems(text.format("te\\u200bam")).endswith("can't be seen; remove it")


@pytest.mark.parametrize("word", [" team", "team "])
@pytest.mark.parametrize(("text", "line"), [each for each in WORDS if each.id not in ("region", "canary account")])
def test_blanks_at_an_end_are_an_error(text: str, line: int, word: str):
    if "tag:{}" in text and word == " team":
        assert parse(text.format(word)).escalate.to == ["tag: team"]
        return
    said = problems(text.format(word))
    assert said.startswith(f"p.yaml:{line}: ")
    assert "U+0020 (SPACE), can't be seen" in said


@pytest.mark.parametrize("word", ["👩\u200d💻", "❤\ufe0f", "می\u200cخواهم"])
def test_the_advice_on_what_cannot_be_seen_leads_to_a_word_that_matches(word: str):
    said = problems(ignored(f"{{tags: {{team: {word!a}}}}}".replace("'", '"')))
    assert "can't be seen; remove it, or write ? for it" in said
    glob = "".join("?" if each in "\u200d\ufe0f\u200c" else each for each in word)
    assert ruled(ignored(f"{{tags: {{team: '{glob}'}}}}"), tags={"team": word}).action is Ceiling.IGNORE


@pytest.mark.parametrize("key", ["cloud", "kind", "name", "account", "subscription", "region", "tags", "size", "usd_per_hour"])
@pytest.mark.parametrize("text", ["rules:\n  - name: a\n    match:\n      {}:\n      # - demo-*", "{}: accept"])
def test_a_key_whose_words_are_all_commented_out_matches_nothing(text: str, key: str):
    acceptance = f"accept:\n  - {{match: {{kind: sagemaker-notebook, {key}: }}, until: 2027-01-31, reason: a, by: b}}"
    said = problems(acceptance.replace("kind: sagemaker-notebook, kind", "kind") if "accept" in text else text.format(key))
    assert "remove the key: empty, it would match everything" in said
    assert said.startswith((f"p.yaml:6: rules[0].match.{key}: ", f"p.yaml:4: accept[0].match.{key}: "))


def test_blanks_inside_and_other_scripts_are_fine():
    policy = parse(ignored('{tags: {"cost center": ["Größe 1", "東京", ""]}, name: "a b"}'))
    assert policy.rules[0].match.tags == {"cost center": ["Größe 1", "東京", ""]}


@pytest.mark.parametrize("match", ['{name: ""}', '{size: ""}', '{account: " "}', '{region: ""}', '{tags: {"": a}}'])
def test_an_empty_word_is_an_error(match: str):
    assert "p.yaml:4: rules[0].match" in problems(ignored(match))


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("prod–eu", "U+2013 (EN DASH)"),
        ("“prod”", "U+201C (LEFT DOUBLE QUOTATION MARK)"),
        ("don’t", "U+2019 (RIGHT SINGLE QUOTATION MARK)"),
        ("prod‑eu", "U+2011 (NON-BREAKING HYPHEN)"),
        ("ｐrod", "U+FF50 (FULLWIDTH LATIN SMALL LETTER P)"),
        ("cafe\u0301", "U+0301 (COMBINING ACUTE ACCENT)"),
    ],
)
def test_lookalikes_are_a_warning(word: str, named: str):
    for text in (ignored(f'{{name: "{word}"}}'), ignored(f'{{tags: {{env: "{word}"}}}}'), accepted(f'{{tags: {{"{word}": x}}}}')):
        assert [w for w in warnings(text) if w.startswith("p.yaml:4") and named in w]
    for text in (f'owners: {{tags: ["{word}"], domains: [a.example]}}', f'enforce_only: {{tags: {{a: "{word}"}}}}'):
        assert [w for w in warnings(text) if w.startswith("p.yaml:3") and named in w]


@pytest.mark.parametrize(
    "match",
    [
        '{name: "**"}',
        '{name: "?*"}',
        '{name: "*?"}',
        '{name: ["*", churn]}',
        '{name: "[!.]*"}',
        "{cloud: [aws, azure]}",
        "{cloud: [azure, aws], name: '*'}",
        '{usd_per_hour: ">= 0"}',
        '{usd_per_hour: ">=0.0"}',
        '{usd_per_hour: "> 0"}',
        '{usd_per_hour: "< 99999"}',
        '{kind: ["sagemaker-*", "azureml-*", "bedrock-*"]}',
        '{kind: "*-*"}',
        '{size: ["ml.*", "Standard_*"]}',
        '{account: "?*"}',
        '{account: ["????????????", "*-*-*"]}',
        '{region: "[a-z]*"}',
        "{name: '*', region: '*'}",
        "{}",
    ],
)
def test_an_acceptance_of_everything_is_refused(match: str):
    assert "p.yaml:4: accept[0].match: expected a condition" in problems(accepted(match))


@pytest.mark.parametrize(
    "match",
    [
        "{cloud: aws}",
        '{cloud: [aws, azure], usd_per_hour: ">= 1"}',
        '{kind: "sagemaker-*"}',
        '{name: "[a-m]*"}',
        '{usd_per_hour: "> 1"}',
        '{usd_per_hour: "< 5"}',
        '{region: "*-*-*"}',
        '{size: "ml.*"}',
        '{tags: {team: "*"}}',
        "{tags: {team: null}}",
        '{account: "1*"}',
        '{name: "?"}',
    ],
)
def test_a_real_condition_is_accepted(match: str):
    assert parse(accepted(match)).accept


@pytest.mark.parametrize(
    "key",
    ["ｒｅａｐｅｒ：ｋｅｅｐ", "reaper：keep", "Ｒeaper:Keep", " reaper:keep"],
    ids=["all", "colon", "one letter", "a blank"],
)
def test_full_width_letters_in_a_reaper_key_protect(key: str):
    requests = read_tags({key: "true"}, NOW)
    assert requests.protected_because == "kept by tag reaper:keep='true'"


def test_a_full_width_action_tag_lowers_the_action():
    assert read_tags({"ｒｅａｐｅｒ：ａｃｔｉｏｎ": "notify"}, NOW).action is Ceiling.NOTIFY
