"""The messages about findings as a run makes them: what decide adds to a finding is added first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
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


def notice_item(finding: Finding, context: NoticeContext, *more: Any, **options: Any) -> Any:
    return item.notice_item(ready(finding, context), context, *more, **options)


def next_sentence(finding: Finding, context: NoticeContext) -> str:
    return forecast.next_sentence(ready(finding, context), context)


def compose_summary(report: Report, context: NoticeContext, *more: Any, **options: Any) -> Any:
    findings = tuple(ready(f, context) for f in report.findings)
    return admin_summary.compose_summary(replace(report, findings=findings), context, *more, **options)
