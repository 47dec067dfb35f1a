"""The report as one self-contained page: money first, then every resource to sort, filter and open, then coverage.

The page fetches nothing: it contains style, script and data, and its content security policy forbids everything else. The script turns the
data, which is JSON, into text nodes only. https://developer.mozilla.org/en-US/docs/Web/HTTP/Reference/Headers/Content-Security-Policy
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Template, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from reaper.case import Evidence
from reaper.duration import short_duration
from reaper.finding import HOURS_A_MONTH, Finding, FinishedRun, Report, money_of
from reaper.model import Confidence, Role, State
from reaper.notices.item import keep_command, keep_tag
from reaper.pending.stop_switch import paused_sentence
from reaper.policy import owners
from reaper.prices import price_basis
from reaper.report import coverage_map, summary
from reaper.report.summary import coming_actions, coming_sentence
from reaper.savings.totals import METHOD, group_text, saved_text
from reaper.text import clean_line, format_day, format_usd, open_templates

MAX_PLAIN_ROWS = 200
"""Rows without the script; the script replaces them."""
MAX_OPEN_PLACES = 24
"""Complete places of a map that are shown at once; the others are folded."""
MAX_BARS = 7
"""Bars of a chart; all others together make one more."""
STATE_ORDER = (State.IDLE, State.UNKNOWN, State.YOUNG, State.ACTIVE, State.EXEMPT)
"""The order on the page: what costs money first, then what couldn't be proven."""
MAX_LONG_TEXT = 1000
"""Characters of a sentence or an ID; names, tags and owners get fewer."""
BASE_36_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
SCRIPT_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def render(report: Report) -> str:
    """The page. Everything in it is escaped or a number; it works as a file as well as from a web server."""
    findings = sorted_for_page(report.findings)
    shown = [f for f in findings if f.case.verdict.state in {State.IDLE, State.UNKNOWN}]
    coming = coming_actions(report.findings)
    return _template().render(
        report=report,
        shown=shown[:MAX_PLAIN_ROWS],
        left_out=len(shown) - MAX_PLAIN_ROWS,
        states=[(state.value, report.totals.by_state[state.value]) for state in STATE_ORDER],
        savings=report.savings,
        coming=coming,
        comes=coming_sentence(
            coming, report.run.mode, lambda usd: f"{format_usd(usd * HOURS_A_MONTH, currency=report.run.currency)} a month"
        ),
        max_bars=MAX_BARS,
        method=METHOD,
        saved_text=saved_text,
        group_text=group_text,
        charts=[("kind", chart_bars(report, kind_text)), ("owner", chart_bars(report, owner_text))],
        maps=coverage_map.coverage_maps(report),
        gaps=coverage_map.coverage_gaps(report),
        missing=coverage_map.missing_permissions(report),
        groups=summary.action_groups(report),
        nothing=summary.nothing_idle_text(report),
        notes=summary.head_notes(report),
        nothing_read=summary.could_read_nothing(report),
        wasted=wasted_words(report),
        basis=price_basis(report.idle, report.run.currency),
        paused=clean_line(paused_sentence(report.run.pause), 300),
        fold=MAX_OPEN_PLACES,
        data=Markup(page_data(findings, report.run)),
        **_assets(),
    )


@cache
def _assets() -> dict[str, str]:
    """The page's style, script and icon, and its content security policy: these, images inside the page, and nothing else."""
    names = ("report.css", "report.svg", "draw.js", "detail.js", "group.js", "table.js")
    style, icon, *scripts = ((files("reaper.report") / name).read_text("utf-8") for name in names)
    script = "".join(["'use strict';\n", *scripts])
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in (style, script)]
    allowed = f"style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; img-src data:"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    return {"style": Markup(style), "script": Markup(script), "icon": f"data:image/svg+xml,{quote(icon)}", "policy": policy}


@cache
def _template() -> Template:
    filters: dict[str, Callable[..., Any]] = {
        "clean": clean_line,
        "short": short_duration,
        "money": _shown_money,
        "monthly": _shown_monthly,
        "owner": owner_text,
        "word": summary.action_word,
        "why": summary.outcome_reason,
        "held": summary.hold_sentence,
        "release": summary.release_command,
        "note": summary.release_note,
    }
    return open_templates("reaper.report", filters).get_template("report.html.j2")


class WordList(dict[str, int]):
    """Each distinct text once with its place, in the order of first use; -1 means none."""

    def __call__(self, text: str | None, most: int = 120) -> int:
        """The place of the text, which is also made harmless."""
        return -1 if text is None else self.setdefault(clean_line(text, most), len(self))


def page_data(findings: Iterable[Finding], run: FinishedRun) -> str:
    """The JSON text: pure ASCII without `<`, `>` and `&`, one line per finding. Times are seconds since 1970.

    Each distinct text is stored once. Inside a script element, only `</script`, `<!--` and `<script` have a meaning:
    https://html.spec.whatwg.org/multipage/scripting.html#restrictions-for-contents-of-script-elements
    """
    words = WordList()
    rows = [_page_row(finding, words, run) for finding in findings]
    states, fields = [s.value for s in STATE_ORDER], list(rows[0]) if rows else []
    head = {
        "now": _epoch(run.finished_at),
        "keep": keep_tag(run.finished_at),
        "month": HOURS_A_MONTH,
        "currency": [run.currency.code, run.currency.rate],
        "tags": [clean_line(key, MAX_LONG_TEXT) for key in run.report_tags],
        "states": states,
        "fields": fields,
    }
    lines = ",\n".join(_json_text(list(row.values())) for row in rows)
    return f'{_json_text(head)[:-1]},\n"rows":[{lines}],\n"words":{_json_text(list(words))}}}'


