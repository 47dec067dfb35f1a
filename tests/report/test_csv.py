from __future__ import annotations

import csv
import io
import json
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.builders import resource
from fakes.sample_findings import finding, report
from reaper.case import Owner
from reaper.report import csv as sheet

STARTS = "=+-@−\t\r"
BLANKS = ' "\u3164\u2800\u115f\u1160\uffa0\u034f\ufe0f'
"""What may stand before a formula and is not seen."""


def begins(cell: str) -> str:
    """What a spreadsheet reads first in a cell."""
    return unicodedata.normalize("NFKC", cell.lstrip(BLANKS)).lstrip(BLANKS)[:1]


def rendered(text: str) -> str:
    thing = resource(id=f"arn:{text}", name=text, size=text, tags={text: text})
    return sheet.render(report(finding(resource=thing, because=text, owner=Owner(address=text, source="x"))))


def cells(page: str, separator: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(page), delimiter=separator))


def named(*columns: str) -> tuple[str, ...]:
    """The columns as the header has them."""
    return tuple(sheet.FOCUS_NAMES.get(column, column) for column in columns)


def blanked(text: str) -> str:
    """Without apostrophes, and with a blank for what no line may hold."""
    return "".join(c if c.isprintable() else " " for c in text.replace("'", ""))


def plain(page: str) -> str:
    """With the separators that have other forms in their plain one."""
    return page.translate(dict.fromkeys(map(ord, "；﹔\u037e"), ";") | {ord("｜"): "|"})


@pytest.mark.parametrize("separator", [",", ";", "|", "\t"], ids=["comma", "semicolon", "bar", "tab"])
@pytest.mark.parametrize(
    "text",
    [
        "=cmd()|' /C calc'!A0",
        "  =1+1",
        "x;=cmd()",
        "x; +cmd()",
        'x";"=cmd()',
        'x;"=cmd()',
        "x;'=cmd()",
        "x|@sum(1)",
        "x\t=cmd()",
        "x\r=cmd()",
        "x\n=cmd()",
        '"=cmd()',
        "＝cmd()",
        "x;−1",
        *(f"{sign}cmd()" for sign in "﹦﹢﹣﹫⁼⁺⁻₌₊₋"),
        *(f"x{mark}=cmd()" for mark in "；﹔\u037e｜"),
        *(f"{blank}=cmd()" for blank in "\u3164\u2800\u115f\u1160\uffa0\u00ad\u200b\u034f\ufe0f\u3000\u00a0"),
        "x; \u3164\u2800'﹦cmd()",
        "x；\u3164＝cmd()",
    ],
    ids=ascii,
)
def test_no_cell_is_a_formula_for_any_separator(text: str, separator: str):
    for row in cells(plain(rendered(text)), separator):
        assert [cell for cell in row if begins(cell) in tuple(STARTS)] == []


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.text(
        alphabet=st.one_of(st.characters(), st.sampled_from("=+-@＝﹢⁻﹫；｜\u3164\u2800;|\t\r\n,\"' ")), min_size=1, max_size=30
    )
)
def test_no_cell_breaks_columns_or_runs_as_a_formula(text: str):
    page = rendered(text)
    head, row = cells(page, ",")
    assert (tuple(head), len(row)) == (named(*sheet.COLUMNS, "tags"), len(sheet.COLUMNS) + 1)
    [tag] = json.loads(row[-1]).items()
    for written in (row[head.index("ResourceName")], *tag):
        assert blanked(written) == blanked(text)
    for separator in ",;|\t":
        for cell in (cell for row in cells(plain(page), separator) for cell in row):
            assert begins(cell) not in tuple(STARTS)


def test_each_report_tag_is_a_column_whatever_its_case():
    base = report(finding(resource=resource(tags={"Team": "vision", "x": "y"})), finding(resource=resource(tags=None)))
    keyed = replace(base, run=replace(base.run, report_tags=("team", "cost-center", ";=cmd()")))
    head, *rows = cells(sheet.render(keyed), ",")
    assert head[len(sheet.COLUMNS) :] == ["tag:team", "tag:cost-center", "tag:;'=cmd()"]
    assert [row[len(sheet.COLUMNS) :] for row in rows] == [["vision", "", ""], ["", "", ""]]
    assert [row[-1] for row in cells(sheet.render(base), ",")] == ["Tags", '{"Team": "vision", "x": "y"}', ""]


def test_ordinary_text_is_unchanged():
    text = 'silent for 3d; 2 of 3 signals, a "b" | c-d'
    head, row = cells(rendered(text), ",")
    assert row[head.index("because")] == text


@pytest.mark.parametrize("text", ["größer als 5 %", "日本語−1", "a²", "x ½", "naïve; e\u0301t\u00e9", "ｆｕｌｌ"])
def test_text_in_other_scripts_is_unchanged(text: str):
    head, row = cells(rendered(text), ",")
    assert row[head.index("because")] == text
