"""Who asks, and what IAM lets them do: the function's own role, and the enforce role under the session policy it was taken on with.

IAM looks at the resource's own tags: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html. A session
gets what both its role's policies and its session policy allow, and nothing that either denies:
https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies.html#policies_session
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deploy import policies, wire
from deploy.test_template import ENFORCE, ENFORCE_OWN, NAMES
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, denied
from reaper_sandbox.aws.server import Server

OWN_KEY, TEST_KEY = "AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7THETEST"
"""The function's key, and that of the test itself, which may do everything."""


@dataclass
class Principals:
    """A guard for the sandbox. `own` and `role` remember what was asked and what was denied; `session` is the last session policy."""

    server: Server
    own: policies.Policies
    role: policies.Policies
    session: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, call: Call) -> Fault | None:
        if call.key == TEST_KEY:
            return None
        if call.key != OWN_KEY:
            return self._assumed(call)
        if call.action == "sts:GetCallerIdentity":
            return None  # it needs no permission: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
        if call.action == "sts:AssumeRole":
            self.session = [json.loads(call.params["Policy"])] if call.params.get("Policy") else []
        return None if wire.pass_all(self.own, wire.questions(self.server, call)) else denied()

    def _assumed(self, call: Call) -> Fault | None:
        questions = wire.questions(self.server, call)
        allowed = wire.pass_all(self.role, questions)
        for action, arn, context in questions if allowed and self.session else ():
            if not policies.evaluate(self.session, action, arn, context):
                self.role.denied.append((action, arn))
                allowed = False
        return None if allowed else denied()


def principals(server: Server, cloudformation: Mapping[str, Any]) -> Principals:
    """The guard with the template's own policies for mode enforce, in place of all other rules of the server."""
    own, role = (policies.of_template(cloudformation, NAMES, only=names) for names in (ENFORCE_OWN, ENFORCE))
    guard = Principals(server, policies.Policies(own), policies.Policies(role))
    server.rules[:] = [guard]
    return guard
