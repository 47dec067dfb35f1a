"""The shape of the house: small files, few parameters, a root that reads as the algorithm, and no import circle."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = {"reaper": ROOT / "functions/reaper", "reaper_sandbox": ROOT / "sandbox/reaper_sandbox"}
MODULES = {
    ".".join([name, *path.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__"): path
    for name, folder in PACKAGES.items()
    for path in sorted(folder.rglob("*.py"))
}
MAX_LINES, MAX_PARAMETERS, MAX_ROOT_MODULES, MAX_TEST_NAME = 400, 6, 30, 70
COMMANDS = ROOT / "functions/reaper/cli"
"""A command's parameters are its options: typer reads them from the signature."""


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of a file's syntax tree."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    """Every function of a file, methods and nested ones too."""
    yield from (node for node in nodes(path) if isinstance(node, ast.FunctionDef))


def parameters(function: ast.FunctionDef) -> int:
    """How many parameters a caller sees."""
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def is_command(path: Path, function: ast.FunctionDef) -> bool:
    """Whether typer reads the signature: every parameter is `Annotated[…, typer.…]`."""
    return COMMANDS in path.parents and "Annotated[" in ast.unparse(function.args)


def test_no_file_is_longer_than_the_longest_allowed():
    lines = {module: len(path.read_text().splitlines()) for module, path in MODULES.items()}
    assert {module: count for module, count in lines.items() if count > MAX_LINES} == {}


def test_no_function_takes_many_parameters():
    wide = {
        f"{module}.{function.name}": parameters(function)
        for module, path in MODULES.items()
        for function in functions(path)
        if parameters(function) > MAX_PARAMETERS and not is_command(path, function)
    }
    assert wide == {}


def test_the_names_of_tests_are_short_sentences():
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    names = {name for text in texts for name in re.findall(r"^\s*(?:async )?def (test_\w+)", text, re.MULTILINE)}
    assert len(names) > 1000
    assert {name for name in names if len(name) > MAX_TEST_NAME} == set()


def test_no_module_of_the_tests_hides_a_folder_of_tests():
    """pytest puts each folder on the path, so that `import workflow` would find the module and not the folder."""
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    assert [path.as_posix() for path in (ROOT / "tests").glob("*/*.py") if path.stem in folders] == []


def test_the_root_reads_as_the_algorithm():
    assert len([path for path in PACKAGES["reaper"].glob("*.py") if not path.name.startswith("__")]) <= MAX_ROOT_MODULES


def imports(module: str) -> set[str]:
    """The modules of the product that a module imports, inside functions too, but not those for the type checker alone."""
    tree = nodes(MODULES[module])
    skipped = {
        id(below)
        for node in tree
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for below in ast.walk(node)
    }
    wanted: set[str] = set()
    for node in tree:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            wanted |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            wanted |= {f"{node.module}.{a.name}" if f"{node.module}.{a.name}" in MODULES else node.module for a in node.names}
    return (wanted & MODULES.keys()) - {module}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Every strongly connected part of more than one module (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    parts: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            part = stack[at:]
            del stack[at:]
            if len(part) > 1:
                parts.append(sorted(part))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return parts


def test_no_modules_import_each_other_in_a_circle():
    graph: dict[str, set[str]] = defaultdict(set, {module: imports(module) for module in MODULES})
    assert circles(graph) == []


def test_a_circle_would_be_noticed():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


TABLES = PACKAGES["reaper"] / "azure/kinds"
GONE = {"discover", "observe", "blocked_actions", "put_back", "live_settings", "perform", "undo", "read_undo_state"}
"""What a kind no longer defines: the reader and the executor of its cloud do that for every kind."""


def test_azure_kinds_are_tables_without_code_of_their_own_for_it():
    assert [path.name for path in TABLES.iterdir() if path.is_dir() and path.name != "__pycache__"] == []
    kinds = [path for path in TABLES.glob("*.py") if path.stem != "__init__"]
    assert len(kinds) > 2
    assert {path.name: GONE & {function.name for function in functions(path)} for path in kinds} == {p.name: set() for p in kinds}
    assert all("KIND = kind_of(TABLE)" in path.read_text() for path in kinds)
