"""`reaper policy`: check a policy, or print the JSON Schema of policy files."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from reaper import registry
from reaper.cli.options import current_time
from reaper.cli.output import print_warning
from reaper.policy.file import load_policy
from reaper.text import count_noun

app = typer.Typer(no_args_is_help=True, help="Check a policy file, or print its JSON Schema.")


@app.command("check")
def check_policy(
    where: Annotated[str, typer.Argument(help="Policy file, s3:// or ssm: address, or blob URL", metavar="FILE|URI")],
) -> None:
    """Validate a policy and warn about rules that never match and other mistakes."""
    from reaper.policy import lint

    source = load_policy(where)
    warnings = lint.lint_policy(source.policy, source.text, source.name, current_time())
    for warning in warnings:
        print_warning(warning)
    rules = count_noun(len(source.policy.rules), "rule")
    sys.stdout.write(f"{source.name}: valid: {rules}, {count_noun(len(warnings), 'warning')}\n")
    if canary := source.policy.enforce_only:
        sys.stdout.write(f"Only {canary.description} can be stopped, deleted or started. Everything else gets notices.\n")


@app.command("schema")
def print_schema() -> None:
    """Print the JSON Schema of policy files, for editors."""
    from reaper.policy import schema

    sys.stdout.write(json.dumps(schema.policy_schema(registry.kind_names()), indent=2) + "\n")
