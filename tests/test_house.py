"""The shape of the house: small files, few parameters, a root that reads as the algorithm, and no import circle."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from reaper import registry

ROOT = Path(__file__).parents[1]
PACKAGES = {"reaper": ROOT / "functions/reaper", "reaper_sandbox": ROOT / "sandbox/reaper_sandbox"}
MODULES = {
    ".".join([name, *path.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__"): path
    for name, folder in PACKAGES.items()
    for path in sorted(folder.rglob("*.py"))
}
MAX_LINES, MAX_PARAMETERS, MAX_ROOT_MODULES, MAX_TEST_NAME = 520, 6, 25, 70
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


def test_no_two_files_of_tests_have_the_same_name():
    """pytest imports them by their name alone, and `make soak` collects all of them at once."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


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


PRODUCT = {path: path.read_text() for name, path in MODULES.items() if name.partition(".")[0] == "reaper"}
GONE = {
    *(
        "discover",
        "observe",
        "blocked",
        "blocked_actions",
        "commands",
        "read_undo_state",
        "perform",
        "undo",
        "side_changes",
        "put_back",
    ),
    *("undo_members", "live_settings", "components", "contained", "interruption", "acting"),
}
"""What no kind defines, neither as a function nor as a file: the reader and the executor of its cloud do that for every kind."""


def test_a_kind_is_a_table_without_code_of_its_own_for_what_all_kinds_do():
    files = {cloud: sorted((PACKAGES["reaper"] / cloud / "kinds").rglob("*.py")) for cloud in registry.CLOUDS}
    assert all(len(paths) > 3 for paths in files.values())
    defined = {
        path: {path.stem, *(function.name.lstrip("_") for function in functions(path))}
        for paths in files.values()
        for path in paths
    }
    assert {path.name: names & GONE for path, names in defined.items() if names & GONE} == {}
    assert {type(kind).__qualname__ for kind in registry.kinds()} == {"Table"}


def test_kinds_have_one_form_for_the_registry():
    """`action_functions` asks the executor of the cloud, for any kind, and reads no kind's own modules."""
    [function] = [f for f in functions(MODULES["reaper.registry"]) if f.name == "action_functions"]
    imported = [
        ast.unparse(node.args[0])
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "import_module"
    ]
    assert imported == ["f'reaper.{kind(name).cloud}.executor'"]


GONE_FOR_RECORD = {
    *("Memory", "BegunAction", "UntoldAction", "memory_updates", "memory_columns", "memory_from_row", "update_memory"),
    *("columns_of", "hint_of", "unfinished_from_row", "read_unfinished", "close_unfinished_actions", "settle_told_actions"),
}
"""What a record replaced. One document says what happened to a resource, and `replace(record, notice=None)` clears a part of it."""
GONE_FOR_FINDING = {
    *("Planned", "Limited", "Decision", "ClosedActions", "ExecutedStep", "PlannedCases", "reported_case"),
    *("announced_by_mail", "with_memory", "action_at", "following_action"),
    *("holding", "read_hints", "record_updates", "valid_notice", "send_window"),
}
"""What a finding replaced. Its fields say where a resource stands, and nothing asks that again."""
GONE_FOR_OUTCOME = {
    *("ActionResult", "LeftBehind", "StoredManifest", "stored_manifest", "no_side_changes", "nothing_to_put_back"),
    *("intents", "recheck", "interruption", "ids_with_hosts", "write_choices", "resource_keys"),
}
"""What an outcome of acting, the look and the executor replaced."""


@pytest.mark.parametrize("gone", [GONE_FOR_RECORD, GONE_FOR_FINDING, GONE_FOR_OUTCOME], ids=["record", "finding", "outcome"])
def test_what_a_noun_replaced_is_gone(gone: set[str]):
    named = {getattr(node, "name", getattr(node, "id", None)) for path in PRODUCT for node in nodes(path)}
    assert {"Record", "Finding", "FORMAT"} <= named
    assert (named | {path.stem for path in PRODUCT}) & gone == set()


PLANNING = {module for module in MODULES if re.fullmatch(r"reaper\.(plan|stand|planning\.\w+)", module)}
MAY_PLAN = {
    "reaper.decide": "where each resource stands, once a run",
    "reaper.acting.look": "the look right before an action",
    "reaper.notices.sending": "the outbox: what an accepted message changes",
    "reaper.pending.unfinished": "what earlier runs left, for decide",
    "reaper.limits.applying": "the next function over findings",
}


def test_mails_reports_and_savings_read_findings_and_plan_nothing():
    planners = {module: imports(module) & PLANNING for module in MODULES if module not in PLANNING}
    assert {module: found for module, found in planners.items() if found and module not in MAY_PLAN} == {}
    assert planners["reaper.notices.sending"] == {"reaper.planning.accepted"}


