"""The JSON Schema helps people who write a policy in an editor: each key is described, and every policy that we show fits it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reaper import registry
from reaper.policy import yaml_lines
from reaper.policy.schema import policy_schema

ROOT = Path(__file__).parents[2]
SCHEMA = policy_schema(registry.kind_names())
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FILES = {path.name: path.read_text() for path in sorted((ROOT / "policies").glob("*.yaml"))}
BLOCKS = {
    f"{page.name} {i}": block
    for page in PAGES
    for i, block in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL))
    if re.search(r"^version: 1$", block, re.MULTILINE)
}


def keys(part: dict[str, Any] = SCHEMA, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key of a policy by its place, with what the schema says of it."""
    for key, schema in part.get("properties", {}).items():
        yield f"{name}.{key}", schema
    for inner, schema in part.get("$defs", {}).items():
        yield from keys(schema, inner)


def fits(text: str) -> list[str]:
    errors = jsonschema.Draft202012Validator(SCHEMA).iter_errors(yaml_lines.parse_with_lines(text, "policy.yaml")[0])
    return [error.message for error in errors]


def test_every_key_of_the_schema_is_described():
    assert [name for name, schema in keys() if not schema.get("description")] == []
    assert len(list(keys())) > 60


@pytest.mark.parametrize("text", [*FILES.values(), *BLOCKS.values()], ids=[*FILES, *BLOCKS])
def test_every_policy_in_the_docs_fits_the_schema(text: str):
    assert fits(text) == []


def test_the_docs_contain_policies():
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize("schema", [schema for _, schema in keys()], ids=[name for name, _ in keys()])
def test_schema_defaults_and_examples_fit_their_own_keys(schema: dict[str, Any]):
    for value in [*([schema["default"]] if "default" in schema else []), *schema.get("examples", [])]:
        jsonschema.Draft202012Validator({**schema, "$defs": SCHEMA["$defs"]}).validate(value)


@pytest.mark.parametrize("kind", ["sagemaker-notebook", "sagemaker-*", ["azureml-compute-instance", "*"]])
def test_the_schema_accepts_kinds_and_globs(kind: str | list[str]):
    assert fits(_rule(kind)) == []


def test_the_schema_rejects_an_unknown_kind():
    assert fits(_rule("sagemaker-notebok"))


def test_schema_defaults_are_spelled_as_in_a_policy_file():
    defaults = SCHEMA["$defs"]["Defaults"]["properties"]
    assert (defaults["idle_after"]["default"], defaults["lookback"]["default"]) == ("1d", "2w")
    assert SCHEMA["$defs"]["Limits"]["properties"]["max_share"]["default"] == "25%"


def test_the_schema_accepts_one_cloud_without_a_list():
    assert fits("version: 1\nrules: [{name: a, match: {cloud: aws}}]") == []


def _rule(kind: str | list[str]) -> str:
    return f"version: 1\nrules: [{{name: a, match: {{kind: {kind!r}}}}}]"
