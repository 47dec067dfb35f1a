"""Autoscaling that an act must hold still, take away with what it scales, or bring back.

Deleting a step policy leaves its alarm behind, which must be led to the new policy's ARN afterwards:
https://docs.aws.amazon.com/autoscaling/application/userguide/create-step-scaling-policy-cli.html
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from reaper.actions.contract import Manifest, Permit
from reaper.aws import autoscaling
from reaper.aws.actions.restored_count import Number
from reaper.aws.autoscaling import NAMESPACE, SERVICE
from reaper.aws.plain_json import DONE, some
from reaper.aws.restorable import ACTION, ACTIONS_OWN, ALARM, ALARMS_OWN, POLICIES_OWN, POLICY, TARGET, TARGETS_OWN, strange
from reaper.aws.session import Cloud
from reaper.errors import CloudError, Trouble, Withdrawn

KEY = ("ResourceId", "ScalableDimension")
MEMBERS: Mapping[str, tuple[tuple[str, ...], set[str]]] = {
    "targets": (TARGET, TARGETS_OWN),
    "policies": (POLICY, POLICIES_OWN),
    "actions": (ACTION, ACTIONS_OWN),
    "alarms": (ALARM, ALARMS_OWN),
}
"""What makes each anew, and what the service adds."""
SCALED = {autoscaling.VARIANT, autoscaling.COPIES}
UNCERTAIN = {Trouble.UNREACHABLE, Trouble.GARBLED}
"""Failures after which the call may have been carried out."""
Saved = Mapping[str, Any]
"""`targets`, `policies`, `actions` and `alarms`, each a list of parameters for the call that makes it anew."""
RESTORING = (
    *autoscaling.PERMISSIONS,
    "application-autoscaling:DescribeScheduledActions",
    "application-autoscaling:RegisterScalableTarget",
    "application-autoscaling:PutScalingPolicy",
    "application-autoscaling:PutScheduledAction",
    "cloudwatch:PutMetricAlarm",
)


def record(cloud: Cloud, ids: Collection[str], *, goes: bool = False) -> Saved:
    """All autoscaling of those resource ids. Raises CloudError where it `goes` with them and has what we do not know how to bring back."""
    found = autoscaling.of(autoscaling.read(cloud), ids)
    actions = [row for row in _actions(cloud) if row["ResourceId"] in ids] if found.targets else []
    rows = {"targets": found.targets, "policies": found.policies, "actions": actions, "alarms": tuple(found.alarms.values())}
    for name, some_rows in rows.items() if goes else ():
        _need_known(some_rows, *MEMBERS[name])
    return {name: [some(row, *MEMBERS[name][0]) for row in some_rows] for name, some_rows in rows.items()}


def _need_known(rows: Iterable[Mapping[str, Any]], members: Collection[str], own: Collection[str]) -> None:
    """`own` members are the service's. Raises CloudError for any but those and `members`."""
    for row in rows:
        if odd := strange(row, members, own):
            name = row.get("AlarmName") or row.get("PolicyName") or row.get("ScheduledActionName") or "the scalable target"
            raise CloudError(Trouble.REFUSED, "application-autoscaling:DescribeScalableTargets", f"its autoscaling: {name} {odd}")


def lower(cloud: Cloud, saved: Saved, least: Mapping[str, int], permit: Permit) -> None:
    """Lower the minimum of those targets to what `least` says by resource id, so that autoscaling does not undo what follows."""
    for target in _lowered(saved, least):
        permit()
        _register(cloud, target, MinCapacity=least[target["ResourceId"]])


@contextmanager
def lowered(cloud: Cloud, manifest: Manifest, permit: Permit) -> Iterator[None]:
    """The minimum lowered as the manifest says, and put back where what is done then fails or is withdrawn: a lowered minimum alone
    lets autoscaling scale in. Putting back needs no permit.

    Where the failed call may have been carried out, the minimum stays lowered, or autoscaling would undo half of it; it also does where
    it could not be put back. Then an error of trouble PARTIAL says so, and this manifest is the one that knows what it was.
    """
    try:
        lower(cloud, manifest.record["scaling"], manifest.record["least"], permit)
        yield
    except CloudError as error:
        if error.retried or error.trouble in UNCERTAIN:
            left = _stays(manifest, "because the call may have been carried out")
        else:
            left = _put_back(cloud, manifest)
        if left:
            raise halfway(error, left) from error
        raise
    except Withdrawn as reason:
        if left := _put_back(cloud, manifest):
            raise Withdrawn(f"{reason}; {left}") from reason
        raise


