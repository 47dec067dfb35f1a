"""Plan files: the actions that are due now, for a person to read and approve before anything is changed. Pure.

A plan file can't be edited: it has a hash over everything in it, and it expires. For each action it records what its resource looked like.
If that has changed when the file is applied, the action is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from reaper import registry
from reaper import settings as knobs
from reaper.case import Case
from reaper.duration import MAX_VALIDITY
from reaper.errors import ODD_REPLY_ERRORS, SettingsError
from reaper.finding import Finding, Outcome, Report, Step
from reaper.ledger.rows import comparable_id
from reaper.model import ACTIONS, HoldReason, NextAction, Result, StepName, Target
from reaper.report.json import next_json, utc_text
from reaper.settings import SELF, Settings

SCHEMA = 1
VALID_FOR = timedelta(hours=24)
CLOCK_TOLERANCE = timedelta(minutes=10)
"""The difference that two machines' clocks may have."""
SCOPE_SETTINGS = ("cloud", "kinds", "regions", "accounts", "subscriptions")
RELEASE_OPTIONS = re.compile(r"(--all|--account [0-9A-Fa-f-]+)?")
OPTIONAL_SCOPE_SETTINGS = ("organization", "ous", "exclude_accounts", "role_name", "management_group")
"""Written only if they differ from the default. External IDs are never written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAction:
    """One action of a plan. `state`: what its resource looked like. `hold_reasons`: why it was on hold, if it was. `stop_by`: how it is stopped.

    Once it was applied: `result` in a word and `because`. `is_done`: it was carried out, or nothing was left to do.
    """

    id: str
    kind: str
    name: str
    target: Target
    region: str
    action: StepName
    saves_usd_per_hour: float | None
    owner: str | None
    state: Mapping[str, Any]
    hold_reasons: tuple[HoldReason, ...] = ()
    stop_by: str = "stop"
    result: str = ""
    because: str = ""
    is_done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """A valid plan file: what may be done, by resource ID in its comparable form, and the scope to sweep.

    `held`: what was on hold when it was made. It asks for none of these actions.
    """

    actions_by_id: Mapping[str, PlannedAction]
    held: tuple[PlannedAction, ...]
    scope: Mapping[str, Any]
    policy_sha256: str
    made_at: datetime


def scope_of(settings: Settings) -> dict[str, Any]:
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
    return replace(narrowed, management_group=group or settings.management_group)


def plan_json(report: Report, scope: Mapping[str, Any], now: datetime, expiry: timedelta = VALID_FOR) -> str:
    """The plan file of what `report` says is due, as JSON."""
    plan = {
        "schema": SCHEMA,
        "made_at": utc_text(now),
        "expires_at": utc_text(now + expiry),
        "run": report.run.id,
        "version": report.run.version,
        "policy_sha256": report.run.policy_sha256,
        "scope": {key: scope[key] for key in (*SCOPE_SETTINGS, *(key for key in OPTIONAL_SCOPE_SETTINGS if key in scope))},
        "acts": [_action_json(f) for f in report.findings if f.step.name in ACTIONS],
        "held": [_action_json(f) for f in report.findings if f.step.name is StepName.HOLD],
        "coming": [_coming_json(f, f.next) for f in report.findings if f.next and f.step.name not in {*ACTIONS, StepName.HOLD}],
    }
    return json.dumps({**plan, "sha256": _plan_hash(plan)}, indent=2, allow_nan=False) + "\n"


def parse_plan(text: str, name: str, now: datetime) -> PlanFile:
    """The plan file in `text`. Raises SettingsError if it isn't one, was edited, or has expired: after a week it has, whatever it says."""
    try:
        fields = json.loads(text)
        stated_hash = fields.pop("sha256")
        if fields["schema"] != SCHEMA:
            raise SettingsError(f"{name}: this version can't apply schema {fields['schema']!r}, only {SCHEMA}")
        if stated_hash != _plan_hash(fields):
            raise SettingsError(f"{name}: edited after it was written (sha256 mismatch); run `reaper plan` again")
        expires = datetime.fromisoformat(fields["expires_at"])
        plan = PlanFile(
            actions_by_id={comparable_id(action.id): action for action in map(_parsed_action, fields["acts"])},
            held=tuple(map(_parsed_action, fields["held"])),
            scope=dict(fields["scope"]),
            policy_sha256=str(fields["policy_sha256"]),
            made_at=datetime.fromisoformat(fields["made_at"]),
        )
        expires = min(expires, plan.made_at + MAX_VALIDITY)
        is_early = plan.made_at > now + CLOCK_TOLERANCE
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
    if step.name is not action.action:
        return _refused(finding, f"the plan says {action.action}, but now it would be {step.name}: {step.because}")
    changed = [key for key, value in _resource_state(finding.case).items() if action.state.get(key) != value]
    return _refused(finding, f"changed since the plan was made: {', '.join(changed)}") if changed else finding


