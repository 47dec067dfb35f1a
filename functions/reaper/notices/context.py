"""What concluding a run needs beyond the clouds, and one round of notices: what it knows, and what each of its parts came to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from reaper.case import Coverage
from reaper.coverage import add_failure_row, failure_row
from reaper.errors import CloudError, ReaperError, SettingsError
from reaper.finding import Finding
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger, RunLeases
from reaper.ledger.rows import Recalled
from reaper.limits.holds import Breaker
from reaper.model import Run, StepName
from reaper.notices.channels.delivery import ChannelContext, Delivery, OpenChannel, open_channels, with_deployment_channels
from reaper.notices.forecast import NoticeContext
from reaper.notices.message import Audience
from reaper.policy import secret_grants
from reaper.policy.channel_settings import Room
from reaper.policy.schema import Policy
from reaper.record import last_notice_at
from reaper.snooze import links
from reaper.snooze.links import LinkSigner
from reaper.stores import secret_store

MAX_ENTRIES = 400
"""The last entries of a resource's history that a summary counts: three months of a stop, a start and a mail a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcludeContext:
    """`ledger` is None if there is nothing to remember. `links` is None if no page serves snooze links: messages then offer the tag alone.

    `failures`: a row for what couldn't be opened. `location_settings`: where ledger and manifests are, for the commands in mails to admins.
    `deadline`: no message to an owner is sent after it. `notices_only`: the run is about single resources, so it records no statistics and
    sends the admins no summary. `outcomes_only`: why nothing is sent or remembered but what was done. `before_message`: called before each
    message; raises ReaperError if this process may send no more. `is_repeated`: a conclude without the time for every message fails, because it
    is repeated then, with new time.
    """

    policy: Policy
    ledger: Ledger | None
    clock: Callable[[], datetime]
    channels: Sequence[OpenChannel] = ()
    links: LinkSigner | None = None
    failures: tuple[Coverage, ...] = ()
    location_settings: Mapping[str, str] = field(default_factory=dict)
    deadline: datetime | None = None
    notices_only: bool = False
    outcomes_only: str | None = None
    before_message: Callable[[], None] = lambda: None
    is_repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one part of a round came to: findings that changed, by id, what was delivered, and where the ledger failed.

    `lost`: another run has taken over.
    """

    findings: Mapping[str, Finding] = field(default_factory=dict)
    deliveries: Sequence[Delivery] = ()
    errors: Sequence[ReaperError] = ()
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRound:
    """`now` is the time of the decisions. `decided`: the findings as decided, by id. `findings`: those of leased targets, by id, as they stand. `lost`: another run has taken over.

    `recalled`: None if the ledger couldn't be read; then nothing that takes a date from them is sent. `rows`: what failed in the reaper itself.
    """

    run: Run
    now: datetime
    context: ConcludeContext
    leases: RunLeases
    decided: Mapping[str, Finding]
    findings: Mapping[str, Finding]
    jumps: Sequence[Breaker] = ()
    recalled: Recalled | None = None
    deliveries: Sequence[Delivery] = ()
    rows: Sequence[Coverage] = ()
    lost: bool = False

    @property
    def ledger(self) -> Ledger:
        """The ledger that the leases are in."""
        return self.leases.ledger

    @property
    def known(self) -> Recalled:
        """What was recalled, or nothing if the ledger couldn't be read."""
        return self.recalled or Recalled()

    def is_over(self) -> bool:
        """Whether the time for messages to owners is over."""
        return self.context.deadline is not None and self.context.clock() > self.context.deadline

    def after(self, *parts: Part) -> NoticeRound:
        """The round after these parts of it. The ledger's failures are one row, however many there are."""
        findings, deliveries, rows = dict(self.findings), list(self.deliveries), list(self.rows)
        for part in parts:
            findings |= part.findings
            deliveries += part.deliveries
            for error in part.errors[:1]:
                add_failure_row(rows, failure_row("ledger", error))
        lost = self.lost or any(part.lost for part in parts)
        return replace(self, findings=findings, deliveries=deliveries, rows=rows, lost=lost)


