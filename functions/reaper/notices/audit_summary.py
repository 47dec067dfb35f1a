"""Sends an audit's summary through the channel that its deployment brings: the same message as in every other mode."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from reaper.case import Report
from reaper.errors import CloudError, Reason
from reaper.notices.admin_summary import compose_summary
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import ChannelContext
from reaper.notices.item import NoticeContext
from reaper.policy.channel_settings import Acs, Sns
from reaper.policy.schema import Owners


def send_audit_summary(report: Report, owners: Owners, spec: Acs | Sns, stored: str | None, clock: Callable[[], datetime]) -> str:
    """Send it on the channel of `spec` and return the receipt. `stored`: where the report is. Raises CloudError if it isn't accepted."""
    context = NoticeContext(
        now=report.run.started_at,
        mode=report.run.mode,
        owners=owners,
        run_id=report.run.id,
        report_address=stored or "",
    )
    [channel] = delivery.open_channels([spec], ChannelContext(read_secret=_no_secret, clock=clock))
    done = delivery.deliver_one(compose_summary(report, context), channel)
    if done.error:
        text = str(done.error).removeprefix(f"{done.error.operation}: ")
        raise done.error.reworded(f"the summary was not accepted: {text}") from done.error
    return done.receipt or ""


def _no_secret(reference: str) -> str:
    """A deployment's own channel signs in as the function; it never needs a secret."""
    raise CloudError(Reason.REFUSED, "secret:Read", f"{reference}: this channel uses no secret")
