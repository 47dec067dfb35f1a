"""What DescribeEndpoint and DescribeEndpointConfig say of one endpoint: its variants, what runs in them, and what that is billed as.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeEndpoint.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reaper.errors import ODD_REPLY_ERRORS, CloudError, Reason
from reaper.model import BilledPart

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A production or shadow variant; `instances` are (type, None if unknown; how many run)."""

    name: str
    instances: tuple[tuple[str | None, int], ...] = ()
    serverless: Mapping[str, Any] | None = None

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
    reply: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    has_cached_types: bool = False


InstanceTypes = Mapping[str, str]
"""The instance type of each variant, by its name."""
TypeLookup = Callable[[Mapping[str, Any]], InstanceTypes | None]
"""The types that are known already of an endpoint as just described; None where its configuration has to be asked for."""


def no_known_types(row: Mapping[str, Any]) -> None:
    """Nothing is known before the configuration was asked for."""


def describe_endpoint(cloud: CloudSession, name: str, recall: TypeLookup = no_known_types) -> EndpointDescription:
    """Two calls, or one where the types are known.

    Raises CloudError when the endpoint can't be described or understood; a configuration that is gone costs the types only.
    """
    row = cloud.call("sagemaker", "DescribeEndpoint", "EndpointStatus", EndpointName=name)
    try:
        types = recall(row)
        endpoint = _parse_description(row, {} if types else _read_config(cloud, row) or {}, types or {})
        size_text(endpoint)  # a size that can't be written for people wasn't understood
        return endpoint
    except ODD_REPLY_ERRORS as error:
        raise CloudError(
            Reason.UNREADABLE, "sagemaker:DescribeEndpoint", f"{name}: the reply can't be read ({error!r})"
        ) from error


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


def _read_config(cloud: CloudSession, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The configuration that the endpoint runs; None where it can't be had."""
    name = row.get("EndpointConfigName")
    if not name:
        return None
    try:
        config = cloud.call("sagemaker", "DescribeEndpointConfig", "ProductionVariants", EndpointConfigName=name)
    except CloudError as error:
        if error.reason is not Reason.GONE:
            cloud.add_error(error)
        return None
    return None if _is_newer_than_endpoint(config, row) else config


def _is_newer_than_endpoint(config: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether a configuration of that name was created after the endpoint's last change: the one it runs was deleted."""
    made, changed = config.get("CreationTime"), row.get("LastModifiedTime")
    return bool(made and changed and made > changed)


def _parse_description(row: Mapping[str, Any], config: Mapping[str, Any], types: InstanceTypes) -> EndpointDescription:
    rows = [*(row.get("ProductionVariants") or ()), *(row.get("ShadowProductionVariants") or ())]
    plans = [*(config.get("ProductionVariants") or ()), *(config.get("ShadowProductionVariants") or ())]
    if odd := [text for text in (row["EndpointStatus"], *(r["VariantName"] for r in rows)) if not isinstance(text, str)]:
        raise TypeError(f"{odd[0]!r} is neither a status nor a name")
    by_name = {p["VariantName"]: p for p in plans}
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


def _may_host_components(row: Mapping[str, Any], plan: Mapping[str, Any] | None) -> bool:
    """A variant that hosts components scales them itself, and has no model of its own."""
    return bool(row.get("ManagedInstanceScaling")) or not (plan.get("ModelName") if plan else row.get("DeployedImages"))


def _parse_variant(row: Mapping[str, Any], plan: Mapping[str, Any], failed: bool) -> Variant:
    serverless = row.get("CurrentServerlessConfig") or plan.get("ServerlessConfig")
    if serverless:
        return Variant(name=row["VariantName"], serverless=serverless)
    if pools := row.get("InstancePools"):
        return Variant(
            name=row["VariantName"], instances=tuple((p.get("InstanceType"), int(p["CurrentInstanceCount"])) for p in pools)
        )
    return Variant(
        name=row["VariantName"], instances=((plan.get("InstanceType"), 0 if failed else int(row["CurrentInstanceCount"])),)
    )
