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

from deploy import policies
from deploy.test_bundle import resource
from deploy.test_template import ENFORCE, ENFORCE_OWN, NAMES, SAGEMAKER
from reaper.sandbox.aws.call import Call
from reaper.sandbox.aws.fault import Fault, denied
from reaper.sandbox.aws.server import Server

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
        if call.action == "sts:AssumeRole":
            self.session = [json.loads(call.params["Policy"])] if call.params.get("Policy") else []
        return None if self.own.allow(call.action, asked_of(call), context(self.server, call)) else denied()

    def _assumed(self, call: Call) -> Fault | None:
        arn, tags = asked_of(call), context(self.server, call)
        allowed = self.role.allow(call.action, arn, tags)
        if allowed and self.session and not policies.evaluate(self.session, call.action, arn, tags):
            self.role.denied.append((call.action, arn))
            allowed = False
        return None if allowed else denied()


def principals(server: Server, cloudformation: Mapping[str, Any]) -> Principals:
    """The guard with the template's own policies for mode enforce, in place of all other rules of the server."""
    own, role = (policies.of_template(cloudformation, NAMES, only=names) for names in (ENFORCE_OWN, ENFORCE))
    found = Principals(server, policies.Policies(own), policies.Policies(role))
    server.rules[:] = [found]
    return found


def asked_of(call: Call) -> str:
    """The ARN that IAM would see."""
    given, stem = call.params, SAGEMAKER.replace("us-east-1", call.region)
    if call.service == "dynamodb":
        return NAMES["LedgerTable.Arn"]
    if call.service == "ses":
        return NAMES["SesIdentity"]
    if call.action == "sts:AssumeRole":
        return str(given["RoleArn"])
    if call.operation in {"RegisterScalableTarget", "DeregisterScalableTarget"}:
        return f"arn:aws:application-autoscaling:{call.region}:123456789012:scalable-target/0ec5"
    if call.service == "sagemaker" and "ResourceArn" in given:
        return str(given["ResourceArn"])
    if call.operation == "DeleteApp":
        home = given.get("SpaceName") or given["UserProfileName"]
        return f"{stem}app/{given['DomainId']}/{home}/{given['AppType']}/{given['AppName']}"
    if call.service == "sagemaker" and not call.operation.startswith("List"):
        for key, type_ in (("NotebookInstanceName", "notebook-instance"), ("ModelName", "model")):
            if key in given:
                return f"{stem}{type_}/{given[key]}"
        if call.operation in {"DeleteEndpoint", "UpdateEndpointWeightsAndCapacities"}:
            return f"{stem}endpoint/{given['EndpointName'].lower()}"
        if "InferenceComponentName" in given:
            return f"{stem}inference-component/{given['InferenceComponentName'].lower()}"
    return resource(call)


def context(server: Server, call: Call) -> dict[str, str]:
    """What IAM knows of the request besides: the resource's own tags, whose autoscaling it is, and whether a write is create-only."""
    arn = asked_of(call).lower()
    shelves = server.world.region(call.account, call.region).shelves().values()
    tags = next((record.tags for shelf in shelves for record in shelf.values() if record.arn.lower() == arn), None) or {}
    found = {f"aws:ResourceTag/{key}": value for key, value in tags.items()}
    if "ServiceNamespace" in call.params:
        found["application-autoscaling:service-namespace"] = call.params["ServiceNamespace"]
    if "if-none-match" in call.headers:
        found["s3:if-none-match"] = call.headers["if-none-match"]
    return found
