"""The findings as compact JSON for the page's own script: rows of numbers, every text kept once and named by its place in a list.

Inside a script element only `</script`, `<!--` and `<script` mean anything to a browser, so `<`, `>` and `&` are written as escapes:
https://html.spec.whatwg.org/multipage/scripting.html#restrictions-for-contents-of-script-elements
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from reaper.model import Evidence, Finding, Report, Role, Run, State
from reaper.notices.commands import keep_command, keep_tag
from reaper.policy import owners
from reaper.report import action_groups
from reaper.report.brief import clean

ORDER = (State.IDLE, State.UNKNOWN, State.YOUNG, State.ACTIVE, State.EXEMPT)
"""As the page shows them: money first, then what nobody could prove."""
LONG = 1000
"""Characters of a sentence or an id; names, tags and owners get fewer."""
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
UNSAFE = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class Words:
    """Every text once, in the order of its first use; -1 stands for none."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def __call__(self, text: str | None, most: int = 120) -> int:
        """The place of a text, made harmless on the way."""
        return -1 if text is None else self.places.setdefault(clean(text, most), len(self.places))


def payload(report: Report) -> str:
    """The JSON text: pure ASCII without `<`, `>` and `&`, one line per finding. Moments are seconds since 1970."""
    words, now = Words(), report.run.finished_at
    rows = [_row(found, words, report.run) for found in arranged(report.findings)]
    head = {
        "now": _epoch(now),
        "keep": keep_tag(now),
        "states": [s.value for s in ORDER],
        "fields": list(rows[0]) if rows else [],
    }
    lines = ",\n".join(_text(list(row.values())) for row in rows)
    return f'{_text(head)[:-1]},\n"rows":[{lines}],\n"words":{_text(list(words.places))}}}'


def arranged(findings: Iterable[Finding]) -> list[Finding]:
    """Idle first and the dearest of them first, then unknown, young, active and exempt; within a state by cost, then by name."""
    return sorted(findings, key=_rank)


def nobody(found: Finding) -> str:
    """The owner's address, or that of one who may not be mailed, said so; or the word for having none."""
    return clean(owners.shown(found.owner) or "nobody")


def _rank(found: Finding) -> tuple[int, bool, float, str]:
    usd = found.price.usd_per_hour if found.price else 0
    return ORDER.index(found.case.verdict.state), found.price is None, -usd, found.case.resource.name


def _row(found: Finding, words: Words, run: Run) -> dict[str, Any]:
    resource, verdict, rule = found.case.resource, found.case.verdict, found.case.rule
    heading, progress = action_groups.progress(found, run.mode)
    planned, came = action_groups.reasons(found)
    looked_at = verdict.state in {State.IDLE, State.UNKNOWN}
    return {
        "state": ORDER.index(verdict.state),
        "confidence": words(verdict.confidence),
        "name": words(resource.name),
        "kind": words(resource.kind),
        "cloud": words(resource.target.cloud),
        "account": words(resource.target.account),
        "accountName": words(resource.target.account_name),
        "region": words(resource.region),
        "size": words(resource.size or None),
        "status": words(resource.status or None),
        "id": words(resource.id, LONG),
        "owner": words(nobody(found)),
        "ownerSource": words(found.owner.source, LONG),
        "usd": round(found.price.usd_per_hour, 6) if found.price else None,
        "priceSource": words(found.price.source if found.price else None),
        "priceDate": words(found.price.as_of if found.price else None),
        "wasted": found.wasted_usd,
        "idleFor": int(verdict.idle_for.total_seconds()) if verdict.idle_for else None,
        "lastBusy": _epoch(verdict.last_busy),
        "created": _epoch(resource.created),
        "changed": _epoch(resource.changed),
        "because": words(verdict.because, LONG),
        "rule": words(rule.name),
        "notes": [words(note, LONG) for note in (*rule.notes, *([rule.protected] if rule.protected else ()))],
        "tags": _tags(resource.tags, words),
        "step": words(found.step.move),
        "stepBecause": words(planned, LONG),
        "heading": words(heading),
        "progress": words(progress),
        "error": words(came, LONG),
        "evidence": [_signal(e, words) for e in found.evidence],
        "command": words(keep_command(resource, run.finished_at) if looked_at else None, 2 * LONG),
    }


def _tags(tags: Mapping[str, str] | None, words: Words) -> list[list[int]] | None:
    return None if tags is None else [[words(key), words(value)] for key, value in sorted(tags.items())]


def _signal(seen: Evidence, words: Words) -> list[Any]:
    peak = None if seen.peak is None or seen.peak in (float("inf"), float("-inf")) else round(seen.peak, 4)
    heart = seen.role is Role.HEARTBEAT
    shape = "".join(DIGITS[35 * slot if heart else -(-slot * 35 // 100)] for slot in seen.shape)
    name, subject = words(seen.signal), words(seen.subject or None)
    return [name, subject, int(heart), seen.points, _epoch(seen.last_busy), peak, int(seen.complete), words(shape or None)]


def _epoch(when: datetime | None) -> int | None:
    return int(when.timestamp()) if when else None


def _text(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).translate(UNSAFE)
