"""Phase 4: sends owner notices and the admins' summary, remembers what a channel accepted, records statistics, and builds the report.

It recalls the ledger again and drops whatever was snoozed, notified or changed since the decision, so a conclude that runs twice sends each
mail once. Outcomes of actions are always reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from reaper.calendars import office_hours
from reaper.calendars.resolve import calendar_rows
from reaper.case import Coverage
from reaper.coverage import add_failure_row, failure_row
from reaper.errors import ReaperError, SettingsError
from reaper.finding import PLANNED, Finding, Outcome, Report, Step, follow_up, is_action, judged_case, left_alone
from reaper.handover import Acted, Decided, Observed
from reaper.ledger.ledger import DOUBTED_ROW, UNREACHED_ROW, Ledger, RunLeases, record_doubted, record_unreached
from reaper.ledger.opening import ensure_format, require_right_clock
from reaper.ledger.rows import RETENTION, remembered_ids
from reaper.limits.caps import record_statistics
from reaper.model import NOTICES, Result, State, StepName
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import Delivery
from reaper.notices.context import ConcludeContext, NoticeRound, Part, attempt, notice_context
from reaper.notices.escalation import send_escalations
from reaper.notices.forecast import NoticeContext
from reaper.notices.monthly_mail import send_monthly_mail
from reaper.notices.owner_notice import is_reportable, notice_address
from reaper.notices.sending import (
    NOT_NOTIFIED,
    channel_failures,
    drop_changed_notices,
    notified_acts,
    record_action_notified,
    record_notice,
    record_verdict,
    send_owner_notices,
    send_take_backs,
    unsent_notices_rows,
)
from reaper.notices.summary_mail import send_admin_summary
from reaper.pending.unfinished import own_outcome, unreported_finding
from reaper.record import Act, Record, act_of, is_interrupted, snoozed_because
from reaper.report.run_report import join_findings, run_coverage, run_report, with_record
from reaper.savings.book import Sweep, record_savings

NOT_BEGUN = "the action wasn't started, because this run ended early; the next sweep decides again"
LATE_MAIL = "its owner first gets the mail about what an earlier run did to it"
SUMMARY_DUE = Step(name=StepName.REMIND, because="office hours apply to it, and its weekly summary is due")
"""The summary of a resource that office hours stop or start in this very run, and so is never just reminded of."""


def conclude(parts: Iterable[Observed], decided: Decided, acted: Iterable[Acted], context: ConcludeContext) -> Report:
    """The report of the run. Without a ledger, or in audit, nothing is sent and nothing written.

    The leases of the run are always given back. Never raises CloudError: failures are in the coverage.
    """
    leases = leases_of(decided, context.ledger, context.clock)
    try:
        report = _conclude_run((list(parts), list(acted)), decided, context, leases)
    finally:
        if leases:
            leases.give_back()
    late_rows = [row for row in leases.failures if row not in report.coverage] if leases else []
    return replace(report, coverage=(*report.coverage, *late_rows))


def leases_of(decided: Decided, ledger: Ledger | None, clock: Callable[[], datetime]) -> RunLeases | None:
    """The leases that the run took when it decided; None in audit and without a ledger."""
    if ledger is None or not decided.run.mode.writes:
        return None
    return RunLeases(
        ledger=ledger,
        run_id=decided.run.id,
        clock=clock,
        renewed_at=decided.decided_at,
        targets=set(decided.leased),
    )


def _conclude_run(
    phases: tuple[Sequence[Observed], Sequence[Acted]], decided: Decided, context: ConcludeContext, leases: RunLeases | None
) -> Report:
    parts, acted = phases
    findings = join_findings(parts, decided, acted)
    cloud_rows, own_rows = run_coverage(parts, decided, acted)
    rows = [*context.failures, *calendar_rows(context.policy), *own_rows]
    if context.outcomes_only and any(f.step.name in NOTICES for f in findings):
        findings = [left_alone(f, context.outcomes_only) if f.step.name in NOTICES else f for f in findings]
        rows.append(failure_row("policy", SettingsError(f"only outcomes were reported: {context.outcomes_only}")))
    if leases is None:
        findings = _with_records(findings, decided, context, rows)
    if leases is None or not _can_write(leases.ledger, rows) or (findings and not decided.leased):
        return run_report(findings, (*cloud_rows, *rows), decided, context)
    mails = _begun_round(findings, rows, decided, context, leases)
    late, acts = _late_mails(decided, acted, mails)
    mails, notices = _sent(late, acts, decided, mails)
    findings = [mails.findings.get(f.case.resource.id, f) for f in findings]
    if not (context.notices_only or context.outcomes_only):
        mails = mails.after(_record_run(findings, cloud_rows, decided, mails))
    report = run_report(findings, (*cloud_rows, *mails.rows), decided, context)
    if context.notices_only:
        return report
    sent = send_admin_summary(replace(report, findings=(*report.findings, *late.values())), notices, mails)
    months = [] if context.outcomes_only else send_monthly_mail(report, notices, mails, by_plan=decided.by_plan)
    return replace(
        sent, findings=report.findings, coverage=(*sent.coverage, *(row for row in months if row not in sent.coverage))
    )


def _sent(
    late: Mapping[str, Finding], acts: Mapping[str, Act], decided: Decided, mails: NoticeRound
) -> tuple[NoticeRound, NoticeContext]:
    """The round once every message to an owner is out and recorded: about this run, the weekly summaries, wrong notices, and what earlier runs did
    (`late`, `acts`).
    """
    mails, policy = mails.after(_left_for_late_mails(late, acts, mails)), mails.context.policy
    may_notify = mails.recalled is not None and not mails.context.outcomes_only
    due = {id_: f for id_, f in mails.decided.items() if f.needs_summary and may_notify}
    summaries = {id_: replace(f, step=SUMMARY_DUE, outcome=PLANNED) for id_, f in due.items()}
    notices, unread = notice_context([*mails.findings.values(), *summaries.values()], mails)
    mails = mails.after(unread, *_send_due(notices, mails))
    mails = mails.after(*_send(summaries, {}, notices, mails))
    if may_notify:
        mails = mails.after(*_record_verdicts(mails))
        mails = send_take_backs(notices, mails)
    escalates = may_notify and (decided.jumps or not decided.unusual)  # else what is on hold couldn't be read
    if escalates and policy.escalate and not office_hours.opens_at(policy.send_hours, mails.now):
        mails = send_escalations(policy.escalate, notices, mails)
    if not mails.lost and mails.recalled and mails.leases.prolong_all():  # else the next run sends them
        mails = mails.after(*_send(late, acts, notices, mails))
    unsent = [*channel_failures(mails.deliveries), *unsent_notices_rows(mails.findings.values())]
    return replace(mails, rows=(*mails.rows, *unsent)), notices


def _can_write(ledger: Ledger, rows: list[Coverage]) -> bool:
    """Whether the ledger can be written to: not if another version wrote it, if its version can't be read, or if one of the clocks is wrong."""
    try:
        ensure_format(ledger)
        require_right_clock(ledger)
    except ReaperError as error:
        add_failure_row(rows, failure_row("ledger", error))
        return False
    return True


