"""What the docs say is what the code does, and nothing of the code is left out of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import forks
from docs_commands import FIRST, NOT_RUN, Fleet
from reaper import registry, settings
from reaper.cli import main
from reaper.notices.channels import delivery
from reaper.policy import schema, secret_grants, tags
from reaper.policy.parse import parse_policy

ROOT = Path(__file__).parents[2]
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]}
README = PAGES["README.md"]
ALONE = PAGES | {"README.md": re.sub(r"^## (Try it|Practice)\n.*?(?=^## )", "", README, flags=re.MULTILINE | re.DOTALL)}
"""Without the README's commands that belong together: test_readme.py and tests/e2e/test_demo_serve.py run these in their order."""
EVERYTHING = "\n".join(PAGES.values())


@pytest.mark.parametrize("setting", sorted(settings.SETTING_DOCS))
def test_every_setting_is_on_its_page(setting: str):
    assert f"`{setting}`" in PAGES["docs/settings.md"]


def test_every_setting_in_the_docs_exists():
    named = set(re.findall(r"\bREAPER_[A-Z_]+\b", EVERYTHING))
    assert {name for name in named if not name.startswith(secret_grants.SECRET_PREFIX)} <= set(settings.SETTING_DOCS)


@pytest.mark.parametrize("tag", sorted(tags.TAG_DOCS))
def test_every_tag_is_in_the_table_of_the_policy_page(tag: str):
    assert f"\n| `{tag}` | " in PAGES["docs/policy.md"]


def test_every_tag_in_the_docs_exists():
    named = set(re.findall(r"`(reaper:[a-z-]+)`", EVERYTHING))
    assert named <= set(tags.TAG_DOCS)


@pytest.mark.parametrize("kind", registry.kind_names())
def test_every_kind_is_in_the_docs_and_the_changelog(kind: str):
    assert f"\n| {next(k.title for k in registry.kinds() if k.name == kind)} | " in README
    assert f"\n## `{kind}`\n" in PAGES["docs/kinds.md"]
    assert f"`{kind}`" in PAGES["CHANGELOG.md"]


def test_every_command_is_on_its_page_and_no_other():
    def names(command: Any, name: str) -> list[str]:
        inside = getattr(command, "commands", {})
        return [each for word, sub in inside.items() for each in names(sub, f"{name} {word}")] or [name]

    table = PAGES["docs/cli.md"].split("\n## Commands\n")[1].split("\n## ")[0]
    cells = "".join(line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `"))
    assert sorted(re.findall(r"`(reaper [a-z ]*[a-z])", cells)) == sorted(names(typer.main.get_command(main.app), "reaper"))


@pytest.mark.parametrize(
    "model",
    [
        schema.Defaults,
        schema.Limits,
        schema.Owners,
        schema.Match,
        schema.RuleSpec,
        schema.PriceRule,
        schema.CurrencySpec,
        schema.Budget,
    ],
)
def test_every_key_of_the_policy_is_on_its_page(model: type):
    assert [name for name in model.model_fields if not re.search(rf"`([a-z]+\.)?{name}`", PAGES["docs/policy.md"])] == []


@pytest.mark.parametrize(
    "block", re.findall(r"```yaml\n(.*?)```", EVERYTHING, re.DOTALL), ids=lambda text: text.splitlines()[0][:30]
)
def test_every_policy_in_the_docs_is_valid(block: str):
    if "version" in (yaml.safe_load(block) or {}):
        parse_policy(block, "docs", registry.kind_names())


def test_the_docs_examples_use_channels_that_a_deployment_has():
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", EVERYTHING, re.DOTALL)]
    used = {spec["type"] for block in blocks if isinstance(block, dict) for spec in block.get("channels", ())}
    assert used
    assert {delivery.MODULE_BY_TYPE[type_][1] for type_ in used} <= {"cli", "aws", "azure"}
    assert "it needs the extra `chat`" in PAGES["docs/notices.md"]


def test_the_page_documents_every_log_choice():
    page, template = PAGES["docs/deploy-aws.md"], (ROOT / "template.yaml").read_text()
    [allowed] = re.findall(r"LogRetentionDays:\n.*\n.*\n    AllowedValues: \[(.*)\]", template)
    head, _, last = allowed.rpartition(", ")
    assert f"logs: {head} or {last} days" in page


def test_a_summary_is_as_quiet_on_both_clouds_unless_asked():
    [aws] = re.findall(r'Quiet:\n    Type: String\n    Default: "(\w+)"', (ROOT / "template.yaml").read_text())
    [azure] = re.findall(r"param quiet bool = (\w+)", (ROOT / "infra/main.bicep").read_text())
    assert aws == azure
    assert f"| `quiet` | `{azure}` |" in PAGES["docs/deploy-azure.md"]


def test_the_comparison_has_the_measured_figures():
    measured = json.loads((ROOT / "benchmarks/results.json").read_text())["peers"]
    wrong = {fleet: measured[f"{fleet}: custodian"]["wrongly_idle"] for fleet in ("mixed", "hard")}
    page = " ".join(PAGES["docs/comparison.md"].split())
    assert (
        f"it called {wrong['mixed']} endpoints idle that weren't, on a fleet of nothing but hard cases {wrong['hard']}:" in page
    )


def test_every_picture_is_on_a_page():
    shown = {name for text in PAGES.values() for name in re.findall(r"\]\((?:docs/)?images/([\w-]+\.png)\)", text)}
    assert shown == {path.name for path in (ROOT / "docs/images").iterdir()}


@pytest.fixture(scope="module")
def fleet():
    with Fleet() as running:
        yield running


COMMANDS = sorted(
    {
        line[2:]
        for page in ALONE.values()
        for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL)
        for line in block.splitlines()
        if line.startswith("$ ")
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_in_the_docs_runs(fleet: Fleet, command: str, tmp_path: Path):
    if why := next((why for start, why in NOT_RUN.items() if command.startswith(start)), None):
        pytest.skip(why)
    (tmp_path / "policies").symlink_to(ROOT / "policies")
    environ = {**{k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_"))}, **fleet.env}
    environ["PATH"] = f"{forks.stand_in()}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    before = next((f"{first} && " for start, first in FIRST.items() if command.startswith(start)), "")
    completed = subprocess.run(
        before + command, shell=True, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=200, check=False
    )
    assert completed.returncode in ({1} if "--fail-on" in command else {0}), completed.stderr[-2000:]
    assert "Traceback" not in completed.stderr