def _put_back(cloud: Cloud, manifest: Manifest) -> str | None:
    """The clause that says that the minimum stays lowered, where it could not be put back."""
    try:
        lift(cloud, manifest.record["scaling"], manifest.record["least"])
    except CloudError as error:
        return _stays(manifest, f"because it could not be put back ({error})")
    return None


def _stays(manifest: Manifest, because: str) -> str | None:
    """None where no minimum was to be lowered."""
    targets = _lowered(manifest.record["scaling"], manifest.record["least"])
    stays = ", ".join(f"{t['ResourceId']} ({t['MinCapacity']} before)" for t in targets)
    text = (
        f"and the autoscaling minimum stays lowered, {because}: {stays}; "
        f"the manifest that run {manifest.run} stored brings it back: `reaper restore {manifest.id}`"
    )
    return text if targets else None


def halfway(error: CloudError, text: str) -> CloudError:
    """The error of an act that has changed something already: PARTIAL, so that nobody takes the resource for untouched or gone."""
    return error.retold(f"{error}; {text}", Trouble.PARTIAL)


def lift(cloud: Cloud, saved: Saved, least: Mapping[str, int], chosen: Mapping[str, int] | None = None) -> list[str]:
    """Bring the minimum of those targets back where it is still as it was lowered; gives what could not be brought back.

    `chosen` are numbers by resource id that somebody chose since: a minimum above them would scale them up, and is not brought back.
    """
    now = {_key(row): row for row in autoscaling.read(cloud).targets}
    lost = []
    for target in _lowered(saved, least):
        there, id_ = now.get(_key(target)), target["ResourceId"]
        if there is None:
            lost.append(f"The scalable target of {id_} is gone.")
        elif chosen and (number := chosen.get(id_, target["MinCapacity"])) < target["MinCapacity"]:
            text = f"{target['MinCapacity']} as before would scale up the {number} that were chosen since"
            lost.append(f"The autoscaling minimum of {id_} is {there['MinCapacity']} and stays so: {text}.")
        else:
            lost += _lift(cloud, target, least[id_], there)
    return lost


def _lift(cloud: Cloud, target: Mapping[str, Any], left: int, there: Mapping[str, Any]) -> list[str]:
    what = f"The autoscaling minimum of {target['ResourceId']}"
    least = Number(
        what=what, before=target["MinCapacity"], left=left, now=there["MinCapacity"], most=max(left, there["MaxCapacity"])
    )
    if least.wanted is not None:
        _register(cloud, target, MinCapacity=least.wanted)
    return least.lost


def _lowered(saved: Saved, least: Mapping[str, int]) -> list[Mapping[str, Any]]:
    """The recorded targets whose minimum is above what `least` says by resource id."""
    return [
        target
        for target in saved["targets"]
        if target["ScalableDimension"] in SCALED
        and target["MinCapacity"] > least.get(target["ResourceId"], target["MinCapacity"])
    ]


def most(cloud: Cloud) -> dict[str, int]:
    """The maximum by resource id that autoscaling allows now."""
    return {
        row["ResourceId"]: int(row["MaxCapacity"])
        for row in autoscaling.read(cloud).targets
        if row["ScalableDimension"] in SCALED
    }


def drop(cloud: Cloud, saved: Saved, permit: Permit) -> list[str]:
    """Take scalable targets away, and with them their policies and scheduled actions; gives what could not be taken away.

    DeleteEndpoint takes those of its variants by itself, so one that is not there any more is no failure.
    """
    left: list[str] = []
    for target in saved["targets"]:
        try:
            permit()
        except Withdrawn as reason:  # what it belonged to is gone all the same
            return [*left, f"its autoscaling stays ({reason})"]
        try:
            cloud.call(SERVICE, "DeregisterScalableTarget", DONE, **NAMESPACE, **{name: target[name] for name in KEY})
        except CloudError as error:
            if error.code != "ObjectNotFoundException" and error.trouble is not Trouble.GONE:
                left.append(f"the scalable target of {target['ResourceId']} could not be deregistered ({error})")
    return left