def _begun_round(
    findings: Iterable[Finding], rows: Sequence[Coverage], decided: Decided, context: ConcludeContext, leases: RunLeases
) -> NoticeRound:
    """The round with the record of every decided resource, without the notices of those that changed since.

    If the ledger can't be read, no notice is sent, because its dates would be wrong.
    """
    known = {f.case.resource.id: f for f in decided.findings if f.record_version is not None}
    mails = NoticeRound(
        run=decided.run,
        now=decided.decided_at,
        context=context,
        leases=leases,
        decided=known,
        findings={f.case.resource.id: f for f in findings if f.case.resource.id in known},
        jumps=decided.jumps,
        rows=rows,
    )
    try:
        recalled = leases.ledger.recall(remembered_ids(*(f.case.resource for f in known.values())), context.clock())
    except ReaperError as error:
        failed = Outcome(result=Result.FAILED, error=f"{NOT_NOTIFIED}{error}")
        notices = {id_: replace(f, outcome=failed) for id_, f in mails.findings.items() if f.step.name in NOTICES}
        return mails.after(Part(findings=notices, errors=[error]))
    mails = replace(mails, recalled=recalled)
    findings_now = {id_: _as_recalled(finding, mails) for id_, finding in mails.findings.items()}
    mails = mails.after(Part(findings=findings_now, errors=recalled.errors))
    return mails.after(drop_changed_notices(mails))


