"""What is known of one endpoint: what DescribeEndpoint and DescribeEndpointConfig say, whether it could be recreated, what later
sweeps need not read again, and what scaling it in would do.

A description with a member that this version can't restore is of a newer service, and isn't deleted. Tests compare the tables with the
SDK's own model: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeEndpoint.html,
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html

An action touches one resource, and AWS deletes no endpoint with inference components on it: they come first. Zero instances are for asynchronous
endpoints; whatever would never answer again is not brought there. Those of a host are SageMaker's to release: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html
Legal states: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from reaper.aws import autoscaling, sagemaker
from reaper.aws.autoscaling import Autoscaling
from reaper.aws.kinds.sagemaker_inference_component import copy_count
from reaper.aws.reader import Row
from reaper.aws.sagemaker import unknown_members_clause
from reaper.case import Blocked
from reaper.errors import CloudError
from reaper.kind import block, none_of
from reaper.model import BilledPart, Resource, StepName
from reaper.observation import CachedDescription
from reaper.observing.cache import revision_of
from reaper.prices import PriceBook
from reaper.text import count_noun

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession

CONFIG_MEMBERS = (
    "ProductionVariants", "ShadowProductionVariants", "DataCaptureConfig", "KmsKeyId", "AsyncInferenceConfig", "ExplainerConfig",
    "ExecutionRoleArn", "VpcConfig", "EnableNetworkIsolation", "MetricsConfig", "CrossRegionTrafficConfig",
)  # fmt: skip
CONFIG_SERVICE_MEMBERS = {"EndpointConfigName", "EndpointConfigArn", "CreationTime"}
ENDPOINT_MEMBERS = (
    "EndpointName", "EndpointArn", "EndpointConfigName", "EndpointStatus", "CreationTime", "DataCaptureConfig",
    "LastDeploymentConfig",
)  # fmt: skip
ENDPOINT_SERVICE_MEMBERS = {
    "FailureReason", "LastModifiedTime", "PendingDeploymentSummary", "ProductionVariants", "ShadowProductionVariants",
    "AsyncInferenceConfig", "ExplainerConfig", "MetricsConfig", "CrossRegionTrafficConfig",
}  # fmt: skip
"""What the service adds, and what comes from the configuration."""
VARIANT_MEMBERS = (
    "VariantName", "CurrentInstanceCount", "DesiredInstanceCount", "CurrentWeight", "DesiredWeight", "InstancePools",
    "CurrentServerlessConfig", "ManagedInstanceScaling",
)  # fmt: skip
VARIANT_SERVICE_MEMBERS = {
    "DeployedImages", "VariantStatus", "DesiredServerlessConfig", "RoutingConfig", "CapacityReservationConfig",
    "AcceleratorPartitionLayouts",
}  # fmt: skip
VARIANT_KEYS = ("ProductionVariants", "ShadowProductionVariants")
CHANGING_STATUSES = {"Creating", "Updating", "SystemUpdating", "RollingBack"}
STEADY_STATUSES = {"InService", "OutOfService", "Failed", "UpdateRollbackFailed"}
CONFIG_NOT_READ = "no rule asks to delete it, so its configuration wasn't checked"
CREATED_KEY, CONFIG_NAME_KEY, TYPES_KEY = "CreationTime", "EndpointConfigName", "types"
STEADY_STATUS = "InService"
"""The only status under which an entry is written or used: nothing else says that it runs this configuration and no other."""
INSTANCE_TYPE_PATTERN = re.compile(r"ml\.[a-z0-9.-]+")
OTHER_CAPACITY_KEYS = ("CurrentServerlessConfig", "InstancePools", "ManagedInstanceScaling")
"""What a variant that runs instances of one type, and a model of its own, does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A production or shadow variant; `instances` are (type, None if unknown; how many run)."""

    name: str
    instances: tuple[tuple[str | None, int], ...] = ()
    serverless: Row | None = None

    @property
    def instance_count(self) -> int:
        """How many instances run."""
        return sum(count for _, count in self.instances)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointDescription:
    """One endpoint as described. `may_host_components`: it looks like a host of inference components. `hosts_components_only`: its
    configuration says that no variant has a model of its own.

    `reply` and `config` are the replies. `config` is empty if the configuration is gone, can't be read, or wasn't read because the cache
    has its instance types (`has_cached_types`).
    """

    status: str
    variants: tuple[Variant, ...]
    is_asynchronous: bool
    may_host_components: bool
    hosts_components_only: bool = False
    reply: Row = field(default_factory=dict)
    config: Row = field(default_factory=dict)
    has_cached_types: bool = False


InstanceTypes = Mapping[str, str]
"""The instance type of each variant, by its name."""


def describe_endpoint(
    cloud: CloudSession, name: str, recall: Callable[[Row], InstanceTypes | None] | None = None
) -> EndpointDescription:
    """Two calls, or one where the types are known: `recall` has them of an endpoint as just described, if its configuration needn't be asked for.

    Raises CloudError when the endpoint can't be described; a configuration that is gone costs the types only. Trips over an odd reply.
    """
    row = cloud.call("sagemaker", "DescribeEndpoint", "EndpointStatus", EndpointName=name)
    types = recall(row) if recall else None
    endpoint = _parse_description(row, {} if types else _read_config(cloud, row), types or {})
    size_text(endpoint)  # a size that can't be written for people wasn't understood
    return endpoint


def variant_rows(row: Row) -> list[Row]:
    """The production and shadow variants of a description or configuration."""
    return [variant for key in VARIANT_KEYS for variant in row.get(key) or ()]


def billed_parts(described: EndpointDescription) -> tuple[BilledPart, ...] | None:
    """What is paid for; None if the type of any running instance is unknown."""
    component = "AsyncInf" if described.is_asynchronous else "Hosting"
    parts = []
    for variant in described.variants:
        if variant.serverless and (units := variant.serverless.get("ProvisionedConcurrency")):
            memory = f"{variant.serverless['MemorySizeInMB']}MB"
            parts.append(BilledPart(component="ServerlessProvisionedConcurrency", instance=memory, count=units))
        for kind, count in variant.instances:
            if count and not kind:
                return None
            if count and kind:
                parts.append(BilledPart(component=component, instance=kind, count=count))
    return tuple(parts)


def size_text(described: EndpointDescription) -> str:
    """`ml.g5.xlarge x2, ml.m5.large x1`, for people and for the policy's globs."""
    counts: dict[str, int] = {}
    for variant in described.variants:
        if variant.serverless:
            name = f"serverless {variant.serverless.get('MemorySizeInMB', '?')} MB"
            counts[name] = counts.get(name, 0) + int(variant.serverless.get("ProvisionedConcurrency") or 0)
        for kind, count in variant.instances:
            counts[kind or "unknown"] = counts.get(kind or "unknown", 0) + count
    return ", ".join(f"{name} x{count}" if count else name for name, count in counts.items())


