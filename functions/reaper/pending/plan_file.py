"""Plan files: the actions that are due now, for a person to read and approve before anything is changed. Pure.

A plan file can't be edited: it has a hash over everything in it, and it expires. For each action it records what its resource looked like.
If that has changed when the file is applied, the action is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any, Literal

from reaper import registry
from reaper import settings as knobs
from reaper.case import Case
from reaper.duration import MAX_VALIDITY
from reaper.errors import ODD_REPLY_ERRORS, SettingsError
from reaper.finding import Finding, Outcome, Report, Step
from reaper.ledger.rows import adapter, comparable_id
from reaper.model import ACTIONS, Constrained, HoldReason, Result, StepName, Time
from reaper.report.json import document_json, fault_text, utc_text
from reaper.settings import SELF, Settings

SCHEMA: Literal[1] = 1
VALID_FOR = timedelta(hours=24)
CLOCK_TOLERANCE = timedelta(minutes=10)
"""The difference that two machines' clocks may have."""
SCOPE_SETTINGS = ("cloud", "kinds", "regions", "accounts", "subscriptions")
RELEASE_OPTIONS = re.compile(r"(--all|--account [0-9A-Fa-f-]+)?")
OPTIONAL_SCOPE_SETTINGS = ("organization", "ous", "exclude_accounts", "role_name", "management_group")
"""Written only if they differ from the default. External IDs are never written."""


