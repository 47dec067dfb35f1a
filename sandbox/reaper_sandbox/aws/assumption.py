"""Roles across the accounts of an organization: who may assume them, and what their sessions may do then.

A session gets what its session policy allows; the role's own rights are not evaluated here.
https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC
from fnmatch import fnmatchcase
from typing import Any

from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import denied
from reaper_sandbox.aws.organization import Organization, TargetRole
from reaper_sandbox.aws.reply import Refusal, Reply, refusal
from reaper_sandbox.aws.world import World

MAX_POLICY_CHARS, MAX_CHAINED_SECONDS = 2048, 3600
GLOBAL_SERVICES = {"organizations", "iam", "s3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedSession:
    """A session of a role. `allowed`: the actions that its session policy allows, None without a policy."""

    role_arn: str
    allowed: tuple[str, ...] | None


def assume_role(world: World, call: Call) -> dict[str, Any] | None:
    """Credentials of a role in an account of the organization. None, for moto, if there is no organization or the role is in the caller's account."""
    found: Organization | None = world.organization
    arn = str(call.params.get("RoleArn", ""))
    if found is None or arn.split(":")[4:5] == [call.account]:
        return None
    role = next((each for each in found.roles if each.arn == arn), None)
    if role is None or not _is_trusted(world, call, role):
        who = world.sessions[call.key].role_arn if call.key in world.sessions else f"arn:aws:iam::{call.account}:user/moto"
        raise Refusal("AccessDenied", f"User: {who} is not authorized to perform: sts:AssumeRole on resource: {arn}", 403)
    policy = str(call.params.get("Policy") or "")
    if len(policy) > MAX_POLICY_CHARS:
        raise Refusal("ValidationError", f"Value at 'policy' must have length less than or equal to {MAX_POLICY_CHARS}")
    if call.key in world.sessions and int(call.params.get("DurationSeconds", 0)) > MAX_CHAINED_SECONDS:
        raise Refusal(
            "ValidationError", "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining"
        )
    return _credentials(world, call, arn, policy)


def denial(world: World, call: Call) -> Reply | None:
    """What the caller's session policy or its account's regions refuse; None if they allow the call."""
    session = world.sessions.get(call.key)
    if session and session.allowed is not None and not any(fnmatchcase(call.action, pattern) for pattern in session.allowed):
        return denied(policy="session").answer(call)  # type: ignore[misc]
    found: Organization | None = world.organization
    enabled = found.regions.get(call.account) if found else None
    if enabled is not None and call.region not in enabled and call.service not in GLOBAL_SERVICES:
        code = {"query": "InvalidClientTokenId", "ec2": "AuthFailure"}.get(call.protocol, "UnrecognizedClientException")
        return refusal(call, Refusal(code, "The security token included in the request is invalid.", 403))
    return None


def _is_trusted(world: World, call: Call, role: TargetRole) -> bool:
    session = world.sessions.get(call.key)
    principal = session.role_arn if session else world.principals.get(call.key, f"arn:aws:iam::{call.account}:user/moto")
    is_known = call.account == role.trusted and any(fnmatchcase(principal, pattern) for pattern in role.principals)
    return is_known and role.external_id in {None, call.params.get("ExternalId")}


def _credentials(world: World, call: Call, arn: str, policy: str) -> dict[str, Any]:
    """moto's credentials: moto then knows whose they are."""
    from moto.sts.models import sts_backends

    made = sts_backends[call.account]["aws"].assume_role(
        region_name=call.region,
        role_session_name=call.params["RoleSessionName"],
        role_arn=arn,
        policy=policy,
        duration=int(call.params.get("DurationSeconds") or MAX_CHAINED_SECONDS),
        external_id=str(call.params.get("ExternalId") or ""),
    )
    statements = json.loads(policy)["Statement"] if policy else None
    allowed = (
        None
        if statements is None
        else tuple(action for s in statements if s["Effect"] == "Allow" for action in _listed(s["Action"]))
    )
    world.sessions[made.access_key_id] = AssumedSession(role_arn=arn, allowed=allowed)
    return {
        "Credentials": {
            "AccessKeyId": made.access_key_id,
            "SecretAccessKey": made.secret_access_key,
            "SessionToken": made.session_token,
            "Expiration": made.expiration.replace(tzinfo=UTC),
        },
        "AssumedRoleUser": {"AssumedRoleId": made.user_id, "Arn": made.arn},
        "PackedPolicySize": 10,
    }


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
