"""The messages about findings as a run makes them: what decide adds to a finding is added first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from reaper.finding import Finding, Report
from reaper.notices import admin_summary, forecast, item, owner_notice
from reaper.notices.forecast import NoticeContext
from reaper.plan import with_announcement


def ready(finding: Finding, context: NoticeContext) -> Finding:
    """As decide hands it over: with what a message of now announces."""
    return with_announcement(finding, context.now) if context.mode.announces else finding


def owner_notices(findings: Iterable[Finding], context: NoticeContext, *more: Any, **options: Any) -> Any:
    return owner_notice.owner_notices([ready(f, context) for f in findings], context, *more, **options)


def notice_item(finding: Finding, context: NoticeContext) -> SimpleNamespace:
    """What a message shows of one resource."""
    found = ready(finding, context)
    lines = {line.label: line for line in item.link_lines(found, context, None)}
    return SimpleNamespace(
        since=found.idle_since,
        at_least=any("at least" in line.text for line in item.idle_line(found, context)),
        wasted=item.wasted_text([found], context),
        undo=next(iter(item.undo_line(found, context)), None),
        stop=next((line for label, line in lines.items() if " now" in label), None),
        console=lines.get("In the console:") or lines.get("Or in the console:"),
    )


def next_sentence(finding: Finding, context: NoticeContext) -> str:
    return forecast.next_sentence(ready(finding, context), context)


def compose_summary(report: Report, context: NoticeContext, *more: Any, **options: Any) -> Any:
    findings = tuple(ready(f, context) for f in report.findings)
    return admin_summary.compose_summary(replace(report, findings=findings), context, *more, **options)