def _read_config(cloud: CloudSession, row: Row) -> dict[str, Any]:
    """The configuration that the endpoint runs; empty where it can't be had."""
    name, changed = row.get(CONFIG_NAME_KEY), row.get("LastModifiedTime")
    if not name:
        return {}
    config = cloud.describe("DescribeEndpointConfig", "ProductionVariants", EndpointConfigName=name)
    if isinstance(config, CloudError):
        return {}
    made = config.get(CREATED_KEY)
    return {} if made and changed and made > changed else config  # a later one has its name: the one it runs was deleted


def _parse_description(row: Row, config: Row, types: InstanceTypes) -> EndpointDescription:
    rows = variant_rows(row)
    if odd := [text for text in (row["EndpointStatus"], *(r["VariantName"] for r in rows)) if not isinstance(text, str)]:
        raise TypeError(f"{odd[0]!r} is neither a status nor a name")
    by_name = {plan["VariantName"]: plan for plan in variant_rows(config)}
    known = by_name or {name: {"InstanceType": kind} for name, kind in types.items()}
    failed = row["EndpointStatus"] == "Failed" and not any(r.get("CurrentInstanceCount") for r in rows)
    return EndpointDescription(
        status=row["EndpointStatus"],
        variants=tuple(_parse_variant(r, known.get(r["VariantName"], {}), failed) for r in rows),
        is_asynchronous=bool(row.get("AsyncInferenceConfig") or config.get("AsyncInferenceConfig")),
        may_host_components=any(_may_host_components(r, by_name.get(r["VariantName"])) for r in rows),
        hosts_components_only=bool(rows)
        and all(r["VariantName"] in by_name and not by_name[r["VariantName"]].get("ModelName") for r in rows),
        reply=row,
        config=config,
        has_cached_types=bool(types),
    )


