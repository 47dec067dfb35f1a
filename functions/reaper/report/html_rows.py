"""The findings as compact JSON for the page's script: rows of numbers; each distinct text is stored once and referred to by its place.

Inside a script element, only `</script`, `<!--` and `<script` have a meaning, so `<`, `>` and `&` are written as escapes:
https://html.spec.whatwg.org/multipage/scripting.html#restrictions-for-contents-of-script-elements
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from reaper.case import Evidence, Finding, FinishedRun, Report
from reaper.model import Role, State
from reaper.notices.commands import keep_command, keep_tag
from reaper.policy import owners
from reaper.report import action_groups
from reaper.text import clean_line

STATE_ORDER = (State.IDLE, State.UNKNOWN, State.YOUNG, State.ACTIVE, State.EXEMPT)
"""The order on the page: what costs money first, then what couldn't be proven."""
MAX_LONG_TEXT = 1000
"""Characters of a sentence or an ID; names, tags and owners get fewer."""
BASE_36_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
SCRIPT_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class WordList:
    """Each distinct text once, in the order of first use; -1 means none."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def __call__(self, text: str | None, most: int = 120) -> int:
        """The place of the text, which is also made harmless."""
        return -1 if text is None else self.places.setdefault(clean_line(text, most), len(self.places))


def page_data(report: Report) -> str:
    """The JSON text: pure ASCII without `<`, `>` and `&`, one line per finding. Times are seconds since 1970."""
    words, now = WordList(), report.run.finished_at
    rows = [_page_row(finding, words, report.run) for finding in sorted_for_page(report.findings)]
    head = {
        "now": _epoch(now),
        "keep": keep_tag(now),
        "states": [s.value for s in STATE_ORDER],
        "fields": list(rows[0]) if rows else [],
    }
    lines = ",\n".join(_json_text(list(row.values())) for row in rows)
    return f'{_json_text(head)[:-1]},\n"rows":[{lines}],\n"words":{_json_text(list(words.places))}}}'


def sorted_for_page(findings: Iterable[Finding]) -> list[Finding]:
    """Idle first, then unknown, young, active and exempt; within a state the most expensive first, then by name."""
    return sorted(findings, key=_sort_key)


def owner_text(finding: Finding) -> str:
    """The owner's address, with a note if it may not be mailed, or `no owner`."""
    return clean_line(owners.shown(finding.owner) or "no owner")


def _sort_key(finding: Finding) -> tuple[int, bool, float, str]:
    usd = finding.price.usd_per_hour if finding.price else 0
    return STATE_ORDER.index(finding.case.verdict.state), finding.price is None, -usd, finding.case.resource.name


def _page_row(finding: Finding, words: WordList, run: FinishedRun) -> dict[str, Any]:
    resource, verdict, rule = finding.case.resource, finding.case.verdict, finding.case.rule
    heading, progress = action_groups.progress_words(finding, run.mode)
    planned, outcome = action_groups.plan_and_outcome_reasons(finding)
    may_need_keeping = verdict.state in {State.IDLE, State.UNKNOWN}
    return {
        "state": STATE_ORDER.index(verdict.state),
        "confidence": words(verdict.confidence),
        "name": words(resource.name),
        "kind": words(resource.kind),
        "cloud": words(resource.target.cloud),
        "account": words(resource.target.account),
        "accountName": words(resource.target.account_name),
        "region": words(resource.region),
        "size": words(resource.size or None),
        "status": words(resource.status or None),
        "id": words(resource.id, MAX_LONG_TEXT),
        "owner": words(owner_text(finding)),
        "ownerSource": words(finding.owner.source, MAX_LONG_TEXT),
        "usd": round(finding.price.usd_per_hour, 6) if finding.price else None,
        "priceSource": words(finding.price.source if finding.price else None),
        "priceDate": words(finding.price.as_of if finding.price else None),
        "wasted": finding.wasted_usd,
        "idleFor": int(verdict.idle_for.total_seconds()) if verdict.idle_for else None,
        "lastBusy": _epoch(verdict.last_busy),
        "created": _epoch(resource.created),
        "changed": _epoch(resource.changed),
        "because": words(verdict.because, MAX_LONG_TEXT),
        "rule": words(rule.name),
        "notes": [
            words(note, MAX_LONG_TEXT) for note in (*rule.notes, *([rule.protected_because] if rule.protected_because else ()))
        ],
        "tags": _tag_pairs(resource.tags, words),
        "step": words(finding.step.name),
        "stepBecause": words(planned, MAX_LONG_TEXT),
        "heading": words(heading),
        "progress": words(progress),
        "error": words(outcome, MAX_LONG_TEXT),
        "evidence": [_signal_row(e, words) for e in finding.evidence],
        "command": words(keep_command(resource, run.finished_at) if may_need_keeping else None, 2 * MAX_LONG_TEXT),
    }


def _tag_pairs(tags: Mapping[str, str] | None, words: WordList) -> list[list[int]] | None:
    return None if tags is None else [[words(key), words(value)] for key, value in sorted(tags.items())]


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
