"""The report as one self-contained page: money first, then every resource to sort, filter and open, then coverage.

The page fetches nothing: it contains style, script and data, and its content security policy forbids everything else. The script turns the
data, which is JSON, into text nodes only. https://developer.mozilla.org/en-US/docs/Web/HTTP/Reference/Headers/Content-Security-Policy
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from reaper.actions.stop_switch import paused_sentence
from reaper.case import Report
from reaper.duration import format_duration, short_duration
from reaper.model import State
from reaper.report import action_groups, charts, coverage_map, html_rows
from reaper.report.totals import (
    acted_clause,
    cloud_rows,
    could_read_nothing,
    incomplete_rows,
    nothing_idle_text,
    own_failures,
    report_totals,
)
from reaper.text import clean_line, format_time, format_usd, usd_cell

MAX_PLAIN_ROWS = 200
"""Rows without the script; the script replaces them."""
MAX_OPEN_PLACES = 24
"""Complete places of a map that are shown at once; the others are folded."""


def render(report: Report) -> str:
    """The page. Everything in it is escaped or a number; it works as a file as well as from a web server."""
    sums = report_totals(report)
    shown = [f for f in html_rows.sorted_for_page(report.findings) if f.case.verdict.state in {State.IDLE, State.UNKNOWN}]
    return _template().render(
        report=report,
        sums=sums,
        shown=shown[:MAX_PLAIN_ROWS],
        left_out=len(shown) - MAX_PLAIN_ROWS,
        states=[(state.value, sums.by_state[state.value]) for state in html_rows.STATE_ORDER],
        charts=[("kind", charts.costs_by_kind(report)), ("owner", charts.costs_by_owner(report))],
        maps=coverage_map.coverage_maps(report),
        gaps=coverage_map.coverage_gaps(report),
        groups=action_groups.action_groups(report),
        missing=coverage_map.missing_permissions(report),
        gap_count=len(incomplete_rows(report)),
        row_count=len(cloud_rows(report)),
        failures=own_failures(report),
        nothing=nothing_idle_text(report),
        nothing_read=could_read_nothing(report),
        acted=acted_clause(report),
        paused=clean_line(paused_sentence(report.run.pause), 300),
        fold=MAX_OPEN_PLACES,
        style=Markup(_asset("report.css")),
        script=Markup(_script()),
        policy=content_security_policy(),
        icon=f"data:image/svg+xml,{quote(_asset('report.svg'))}",
        data=Markup(html_rows.page_data(report)),
    )


def content_security_policy() -> str:
    """The page's content security policy: this style, this script, images inside the page, and nothing else."""
    style, script = _csp_hash(_asset("report.css")), _csp_hash(_script())
    return f"default-src 'none'; style-src {style}; script-src {script}; img-src data:; base-uri 'none'; form-action 'none'"


def _csp_hash(content: str) -> str:
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
        "clean": clean_line,
        "length": format_duration,
        "short": short_duration,
        "money": format_usd,
        "cell": usd_cell,
        "moment": format_time,
        "owner": html_rows.owner_text,
        "word": action_groups.action_word,
        "why": action_groups.outcome_reason,
    }
    return page.get_template("report.html.j2")
