"""The findings as CSV, one row each; what a spreadsheet would run as a formula is defused with an apostrophe before it.

A spreadsheet may part the cells at `;`, `|` or tabs, as its user's settings say, and takes quotes inside a cell for what begins one. So a
formula is looked for behind any of these, not at the beginning of a cell only. Wide, small and raised forms count as what they are forms of
(NFKC), and characters that are not seen as blanks: some spreadsheets read them so. https://www.unicode.org/reports/tr15/
https://owasp.org/www-community/attacks/CSV_Injection
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import Any

from reaper.model import Report
from reaper.report.json import finding_json
from reaper.text import printable

FORMULA_START = re.compile(r"""(?:^|[;|])[\s"']*(?=[=+@\-\u2212])""")
"""Where a cell may begin with `= + - @` or a minus sign, in a text as it is read."""
INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u2800\U0001d159")
"""Letters and symbols without a shape; marks that combine have none of their own either."""
COLUMNS = (
    "state",
    "confidence",
    "name",
    "kind",
    "cloud",
    "account",
    "region",
    "size",
    "usd_per_hour",
    "wasted_usd",
    "idle_for_s",
    "last_busy",
    "because",
    "rule",
    "owner",
    "owner_claimed",
    "step",
    "outcome",
    "outcome_because",
    "error",
    "id",
    "account_name",
)


def render(report: Report) -> str:
    """A header and one row per finding. Unknown figures are empty cells."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for found in report.findings:
        claimed = found.owner.claimed
        row = finding_json(found) | {"owner": found.owner.address, "owner_claimed": claimed.address if claimed else None}
        writer.writerow([_safe_cell(row[column]) for column in COLUMNS])
    return out.getvalue()


def _safe_cell(value: Any) -> Any:
    """Control and direction marks, tabs among them, become blanks; what could begin a formula gets an apostrophe."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    ends = [0, *(found.end() for found in FORMULA_START.finditer(_normalized(text))), len(text)]
    return "'".join(text[start:end] for start, end in pairwise(ends))


def _normalized(text: str) -> str:
    """Character by character what a spreadsheet may take the text for."""
    return text if text.isascii() else "".join(map(_normalized_character, text))


@lru_cache(maxsize=4096)
def _normalized_character(char: str) -> str:
    """One character for one: its plain form, and a blank for what is not seen."""
    if char in INVISIBLE or unicodedata.category(char) in {"Mn", "Me"}:
        return " "
    return unicodedata.normalize("NFKC", char).strip()[:1] or " "