def _may_host_components(row: Row, plan: Row | None) -> bool:
    """A variant that hosts components scales them itself, and has no model of its own."""
    return bool(row.get("ManagedInstanceScaling")) or not (plan.get("ModelName") if plan else row.get("DeployedImages"))


def _parse_variant(row: Row, plan: Row, failed: bool) -> Variant:
    name = row["VariantName"]
    if serverless := row.get("CurrentServerlessConfig") or plan.get("ServerlessConfig"):
        return Variant(name=name, serverless=serverless)
    if pools := row.get("InstancePools"):
        return Variant(name=name, instances=tuple((p.get("InstanceType"), int(p["CurrentInstanceCount"])) for p in pools))
    count = 0 if failed else int(row["CurrentInstanceCount"])
    return Variant(name=name, instances=((plan.get("InstanceType"), count),))


def endpoint_unrestorable_because(endpoint: EndpointDescription) -> str | None:
    """The clause that says why the endpoint itself can't be recreated."""
    if not endpoint.config:
        return "its configuration is gone or can't be read, so it can't be recreated"
    if because := config_unrestorable_because(endpoint.config):
        return because
    if odd := unknown_members_clause(endpoint.reply, ENDPOINT_MEMBERS, ENDPOINT_SERVICE_MEMBERS):
        return f"it {odd}"
    for variant in variant_rows(endpoint.reply):
        if odd := unknown_members_clause(variant, VARIANT_MEMBERS, VARIANT_SERVICE_MEMBERS):
            return f"its variant {variant['VariantName']} {odd}"
    return None


def config_unrestorable_because(row: Row) -> str | None:
    """The clause that says why a configuration can't be recreated."""
    odd = unknown_members_clause(row, CONFIG_MEMBERS, CONFIG_SERVICE_MEMBERS)
    return f"the configuration {row.get('EndpointConfigName')} {odd}" if odd else None


def description_to_cache(resource: Resource, endpoint: EndpointDescription) -> CachedDescription | None:
    """What to keep of an endpoint that was described just now; None where nothing of it will hold. `resource` is as listed.

    A configuration never changes, but it can be deleted and recreated under its name. So an entry is good only for the ARN with CreationTime
    and LastModifiedTime as listed, and as described, and for the name that the description gives. Only instance types are kept, which the
    description lacks, and only of the plain case: what is serverless, asynchronous or a host of components, and whether it could be
    recreated, is never taken from here: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpoint.html
    """
    revision = revision_of(resource.created, resource.changed)
    if not revision or not _is_steady(endpoint.reply, resource):
        return None
    says_what_runs = endpoint.config.get(CONFIG_NAME_KEY) == endpoint.reply.get(CONFIG_NAME_KEY)
    if not endpoint.has_cached_types and not (says_what_runs and isinstance(endpoint.config.get(CREATED_KEY), datetime)):
        return None
    is_plain = not endpoint.is_asynchronous and not endpoint.may_host_components
    kinds = {v.name: v.instances[0][0] for v in endpoint.variants if len(v.instances) == 1}
    types = _plain_types(endpoint.reply, kinds) if is_plain else None
    body = {CONFIG_NAME_KEY: endpoint.reply[CONFIG_NAME_KEY], TYPES_KEY: types} if types else {}
    return CachedDescription(revision=revision, body=body, parts=billed_parts(endpoint), size=size_text(endpoint))


def cached_types(resource: Resource, cached: CachedDescription | None, row: Row) -> InstanceTypes | None:
    """The types by variant, where what was kept is of this very endpoint as listed and as described by `row`; None for everything else."""
    revision, name = revision_of(resource.created, resource.changed), row.get(CONFIG_NAME_KEY)
    if cached is None or revision is None or cached.revision != revision or not _is_steady(row, resource):
        return None
    if not name or cached.body.get(CONFIG_NAME_KEY) != name:
        return None
    return _plain_types(row, cached.body.get(TYPES_KEY))


def _plain_types(row: Row, types: object) -> InstanceTypes | None:
    """The type of each variant, if the description says that each runs instances of one type and a model of its own; else None."""
    rows = variant_rows(row)
    names = {variant["VariantName"] for variant in rows}
    plain = all((variant.get("CurrentInstanceCount") or 0) > 0 and variant.get("DeployedImages") for variant in rows)
    other = row.get("AsyncInferenceConfig") or any(variant.get(key) for variant in rows for key in OTHER_CAPACITY_KEYS)
    if other or not plain or not names or len(names) < len(rows) or not isinstance(types, Mapping) or types.keys() != names:
        return None
    return types if all(isinstance(kind, str) and INSTANCE_TYPE_PATTERN.fullmatch(kind) for kind in types.values()) else None


