"""The report as one self-contained page: no script, no network, everything escaped by the template."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from reaper.duration import text
from reaper.model import Report, State, Status
from reaper.report.summary import clean
from reaper.report.totals import idle, totals


def render(report: Report) -> str:
    """The page."""
    order = {state: rank for rank, state in enumerate((State.UNKNOWN, State.YOUNG, State.ACTIVE, State.EXEMPT))}
    others = sorted(
        (f for f in report.findings if f.case.verdict.state is not State.IDLE),
        key=lambda f: (order[f.case.verdict.state], f.case.resource.name),
    )
    gaps = [c for c in report.coverage if c.status is not Status.OK]
    return _template().render(report=report, sums=totals(report), idle=idle(report), others=others, gaps=gaps)


@cache
def _template() -> Template:
    page = Environment(
        autoescape=True, loader=PackageLoader("reaper", "report"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page.filters |= {"clean": clean, "length": text}
    return page.get_template("report.html.j2")
