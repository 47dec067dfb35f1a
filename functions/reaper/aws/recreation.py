"""Recreating from a manifest, and whether what has a name today is what had it when the manifest was made, or what was recreated from one.

Names are reused, so a name proves nothing. CreationTime tells one incarnation from the next. What the reaper recreates has a new one, so it
gets a tag with the creation time of the first, and later runs continue that one only. No other sign would do: a template applied again makes
an endpoint with the same configuration, tags and counts as the deleted one, and yet it belongs to the person who applied it. The tag also
allows undoing, after a deletion, a scale-in from before it. It may be removed once everything is restored.

Tags: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Tag.html"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from reaper.acting.contract import Earlier, Manifest, Members, OwnChanges, Permit, UndoResult, UndoState, any_members
from reaper.aws import autoscaling, reader
from reaper.aws.autoscaling import NAMESPACE_PARAMETER, SERVICE, target_key
from reaper.aws.reader import Row
from reaper.aws.sagemaker import (
    ANY_REPLY_KEY,
    RESTORED_TAG,
    chosen_members,
    digest,
    no_room_for_tag_because,
    to_plain_json,
    unknown_members_clause,
)
from reaper.aws.session import CloudSession
from reaper.errors import ActionWithdrawn, CloudError, Reason, gone_as_partial
from reaper.model import Resource

A = TypeVar("A")
IN_SERVICE = "InService"
RUN_AGAIN = "run this again once the endpoint is in service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreation:
    """How a kind is recreated. `read(cloud, resource, earlier)`: everything that takes, read right before the deletion. `recreate(cloud, manifest)` can be
    run again and again, and then goes on with what is missing. `members`: those of what is saved. Both functions raise CloudError.
    """

    read: Callable[[CloudSession, Resource, Earlier], UndoState]
    recreate: Callable[[CloudSession, Manifest], UndoResult]
    members: Members
    permissions: tuple[str, ...]


def first_created(row: Mapping[str, Any], own_tags: Mapping[str, str]) -> str:
    """When the first incarnation was created, in ISO 8601, from a description and the resource's own tags."""
    return own_tags.get(RESTORED_TAG) or str(to_plain_json(row["CreationTime"]))


def is_same_resource(cloud: CloudSession, row: Mapping[str, Any], arn: str, first_created_at: str | None) -> bool:
    """Whether the description shows the resource created at `first_created_at`, or what was recreated in its place."""
    return bool(first_created_at) and first_created(row, reader.read_tags_now(cloud, arn)) == first_created_at


def with_restored_tag(own_tags: Mapping[str, str], first_created_at: str) -> dict[str, str]:
    """The tags to recreate it with. Raises CloudError if they leave no room for the tag that marks it."""
    if text := no_room_for_tag_because(own_tags):
        raise CloudError(Reason.REFUSED, "sagemaker:AddTags", text)
    return {**own_tags, RESTORED_TAG: first_created_at}


def read_identity(cloud: CloudSession, row: Row, arn: str) -> dict[str, Any]:
    """Its own tags and when its first incarnation was created. Raises CloudError if the tags leave no room for `RESTORED_TAG`."""
    own_tags = reader.read_tags_now(cloud, arn)
    born = first_created(row, own_tags)
    with_restored_tag(own_tags, born)
    return {"tags": own_tags, "born": born}


