"""Plain English: phrases that no user-facing text, docstring or comment may contain. CONTRIBUTING says what to write instead."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PHRASES = r"""
\bnobody\b
\bsomebody\b
\b(whoever|anybody|whom)\b
\bby (itself|themselves)\b
\bdone to it\b
\bdear(est)?\b
\banew\b
\b(made|makes?|creat(es?|ed|ing)) (it |one )?again\b
\btak(es?|en|ing) (it )?back\b
\bleft as it is\b
\bkeep-links?\b
(?<!`)\bheld\b(?!`)
\blet(s|ting)? (go|(it|them|\{\}) go)\b
\b(an|the|each|every|no|any|last|of|those|for|\d+|\{\}) acts?\b(?! on)|\bacts (are|were|held)\b
\bspell\b
\bsince (idle|(it|they) fell idle)\b
\bso far\b
\b(is|are|was) not known\b|, price not known
\bwithout a known (price|owner)\b
\b\d+ %|\} %
\btold\b
\btells? (about|all|whether|(the )?owners)\b|\btelling\b
\blooked at\b
\bhow far\b
\bwithout (it|one)\b
\bwhere (there|one|they|it) (is|are|was|has|does|runs|gets)\b(?! (kept|written|`?stored))
\bis (no|not one) (kind|region|plan|run|manifest|subscription|text|time|type|we|that|name)\b
\b(fault of ours|own means|we know|we do not)\b
\bwhat (undoing|an act) (it )?(takes?|needs?|would need)\b
\bbecame of\b
\bby which\b
\b(are|is) of (the|run|\{\})
\bpassed over\b
\bup for long\b
\b(dead man|mended|in sight|short rope)\b
\bpretend\b
\b(a|no) text\b
\blists? (in)?complete\b|\bread in full\b
""".strip().splitlines()
BANNED = re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES), re.IGNORECASE)
EXCEPTIONS = {
    "acts held",  # an event in the logs, which alarms query by its name
}
"""Names that are published and contain a phrase."""
NOT_YET = frozenset(
    [
        "README.md",
        "docs/kinds.md",
        "functions/reaper/__init__.py",
        "functions/reaper/actions/contract.py",
        "functions/reaper/actions/executor.py",
        "functions/reaper/actions/holds.py",
        "functions/reaper/actions/intent.py",
        "functions/reaper/actions/manifest.py",
        "functions/reaper/actions/plan_file.py",
        "functions/reaper/actions/restore.py",
        "functions/reaper/actions/unfinished.py",
        "functions/reaper/aws/actions/autoscaling.py",
        "functions/reaper/aws/actions/earlier.py",
        "functions/reaper/aws/actions/endpoint_config.py",
        "functions/reaper/aws/actions/endpoint_delete.py",
        "functions/reaper/aws/actions/endpoint_restore.py",
        "functions/reaper/aws/actions/endpoint_scale_in.py",
        "functions/reaper/aws/actions/endpoint_scale_out.py",
        "functions/reaper/aws/actions/identity.py",
        "functions/reaper/aws/actions/inference_component.py",
        "functions/reaper/aws/actions/restored_count.py",
        "functions/reaper/aws/actions/sagemaker_endpoint.py",
        "functions/reaper/aws/actions/sagemaker_inference_component.py",
        "functions/reaper/aws/actions/sagemaker_notebook.py",
        "functions/reaper/aws/actions/sagemaker_studio_app.py",
        "functions/reaper/aws/assumed_role.py",
        "functions/reaper/aws/autoscaling.py",
        "functions/reaper/aws/busy.py",
        "functions/reaper/aws/component_actions.py",
        "functions/reaper/aws/configuration_cache.py",
        "functions/reaper/aws/dynamodb_ledger.py",
        "functions/reaper/aws/endpoint_actions.py",
        "functions/reaper/aws/endpoint_description.py",
        "functions/reaper/aws/kinds/sagemaker_endpoint.py",
        "functions/reaper/aws/kinds/sagemaker_inference_component.py",
        "functions/reaper/aws/kinds/sagemaker_notebook.py",
        "functions/reaper/aws/kinds/sagemaker_studio_app.py",
        "functions/reaper/aws/lambda_function.py",
        "functions/reaper/aws/metrics.py",
        "functions/reaper/aws/plain_json.py",
        "functions/reaper/aws/restorable.py",
        "functions/reaper/aws/scale_in_plan.py",
        "functions/reaper/aws/session.py",
        "functions/reaper/aws/snooze_function.py",
        "functions/reaper/aws/tags.py",
        "functions/reaper/aws/targets.py",
        "functions/reaper/aws/text_store.py",
        "functions/reaper/azure/actions/azureml_compute_cluster.py",
        "functions/reaper/azure/actions/azureml_compute_instance.py",
        "functions/reaper/azure/actions/azureml_online_deployment.py",
        "functions/reaper/azure/actions/deployment_restore.py",
        "functions/reaper/azure/actions/endpoint_traffic.py",
        "functions/reaper/azure/actions/identity.py",
        "functions/reaper/azure/arm_values.py",
        "functions/reaper/azure/assets.py",
        "functions/reaper/azure/autoscale.py",
        "functions/reaper/azure/busy.py",
        "functions/reaper/azure/clients.py",
        "functions/reaper/azure/computes.py",
        "functions/reaper/azure/count.py",
        "functions/reaper/azure/family.py",
        "functions/reaper/azure/http_policies.py",
        "functions/reaper/azure/jobs.py",
        "functions/reaper/azure/kinds/azureml_compute_cluster.py",
        "functions/reaper/azure/kinds/azureml_compute_instance.py",
        "functions/reaper/azure/kinds/azureml_online_deployment.py",
        "functions/reaper/azure/metrics.py",
        "functions/reaper/azure/metrics_reply.py",
        "functions/reaper/azure/readings.py",
        "functions/reaper/azure/resource_graph.py",
        "functions/reaper/azure/session.py",
        "functions/reaper/azure/snooze_route.py",
        "functions/reaper/azure/table_ledger.py",
        "functions/reaper/azure/table_storage.py",
        "functions/reaper/azure/targets.py",
        "functions/reaper/azure/traffic.py",
        "functions/reaper/azure/triggers.py",
        "functions/reaper/azure/trusted_hosts.py",
        "functions/reaper/azure/workspaces.py",
        "functions/reaper/azure/writes.py",
        "functions/reaper/cli/main.py",
        "functions/reaper/cli/notify.py",
        "functions/reaper/cli/options.py",
        "functions/reaper/cli/output.py",
        "functions/reaper/cli/plan.py",
        "functions/reaper/conclude.py",
        "functions/reaper/decide.py",
        "functions/reaper/ledger/codec.py",
        "functions/reaper/ledger/in_memory.py",
        "functions/reaper/ledger/lease.py",
        "functions/reaper/ledger/port.py",
        "functions/reaper/ledger/sqlite.py",
        "functions/reaper/ledger/statistics.py",
        "functions/reaper/model.py",
        "functions/reaper/notices/commands.py",
        "functions/reaper/notices/console_links.py",
        "functions/reaper/notices/context.py",
        "functions/reaper/observe.py",
        "functions/reaper/policy/channel_settings.py",
        "functions/reaper/policy/file.py",
        "functions/reaper/policy/lint.py",
        "functions/reaper/policy/office_hours.py",
        "functions/reaper/policy/owners.py",
        "functions/reaper/policy/rules.py",
        "functions/reaper/policy/schema.py",
        "functions/reaper/policy/secret_grants.py",
        "functions/reaper/policy/tags.py",
        "functions/reaper/policy/yaml_lines.py",
        "functions/reaper/run.py",
        "functions/reaper/secret_store.py",
        "functions/reaper/sessions.py",
        "functions/reaper/settings.py",
        "functions/reaper/snooze/form.py",
        "functions/reaper/snooze/handler.py",
        "functions/reaper/snooze/keys.py",
        "functions/reaper/snooze/links.py",
        "functions/reaper/snooze/pages.py",
        "functions/reaper/snooze/rate_limit.py",
        "functions/reaper/snooze/record.py",
        "functions/reaper/snooze/snooze.html.j2",
        "functions/reaper/snooze/token.py",
        "infra/modules/alerts.bicep",
        "sandbox/reaper_sandbox/demo/savings.py",
        "sandbox/reaper_sandbox/demo/story_events.py",
        "sandbox/reaper_sandbox/demo/story_fleet.py",
        "sandbox/reaper_sandbox/demo/story_run.py",
        "sandbox/reaper_sandbox/demo/story_text.py",
        "sandbox/reaper_sandbox/demo/story_world.py",
        "sandbox/reaper_sandbox/demo/sweep_demo.py",
        "template.yaml",
    ]
)
"""Files whose text is still to be edited; empty it, then delete it."""


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Strings with a space, f-strings with {} for their values, docstrings, and comments, each with its line."""
    source = path.read_text()
    tree = ast.parse(source)
    inside = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node) if part is not node
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value and id(node) not in inside:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of any other file, template expressions left out."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        yield number, re.sub(r"\{\{.*?\}\}|\$\{[^}]*\}", "{}", re.sub(r"\{%.*?%\}|\{#.*?#\}", "", line))


def files() -> list[Path]:
    """Everything that people read."""
    wanted = [
        "functions/reaper/**/*.py",
        "sandbox/reaper_sandbox/demo/*.py",
        "functions/reaper/**/*.j2",
        "functions/reaper/**/*.js",
    ]
    wanted += ["*.md", "docs/*.md", "template.yaml", "infra/**/*.bicep", "policies/*.yaml"]
    return sorted(p for glob in wanted for p in ROOT.glob(glob) if p.name != "mutation.md")


def hits(path: Path) -> list[str]:
    """Each banned phrase of a file with its line."""
    read = literals if path.suffix == ".py" else prose
    return [
        f"{path.relative_to(ROOT)}:{line}: {found[0]!r} in {' '.join(text.split())[max(0, found.start() - 40) : found.end() + 60]!r}"
        for line, text in read(path)
        for found in BANNED.finditer(text)
        if not any(known in text for known in EXCEPTIONS)
    ]


@pytest.mark.parametrize("path", files(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_text_contains_a_banned_phrase(path: Path):
    if path.relative_to(ROOT).as_posix() not in NOT_YET:
        assert hits(path) == []


def test_a_banned_phrase_would_be_noticed(tmp_path: Path):
    page = tmp_path / "page.py"
    page.write_text('"""Nobody is told."""\nNAME = f"{1} % of it"\n# it is left as it is\n')
    assert [found[0] for _, text in literals(page) for found in BANNED.finditer(text)]
    assert len([1 for _, text in literals(page) if BANNED.search(text)]) == 3
