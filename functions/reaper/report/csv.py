"""The findings as CSV, one row each; an apostrophe defuses what a spreadsheet would run as a formula.

Depending on its settings, a spreadsheet may split cells at `;`, `|` or tabs, and take a quote inside a cell as its beginning. So a formula is
searched for after any of these, not only at the beginning of a cell. Wide, small and raised forms count as their plain characters (NFKC),
and invisible characters as blanks: some spreadsheets read them that way. https://www.unicode.org/reports/tr15/
https://owasp.org/www-community/attacks/CSV_Injection
"""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import Any

from reaper.finding import Report
from reaper.report import summary
from reaper.report.json import finding_json
from reaper.text import DOLLARS, printable

FORMULA_START = re.compile(r"""(?:^|[;|])[\s"']*(?=[=+@\-\u2212])""")
"""Where a cell may begin with `= + - @` or a minus sign, in normalized text."""
INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u2800\U0001d159")
"""Letters and symbols without a shape; combining marks have none either."""
COLUMNS = (
    "state", "confidence", "name", "kind", "cloud", "account", "account_name", "region", "size", "usd_per_hour", "host_share_usd_per_hour", "price_source", "price_as_of",
    "wasted_usd", "idle_for_s", "last_busy", "because", "rule", "owner", "owner_claimed", "step", "outcome", "outcome_because", "error", "id",
)  # fmt: skip
FOCUS_NAMES = {
    "id": "ResourceId", "name": "ResourceName", "kind": "ResourceType", "account": "SubAccountId", "account_name": "SubAccountName",
    "region": "RegionId", "tags": "Tags",
}  # fmt: skip
"""The columns that FOCUS defines, by ours: https://focus.finops.org/focus-specification/. The others mean nothing that FOCUS has a column for:
its costs and unit prices are those of a bill."""


def render(report: Report) -> str:
    """A header and one row per finding. What is unknown is an empty cell. Tags: a column for each key of `report.tags`, or one for all.

    If people read another currency than the dollar, its two columns come last.
    """
    out, keys, currency = io.StringIO(), report.run.report_tags, report.run.currency
    writer = csv.writer(out, lineterminator="\n")
    tag_names = [safe_cell(f"tag:{key}") for key in keys] or ["tags"]
    converted = ("usd_per_hour", "wasted_usd") if currency.code != DOLLARS.code else ()
    shown_names = [f"{currency.code}_per_hour", f"wasted_{currency.code}"] if converted else []
    writer.writerow([*(FOCUS_NAMES.get(name, name) for name in (*COLUMNS, *tag_names)), *shown_names])
    for finding in report.findings:
        claimed, share, price = finding.case.owner.claimed, finding.host_share, finding.case.price or finding.host_share
        row = finding_json(finding, report.run.finished_at) | {
            "owner": finding.case.owner.address,
            "owner_claimed": claimed.address if claimed else None,
            "host_share_usd_per_hour": share.usd_per_hour if share else None,
            "price_source": price.source if price else None,
            "price_as_of": price.as_of if price else None,
        }
        tags = finding.case.resource.tags
        all_tags = None if tags is None else json.dumps(dict(tags), ensure_ascii=False, sort_keys=True)
        cells = [*(row[column] for column in COLUMNS), *([summary.tag_value(finding, key) for key in keys] or [all_tags])]
        cells += [None if (usd := row[column]) is None else round(usd * currency.rate, 6) for column in converted]
        writer.writerow([safe_cell(cell) for cell in cells])
    return out.getvalue()


def safe_cell(value: Any) -> Any:
    """Control and direction marks, such as tabs, become blanks; the beginning of a formula gets an apostrophe."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    normalized = text if text.isascii() else "".join(map(_normalized_character, text))
    ends = [0, *(match.end() for match in FORMULA_START.finditer(normalized)), len(text)]
    return "'".join(text[start:end] for start, end in pairwise(ends))


@lru_cache(maxsize=4096)
def _normalized_character(char: str) -> str:
    """One character for one: its plain form, or a blank if it is invisible."""
    if char in INVISIBLE or unicodedata.category(char) in {"Mn", "Me"}:
        return " "
    return unicodedata.normalize("NFKC", char).strip()[:1] or " "
