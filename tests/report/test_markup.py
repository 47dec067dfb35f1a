"""Square brackets are markup to the library that draws tables: in no format may they vanish, colour anything or stop the report."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.console import Console

from fakes.builders import resource, rule
from fakes.sample_findings import finding, report
from reaper.case import Claim, Coverage, Evidence, Owner
from reaper.cli import output
from reaper.finding import Finding, Outcome, Report
from reaper.model import Result, Role, State, Status, StepName
from reaper.report import csv, html, json, markdown, text

BRACKETS = ("[/a]", "[bold]", "[a-zA-Z0-9]", "[link=https://evil.test]x", "[/]", "\\[red]", ":fire:")


def plain(page: str) -> str:
    """The page's text without its elements, its script's data included."""
    words: list[str] = []
    parser = HTMLParser()
    parser.handle_data = words.append  # type: ignore[method-assign]
    parser.feed(page)
    return "".join(words)


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": lambda of: text.render(of, width=200),
    "text in colour": lambda of: text.render(of, width=200, colour=True),
    "narrow text": lambda of: text.render(of, width=60),
    "markdown": lambda of: re.sub(r"\\(.)", r"\1", markdown.render(of)),
    "html": lambda of: plain(html.render(of)),
    "csv": csv.render,
    "json": json.render,
}


def hostile(word: str) -> list[Finding]:
    """A finding for every table, whose every text is `word`."""
    thing = {"name": word, "size": word, "region": word, "kind": word, "tags": {word: word}}
    evidence = Evidence(signal=word, subject=word, role=Role.ACTIVITY, points=0, last_busy=None, peak=None, complete=True)
    owner = Owner(address=None, source=word, claimed=Claim(address=f"{word}@corp.test", source=word))
    fields = {"because": word, "owner": owner, "rule": rule(name=word, notes=(word,)), "evidence": (evidence,)}
    outcomes = {
        "refused": Outcome(result=Result.REFUSED, because=word),
        "failed": Outcome(result=Result.FAILED, error=word),
        "done": Outcome(result=Result.DONE, because=word),
        "planned": Outcome(result=Result.PLANNED),
    }
    made = [
        finding(resource=resource(id=name, **thing), outcome=outcome, move=StepName.STOP, **fields)
        for name, outcome in outcomes.items()
    ]
    unknown = finding(resource=resource(id="unknown", **thing), state=State.UNKNOWN, **fields)
    hold = finding(resource=resource(id="held", **thing), move=StepName.HOLD, **fields)
    return [replace(one, step=replace(one.step, because=word)) for one in (*made, hold, unknown)]


def gaps(word: str) -> tuple[Coverage, ...]:
    row = Coverage(cloud="aws", account=word, region=word, kind=word, status=Status.DENIED, missing=word, error=word)
    return row, replace(row, cloud="reaper", status=Status.FAILED)


@pytest.mark.parametrize("word", BRACKETS)
@pytest.mark.parametrize("format_", FORMATS)
def test_text_in_brackets_is_unchanged_in_every_format(format_: str, word: str):
    shown, usual = (FORMATS[format_](report(*hostile(w), coverage=gaps(w))) for w in (word, "q" * len(word)))
    assert (
        (shown.replace("\\\\", "\\") if format_ in {"json", "html"} else shown).count(word)
        == usual.lower().count("q" * len(word))
        > 8
    ), shown
    assert "\x1b]8" not in shown


@pytest.mark.parametrize("word", BRACKETS)
@pytest.mark.parametrize(
    "field", [{"size": "W"}, {"region": "W"}, {"kind": "W"}, {"name": "W"}], ids=lambda field: next(iter(field))
)
def test_every_column_of_the_table_takes_brackets(field: dict[str, str], word: str):
    one = finding(resource=resource(**dict.fromkeys(field, word)))
    assert word in text.render(report(one), width=200)


@pytest.mark.parametrize("word", BRACKETS)
def test_text_on_the_error_console_is_no_markup(word: str, monkeypatch: pytest.MonkeyPatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    output.error_console.print(word)
    with output.show_progress() as tell:
        tell(word)
    assert out.getvalue().count(word) == 2
    spinner = Console(file=out, width=80, markup=True)
    spinner.print(output.fit_one_line(word, 80))
    assert out.getvalue().count(word) == 3
