"""The report as one self-contained page: money first, then every resource to sort, filter and open, then what was looked at.

Nothing is fetched: style, script and data are in the page, and its own policy forbids the rest. The data is JSON that the script turns
into text nodes only. https://developer.mozilla.org/en-US/docs/Web/HTTP/Reference/Headers/Content-Security-Policy
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from reaper.duration import text
from reaper.model import Report, State
from reaper.report import action_groups, charts, coverage_map, html_rows
from reaper.report.brief import clean
from reaper.report.totals import gaps, lists, nothing, over, totals, troubles, unread
from reaper.text import moment, money

PLAIN = 200
"""Rows that are there without a script; the script puts its own in their place."""
FOLD = 24
"""Places of a map that are shown at once; complete ones beyond that are folded away."""


def render(report: Report) -> str:
    """The page. Everything in it is escaped or made of numbers; it works from a mail attachment as well as from a web server."""
    sums = totals(report)
    shown = [f for f in html_rows.arranged(report.findings) if f.case.verdict.state in {State.IDLE, State.UNKNOWN}]
    return _template().render(
        report=report,
        sums=sums,
        shown=shown[:PLAIN],
        left_out=len(shown) - PLAIN,
        states=[(state.value, sums.by_state[state.value]) for state in html_rows.ORDER],
        charts=[("kind", charts.by_kind(report)), ("owner", charts.by_owner(report))],
        maps=coverage_map.maps(report),
        gaps=coverage_map.gaps(report),
        moves=action_groups.groups(report),
        missing=coverage_map.missing(report),
        holes=len(gaps(report)),
        lists=len(lists(report)),
        troubles=troubles(report),
        nothing=nothing(report),
        unread=unread(report),
        over=over(report),
        fold=FOLD,
        style=Markup(_asset("report.css")),
        script=Markup(_script()),
        policy=policy(),
        icon=f"data:image/svg+xml,{quote(_asset('report.svg'))}",
        data=Markup(html_rows.payload(report)),
    )


def policy() -> str:
    """The page's content security policy: this style, this script, pictures from inside the page, and nothing else at all."""
    style, script = _hash(_asset("report.css")), _hash(_script())
    return f"default-src 'none'; style-src {style}; script-src {script}; img-src data:; base-uri 'none'; form-action 'none'"


def _hash(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


@cache
def _script() -> str:
    return "".join(["'use strict';\n", *(_asset(name) for name in ("draw.js", "detail.js", "table.js"))])


@cache
def _asset(name: str) -> str:
    return (files("reaper.report") / name).read_text("utf-8")


@cache
def _template() -> Template:
    page = Environment(
        autoescape=True,
        loader=PackageLoader("reaper.report", ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page.filters |= {
        "clean": clean,
        "length": text,
        "money": money,
        "moment": moment,
        "nobody": html_rows.nobody,
        "word": action_groups.word,
        "why": action_groups.why,
    }
    return page.get_template("report.html.j2")