JsonValue = str | bool | list[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRow:
    """One action of a plan. `seen`: what its resource looked like. `hold_reasons`: why it was on hold, if it was. `stop_by`: how it is stopped."""

    id: str
    kind: str
    name: str
    cloud: str
    account: str
    account_name: str | None
    region: str
    move: StepName
    because: str
    usd_per_hour: float | None
    saves_usd_per_hour: float | None
    owner: str | None
    seen: Mapping[str, str | Mapping[str, str] | None]
    hold_reasons: tuple[
        Annotated[HoldReason, Constrained(serialization={"type": "function-plain", "function": asdict})], ...
    ] = ()
    stop_by: str = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingRow:
    """An action that may come, for people and other programs; `reaper apply` takes what is due only."""

    id: str
    kind: str
    name: str
    account: str
    region: str
    owner: str | None
    step: StepName
    at: Time | None
    saves_usd_per_hour: float | None
    blocked_because: str | None


@dataclass(frozen=True, kw_only=True)
class PlanFile:
    """A plan file without its hash: what is due, what was on hold when it was made, and the scope to sweep. It asks for nothing but what is due."""

    schema: Literal[1]
    made_at: Time
    expires_at: Time
    run: str
    version: str
    policy_sha256: str
    scope: Mapping[str, JsonValue]
    acts: tuple[ActionRow, ...]
    held: tuple[ActionRow, ...]
    coming: tuple[ComingRow, ...]

    @cached_property
    def actions_by_id(self) -> dict[str, ActionRow]:
        """What may be done, by resource ID in its comparable form."""
        return {comparable_id(action.id): action for action in self.acts}


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedAction:
    """The result of an action of a plan in a word, and why."""

    action: ActionRow
    result: str
    because: str

    @property
    def is_done(self) -> bool:
        """Whether it was carried out, or nothing was left to do."""
        return self.result == Result.DONE


def scope_of(settings: Settings) -> dict[str, JsonValue]:
    """What a plan under these settings covers, as JSON values."""
    default = Settings()
    optional = [key for key in OPTIONAL_SCOPE_SETTINGS if getattr(settings, key) != getattr(default, key)]
    values = {key: getattr(settings, key) for key in (*SCOPE_SETTINGS, *optional)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def with_scope(settings: Settings, plan: PlanFile) -> Settings:
    """The settings, narrowed to the plan's scope as by a manual call. Raises SettingsError if the plan reaches beyond them.

    The hash in a plan is no signature, so a plan alone can't choose the role to assume, nor the accounts that learn the external ID.
    """
    scope = {key: plan.scope[key] for key in (*SCOPE_SETTINGS, *OPTIONAL_SCOPE_SETTINGS) if plan.scope.get(key)}
    role, group = scope.pop("role_name", Settings().role_name), scope.pop("management_group", None)
    if not scope.keys() & {"accounts", "organization", "ous"}:
        scope["accounts"] = [SELF]
    elif role != settings.role_name:
        raise SettingsError(f"the plan names role {role!r}, but this command assumes {settings.role_name!r}; see --role-name")
    if settings.cloud not in ("all", scope.get("cloud")):
        raise SettingsError(f"the plan covers cloud {scope.get('cloud')!r}, but this command only {settings.cloud!r}")
    if group and group != settings.management_group and (settings.management_group or settings.subscriptions):
        raise SettingsError(f"the plan covers management group {group!r}, which this command doesn't name")
    try:
        narrowed = knobs.narrow_settings(settings, scope, registry.kind_names())
    except SettingsError as error:
        raise SettingsError(
            f"the plan covers more than this command names; use the options of `reaper plan` again ({error})"
        ) from error
    return replace(narrowed, management_group=str(group) if group else settings.management_group)


def plan_json(report: Report, scope: Mapping[str, JsonValue], now: datetime, expiry: timedelta = VALID_FOR) -> str:
    """The plan file of what `report` says is due, as JSON."""
    plan = PlanFile(
        schema=SCHEMA,
        made_at=now,
        expires_at=now + expiry,
        run=report.run.id,
        version=report.run.version,
        policy_sha256=report.run.policy_sha256,
        scope=scope,
        acts=tuple(action_row(f) for f in report.findings if f.step.name in ACTIONS),
        held=tuple(action_row(f) for f in report.findings if f.step.name is StepName.HOLD),
        coming=tuple(_coming_rows(f for f in report.findings if f.step.name not in {*ACTIONS, StepName.HOLD})),
    )
    fields = document_json(plan, brief=True)
    return json.dumps({**fields, "sha256": _plan_hash(fields)}, indent=2, allow_nan=False) + "\n"


def parse_plan(text: str, name: str, now: datetime) -> PlanFile:
    """The plan file in `text`. Raises SettingsError if it isn't one, was edited, or has expired: after a week it has, whatever it says."""
    try:
        fields = json.loads(text)
        stated_hash = fields.pop("sha256")
        if fields["schema"] != SCHEMA:
            raise SettingsError(f"{name}: this version can't apply schema {fields['schema']!r}, only {SCHEMA}")
        if stated_hash != _plan_hash(fields):
            raise SettingsError(f"{name}: edited after it was written (sha256 mismatch); run `reaper plan` again")
        plan: PlanFile = adapter(PlanFile).validate_json(json.dumps(fields), strict=True, extra="forbid")
        for reason in (reason for action in (*plan.acts, *plan.held) for reason in action.hold_reasons):
            if not RELEASE_OPTIONS.fullmatch(
                reason.release
            ):  # it is shown in a command to paste, and the hash in a plan is no signature
                raise ValueError(reason.release)
        expires, is_early = min(plan.expires_at, plan.made_at + MAX_VALIDITY), plan.made_at > now + CLOCK_TOLERANCE
    except ODD_REPLY_ERRORS as error:
        raise SettingsError(f"{name}: not a plan file of `reaper plan`: {_parse_error_text(error)}") from error
    if is_early:
        raise SettingsError(f"{name}: made at {utc_text(plan.made_at)}, which is in the future; run `reaper plan` again")
    if now >= expires:
        raise SettingsError(f"{name}: expired at {utc_text(expires)}; run `reaper plan` again")
    return plan


def narrow_to_plan(finding: Finding, plan: PlanFile) -> Finding:
    """The finding, with no step if the plan doesn't ask for it, and refused if the resource changed since the plan was made."""
    action = plan.actions_by_id.get(comparable_id(finding.case.resource.id))
    step = finding.step
    if step.name in {StepName.NONE, StepName.HOLD}:
        return finding
    if action is None:
        return replace(finding, step=Step(name=StepName.NONE, because="it isn't in the plan file"))
    if step.name is not action.move:
        return _refused(finding, f"the plan says {action.move}, but now it would be {step.name}: {step.because}")
    changed = [key for key, value in _resource_state(finding.case).items() if action.seen.get(key) != value]
    return _refused(finding, f"changed since the plan was made: {', '.join(changed)}") if changed else finding


def action_results(plan: PlanFile, report: Report) -> list[AppliedAction]:
    """The result of each action of the plan."""
    findings = {comparable_id(f.case.resource.id): f for f in report.findings}
    return [_applied(action, findings.get(resource_id)) for resource_id, action in plan.actions_by_id.items()]


def _applied(action: ActionRow, finding: Finding | None) -> AppliedAction:
    if finding is None:
        return AppliedAction(action=action, result="not found", because="it wasn't found")
    outcome, step = finding.outcome, finding.step
    if step.name is not action.move:
        result = "on hold" if step.name is StepName.HOLD else "not due"
        return AppliedAction(action=action, result=result, because=step.because)
    because = outcome.error or outcome.because or step.because
    return AppliedAction(action=action, result=outcome.result.value, because=because)


def result_sentence(applied: AppliedAction) -> str:
    """Why an action wasn't carried out, for people and scripts."""
    word = f"{applied.result}: " if applied.result in set(Result) else ""
    return f"{applied.action.id}: {word}{applied.because}"


def _parse_error_text(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"it isn't JSON, or it is cut off ({error})"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, KeyError):
        return f"it has no {error}"
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return "one of its values has the wrong type"
    first = error.errors()[0]
    return f"it has no {first['loc'][-1]!r}" if first["type"] == "missing" else f"a value has the wrong type: {fault_text(error)}"


def action_row(finding: Finding) -> ActionRow:
    """Its action, due or on hold."""
    resource, step = finding.case.resource, finding.step
    action = step.held or step.name
    return ActionRow(
        id=resource.id,
        kind=resource.kind,
        name=resource.name,
        cloud=resource.target.cloud,
        account=resource.target.account,
        account_name=resource.target.account_name,
        region=resource.region,
        move=action,
        because=step.because,
        usd_per_hour=finding.case.usd_per_hour,
        saves_usd_per_hour=finding.case.saves_usd_per_hour.get(action),
        owner=finding.case.owner.address,
        seen=_resource_state(finding.case),
        hold_reasons=step.hold_reasons,
        stop_by=resource.stop_by,
    )


def _coming_rows(findings: Iterable[Finding]) -> Iterator[ComingRow]:
    for resource, owner, action in ((f.case.resource, f.case.owner, f.next) for f in findings):
        if action:
            yield ComingRow(
                id=resource.id,
                kind=resource.kind,
                name=resource.name,
                account=resource.target.account,
                region=resource.region,
                owner=owner.address,
                step=action.step,
                at=action.at,
                saves_usd_per_hour=action.saves_usd_per_hour,
                blocked_because=action.blocked_because,
            )


def _resource_state(case: Case) -> dict[str, str | Mapping[str, str] | None]:
    """What must be unchanged when the plan is applied."""
    resource = case.resource
    return {
        "status": resource.status,
        "size": resource.size,
        "created": utc_text(resource.created),
        "changed": utc_text(resource.changed),
        "tags": dict(sorted((resource.tags or {}).items())),
        "rule": case.rule.name,
        "action": case.rule.action.value,
    }


def _refused(finding: Finding, because: str) -> Finding:
    return replace(finding, outcome=Outcome(result=Result.REFUSED, because=because))


def _plan_hash(plan: Mapping[str, Any]) -> str:
    return sha256(json.dumps(plan, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