def test_a_case_its_record_and_the_time_travel_as_one_view():
    wide = [
        f.name
        for path in PRODUCT
        for f in functions(path)
        if {"case", "now"} < {a.arg for a in f.args.args} & {"case", "record", "now"}
    ]
    assert wide == []


def test_a_finding_has_fields_alone():
    [finding] = [node for path in PRODUCT for node in nodes(path) if isinstance(node, ast.ClassDef) and node.name == "Finding"]
    assert {type(node) for node in finding.body} == {ast.Expr, ast.AnnAssign}


def code_lines(path: Path) -> int:
    """Lines of statements: no blank, comment, docstring, import, signature or field."""
    text, wrapping = PRODUCT[path].splitlines(), set[int]()
    for node in nodes(path):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            wrapping |= {*range(node.lineno, node.end_lineno + 1)}
        if isinstance(node, ast.FunctionDef):
            wrapping |= {*range(min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.body[0].lineno)}
        if isinstance(node, ast.ClassDef):
            fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
            wrapping |= {line for field in fields for line in range(field.lineno, field.end_lineno + 1)}
    wrapping |= {number for number, line in enumerate(text, 1) if not line.strip() or line.strip().startswith("#")}
    return len(text) - len(wrapping)


def handed_on(function: ast.FunctionDef) -> int:
    """How many of its parameters it only passes to another function."""
    below = list(ast.walk(function))
    passed = Counter(
        v.id
        for n in below
        if isinstance(n, ast.Call)
        for v in (*n.args, *(k.value for k in n.keywords))
        if isinstance(v, ast.Name)
    )
    used = Counter(n.id for n in below if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return sum(0 < used[name] == passed[name] for name in names if name not in ("self", "cls"))


def figures() -> dict[str, int]:
    """What the product weighs, and what of it only wraps the rest."""
    tree = [node for path in PRODUCT for node in nodes(path)]
    defined = [node for node in tree if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    named = Counter(function.name for function in defined)
    used = Counter(n.id if isinstance(n, ast.Name) else n.attr for n in tree if isinstance(n, ast.Name | ast.Attribute))
    alone = [function for function in defined if named[function.name] == 1]
    beside = [path for path in PACKAGES["reaper"].rglob("*") if path.suffix in (".j2", ".js", ".css")]
    return {
        "lines": sum(len(text.splitlines()) for text in PRODUCT.values()),
        "files": len(PRODUCT),
        "lines of code": sum(map(code_lines, PRODUCT)),
        "characters": sum(map(len, PRODUCT.values())),
        "lines of templates, scripts and styles": sum(len(path.read_text().splitlines()) for path in beside),
        "functions": len(defined),
        "functions with one caller": sum(used[f.name] == 1 and not f.name.startswith("__") for f in alone),
        "parameters only handed on": sum(map(handed_on, alone)),
        "classes": sum(isinstance(node, ast.ClassDef) for node in tree),
        "fmt: skip": sum(text.count("fmt: skip") for text in PRODUCT.values()),
        "Any": used["Any"],
    }


def folders() -> dict[str, int]:
    """Lines by folder of the product; those of its root stand under a point."""
    lines: Counter[str] = Counter()
    for path, text in PRODUCT.items():
        below = path.relative_to(PACKAGES["reaper"]).parts
        lines[below[0] if len(below) > 1 else "."] += len(text.splitlines())
    return dict(lines)


FIGURES = {
    "lines": 39438,
    "files": 214,
    "lines of code": 19273,
    "characters": 1962210,
    "lines of templates, scripts and styles": 1171,
    "functions": 2573,
    "functions with one caller": 862,
    "parameters only handed on": 1056,
    "classes": 332,
    "fmt: skip": 18,
    "Any": 391,
}
FOLDERS = {
    ".": 5283,
    "acting": 1447,
    "aws": 6779,
    "azure": 5553,
    "calendars": 1105,
    "cli": 1934,
    "doctor": 1131,
    "ledger": 1451,
    "notices": 3636,
    "observing": 442,
    "pending": 936,
    "planning": 621,
    "policy": 2749,
    "report": 2458,
    "savings": 858,
    "snooze": 1024,
    "stores": 166,
    "workflow": 735,
    "limits": 1130,
}
"""What the product and its folders may weigh. Lower a figure whenever yours is lower: it never rises, except for a feature that says by how much."""


@pytest.mark.parametrize(("now", "allowed"), [(figures(), FIGURES), (folders(), FOLDERS)], ids=["figures", "folders"])
def test_the_weight_only_falls(now: dict[str, int], allowed: dict[str, int]):
    assert now.keys() == allowed.keys()
    assert {name: (count, allowed[name]) for name, count in now.items() if count > allowed[name]} == {}
    assert {name: (count, allowed[name]) for name, count in now.items() if count < allowed[name] * 0.97 - 3} == {}, (
        "lower what is allowed"
    )
