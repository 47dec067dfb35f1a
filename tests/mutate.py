"""Breaks the code that decides and acts in every small way there is, and says which breaks no test notices: `make mutate`.

Each mutant runs in a process of its own, forked after everything was loaded: quick tests first, then those with many random examples, and
ends with the first that fails. Only the functions' code is exchanged, so that whoever holds a function already calls the mutant.

    python tests/mutate.py [MODULE ...] [--jobs N]      docs/mutation.md explains the survivors that are known
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FunctionType, ModuleType

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "functions"), str(ROOT / "tests")]
os.environ["REAPER_INVARIANTS"] = "mutation"
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"

import pytest  # noqa: E402
from hypothesis import Phase, settings  # noqa: E402

PLANS = [
    *(
        "test_plan",
        "test_idle_period",
        "test_record_updates",
        "test_plan_actions",
        "test_plan_over_time",
        "snooze/test_recreated_resources",
    ),
    *(
        "test_office_hours_in_mails",
        "acting/test_acting_rules",
        "acting/test_executor",
        "acting/test_recheck",
        "pending/test_unfinished",
        "test_conclude",
        "test_invariants",
    ),
]
ACTS = [
    *(
        "acting/test_executor",
        "acting/test_recheck",
        "acting/test_lost_answers",
        "acting/test_crash",
        "acting/test_acting_rules",
    ),
    *("pending/test_intents", "test_act", "test_limits", "test_invariants"),
]
TESTS = {
    "judge": ["test_judge", "test_invariants"],
    "plan": PLANS,
    "planning.dates": PLANS,
    "record": PLANS,
    "planning.accepted": PLANS,
    "limits.caps": ["test_limits", "test_breaker", "test_account_limits", "test_jumps", "test_days_of_sweeps", "test_invariants"],
    "limits.applying": ["test_jumps", "test_breaker", "test_quiet"],
    "limits.holds": [
        "pending/test_holds",
        "test_breaker",
        "test_limits",
        "test_account_limits",
        "test_days_of_sweeps",
        "test_act",
    ],
    "acting.executor": ACTS,
    "acting.look": ACTS,
    "act": ACTS,
    "decide": ["test_decide", "test_limits", "test_invariants"],
    "pending.unfinished": ACTS,
}
EXAMPLES = 50
PLAIN = ["-x", "-q", "--noconftest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(ROOT)]
"""Neither plugins nor fixtures from elsewhere: a trial starts in no time."""
SECONDS = 240
"""A mutant that runs longer than this hangs, which people would notice."""
SWAPS: dict[type[ast.AST], list[type[ast.AST]]] = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div],
    ast.Div: [ast.Mult],
}
CALLS = {"max": "min", "min": "max", "any": "all", "all": "any"}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One small break: of which module, at which of its nodes, and which of the changes that there are for such a node."""

    module: str
    line: int
    node: int
    change: int

    def tree(self) -> ast.Module:
        """The whole module, broken."""
        tree = _parsed(self.module)
        _changes(list(ast.walk(tree))[self.node])[self.change]()
        return ast.fix_missing_locations(tree)

    def __str__(self) -> str:
        """The line as it was and as it is."""
        pairs = zip(*(ast.unparse(tree).splitlines() for tree in (_parsed(self.module), self.tree())), strict=False)
        return f"{self.module}: " + next((f"{a.strip()}  ->  {b.strip()}" for a, b in pairs if a != b), "?")