def _as_recalled(finding: Finding, mails: NoticeRound) -> Finding:
    """The finding with its record as it is now, and the outcome and the snooze that this shows."""
    resource_id, known = finding.case.resource.id, mails.known.readable_only()
    record = known.record(resource_id)
    return with_record(_with_snooze(_with_intent_outcome(finding, record, mails), mails), record, known.snooze(resource_id))


def _with_snooze(finding: Finding, mails: NoticeRound) -> Finding:
    """The finding of an action without what follows, if its resource is snoozed now: its mail announces nothing."""
    case, now = finding.case, mails.context.clock()
    is_read = is_action(finding) and not mails.known.is_unreadable(*remembered_ids(case.resource))
    if not (is_read and snoozed_because(mails.known.snoozes(case.resource), case.resource.created, now)):
        return finding
    return replace(finding, rest_at=None, delete_at=None)


def _late_mails(decided: Decided, acted: Iterable[Acted], mails: NoticeRound) -> tuple[dict[str, Finding], dict[str, Act]]:
    """What earlier runs did and no mail has reported, as findings, and as their actions, by ID."""
    earlier = [*decided.unreported, *(each for part in acted for each in part.settled)]
    notified = notified_acts([each.act for each in earlier], mails.known)
    unreported = {each.act.id: each for each in earlier if each.act.id not in notified}
    follows_at = mails.now if mails.run.mode.announces else None
    findings = {}
    for id_, each in unreported.items():
        listed = judged_case(mails.decided[id_]) if id_ in mails.decided else None
        findings[id_] = _with_snooze(unreported_finding(each, listed, follows_at), mails)
    return findings, {id_: each.act for id_, each in unreported.items()}


def _left_for_late_mails(late: Mapping[str, Finding], acts: Mapping[str, Act], mails: NoticeRound) -> Part:
    """Notices left alone until the late mail about an earlier action, which may be the notice, is out; not for ever: a channel may refuse it."""
    notices = {id_: f for id_, f in mails.findings.items() if f.step.name in NOTICES and id_ in late}
    recent = {id_: f for id_, f in notices.items() if mails.now - acts[id_].at < f.case.rule.remind_every}
    to = mails.context.policy.owners
    return Part(findings={id_: left_alone(f, LATE_MAIL) for id_, f in recent.items() if notice_address(late[id_], to)})


def _with_intent_outcome(finding: Finding, record: Record, mails: NoticeRound) -> Finding:
    """The finding with the outcome that this run's intent shows, unless `act` returned that of its own call: done, not begun, or not known."""
    if not mails.run.mode.acts or finding.outcome.begun or not is_action(finding):
        return finding
    if outcome := own_outcome(record, mails.run.id, finding.step.name):
        return replace(finding, outcome=outcome)
    is_missing = finding.outcome.result is Result.PLANNED
    return replace(finding, outcome=Outcome(result=Result.REFUSED, because=NOT_BEGUN)) if is_missing else finding


def _send(findings: Mapping[str, Finding], acts: Mapping[str, Act], notices: NoticeContext, mails: NoticeRound) -> list[Part]:
    """The messages about these findings. What a channel accepts is recorded at once: a notice, or that an action of this or an earlier run was reported."""

    def accept(resource_id: str, receipt: str, sent: Sequence[Delivery]) -> Part:
        if act := acts.get(resource_id):
            is_open = act.run != mails.run.id and act.result is None  # interrupted, and still to be put back
            return record_action_notified(findings[resource_id], act, receipt, mails, is_open=is_open)
        part = record_notice(findings[resource_id], receipt, sent, mails)
        # The line of the report about a resource with a weekly summary is about the action of this run.
        return part if mails.findings[resource_id].step.name in NOTICES else replace(part, findings={})

    return send_owner_notices(findings, acts, notices, accept, mails)