def action_results(plan: PlanFile, report: Report) -> list[PlannedAction]:
    """The result of each action of the plan."""
    findings = {comparable_id(f.case.resource.id): f for f in report.findings}
    return [_with_result(action, findings.get(resource_id)) for resource_id, action in plan.actions_by_id.items()]


def _with_result(action: PlannedAction, finding: Finding | None) -> PlannedAction:
    if finding is None:
        return replace(action, result="not found", because="it wasn't found")
    outcome, step = finding.outcome, finding.step
    if step.name is not action.action:
        return replace(action, result="on hold" if step.name is StepName.HOLD else "not due", because=step.because)
    because = outcome.error or outcome.because or step.because
    return replace(action, result=outcome.result.value, because=because, is_done=outcome.result is Result.DONE)


def result_sentence(action: PlannedAction) -> str:
    """Why an action wasn't carried out, for people and scripts."""
    word = f"{action.result}: " if action.result in set(Result) else ""
    return f"{action.id}: {word}{action.because}"


def _parsed_action(row: Mapping[str, Any]) -> PlannedAction:
    """What the plan says of one action. Raises KeyError, TypeError or ValueError for a value that can't be compared."""
    saves, owner, name = row["saves_usd_per_hour"], row["owner"], row["account_name"]
    return PlannedAction(
        id=str(row["id"]),
        kind=str(row["kind"]),
        name=str(row["name"]),
        target=Target(cloud=str(row["cloud"]), account=str(row["account"]), account_name=None if name is None else str(name)),
        region=str(row["region"]),
        action=StepName(row["move"]),
        saves_usd_per_hour=None if saves is None else float(saves),
        owner=None if owner is None else str(owner),
        state=dict(row["seen"]),
        hold_reasons=tuple(map(_parsed_reason, row.get("hold_reasons", ()))),
        stop_by=str(row.get("stop_by", "stop")),
    )


def _parsed_reason(row: Mapping[str, Any]) -> HoldReason:
    since = datetime.fromisoformat(row["since"]) if row["since"] else None
    if not RELEASE_OPTIONS.fullmatch(row["release"]):  # it is shown in a command to paste, and the hash in a plan is no signature
        raise ValueError(row["release"])
    return HoldReason(because=str(row["because"]), since=since, release=str(row["release"]), after=str(row["after"]))


def _parse_error_text(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"it isn't JSON, or it is cut off ({error})"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return f"it has no {error}" if isinstance(error, KeyError) else "one of its values has the wrong type"


def _action_json(finding: Finding) -> dict[str, Any]:
    resource, step = finding.case.resource, finding.step
    action = step.held or step.name
    on_hold = [{**asdict(reason), "since": utc_text(reason.since)} for reason in step.hold_reasons]
    return {
        "id": resource.id,
        "kind": resource.kind,
        "name": resource.name,
        "cloud": resource.target.cloud,
        "account": resource.target.account,
        "account_name": resource.target.account_name,
        "region": resource.region,
        "move": action.value,
        "because": step.because,
        "usd_per_hour": finding.case.usd_per_hour,
        "saves_usd_per_hour": finding.case.saves_usd_per_hour.get(action),
        "owner": finding.case.owner.address,
        "seen": _resource_state(finding.case),
        **({"hold_reasons": on_hold} if on_hold else {}),
        **({"stop_by": resource.stop_by} if resource.stop_by != "stop" else {}),
    }


def _coming_json(finding: Finding, action: NextAction) -> dict[str, Any]:
    """For people and other programs; `reaper apply` takes what is due only."""
    resource = finding.case.resource
    return {
        "id": resource.id,
        "kind": resource.kind,
        "name": resource.name,
        "account": resource.target.account,
        "region": resource.region,
        "owner": finding.case.owner.address,
        **next_json(action),
    }


def _resource_state(case: Case) -> dict[str, Any]:
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