def restore(cloud: Cloud, saved: Saved, ids: Collection[str]) -> list[str]:
    """Make anew what is missing of the autoscaling of those resource ids, which are in service; gives what could not be made."""
    now = autoscaling.read(cloud)
    lost: list[str] = []
    there = {_key(row) for row in now.targets}
    _each(lost, (t for t in _mine(saved, "targets", ids) if _key(t) not in there), lambda row: _register(cloud, row, **row))
    policies = {(*_key(row), row["PolicyName"]): row for row in now.policies}
    missing = [p for p in _mine(saved, "policies", ids) if not _leads(policies.get((*_key(p), p["PolicyName"])), p, saved)]
    _each(lost, missing, lambda row: _policy(cloud, row, saved))
    actions = {(*_key(row), row["ScheduledActionName"]) for row in _actions(cloud)} if _mine(saved, "actions", ids) else set()
    absent = [a for a in _mine(saved, "actions", ids) if (*_key(a), a["ScheduledActionName"]) not in actions]
    _each(lost, absent, lambda row: cloud.call(SERVICE, "PutScheduledAction", DONE, **NAMESPACE, **row))
    return lost


def _leads(there: Mapping[str, Any] | None, policy: Mapping[str, Any], saved: Saved) -> bool:
    """Whether the policy is there and all its alarms set it off: one made by a run that then failed has none of them yet."""
    led = {alarm["AlarmName"] for alarm in (there or {}).get("Alarms") or ()}
    return there is not None and led >= {alarm["AlarmName"] for alarm in _alarms(policy, saved)}


def _alarms(policy: Mapping[str, Any], saved: Saved) -> list[Mapping[str, Any]]:
    """The recorded alarms of a step policy; target tracking makes its own."""
    arn = policy["PolicyARN"]
    return [a for a in saved["alarms"] if policy["PolicyType"] == "StepScaling" and arn in a.get("AlarmActions", ())]


def _policy(cloud: Cloud, policy: Mapping[str, Any], saved: Saved) -> None:
    """The policy anew, and the alarms of the old one led to it, as they are now or, where they are gone, as they were."""
    params = {name: policy[name] for name in POLICY if name in policy and name != "PolicyARN"}
    arn = cloud.call(SERVICE, "PutScalingPolicy", "PolicyARN", **NAMESPACE, **params)["PolicyARN"]
    for alarm in _alarms(policy, saved):
        rows = cloud.call("cloudwatch", "DescribeAlarms", "MetricAlarms", AlarmNames=[alarm["AlarmName"]])["MetricAlarms"]
        _need_known(rows[:1], *MEMBERS["alarms"])
        latest = some(rows[0], *ALARM) if rows else dict(alarm)
        others = [one for one in latest.get("AlarmActions", ()) if one not in (policy["PolicyARN"], arn)]
        cloud.call("cloudwatch", "PutMetricAlarm", DONE, **{**latest, "AlarmActions": [*others, arn]})


def _each(lost: list[str], rows: Iterable[Mapping[str, Any]], make: Any) -> None:
    for row in rows:
        try:
            make(row)
        except CloudError as error:
            name = row.get("PolicyName") or row.get("ScheduledActionName") or "scalable target"
            lost.append(f"Autoscaling of {row['ResourceId']}: {name} could not be made anew ({error}).")


def _register(cloud: Cloud, target: Mapping[str, Any], **change: Any) -> None:
    """A target that is not found does not mean that the resource is gone."""
    try:
        _put(cloud, target, change)
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            raise
        raise error.retold(str(error), Trouble.REFUSED) from error


def _put(cloud: Cloud, target: Mapping[str, Any], change: Mapping[str, Any]) -> None:
    cloud.call(
        SERVICE,
        "RegisterScalableTarget",
        DONE,
        **NAMESPACE,
        **{name: target[name] for name in KEY},
        **{k: v for k, v in change.items() if k not in KEY},
    )


def _actions(cloud: Cloud) -> list[dict[str, Any]]:
    return list(cloud.pages(SERVICE, "DescribeScheduledActions", "ScheduledActions", "ScheduledActionName", *KEY, **NAMESPACE))


def _mine(saved: Saved, name: str, ids: Collection[str]) -> list[Mapping[str, Any]]:
    return [row for row in saved[name] if row["ResourceId"] in ids]


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["ResourceId"], row["ScalableDimension"]