def _send_due(notices: NoticeContext, mails: NoticeRound) -> list[Part]:
    """The notices and the mails about this run's actions, but for those that were sent, or are known not to be sent."""
    # A notice that failed before it was written is one whose ledger record couldn't be read.
    failed = {id_ for id_, f in mails.findings.items() if f.step.name in NOTICES and f.outcome.result is Result.FAILED}
    waiting = {id_: f for id_, f in mails.findings.items() if id_ not in failed and not _must_wait(f, mails)}
    done = {id_: f for id_, f in waiting.items() if is_action(f) and is_reportable(f)}
    acts = {id_: act_of(f.case.resource, f.step.name, mails.run.id, mails.now) for id_, f in done.items()}
    notified = notified_acts(acts.values(), mails.known)
    return _send({id_: f for id_, f in waiting.items() if id_ not in notified}, acts, notices, mails)


def _must_wait(finding: Finding, mails: NoticeRound) -> bool:
    """Whether the mail about this run's action is left to the next run: its date needs a record that can't be read, or it is interrupted."""
    if not is_action(finding) or not is_reportable(finding):
        return False
    record, is_unread = finding.record or Record(), mails.recalled is None
    is_own = record.act is not None and record.act.run == mails.run.id
    return (is_own and is_interrupted(record)) or (is_unread and follow_up(finding) is not None)


def _record_verdicts(mails: NoticeRound) -> Iterator[Part]:
    """Remember the verdict on everything that no accepted notice was about."""
    receipts, refusals = delivery.receipts_by_id(mails.deliveries), delivery.errors_by_id(mails.deliveries)
    for resource_id, finding in mails.findings.items():
        if not (resource_id in receipts and finding.step.name in NOTICES):
            yield record_verdict(finding, refusals, mails)


def _record_run(findings: Sequence[Finding], cloud_rows: Sequence[Coverage], decided: Decided, mails: NoticeRound) -> Part:
    """Record the statistics and savings of the leased places and what wasn't reached, and forget what is older than the ledger keeps.

    If the records can't be read, the next run counts the savings.
    """
    left_ids = {f.case.resource.id for f in decided.findings if f.record_version is None}
    leased = frozenset(decided.leased)
    cases = [f.case for f in findings if f.case.resource.target in leased and f.case.resource.id not in left_ids]
    errors = attempt(
        lambda: record_statistics(mails.ledger, mails.run, cases, cloud_rows, decided.unusual),
        lambda: _record_gaps(cloud_rows, mails),
        lambda: mails.ledger.forget_before(mails.now - RETENTION),
    )
    if mails.recalled is None:
        return Part(errors=errors)
    sweep = Sweep(
        ledger=mails.ledger,
        now=mails.context.clock(),
        decided=decided,
        findings=findings,
        recalled=mails.recalled,
        coverage=cloud_rows,
        policy=mails.context.policy,
    )
    return Part(errors=[*errors, *record_savings(sweep)])


def _record_gaps(cloud_rows: Sequence[Coverage], mails: NoticeRound) -> None:
    """Remember what wasn't reached, and what is in use although its last notice called it idle: the next runs look further back there."""
    doubted = {
        f.case.resource.id: f.record.claim.until
        for f in mails.findings.values()
        if f.record and f.record.claim and f.case.verdict.state is not State.IDLE
    }
    rows = mails.ledger.read_rows((UNREACHED_ROW, DOUBTED_ROW))
    record_unreached(mails.ledger, rows[UNREACHED_ROW], cloud_rows)
    record_doubted(mails.ledger, rows[DOUBTED_ROW], doubted, mails.findings, mails.now - mails.context.policy.defaults.lookback)


def _with_records(findings: list[Finding], decided: Decided, context: ConcludeContext, rows: list[Coverage]) -> list[Finding]:
    """The findings with what the ledger has on them, if there is one, for an audit."""
    if context.ledger is None:
        return findings
    try:
        recalled = context.ledger.recall(remembered_ids(*(f.case.resource for f in decided.findings)), context.clock())
    except ReaperError as error:
        add_failure_row(rows, failure_row("ledger", error))
        return findings
    known = recalled.readable_only()
    return [with_record(f, known.record(f.case.resource.id), known.snooze(f.case.resource.id)) for f in findings]
