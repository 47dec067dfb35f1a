"""Plain English: phrases that no user-facing text, docstring or comment may contain. CONTRIBUTING says what to write instead."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

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
    '"keep-link"',  # how the snooze page's lines in the logs begin, which an alert queries
    "MetricName: Held",
    '[".", "Held", ".", ',
    "Acted, Held, Failures",
}
"""Names that are published and contain a phrase."""


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
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r} in {' '.join(text.split())[max(0, match.start() - 40) : match.end() + 60]!r}"
        for line, text in read(path)
        for match in BANNED.finditer(text)
        if not any(known in text for known in EXCEPTIONS)
    ]


def test_no_text_contains_a_banned_phrase():
    read = files()
    assert len(read) > 200
    assert [hit for path in read for hit in hits(path)] == []


def test_a_banned_phrase_would_be_noticed(tmp_path: Path):
    page = tmp_path / "page.py"
    page.write_text('"""Nobody is told."""\nNAME = f"{1} % of it"\n# it is left as it is\n')
    assert [match[0] for _, text in literals(page) for match in BANNED.finditer(text)]
    assert len([1 for _, text in literals(page) if BANNED.search(text)]) == 3
