"""What IAM lets the hub's roles and the target roles do, evaluated on every call over the wire: identity policies, session policies, trust.

A call across accounts needs both: the hub role's permission to assume, and the target role's trust in it.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic-cross-account.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deploy import policies, wire
from deploy.policies import Policies
from deploy.principals import OWN_KEY, TEST_KEY, Principals
from deploy.step_functions import MACHINE_KEY
from deploy.test_target_role import DEPLOYED, HUB, HUB_ROLE, ORGANIZATION, POLICIES, trust
from deploy.test_template import ENFORCE, ENFORCE_OWN, NAMES
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, denied
from reaper_sandbox.aws.server import Server


@dataclass
class Hub:
    """A guard for the sandbox. Each set of policies remembers what was asked of it and what it denied."""

    server: Server
    template: Mapping[str, Any]
    target_template: Mapping[str, Any]
    own: Policies
    machine: Policies
    enforcing: Principals
    targets: dict[str, Policies] = field(default_factory=dict)
    trusts: list[bool] = field(default_factory=list)

    def __call__(self, call: Call) -> Fault | None:
        if call.key == TEST_KEY or (call.key == OWN_KEY and call.action == "sts:GetCallerIdentity"):
            return None  # the call needs no permission
        if call.key == MACHINE_KEY:
            return self._asked(self.machine, call)
        if call.key == OWN_KEY:
            refused = self._asked(self.own, call)
            return refused or (self._assumes(call) if call.action == "sts:AssumeRole" else None)
        if call.account == HUB:
            return self.enforcing(call)
        return self._asked(self.target(call.account), call)

    def target(self, account: str) -> Policies:
        """The policies of the target role in that account. What its session policy takes away, the sandbox evaluates."""
        if account not in self.targets:
            names = {**NAMES, **DEPLOYED, "AWS::AccountId": account, "SweepsEverywhere": "true"}
            self.targets[account] = Policies(policies.of_template(self.target_template, names, only=set(POLICIES)))
        return self.targets[account]

    def _asked(self, rights: Policies, call: Call) -> Fault | None:
        return None if wire.pass_all(rights, wire.questions(self.server, call)) else denied()

    def _assumes(self, call: Call) -> Fault | None:
        """The trust of the role that is assumed; that of the enforce role names the hub's role itself."""
        if call.params["RoleArn"] == NAMES["EnforceRole.Arn"]:
            self.enforcing(call)  # remembers the session policy
            return None
        keys = {"aws:PrincipalArn": HUB_ROLE, "aws:PrincipalOrgID": ORGANIZATION}
        external = {"sts:ExternalId": call.params["ExternalId"]} if "ExternalId" in call.params else {}
        self.trusts.append(policies.conditions_hold(trust(dict(self.target_template))["Condition"], keys | external))
        return None if self.trusts[-1] else denied()


def hub(server: Server, template: Mapping[str, Any], target_template: Mapping[str, Any]) -> Hub:
    """The guard with the policies of both templates for mode enforce."""
    sets = ({*ENFORCE_OWN, "AccountsPolicy"}, {"WorkflowPolicy"}, ENFORCE)
    own, machine, enforcing = (Policies(policies.of_template(template, NAMES, only=set(names))) for names in sets)
    guard = Hub(server, template, target_template, own, machine, Principals(server, own, enforcing))
    server.rules.insert(0, guard)
    return guard