def _is_steady(row: Row, listed: Resource) -> bool:
    """Whether the description shows it in service, and unchanged since it was listed."""
    times = row.get(CREATED_KEY), row.get("LastModifiedTime")
    return row.get("EndpointStatus") == STEADY_STATUS and None not in times and times == (listed.created, listed.changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleInPlan:
    """Instances by variant, for those that would get fewer; or what blocks it all.

    The variant that saves most comes first, then they go by name. An action scales in the first; each other one is an action of its own.
    """

    instances_by_variant: Mapping[str, int] = field(default_factory=dict)
    blocked: Blocked | None = None

    @property
    def first_variant(self) -> dict[str, int]:
        """What one action changes: a call takes the capacity of one variant, and the endpoint is being updated after it."""
        return dict(islice(self.instances_by_variant.items(), 1))


def needs_autoscaling(endpoint: EndpointDescription) -> bool:
    """Whether the autoscaling of the region must be read to know what can be done."""
    return endpoint.is_asynchronous and any(map(_instance_count, production_variants(endpoint)))


def plan_scale_in(resource: Resource, endpoint: EndpointDescription, scaling: Autoscaling | None) -> ScaleInPlan:
    """For the endpoint as described: to none where a request would wake an asynchronous one again, else to one. `scaling` None: autoscaling
    couldn't be read.
    """
    rows = production_variants(endpoint)
    if not rows:
        return _blocked_plan("its description lists no variants")
    if any(row.get("CurrentServerlessConfig") or row.get("DesiredServerlessConfig") for row in rows):
        return _blocked_plan("it is serverless or has provisioned concurrency, which scaling in doesn't change")
    if any(row.get("InstancePools") for row in rows):
        return _blocked_plan("it runs pools of several instance types, which are not scaled in")
    if endpoint.may_host_components:
        managed = [row.get("ManagedInstanceScaling") or {} for row in rows]
        may_release = all(one.get("Status") == "ENABLED" and one.get("MinInstanceCount") == 0 for one in managed)
        after = "; SageMaker releases its instances" if may_release else ", and SageMaker may not scale its instances to zero"
        return _blocked_plan(f"it hosts no inference component now{after} (ManagedInstanceScaling)")
    if endpoint.is_asynchronous and scaling is None:
        return _blocked_plan(autoscaling.UNREAD)
    counts = {row["VariantName"]: _instance_count(row) for row in rows}
    wakes = endpoint.is_asynchronous and scaling
    least = {name: 0 if wakes and autoscaling.can_wake_variant(wakes, resource.name, name) else 1 for name in counts}
    fewer = {name: least[name] for name, count in counts.items() if count > least[name]}
    if fewer:
        return ScaleInPlan(instances_by_variant=_by_saving_descending(resource, endpoint, fewer))
    asleep = endpoint.is_asynchronous and any(counts.values())
    suffix = "; no step scaling policy on HasBacklogWithoutCapacity would wake it from zero" if asleep else ""
    return _blocked_plan(f"it already runs no more than one instance per variant{suffix}", already_done=True)


def _blocked_plan(because: str, *, already_done: bool = False) -> ScaleInPlan:
    return ScaleInPlan(blocked=Blocked(because=because, already_done=already_done))


def production_variants(endpoint: EndpointDescription) -> list[Row]:
    """The production variants as described. Shadow variants can't be scaled."""
    return list(endpoint.reply.get("ProductionVariants") or ())


def _by_saving_descending(resource: Resource, endpoint: EndpointDescription, least: Mapping[str, int]) -> dict[str, int]:
    """The same, the greatest saving at list price first; those without a price come last, and equal ones go by name."""
    if len(least) == 1:
        return dict(least)
    book, saved = PriceBook(), dict.fromkeys(least, -1.0)
    for variant in (v for v in endpoint.variants if v.name in least):
        freed = tuple((size, max(0, count - least[variant.name])) for size, count in variant.instances)
        parts = billed_parts(replace(endpoint, variants=(replace(variant, instances=freed),)))
        if price := book.price(replace(resource, parts=parts)):
            saved[variant.name] = price.usd_per_hour
    return {name: least[name] for name in sorted(least, key=lambda name: (-saved[name], name))}


def _instance_count(row: Row) -> int:
    return int(row.get("CurrentInstanceCount") or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointDetails:
    """What acting on an endpoint needs. `scale_in` is None until it was described.

    `copies`: of each component on it, by name; None if they couldn't be read. `parts_after_stop`: what is still paid for after the next
    scale-in; None if that isn't known. `parts_anyway`: what its autoscaling's minimum keeps. `unrestorable`: why it can't be recreated.
    `settings` and `numbers`: what may be changed about it, as read right before an action.
    """

    copies: Mapping[str, int | None] = field(default_factory=dict)
    scale_in: ScaleInPlan | None = None
    parts_after_stop: tuple[BilledPart, ...] | None = None
    parts_anyway: tuple[BilledPart, ...] | None = None
    unrestorable: Blocked | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)


def details_of(resource: Resource) -> EndpointDetails:
    """Its details; empty if it wasn't read."""
    return resource.details if isinstance(resource.details, EndpointDetails) else EndpointDetails()


def endpoint_details(
    resource: Resource,
    endpoint: EndpointDescription,
    components: Mapping[str, Row | None],
    scaling: Autoscaling | None,
    deleted: Collection[str],
) -> EndpointDetails:
    """What acting needs. `components`: as described, by name; those read right before an action, in its details already, count too.
    `deleted`: models that were.
    """
    plan = plan_scale_in(resource, endpoint, scaling)
    because = (
        endpoint_unrestorable_because(endpoint)
        or sagemaker.no_room_for_tag_because(resource.tags)
        or sagemaker.missing_model_because(sagemaker.model_names(endpoint.config), deleted)
    )
    unrestorable = Blocked(because=because) if because else None
    return EndpointDetails(
        copies={**details_of(resource).copies, **{name: copy_count(row) if row else None for name, row in components.items()}},
        scale_in=plan,
        parts_after_stop=_parts_at_most(endpoint, plan.first_variant),
        parts_anyway=_parts_at_most(endpoint, autoscaling.minimum_by_variant(scaling, resource.name)),
        unrestorable=Blocked(because=CONFIG_NOT_READ, not_read=True) if endpoint.has_cached_types else unrestorable,
    )


def _parts_at_most(endpoint: EndpointDescription, most: Mapping[str, int]) -> tuple[BilledPart, ...] | None:
    """What is paid for with at most so many instances of each variant."""
    fewer = [
        replace(v, instances=tuple((size, min(count, most.get(v.name, count))) for size, count in v.instances))
        for v in endpoint.variants
    ]
    return billed_parts(replace(endpoint, variants=tuple(fewer)))


def parts_after(resource: Resource, action: StepName) -> tuple[BilledPart, ...] | None:
    """What is still paid for after an action; None if that isn't known."""
    return details_of(resource).parts_after_stop if action is StepName.STOP else ()


def parts_anyway(resource: Resource) -> tuple[BilledPart, ...] | None:
    """What is still paid for once its autoscaling has scaled it in to its minimum."""
    known = details_of(resource).parts_anyway
    return resource.parts if known is None else known


def components_because(resource: Resource) -> str | None:
    """The clause for the components on it. Each is a resource of its own, and a request may wake one without copies."""
    copies = details_of(resource).copies
    if not copies:
        return None
    components = count_noun(len(copies), "component")
    if all(number == 0 for number in copies.values()):
        verb, them = ("is", "it") if len(copies) == 1 else ("are", "them")
        return f"{components} without copies {verb} still on it; delete {them} first"
    return f"it hosts {components}; {'it' if len(copies) == 1 else 'each'} is handled on its own"


def plan_blocked(resource: Resource) -> Blocked | None:
    """Why nothing can be scaled in."""
    plan = details_of(resource).scale_in
    return plan.blocked if plan else None


BLOCKS = (
    block({"Deleting"}, "it is being deleted already", already_done=True),
    block(none_of(*STEADY_STATUSES), "its status is {status}"),
    block(components_because),
    block(lambda r: details_of(r).scale_in is None, "it wasn't checked closely"),
    block(none_of("InService"), "its status is {status}, in which it can't be scaled", StepName.STOP),
    block(plan_blocked, "{0}", StepName.STOP),
    block(sagemaker.undeletable_because, "{0}", StepName.DELETE),
    block(lambda r: details_of(r).unrestorable, "{0}", StepName.DELETE),
)