def require_models(cloud: CloudSession, names: Collection[str]) -> None:
    """Raises CloudError if one of these models is gone: nothing could be recreated from it."""
    for name in sorted(names):
        if cloud.find("sagemaker", "DescribeModel", "ModelName", ModelName=name) is None:
            text = f"its model {name} is gone, so it can't be recreated"
            raise CloudError(Reason.REFUSED, "sagemaker:DescribeEndpointConfig", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredCount:
    """One number that a stop made smaller, which never goes back over what was changed since.

    `before` the stop, `stopped_at` as the stop left it, and `now`. `maximum` is what autoscaling allows today. `label` begins a sentence.
    """

    label: str
    before: int
    stopped_at: int
    now: int
    maximum: int | None = None

    @property
    def was_chosen_since(self) -> bool:
        """Whether it is neither what the stop left nor what was there before: a person or autoscaling changed it since."""
        return self.now not in (self.stopped_at, self.before)

    @property
    def count_to_request(self) -> int | None:
        """What to ask for; None if nothing."""
        goal = self.before if self.maximum is None else min(self.before, self.maximum)
        return goal if self.now == self.stopped_at and goal > self.now else None

    @property
    def not_restored(self) -> list[str]:
        """The sentence that says what does not come back, if anything does not."""
        if self.was_chosen_since:
            text = f"not {self.stopped_at} as the stop left it and not {self.before} as before: it was changed since, so the reaper left it alone"
            return [f"{self.label} is {self.now} now, {text}."]
        if self.now != self.before and self.maximum is not None and self.maximum < self.before:
            text = f"its autoscaling allows no more than {self.maximum} today"
            return [f"{self.label} is {max(self.now, self.maximum)} instead of {self.before}: {text}."]
        return []


def send_in_turn(
    items: Sequence[A], is_in_service: Callable[[], bool], send: Callable[[A], object]
) -> tuple[list[tuple[A, CloudError]], list[A]]:
    """One call after the other, each once the resource is in service: those that were refused, and those that had no turn in this run."""
    waiting, refused = list(items), []
    while waiting and is_in_service():
        item = waiting.pop(0)
        try:
            send(item)
        except CloudError as error:  # such as one over a quota; it keeps no other from its turn
            refused.append((item, error))
    return refused, waiting


def not_restored_sentences(refused: Mapping[str, CloudError], later: Sequence[str]) -> list[str]:
    """The sizes and weights of variants that aren't back, and how they come back."""
    sentences = [f"Not restored: the size or weight of {name} ({error}). Run this again." for name, error in refused.items()]
    return sentences + ([f"Not restored yet: the size of {', '.join(later)}; {RUN_AGAIN}."] if later else [])


ALARM_MEMBERS = (
    "AlarmName", "AlarmDescription", "ActionsEnabled", "OKActions", "AlarmActions", "InsufficientDataActions", "MetricName",
    "Namespace", "Statistic", "ExtendedStatistic", "Dimensions", "Period", "Unit", "EvaluationPeriods", "DatapointsToAlarm",
    "Threshold", "ComparisonOperator", "TreatMissingData", "EvaluateLowSampleCountPercentile", "Metrics", "ThresholdMetricId",
    "ActionConfiguration", "EvaluationWindow", "EvaluationInterval", "EvaluationCriteria", "WarmUpConfiguration",
)  # fmt: skip
ALARM_SERVICE_MEMBERS = {
    "AlarmArn", "AlarmConfigurationUpdatedTimestamp", "EvaluationState", "StateReason", "StateReasonData", "StateTransitionedTimestamp",
    "StateUpdatedTimestamp", "StateValue",
}  # fmt: skip
TARGET_MEMBERS = ("ResourceId", "ScalableDimension", "MinCapacity", "MaxCapacity", "SuspendedState")
TARGET_SERVICE_MEMBERS = {"CreationTime", "PredictedCapacity", "RoleARN", "ScalableTargetARN", "ServiceNamespace"}
"""The role is the service's own."""
POLICY_CONFIGURATIONS = tuple(
    f"{sort}PolicyConfiguration" for sort in ("StepScaling", "TargetTrackingScaling", "PredictiveScaling")
)
POLICY_MEMBERS = ("ResourceId", "ScalableDimension", "PolicyName", "PolicyARN", "PolicyType", *POLICY_CONFIGURATIONS)
POLICY_SERVICE_MEMBERS = {"Alarms", "CreationTime", "ServiceNamespace"}
SCHEDULED_ACTION_MEMBERS = (
    "ResourceId", "ScalableDimension", "ScheduledActionName", "Schedule", "Timezone", "StartTime", "EndTime",
    "ScalableTargetAction",
)  # fmt: skip
SCHEDULED_ACTION_SERVICE_MEMBERS = {"CreationTime", "ScheduledActionARN", "ServiceNamespace"}
TARGET_KEY = ("ResourceId", "ScalableDimension")
MEMBERS_BY_TABLE: Mapping[str, tuple[tuple[str, ...], set[str]]] = {
    "targets": (TARGET_MEMBERS, TARGET_SERVICE_MEMBERS),
    "policies": (POLICY_MEMBERS, POLICY_SERVICE_MEMBERS),
    "actions": (SCHEDULED_ACTION_MEMBERS, SCHEDULED_ACTION_SERVICE_MEMBERS),
    "alarms": (ALARM_MEMBERS, ALARM_SERVICE_MEMBERS),
}
"""What recreates each, and what the service adds."""
SAVED_MEMBERS: Members = {name: any_members(*members) for name, (members, _) in MEMBERS_BY_TABLE.items()}
SavedAutoscaling = Row
"""`targets`, `policies`, `actions` and `alarms`, each a list of parameters for the call that recreates it."""
RESTORE_PERMISSIONS = (
    *autoscaling.PERMISSIONS,
    "application-autoscaling:DescribeScheduledActions",
    "application-autoscaling:RegisterScalableTarget",
    "application-autoscaling:PutScalingPolicy",
    "application-autoscaling:PutScheduledAction",
    "cloudwatch:PutMetricAlarm",
)


def read_autoscaling_state(cloud: CloudSession, ids: Collection[str], *, will_be_deleted: bool = False) -> SavedAutoscaling:
    """All autoscaling of those resource ids. Raises CloudError if it `will_be_deleted` with them and has something this version can't restore."""
    scaling = autoscaling.read_autoscaling(cloud, ids)
    scaled = sorted({target["ResourceId"] for target in scaling.targets})
    actions = [row for id_ in scaled for row in _read_scheduled_actions(cloud, ResourceId=id_)]
    rows = {
        "targets": scaling.targets,
        "policies": scaling.policies,
        "actions": actions,
        "alarms": tuple(scaling.alarms.values()),
    }
    for name, some_rows in rows.items() if will_be_deleted else ():
        _require_known_members(some_rows, *MEMBERS_BY_TABLE[name])
    return {name: [chosen_members(row, *MEMBERS_BY_TABLE[name][0]) for row in some_rows] for name, some_rows in rows.items()}


def _require_known_members(rows: Iterable[Row], members: Collection[str], service_members: Collection[str]) -> None:
    """`service_members` are set by the service. Raises CloudError for any but those and `members`."""
    for row in rows:
        if odd := unknown_members_clause(row, members, service_members):
            name = row.get("AlarmName") or row.get("PolicyName") or row.get("ScheduledActionName") or "the scalable target"
            raise CloudError(Reason.REFUSED, "application-autoscaling:DescribeScalableTargets", f"its autoscaling: {name} {odd}")


def autoscaling_digest(saved: SavedAutoscaling, resource_id: str) -> str:
    """What a person may change of the autoscaling of one resource ID, but for its minimum, in short."""
    targets = [{k: v for k, v in row.items() if k != "MinCapacity"} for row in _saved_rows(saved, "targets", {resource_id})]
    policies = _saved_rows(saved, "policies", {resource_id})
    alarms = [alarm for policy in policies for alarm in _saved_alarms(policy, saved)]
    return digest([targets, policies, alarms, _saved_rows(saved, "actions", {resource_id})])


def deregister_targets(cloud: CloudSession, saved: SavedAutoscaling, permit: Permit, own_changes: OwnChanges) -> list[str]:
    """Deregister scalable targets, and with them their policies and scheduled actions. Returns what couldn't be deregistered.

    DeleteEndpoint removes those of its variants, so one that is gone is no failure.
    """
    remaining: list[str] = []
    for target in saved["targets"]:
        named = {name: target[name] for name in TARGET_KEY}
        try:
            with permit(own_changes, may_be_gone=True):
                cloud.change(SERVICE, "DeregisterScalableTarget", ANY_REPLY_KEY, **NAMESPACE_PARAMETER, **named)
        except ActionWithdrawn as reason:  # what it belonged to is gone all the same
            return [*remaining, f"its autoscaling stays ({reason})"]
        except CloudError as error:
            if error.code != "ObjectNotFoundException" and error.reason is not Reason.GONE:
                remaining.append(f"the scalable target of {target['ResourceId']} couldn't be deregistered ({error})")
    return remaining


def restore_autoscaling(cloud: CloudSession, saved: SavedAutoscaling, ids: Collection[str]) -> list[str]:
    """Recreate what is missing of the autoscaling of those resource IDs, which are in service. Returns what couldn't be recreated."""
    now = autoscaling.read_autoscaling(cloud)
    lost: list[str] = []
    present = {target_key(row) for row in now.targets}
    gone = [t for t in _saved_rows(saved, "targets", ids) if target_key(t) not in present]
    _restore_each(lost, gone, lambda row: register_target(cloud.call, row, **row))
    # A policy that was made by a run that then failed has none of its alarms yet.
    alarms = {(*target_key(p), p["PolicyName"]): {a.get("AlarmName") for a in p.get("Alarms") or ()} for p in now.policies}
    missing = [
        policy
        for policy in _saved_rows(saved, "policies", ids)
        if (names := alarms.get((*target_key(policy), policy["PolicyName"]))) is None
        or not names >= {alarm["AlarmName"] for alarm in _saved_alarms(policy, saved)}
    ]
    _restore_each(lost, missing, lambda row: _restore_policy(cloud, row, saved))
    wanted = _saved_rows(saved, "actions", ids)
    actions = {(*target_key(row), row["ScheduledActionName"]) for row in (_read_scheduled_actions(cloud) if wanted else ())}
    absent = [row for row in wanted if (*target_key(row), row["ScheduledActionName"]) not in actions]
    _restore_each(
        lost, absent, lambda row: cloud.call(SERVICE, "PutScheduledAction", ANY_REPLY_KEY, **NAMESPACE_PARAMETER, **row)
    )
    return lost


def _saved_alarms(policy: Row, saved: SavedAutoscaling) -> list[Row]:
    """The recorded alarms of a step policy; target tracking makes its own."""
    arn = policy["PolicyARN"]
    return [a for a in saved["alarms"] if policy["PolicyType"] == "StepScaling" and arn in a.get("AlarmActions", ())]


def _restore_policy(cloud: CloudSession, policy: Row, saved: SavedAutoscaling) -> None:
    """Recreate the policy, and point the alarms of the old one to it: as they are now or, if they are gone, as they were."""
    params = {name: policy[name] for name in POLICY_MEMBERS if name in policy and name != "PolicyARN"}
    arn = cloud.call(SERVICE, "PutScalingPolicy", "PolicyARN", **NAMESPACE_PARAMETER, **params)["PolicyARN"]
    for alarm in _saved_alarms(policy, saved):
        rows = cloud.call("cloudwatch", "DescribeAlarms", "MetricAlarms", AlarmNames=[alarm["AlarmName"]])["MetricAlarms"]
        _require_known_members(rows[:1], *MEMBERS_BY_TABLE["alarms"])
        latest = chosen_members(rows[0], *ALARM_MEMBERS) if rows else dict(alarm)
        others = [one for one in latest.get("AlarmActions", ()) if one not in (policy["PolicyARN"], arn)]
        cloud.call("cloudwatch", "PutMetricAlarm", ANY_REPLY_KEY, **{**latest, "AlarmActions": [*others, arn]})


def _restore_each(lost: list[str], rows: Iterable[Row], make: Any) -> None:
    for row in rows:
        try:
            make(row)
        except CloudError as error:
            name = row.get("PolicyName") or row.get("ScheduledActionName") or "scalable target"
            lost.append(f"Autoscaling of {row['ResourceId']}: {name} couldn't be recreated ({error}).")


def register_target(send: Callable[..., Any], target: Row, **change: Any) -> None:
    """`send`: the session's `call` or `change`. A target that is not found does not mean that the resource is gone."""
    named = {name: target[name] for name in TARGET_KEY}
    changed = {name: value for name, value in change.items() if name not in TARGET_KEY}
    with gone_as_partial():
        send(SERVICE, "RegisterScalableTarget", ANY_REPLY_KEY, **NAMESPACE_PARAMETER, **named, **changed)


def _read_scheduled_actions(cloud: CloudSession, **filters: Any) -> list[dict[str, Any]]:
    has = ("ScheduledActionName", *TARGET_KEY)
    rows = cloud.paged_rows(SERVICE, "DescribeScheduledActions", "ScheduledActions", *has, **NAMESPACE_PARAMETER, **filters)
    return list(rows)


def _saved_rows(saved: SavedAutoscaling, name: str, ids: Collection[str]) -> list[Row]:
    return [row for row in saved[name] if row["ResourceId"] in ids]