class Many:
    """Fewer examples and no shrinking: people look at survivors, not at the dead. Quick tests come first."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        def random(item: pytest.Item) -> bool:
            return hasattr(item.obj, "_hypothesis_internal_use_settings")  # type: ignore[attr-defined]

        for item in filter(random, items):
            had = item.obj._hypothesis_internal_use_settings  # type: ignore[attr-defined]
            few = settings(had, max_examples=EXAMPLES, phases=[Phase.generate], derandomize=True, database=None, deadline=None)
            item.obj._hypothesis_internal_use_settings = few  # type: ignore[attr-defined]
        items.sort(key=lambda item: (random(item), "invariants" in item.nodeid))


def mutants(module: str) -> Iterator[Mutant]:
    """Every mutant of `reaper.<module>`."""
    nodes = list(ast.walk(_parsed(module)))
    skipped = {id(below) for node in nodes for part in _words(node) for below in ast.walk(part)}
    for index, node in enumerate(nodes):
        for change in range(0 if id(node) in skipped else len(_changes(node))):
            yield Mutant(module=module, line=_line(node), node=index, change=change)


def _parsed(module: str) -> ast.Module:
    return ast.parse((ROOT / "functions" / "reaper" / f"{module.replace('.', '/')}.py").read_text("utf-8"))


def _words(node: ast.AST) -> list[ast.AST]:
    """What is only said, or only for the type checker: annotations, f-strings, keyword `because`, literals of text."""
    if isinstance(node, ast.AnnAssign | ast.arg):
        return [node.annotation] if node.annotation else []
    if isinstance(node, ast.FunctionDef):
        return [node.returns] if node.returns else []
    if isinstance(node, ast.keyword) and node.arg == "because":
        return [node.value]
    return [node] if isinstance(node, ast.JoinedStr) else node.decorator_list if isinstance(node, ast.ClassDef) else []


def _changes(node: ast.AST) -> list:
    """What can be broken at this node, as functions that do it."""
    changes = []

    def put(field: str, value: object) -> None:
        changes.append(lambda: setattr(node, field, value))

    if isinstance(node, ast.Compare):
        for n, op in enumerate(node.ops):
            for other in SWAPS.get(type(op), []):
                put("ops", [*node.ops[:n], other(), *node.ops[n + 1 :]])
    elif isinstance(node, ast.BinOp):
        for other in SWAPS.get(type(node.op), []):
            put("op", other())
    elif isinstance(node, ast.BoolOp):
        put("op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for n in range(len(node.values)):
            put("values", node.values[:n] + node.values[n + 1 :])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        put("operand", ast.UnaryOp(ast.Not(), node.operand))
    elif isinstance(node, ast.If | ast.IfExp):
        put("test", ast.Constant(False))
        put("test", ast.Constant(True))
    elif isinstance(node, ast.comprehension) and node.ifs:
        put("ifs", [])
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        put("value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        put("value", node.value + 1)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
        put("func", ast.Name(CALLS[node.func.id], ast.Load()))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        put("value", ast.Constant(None))
    return changes


def _line(node: ast.AST) -> int:
    return next((n.lineno for n in ast.walk(node) if hasattr(n, "lineno")), 0)


def survivors(every: list[Mutant], jobs: int) -> Iterator[Mutant]:
    """Those on which all tests pass, as they turn up."""
    at_work: dict[int, Mutant] = {}
    for mutant in [*every, *[None] * jobs]:
        while len(at_work) >= jobs or (mutant is None and at_work):
            child, status = os.wait()
            finished = at_work.pop(child)
            if os.waitstatus_to_exitcode(status) == 0:
                yield finished
        if mutant:
            child = os.fork()
            if child == 0:
                status = 1  # a module that can't even be loaded is noticed
                try:
                    status = _trial(mutant)
                finally:
                    os._exit(status)
            at_work[child] = mutant


def _trial(mutant: Mutant) -> int:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    _become(importlib.import_module(f"reaper.{mutant.module}"), mutant.tree())
    files = [str(ROOT / "tests" / f"{name}.py") for name in TESTS[mutant.module]]
    return int(pytest.main([*PLAIN, *files], plugins=[Many()]))


def _become(module: ModuleType, tree: ast.Module) -> None:
    """Give the loaded module's functions the mutant's code and its constants the mutant's values."""
    new = ModuleType(module.__name__)
    sys.modules[module.__name__] = new  # dataclasses look their module up
    exec(compile(tree, str(module.__file__), "exec"), new.__dict__)
    sys.modules[module.__name__] = module
    for name, value in vars(new).items():
        old = vars(module).get(name)
        if isinstance(value, FunctionType) and isinstance(old, FunctionType) and value.__module__ == module.__name__:
            old.__code__, old.__defaults__, old.__kwdefaults__ = value.__code__, value.__defaults__, value.__kwdefaults__
        elif name.isupper():
            setattr(module, name, value)


def load() -> None:
    """Everything that a trial needs, once."""
    for name in sorted({name for names in TESTS.values() for name in names}):
        importlib.import_module(name.replace("/", "."))
    deployment = importlib.import_module("fakes.fake_deployment").FakeDeployment()
    deployment.cloud.add("churn")
    deployment.sweep()
    deployment.now += timedelta(days=3)
    deployment.sweep()
    assert deployment.cloud.log, "without any mutant it is not acted on"


def known() -> set[str]:
    """The survivors that docs/mutation.md explains, as they are printed, without their line numbers."""
    page = ROOT / "docs" / "mutation.md"
    return set(re.findall(r"^    ([\w.]+: .+)$", page.read_text("utf-8"), re.MULTILINE)) if page.exists() else set()


def main() -> int:
    """1 where a mutant survives that nobody has explained."""
    parser = argparse.ArgumentParser(description="Mutation tests of the code that decides and acts.")
    parser.add_argument("modules", nargs="*", default=list(TESTS))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    load()
    every = [m for module in options.modules for m in mutants(module)]
    explained, survived, strange = known(), 0, 0
    for mutant in survivors(every, options.jobs):
        survived, strange = survived + 1, strange + (str(mutant) not in explained)
        print(f"{'explained' if str(mutant) in explained else 'SURVIVED'} {mutant.module}.py:{mutant.line}  {mutant}", flush=True)
    print(f"{len(every)} mutants, {len(every) - survived} killed, {survived} survived, {strange} of them not explained")
    return 1 if strange else 0


if __name__ == "__main__":
    sys.exit(main())
