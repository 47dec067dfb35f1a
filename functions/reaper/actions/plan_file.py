"""Plan files: the acts that are due now, to be read and agreed to by a person before anything is done. Pure.

A plan file is carried out as it stands or not at all: it says of each act what its resource looked like, it has an expiry, and a hash over
all of it. What is no longer so when it is applied is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from reaper.decide import MOVES
from reaper.errors import SettingsError
from reaper.ledger.codec import same
from reaper.model import Finding, Move, Outcome, Report, Result, Step
from reaper.report.json import stamp

SCHEMA = 1
EXPIRY = timedelta(hours=24)
SCOPE = ("cloud", "kinds", "regions", "accounts", "subscriptions")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """A plan file that was read and holds: what may be done, by resource id as ids are compared, and where to look for it.

    `held` is how many acts were held when it was made: it asks for none of these.
    """

    acts: Mapping[str, dict[str, Any]]
    held: int
    scope: Mapping[str, Any]
    policy_sha256: str
    made_at: datetime


def render(report: Report, scope: Mapping[str, Any], now: datetime, expiry: timedelta = EXPIRY) -> str:
    """The plan file of what `report` says is due, as JSON."""
    plan = {
        "schema": SCHEMA,
        "made_at": stamp(now),
        "expires_at": stamp(now + expiry),
        "run": report.run.id,
        "version": report.run.version,
        "policy_sha256": report.run.policy_sha256,
        "scope": {key: scope[key] for key in SCOPE},
        "acts": [_act(f) for f in report.findings if f.step.move in MOVES],
        "held": [_act(f) for f in report.findings if f.step.move is Move.HOLD],
    }
    return json.dumps({**plan, "sha256": _hash(plan)}, indent=2, allow_nan=False) + "\n"


def parse(text: str, name: str, now: datetime) -> PlanFile:
    """The plan file in `text`. Raises SettingsError for what is none, was changed by hand, or has expired."""
    try:
        said = json.loads(text)
        stated = said.pop("sha256")
        if said["schema"] != SCHEMA:
            raise SettingsError(f"{name}: schema {said['schema']!r} is not one that this version can apply ({SCHEMA})")
        if stated != _hash(said):
            raise SettingsError(
                f"{name}: it was changed after it was made (its sha256 does not fit): make a new one with `reaper plan`"
            )
        expires = datetime.fromisoformat(said["expires_at"])
        found = PlanFile(
            acts={same(str(act["id"])): dict(act) for act in said["acts"]},
            held=len(said["held"]),
            scope=dict(said["scope"]),
            policy_sha256=str(said["policy_sha256"]),
            made_at=datetime.fromisoformat(said["made_at"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(f"{name}: it is no plan file such as `reaper plan` writes: {_lack(error)}") from error
    if now >= expires:
        raise SettingsError(f"{name}: it expired at {stamp(expires)}: make a new one with `reaper plan`")
    return found


def narrowed(found: Finding, plan: PlanFile) -> Finding:
    """The finding, left alone where the plan does not ask for its step, and refused where it is not as it was when the plan was made."""
    act = plan.acts.get(same(found.case.resource.id))
    if found.step.move in {Move.NONE, Move.HOLD}:
        return found
    if act is None:
        return replace(found, step=_none("it is not in the plan that is applied"))
    if found.step.move.value != act["move"]:
        return _refused(found, f"the plan says {act['move']}, but now it would be {found.step.move}: {found.step.because}")
    drift = [key for key, value in _seen(found).items() if act["seen"].get(key) != value]
    return _refused(found, f"changed since the plan was made: {', '.join(drift)}") if drift else found


def left(plan: PlanFile, report: Report) -> list[str]:
    """One sentence for each act of the plan that was not made: why not."""
    findings = {same(f.case.resource.id): f for f in report.findings}
    sentences = []
    for id_, act in plan.acts.items():
        found = findings.get(id_)
        if found is None:
            sentences.append(f"{act['id']}: it was not found any more")
        elif found.step.move.value != act["move"]:
            sentences.append(f"{act['id']}: {found.step.because}")
        elif found.outcome.result is not Result.DONE:
            sentences.append(
                f"{act['id']}: {found.outcome.result}: {found.outcome.error or found.outcome.because or found.step.because}"
            )
    return sentences


def _lack(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON, or not all of it ({error})"
    return f"it has no {error}" if isinstance(error, KeyError) else "something in it is not what belongs there"


def _act(found: Finding) -> dict[str, Any]:
    resource = found.case.resource
    return {
        "id": resource.id,
        "kind": resource.kind,
        "name": resource.name,
        "account": resource.target.account,
        "region": resource.region,
        "move": found.step.move.value,
        "because": found.step.because,
        "usd_per_hour": found.case.usd_per_hour,
        "owner": found.owner.address,
        "seen": _seen(found),
    }


def _seen(found: Finding) -> dict[str, Any]:
    """What must still be so when the plan is applied."""
    resource = found.case.resource
    return {
        "status": resource.status,
        "size": resource.size,
        "created": stamp(resource.created),
        "changed": stamp(resource.changed),
        "tags": dict(sorted((resource.tags or {}).items())),
        "rule": found.case.rule.name,
        "action": found.case.rule.action.value,
    }


def _refused(found: Finding, because: str) -> Finding:
    return replace(found, outcome=Outcome(result=Result.REFUSED, because=because))


def _none(because: str) -> Step:
    return Step(move=Move.NONE, because=because)


def _hash(plan: Mapping[str, Any]) -> str:
    return sha256(json.dumps(plan, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
