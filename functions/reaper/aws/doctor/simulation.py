"""Whether IAM would allow an action, without trying it: https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html

The simulation knows the policies of the role or user, its permissions boundary and most service control policies. It doesn't know session
policies, and it can't judge service control policies with global condition keys: what only such a policy would deny is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from reaper.aws.doctor.grants import NOTHING, Principal, PrincipalType, grant_line, parse_principal, resource_arn
from reaper.doctor.check import CheckStatus, Right
from reaper.errors import CloudError, Reason

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession


GET_ROLE = "iam:GetRole"
OPERATION = "SimulatePrincipalPolicy"
NOT_ALLOWED = "no policy allows it"
MAX_ACTIONS = 50
"""Actions in one call."""
ELSEWHERE = "in other accounts the doctor's session can only read what a sweep reads, so it can't simulate there"
ELSEWHERE_FIX = "To check them, run reaper doctor --mode enforce with credentials of that account."


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Who asks for what. `resources`: the ARN of an action that isn't about what its name says. `context`: condition keys of the request."""

    principal: Principal
    actions: Sequence[str]
    resources: Mapping[str, str] = field(default_factory=dict)
    context: Mapping[str, str] = field(default_factory=dict)


def simulated_rights(sessions: Sequence[CloudSession], request: Request) -> list[Right]:
    """Whether the principal may do these actions. The first of `sessions` that may simulate is used."""
    if request.principal.is_root:
        return [Right(permission=action, place=f"account {request.principal.account}") for action in request.actions]
    if request.principal.type is PrincipalType.OTHER:
        return _all_unknown(request, f"IAM simulates roles and users only, not {request.principal.arn}")
    errors: list[CloudError] = []
    for session in sessions:
        try:
            return _simulate(session, request)
        except CloudError as error:
            errors.append(error)
    if request.principal.is_elsewhere:
        return _all_unknown(request, ELSEWHERE, fix=ELSEWHERE_FIX)
    why = "; only the doctor needs that permission" if errors[0].missing else ""
    return _all_unknown(request, f"the simulation failed: {errors[0]}{why}", errors[0].missing)


def _simulate(session: CloudSession, request: Request) -> list[Right]:
    source = _policy_source(session, request.principal)
    by_resource: dict[str, list[str]] = defaultdict(list)
    for action in request.actions:
        by_resource[_resource_of(request, action, session.region)].append(action)
    rights = []
    for resource, actions in by_resource.items():
        for start in range(0, len(actions), MAX_ACTIONS):
            batch = actions[start : start + MAX_ACTIONS]
            params = {
                "PolicySourceArn": source,
                "ActionNames": batch,
                "ResourceArns": [resource],
                "ContextEntries": _context_entries(request, session.region),
            }
            rows = session.paged_rows(
                "iam", OPERATION, "EvaluationResults", "EvalActionName", "EvalDecision", token_key="Marker", **params
            )
            found = {row["EvalActionName"].lower(): row for row in rows}
            rights += [_right(request, action, found.get(action.lower())) for action in batch]
    return rights


def _resource_of(request: Request, action: str, region: str, name: str = NOTHING) -> str:
    return request.resources.get(action) or resource_arn(request.principal, action, region, name)


def _context_entries(request: Request, region: str) -> list[dict[str, Any]]:
    context = {
        "aws:RequestedRegion": region,
        "application-autoscaling:service-namespace": "sagemaker",
        "iam:PassedToService": "sagemaker.amazonaws.com",
        **request.context,
    }
    return [{"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"} for key, value in context.items()]


def _policy_source(session: CloudSession, principal: Principal) -> str:
    """The ARN of the role or user itself. STS doesn't show the path of an assumed role, so IAM is asked for it."""
    if ":assumed-role/" not in principal.arn:
        return principal.arn
    role = session.call("iam", "GetRole", "Role", RoleName=principal.name)["Role"]
    if not isinstance(role, dict) or not isinstance(role.get("Arn"), str):
        raise CloudError(Reason.UNREADABLE, GET_ROLE, "the reply has no ARN")
    return str(role["Arn"])


def _right(request: Request, action: str, row: Mapping[str, Any] | None) -> Right:
    """What one result means: only a plain denial says that a permission is missing."""
    right = partial(Right, permission=action, place=f"account {request.principal.account}")
    if row is None:
        return right(status=CheckStatus.UNKNOWN, because="the simulation left it out")
    if row["EvalDecision"] == "allowed":
        return right()
    if (row.get("OrganizationsDecisionDetail") or {}).get("AllowedByOrganizations") is False:
        because = "the simulation says that a service control policy denies it; with conditions on global keys it may be wrong"
        return right(status=CheckStatus.UNKNOWN, because=because, missing=action)
    principal, denial = request.principal, _denial(row)
    fix = f"Change what denies {action} to {principal.name}; another statement that allows it doesn't help."
    if denial == NOT_ALLOWED:
        fix = grant_line(principal, action, _resource_of(request, action, "*", "*"))
    because = f"IAM would deny it to {principal.name}: {denial}"
    return right(status=CheckStatus.FIX, because=because, fix=fix, missing=action)


def _denial(row: Mapping[str, Any]) -> str:
    if (row.get("PermissionsBoundaryDecisionDetail") or {}).get("AllowedByPermissionsBoundary") is False:
        return "its permissions boundary doesn't allow it"
    if row["EvalDecision"] == "explicitDeny":
        names = sorted({str(s.get("SourcePolicyId")) for s in row.get("MatchedStatements") or () if s.get("SourcePolicyId")})
        return f"a policy denies it explicitly ({', '.join(names) or 'unnamed'})"
    return NOT_ALLOWED


def _all_unknown(request: Request, because: str, missing: str | None = None, fix: str | None = None) -> list[Right]:
    place = f"account {request.principal.account}"
    unknown = partial(Right, place=place, status=CheckStatus.UNKNOWN, because=because, fix=fix, missing=missing)
    return [unknown(permission=action) for action in request.actions]


def known_principal(caller: str, role: str | None) -> Principal:
    """The principal behind the caller's ARN. If the settings name its role, that ARN has the path, too."""
    principal = parse_principal(caller)
    if role and parse_principal(role).name == principal.name and parse_principal(role).account == principal.account:
        return parse_principal(role)
    return principal