def sorted_for_page(findings: Iterable[Finding]) -> list[Finding]:
    """Idle first, then unknown, young, active and exempt; within a state the most expensive first, then by name."""

    def place(finding: Finding) -> tuple[int, bool, float, str]:
        usd = finding.case.price.usd_per_hour if finding.case.price else 0
        return STATE_ORDER.index(finding.case.verdict.state), finding.case.price is None, -usd, finding.case.resource.name

    return sorted(findings, key=place)


@pass_context
def _shown_money(page: Context, usd: float) -> str:
    """The amount in the report's currency."""
    return format_usd(usd, currency=page["report"].run.currency)


@pass_context
def _shown_monthly(page: Context, usd_per_hour: float) -> str:
    """The page's one unit of money: `$2,056`, what it costs in a month."""
    return _shown_money(page, usd_per_hour * HOURS_A_MONTH)


def wasted_words(report: Report) -> str:
    """`wasted since Mon 9 Nov`: the beginning of the longest idle period that cost money."""
    longest = max((f.idle_for for f in report.idle if f.wasted_usd and f.idle_for), default=None)
    if longest is None:
        return "wasted"
    now, since = report.run.finished_at, report.run.finished_at - longest
    return f"wasted since {format_day(since)}{'' if since.year == now.year else f' {since.year}'}"


def kind_text(finding: Finding) -> str:
    """The kind's name."""
    return clean_line(finding.case.resource.kind)


def owner_text(finding: Finding) -> str:
    """The owner's address, with a note if it may not be mailed, or `no owner`."""
    return clean_line(owners.shown(finding.case.owner) or "no owner")


def _page_row(finding: Finding, words: WordList, run: FinishedRun) -> dict[str, Any]:
    resource, verdict, rule = finding.case.resource, finding.case.verdict, finding.case.rule
    heading, progress = summary.progress_words(finding, run.mode)
    planned, outcome = summary.plan_and_outcome_reasons(finding)
    price = finding.case.price or finding.host_share
    may_need_keeping, tags = verdict.state in {State.IDLE, State.UNKNOWN}, resource.tags
    return {
        "state": STATE_ORDER.index(verdict.state),
        "confidence": words(verdict.confidence),
        "name": words(resource.name, MAX_LONG_TEXT),
        "kind": words(resource.kind),
        "cloud": words(resource.target.cloud),
        "account": words(resource.target.account),
        "accountName": words(resource.target.account_name),
        "region": words(resource.region),
        "size": words(resource.size or None),
        "status": words(resource.status or None),
        "id": words(resource.id, MAX_LONG_TEXT),
        "owner": words(owner_text(finding)),
        "ownerSource": words(finding.case.owner.source, MAX_LONG_TEXT),
        "usd": round(finding.case.price.usd_per_hour, 6) if finding.case.price else None,
        "priceSource": words(price.source if price else None),
        "share": finding.host_share.usd_per_hour if finding.host_share else None,
        "priceDate": words(price.as_of if price else None),
        "wasted": finding.wasted_usd,
        "idleFor": int(finding.idle_for.total_seconds()) if finding.idle_for else None,
        "lastBusy": _epoch(verdict.last_busy),
        "created": _epoch(resource.created),
        "changed": _epoch(resource.changed),
        "because": words(verdict.because, MAX_LONG_TEXT),
        "rule": words(rule.name),
        "notes": [words(note, MAX_LONG_TEXT) for note in (*rule.notes, rule.protected_because) if note],
        "tags": None if tags is None else [[words(text, MAX_LONG_TEXT) for text in tag] for tag in sorted(tags.items())],
        "step": words(finding.step.name),
        "stepBecause": words(planned, MAX_LONG_TEXT),
        "heading": words(heading),
        "progress": words(progress),
        "error": words(outcome, MAX_LONG_TEXT),
        "evidence": [_signal_row(e, words) for e in finding.case.evidence],
        "command": words(keep_command(resource, run.finished_at) if may_need_keeping else None, 2 * MAX_LONG_TEXT),
    }


def _signal_row(signal: Evidence, words: WordList) -> list[Any]:
    peak = None if signal.peak is None or signal.peak in (float("inf"), float("-inf")) else round(signal.peak, 4)
    heart = signal.role is Role.HEARTBEAT
    slots = "".join(BASE_36_DIGITS[35 * slot if heart else -(-slot * 35 // 100)] for slot in signal.slots)
    name, subject = words(signal.signal), words(signal.subject or None)
    return [name, subject, int(heart), signal.points, _epoch(signal.last_busy), peak, int(signal.complete), words(slots or None)]


def _epoch(when: datetime | None) -> int | None:
    return int(when.timestamp()) if when else None


def _json_text(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).translate(SCRIPT_ESCAPES)


def chart_bars(report: Report, label: Callable[[Finding], str]) -> list[tuple[summary.CostGroup, float, float]]:
    """The idle resources of each label, most expensive first, with their proven and likely costs as percentages of the longest bar."""
    groups = summary.groups_by_cost(report.idle, label, MAX_BARS)
    longest = max((group.money.usd_per_hour for group in groups), default=0) or 1
    bars = []
    for group in groups:
        by_evidence = [[f for f in group.findings if f.case.verdict.confidence is sure] for sure in Confidence]
        proven, likely = (round(100 * money_of(same).usd_per_hour / longest, 2) for same in by_evidence)
        bars.append((group, proven, likely))
    return bars
