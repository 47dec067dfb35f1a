"""IAM's policy simulation. Everything is allowed but for what `World.denied_actions` names.

https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from reaper_sandbox.aws.reply import Refusal
from reaper_sandbox.aws.world import Region


def simulate_principal_policy(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """One result for each action and resource. A session's ARN is no principal that has policies."""
    source = str(params.get("PolicySourceArn", ""))
    if ":assumed-role/" in source or source.split(":")[4] != region.account:
        raise Refusal("NoSuchEntity", f"The principal {source} cannot be found.", 404)
    rows = [
        {"EvalActionName": action, "EvalResourceName": resource, "EvalDecision": decision(region, action)}
        for action in params.get("ActionNames", ())
        for resource in params.get("ResourceArns", ("*",))
    ]
    return {"EvaluationResults": rows, "IsTruncated": False}


def decision(region: Region, action: str) -> str:
    """`allowed`, or `implicitDeny` for what is taken away."""
    taken = any(fnmatchcase(action.lower(), pattern.lower()) for pattern in region.world.denied_actions)
    return "implicitDeny" if taken else "allowed"


OPERATIONS = {"SimulatePrincipalPolicy": simulate_principal_policy}
