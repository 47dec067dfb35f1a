"""The findings as CSV, one row each; what a spreadsheet would run as a formula is defused with an apostrophe before it.

A spreadsheet may part the cells at `;`, `|` or tabs, as its user's settings say, and takes quotes inside a cell for what begins one. So a
formula is looked for behind any of these, not at the beginning of a cell only.
https://owasp.org/www-community/attacks/CSV_Injection
"""

from __future__ import annotations

import csv
import io
import re
from typing import Any

from reaper.model import Report
from reaper.report.json import finding

FORMULA = re.compile(r"""((?:^|[;|])[\s"']*)(?=[=+@\-\u2212\uff1d\uff0b\uff0d\uff20])""")
"""Where a cell may begin with `= + - @` or one of the wide forms that some spreadsheets read alike."""
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
    "step",
    "outcome",
    "outcome_because",
    "error",
    "id",
)


def render(report: Report) -> str:
    """A header and one row per finding. Unknown figures are empty cells."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for found in report.findings:
        row = finding(found) | {"owner": found.owner.address}
        writer.writerow([_cell(row[column]) for column in COLUMNS])
    return out.getvalue()


def _cell(value: Any) -> Any:
    """Control and direction marks, tabs among them, become blanks; what could begin a formula gets an apostrophe."""
    if not isinstance(value, str):
        return value
    return FORMULA.sub(r"\1'", "".join(c if c.isprintable() else " " for c in value))
