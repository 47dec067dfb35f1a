from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "functions/reaper"
FILES = sorted(p for p in PACKAGE.rglob("*.py"))
SDKS = {
    "boto3": ("aws",),
    "botocore": ("aws",),
    "azure": ("azure",),
    "aws_lambda_powertools": ("aws",),
    "moto": (),
}


def imported(path: Path) -> set[str]:
    """The top-level packages that a file imports, wherever in it."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module.partition(".")[0])
    return modules


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_each_sdk_is_imported_in_its_own_folder_only(path: Path):
    home = path.relative_to(PACKAGE).as_posix()
    assert [sdk for sdk in imported(path) & set(SDKS) if not home.startswith(tuple(f"{f}/" for f in SDKS[sdk]))] == []


@pytest.mark.parametrize(
    "path", [p for p in FILES if "kinds" in p.parts and "acting" not in (p.stem, *p.parts)], ids=lambda p: p.name
)
def test_kinds_import_no_sdk(path: Path):
    assert imported(path) & set(SDKS) == set()


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_the_clock_is_read_in_entry_points_only(path: Path):
    entry_points = {
        "cli/options.py",
        "aws/functions/sweep.py",
        "aws/functions/snooze.py",
        "azure/functions/activities.py",
        "aws/functions/workflow.py",
        "azure/triggers.py",
    }
    if path.relative_to(PACKAGE).as_posix() in entry_points:
        return
    calls = [
        n.func.attr
        for n in ast.walk(ast.parse(path.read_text()))
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
    ]
    assert not {"now", "utcnow", "today"} & set(calls)
