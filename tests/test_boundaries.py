from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "functions/reaper"
FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
SDKS = {
    "boto3": ("aws",),
    "botocore": ("aws",),
    "azure": ("azure",),
    "aws_lambda_powertools": ("aws",),
    "moto": (),
}


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of a file's syntax tree."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def imported(path: Path) -> set[str]:
    """The top-level packages that a file imports, wherever in it."""
    modules = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module.partition(".")[0])
    return modules


def test_the_rules_are_about_all_of_the_product():
    assert len(FILES) > 100
    assert {"run.py", "cli/main.py"} <= FILES.keys()


def test_each_sdk_is_imported_in_its_own_folder_only():
    elsewhere = {
        (name, sdk)
        for name, path in FILES.items()
        for sdk in imported(path) & set(SDKS)
        if not name.startswith(tuple(f"{folder}/" for folder in SDKS[sdk]))
    }
    assert elsewhere == set()


def test_kinds_import_no_sdk():
    kinds = {name: path for name, path in FILES.items() if "kinds" in path.parts}
    assert kinds
    assert {name for name, path in kinds.items() if imported(path) & set(SDKS)} == set()


def test_the_clock_is_read_in_entry_points_only():
    entry_points = {
        "cli/options.py",
        "aws/functions/sweep.py",
        "aws/functions/snooze.py",
        "azure/functions/triggers.py",
        "aws/functions/workflow.py",
        "ledger/rows.py",  # compares this machine's clock with that of a store
    }
    readers = {
        name
        for name, path in FILES.items()
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"now", "utcnow", "today"}
    }
    assert readers <= entry_points