def attempt(*writes: Callable[[], object]) -> list[ReaperError]:
    """Make each of these writes to the ledger, even if others failed. Returns the errors."""
    errors = []
    for write in writes:
        try:
            write()
        except ReaperError as error:
            errors.append(error)
    return errors


def open_context(
    address: str | None,
    policy: Policy,
    environ: Mapping[str, str],
    clock: Callable[[], datetime],
    deadline: datetime | None = None,
) -> ConcludeContext:
    """The context by policy and environment. Raises SettingsError without a channel for owners, or for a secret that isn't granted."""
    specs = with_deployment_channels(policy.channels, environ)
    if not specs:
        raise SettingsError(
            "every mode above audit needs a channel: add one under `channels:` in the policy, or set REAPER_TOPIC. "
            "`reaper notify test` tests it"
        )
    if not any(Audience.OWNERS in spec.readers for spec in specs):
        raise SettingsError(
            "every mode above audit needs a channel for owners, such as {type: ses, from: reaper@example.com}: "
            "the configured ones are for admins only"
        )
    for index, spec in enumerate(policy.channels):
        ref = getattr(spec, "secret", None)
        if ref and (because := secret_grants.forbidden_because(ref, environ)):
            raise SettingsError(f"channels[{index}].secret: {because}")
    channels = ChannelContext(read_secret=lambda ref: secret_store.read_for_policy(ref, environ), clock=clock, deadline=deadline)
    signer: LinkSigner | None = None
    failures: tuple[Coverage, ...] = ()
    try:
        signer = links.open_signer(environ, clock())
    except CloudError as error:  # messages are sent all the same and offer the tag
        failures = (failure_row("keep-links", error),)
    return ConcludeContext(
        policy=policy,
        ledger=opening.open_ledger(address, environ),
        channels=open_channels(specs, channels),
        links=signer,
        clock=clock,
        failures=failures,
        deadline=deadline,
    )


def notice_context(findings: Sequence[Finding], mails: NoticeRound) -> tuple[NoticeContext, Part]:
    """The context of every message of the round."""
    context = NoticeContext(
        now=mails.now,
        mode=mails.run.mode,
        owners=mails.context.policy.owners,
        run_id=mails.run.id,
        currency=mails.context.policy.prices.shown_in,
        location_settings=mails.context.location_settings,
    )
    rooms = [spec for spec in mails.context.policy.channels if isinstance(spec, Room) and Audience.OWNERS in spec.readers]
    if signer := mails.context.links:
        signer = replace(signer, currency=context.currency)
        context = replace(context, open_visit=partial(links.open_visit, signer, mails.now), has_room=bool(rooms))
    history, errors = _hours_history(findings, mails.ledger)
    return replace(context, hours_history=history), Part(errors=errors)


def _hours_history(findings: Iterable[Finding], ledger: Ledger) -> tuple[dict[str, str], list[ReaperError]]:
    """`it was stopped 5 times and started 4 times` since the last notice, by resource whose weekly summary is due."""
    history: dict[str, str] = {}
    errors: list[ReaperError] = []
    for finding in findings:
        resource_id, last = finding.case.resource.id, last_notice_at(finding.notice)
        if last is None or finding.step.name is not StepName.REMIND or not (finding.announced and finding.announced.by_hours):
            continue
        try:
            words = [entry.what for entry in ledger.history(resource_id, last, MAX_ENTRIES) if entry.when > last]
        except ReaperError as error:
            errors.append(error)
            history[resource_id] = "what was done couldn't be read"
        else:
            counts = [(what, words.count(what)) for what in ("stopped", "started")]
            done = [f"{what} {'once' if n == 1 else f'{n} times'}" for what, n in counts if n]
            history[resource_id] = f"it was {' and '.join(done)}" if done else ""
    return history, errors
