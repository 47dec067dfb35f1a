"""The findings as CSV, one row each; cells that a spreadsheet would run as a formula are defused with a leading apostrophe.

https://owasp.org/www-community/attacks/CSV_Injection
"""

from __future__ import annotations

import csv
import io
from typing import Any

from reaper.model import Report
from reaper.report.json import finding

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
    """Control and direction marks become blanks; a text that a spreadsheet could take for a formula gets an apostrophe."""
    if not isinstance(value, str):
        return value
    line = "".join(c if c.isprintable() else " " for c in value)
    return f"'{line}" if line.lstrip()[:1] in {"=", "+", "-", "@"} else line
