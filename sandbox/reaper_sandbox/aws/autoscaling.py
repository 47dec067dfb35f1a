"""Application Auto Scaling of SageMaker: scalable targets, their policies and scheduled actions. It fights back: see `held`.

https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import uuid4

from reaper_sandbox.aws import token
from reaper_sandbox.aws.records import Scalable
from reaper_sandbox.aws.reply import Refusal, invalid
from reaper_sandbox.aws.sagemaker.listing import settle
from reaper_sandbox.aws.world import Region

VARIANT = "sagemaker:variant:DesiredInstanceCount"
COPIES = "sagemaker:inference-component:DesiredCopyCount"
PROVISIONED = "sagemaker:variant:DesiredProvisionedConcurrency"
MAX_PAGE = 50


def register(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """New ones need both limits and a resource in service, whose capacity is moved into them; others change only what is given."""
    if _foreign(params):
        return None
    settle(region)
    key, now = (params["ResourceId"], params["ScalableDimension"]), region.now
    target = region.scalable.get(key)
    if target is None and not {"MinCapacity", "MaxCapacity"} <= params.keys():
        raise invalid("MinCapacity and MaxCapacity are required to register a new scalable target.")
    target = target or Scalable(id=key[0], dimension=key[1], arn=_arn(region, "scalable-target"), least=0, most=0, created=now)
    least, most = int(params.get("MinCapacity", target.least)), int(params.get("MaxCapacity", target.most))
    if least > most:
        raise invalid("Maximum capacity cannot be less than minimum capacity")
    _check(region, key, least, new=key not in region.scalable)
    target.least, target.most = least, most
    target.suspended = target.suspended | (params.get("SuspendedState") or {})
    region.scalable[key] = target
    check_capacity(region, *key)
    return {"ScalableTargetARN": target.arn}


def check_capacity(region: Region, id_: str, dimension: str) -> None:
    """Move a capacity outside of its limits back into them, as the autoscaler does."""
    target = region.scalable.get((id_, dimension))
    if target is None:
        return
    if dimension == COPIES:
        component = region.components.get(id_.split("/")[1])
        if component:
            component.copies = min(max(component.copies, target.least), target.most)
    for variant in _variants(region, id_) if dimension == VARIANT else ():
        variant.count = min(max(variant.count, target.least), target.most)


def deregister(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """Policies and scheduled actions go too, and the alarms that it made itself; alarms that people made stay."""
    if _foreign(params):
        return None
    target = _find(region, params)
    del region.scalable[target.id, target.dimension]
    for name in [n for n, a in region.alarms.items() if a.get("AlarmDescription", "").startswith("DO NOT EDIT OR DELETE")]:
        if set(region.alarms[name]["AlarmActions"]) & {p["PolicyARN"] for p in target.policies.values()}:
            del region.alarms[name]
    return {}


def describe_targets(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """Of everything, or of the resources that are named."""
    if _foreign(params):
        return None
    wanted = params.get("ResourceIds")
    targets = [t for t in _matching(region, params) if not wanted or t.id in wanted]
    return _page(region, "DescribeScalableTargets", "ScalableTargets", [_target(t) for t in targets], params)


def put_policy(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """A policy of that name is replaced and keeps its ARN. Target tracking brings an alarm of its own."""
    if _foreign(params):
        return None
    target, name = _find(region, params), params["PolicyName"]
    before = target.policies.get(name)
    arn = before["PolicyARN"] if before else f"{_arn(region, 'scalingPolicy')}:resource/sagemaker/{target.id}:policyName/{name}"
    target.policies[name] = {**params, "PolicyARN": arn, "CreationTime": region.now}
    if params["PolicyType"] == "TargetTrackingScaling" and before is None:
        own = f"TargetTracking-{target.id}-AlarmHigh-{uuid4()}"
        text = f"DO NOT EDIT OR DELETE. For TargetTrackingScaling policy {arn}."
        region.alarms[own] = {"AlarmName": own, "AlarmDescription": text, "ActionsEnabled": True, "AlarmActions": [arn]}
    return {"PolicyARN": arn, "Alarms": _alarms(region, arn)}


def describe_policies(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """With the alarms that set each of them off."""
    if _foreign(params):
        return None
    policies = [p | {"Alarms": _alarms(region, p["PolicyARN"])} for t in _matching(region, params) for p in t.policies.values()]
    return _page(region, "DescribeScalingPolicies", "ScalingPolicies", policies, params)


def put_action(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """A scheduled action of that name is replaced."""
    if _foreign(params):
        return None
    target, name = _find(region, params), params["ScheduledActionName"]
    arn = f"{_arn(region, 'scheduledAction')}:resource/sagemaker/{target.id}:scheduledActionName/{name}"
    target.actions[name] = {**params, "ScheduledActionARN": arn, "CreationTime": region.now}
    return {}


def describe_actions(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """Of everything, or of one resource."""
    if _foreign(params):
        return None
    actions = [a for t in _matching(region, params) for a in t.actions.values()]
    return _page(region, "DescribeScheduledActions", "ScheduledActions", actions, params)


def _foreign(params: dict[str, Any]) -> bool:
    """Other services' targets are moto's."""
    return bool(params.get("ServiceNamespace") != "sagemaker")


def _check(region: Region, key: tuple[str, str], least: int, *, new: bool) -> None:
    id_, dimension = key
    if dimension == COPIES:
        component = region.components.get(id_.split("/")[1])
        ready = component is not None and (not new or component.status == "InService")
    else:
        endpoint = region.endpoints.get(id_.split("/")[1])
        ready = endpoint is not None and (not new or endpoint.status == "InService") and bool(_variants(region, id_))
        if ready and endpoint and dimension == VARIANT and least < 1 and not endpoint.asynchronous:
            raise invalid("MinCapacity must be at least 1 for a real-time variant.")  # its real text is not known
    if not ready:
        raise invalid(f"No active resource found for {id_}.")  # its real text is not known


def _variants(region: Region, id_: str) -> list[Any]:
    _, endpoint, _, variant = id_.split("/")
    record = region.endpoints.get(endpoint)
    return [v for v in record.variants if v.name == variant] if record else []


def _matching(region: Region, params: dict[str, Any]) -> Iterable[Scalable]:
    settle(region)
    wanted = (params.get("ResourceId"), params.get("ScalableDimension"))
    return [t for t in region.scalable.values() if wanted[0] in (None, t.id) and wanted[1] in (None, t.dimension)]


def _find(region: Region, params: dict[str, Any]) -> Scalable:
    key = (params["ResourceId"], params["ScalableDimension"])
    if key not in region.scalable:
        raise Refusal(
            "ObjectNotFoundException", f"No scalable target found for service namespace: sagemaker, resource ID: {key[0]}"
        )
    return region.scalable[key]


def _target(target: Scalable) -> dict[str, Any]:
    off = {"DynamicScalingInSuspended": False, "DynamicScalingOutSuspended": False, "ScheduledScalingSuspended": False}
    return {
        "ServiceNamespace": "sagemaker", "ResourceId": target.id, "ScalableDimension": target.dimension,
        "MinCapacity": target.least, "MaxCapacity": target.most, "CreationTime": target.created,
        "RoleARN": "arn:aws:iam::123456789012:role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/x",
        "SuspendedState": off | target.suspended, "ScalableTargetARN": target.arn,
    }  # fmt: skip


def _alarms(region: Region, arn: str) -> list[dict[str, str]]:
    names = [name for name, alarm in region.alarms.items() if arn in alarm.get("AlarmActions", ())]
    return [{"AlarmName": name, "AlarmARN": region.arn(f"alarm:{name}", "cloudwatch")} for name in names]


def _page(region: Region, operation: str, want: str, rows: Sequence[Any], params: dict[str, Any]) -> dict[str, Any]:
    size = int(params.get("MaxResults") or MAX_PAGE)
    if size > MAX_PAGE:
        raise invalid(f"Value '{size}' at 'maxResults' failed to satisfy constraint: Member must be at most {MAX_PAGE}")
    first = token.read(params.get("NextToken"), operation, Refusal("InvalidNextTokenException", "The next token is not valid."))
    more = first + size < len(rows)
    return {want: list(rows[first : first + size]), "NextToken": token.write(operation, first + size) if more else None}


def _arn(region: Region, kind: str) -> str:
    service = "application-autoscaling" if kind == "scalable-target" else "autoscaling"
    return region.arn(f"{kind}{'/' if kind == 'scalable-target' else ':'}{uuid4()}", service)


OPERATIONS = {
    "RegisterScalableTarget": register,
    "DeregisterScalableTarget": deregister,
    "DescribeScalableTargets": describe_targets,
    "PutScalingPolicy": put_policy,
    "DescribeScalingPolicies": describe_policies,
    "PutScheduledAction": put_action,
    "DescribeScheduledActions": describe_actions,
}
"""Handlers by operation: (region, parameters) to the reply's members; None leaves the call to moto."""
