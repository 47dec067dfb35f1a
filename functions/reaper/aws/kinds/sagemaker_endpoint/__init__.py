"""SageMaker inference endpoints: real-time with any number of variants, asynchronous, serverless, and hosts of inference components.

Metrics and their dimensions: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
Asynchronous endpoints publish no Invocations: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html
Legal states: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reaper.aws import autoscaling, sagemaker
from reaper.aws.autoscaling import name_in, variant_resource_id
from reaper.aws.kinds import sagemaker_inference_component as component
from reaper.aws.kinds.sagemaker_endpoint import description, look
from reaper.aws.kinds.sagemaker_endpoint.description import EndpointDetails, details_of
from reaper.aws.reader import Deletion, Goal, Listing, Row, Scaling, Table, completed
from reaper.errors import CloudError, Reason
from reaper.model import Resource, StepName

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession

AVAILABILITY_WARNING = "one instance per variant is below the usual two for availability"
VARIANT_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
"""A variant's name stands in a list of the AWS CLI's shorthand, in which a comma or an equals sign would say something else."""
UNCOMPARED_KEYS = {"EndpointStatus", "LastModifiedTime", "FailureReason"}
"""Members of a description that say nothing of its settings, or that are compared elsewhere."""
COUNT_KEYS = {"CurrentInstanceCount", "DesiredInstanceCount", "VariantStatus"}


def with_components(cloud: CloudSession, resource: Resource, row: Row) -> Resource:
    """With the names of the components on it, right before an action."""
    rows = component.list_rows(cloud, component.NAME_KEY, EndpointNameEquals=resource.name)
    hosted = [one[component.NAME_KEY] for one in rows]
    details = EndpointDetails(copies=dict.fromkeys(sorted(hosted)))
    return replace(resource, details=details, fingerprint=look.fingerprint(hosted))


def numbers_of(row: Row) -> dict[str, int]:
    """The instances of each variant, as a description has them."""
    variants = description.variant_rows(row)
    counts = [(one["VariantName"], one.get("DesiredInstanceCount", one.get("CurrentInstanceCount"))) for one in variants]
    return {variant_resource_id(row["EndpointName"], name): int(count) for name, count in counts if count is not None}


def settings_of(row: Row) -> list[object]:
    """Everything else that a person may change: the description, and whether a deployment of another configuration is pending."""
    shown = {key: value for key, value in row.items() if key not in UNCOMPARED_KEYS}
    for key in description.VARIANT_KEYS:
        shown[key] = [{name: value for name, value in one.items() if name not in COUNT_KEYS} for one in row.get(key) or ()]
    pending = (shown.pop("PendingDeploymentSummary", None) or {}).get("EndpointConfigName")
    return [shown, pending not in {None, row.get("EndpointConfigName")}]


def scale_in_goal(cloud: CloudSession, resource: Resource) -> Goal:
    """Fewer instances, by variant. Raises CloudError if nothing can be scaled in."""
    endpoint = description.describe_endpoint(cloud, resource.name)
    plan = description.plan_scale_in(resource, endpoint, autoscaling.read_autoscaling(cloud))
    if plan.blocked:
        raise CloudError(Reason.REFUSED, "sagemaker:DescribeEndpoint", f"{resource.name}: {plan.blocked.because}")
    rows = description.production_variants(endpoint)
    return Goal(
        row=endpoint.reply,
        same=_made_of(endpoint),
        before={variant_resource_id(resource.name, row["VariantName"]): int(row["CurrentInstanceCount"]) for row in rows},
        wanted={variant_resource_id(resource.name, name): count for name, count in plan.instances_by_variant.items()},
    )


def described(cloud: CloudSession, name: str) -> tuple[Row, Row]:
    """Its description, and what it is made of."""
    endpoint = description.describe_endpoint(cloud, name)
    return endpoint.reply, _made_of(endpoint)


def _made_of(endpoint: description.EndpointDescription) -> dict[str, Any]:
    kinds = {v.name: [kind for kind, _ in v.instances] for v in endpoint.variants}
    return {"config": endpoint.reply.get("EndpointConfigName"), "instances": kinds}


def is_same(saved: Row, now: Row) -> bool:
    """Whether it has the same configuration, and no variant runs other types. A type that isn't known, then or now, differs from none."""
    before, types = saved["instances"], now["instances"]
    others = any(None not in [*kinds, *types[v]] and kinds != types[v] for v, kinds in before.items() if v in types)
    return bool(saved["config"] == now["config"]) and not others


def capacity_parameters(name: str, id_: str, count: int) -> dict[str, Any]:
    """Of the call that sets the instances of one variant. It takes the capacity of only one."""
    capacity = {"VariantName": name_in(id_), "DesiredInstanceCount": count}
    return {"EndpointName": name, "DesiredWeightsAndCapacities": [capacity]}


def scale_in_arguments(resource: Resource) -> Mapping[str, str] | None:
    """Of the line that scales in one variant."""
    plan = details_of(resource).scale_in
    variant, count = next(iter(plan.first_variant.items()), ("", 0)) if plan else ("", 0)
    if not VARIANT_NAME.fullmatch(variant):
        return None
    wanted = f"VariantName={variant},DesiredInstanceCount={count:d}"
    return {"endpoint-name": resource.name, "desired-weights-and-capacities": wanted}


def delete_arguments(resource: Resource) -> Mapping[str, str] | None:
    """Of the line that deletes it. There is none for an endpoint with components on it: these have to go first."""
    return None if details_of(resource).copies else {"endpoint-name": resource.name}


def delete_note(resource: Resource) -> str:
    """What stays; nothing is promised of a configuration that wasn't read."""
    unrestorable = details_of(resource).unrestorable
    return "" if unrestorable and unrestorable.not_read else " (its configuration and models stay)"


KIND = completed(
    Table(
        name="sagemaker-endpoint",
        cloud="aws",
        title="SageMaker endpoint",
        docs="https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html",
        activity="Invocations of every production and shadow variant and of every inference component it hosts; asynchronous: backlog, "
        "processed and failed invocations, model latency",
        heartbeat="CPUUtilization samples of every variant that runs instances",
        without_proof="unknown; exempt without instances or if serverless; likely for silent provisioned concurrency; a host without inference "
        "components is judged by its heartbeat alone, from its last change",
        listing=Listing(
            list="ListEndpoints",
            rows="Endpoints",
            prefix="Endpoint",
            describe="DescribeEndpoint",
            want="EndpointStatus",
            tag_types=("sagemaker:endpoint",),
        ),
        states=look.STATES,
        details=EndpointDetails,
        as_now=with_components,
        first_queries=look.first_queries,
        closer_looks=(look.closer_look,),
        look_permissions=(
            "sagemaker:DescribeEndpoint",
            "sagemaker:DescribeEndpointConfig",
            "sagemaker:ListInferenceComponents",
            "sagemaker:DescribeInferenceComponent",
            "sagemaker:ListModels",
        ),
        blocks=description.BLOCKS,
        parts_after=description.parts_after,
        parts_anyway=description.parts_anyway,
        actions={
            StepName.STOP: Scaling(
                call="UpdateEndpointWeightsAndCapacities",
                goal=scale_in_goal,
                numbers=numbers_of,
                settings=settings_of,
                parameters=capacity_parameters,
                because="it is scaling in: {changes}",
                what="instance counts",
                number="number of instances of {}",
                parts="variants",
                described=described,
                is_same=is_same,
                same_text="configuration",
                label="Scale it in now",
                arguments=scale_in_arguments,
                participle="scaled in",
                noun="scale-in",
                effect="scales in: an asynchronous endpoint to no instances if a step scaling policy would wake it again, else to one instance per "
                f"variant ({AVAILABILITY_WARNING}); one variant at a time, the one that saves most first, each with a notice of its own; lowers the "
                "autoscaling minimum first; never a host of inference components, whose instances SageMaker releases once it has no copies",
                undo="restores the instance counts and the autoscaling minimum, if they are still as the stop left them and "
                "the endpoint is the same; several variants one after the other, each once the endpoint is in service (run it again then)",
                no_effect_where="one that runs one instance per variant, and is not asynchronous with a policy that would wake it, stays and costs as "
                "before; `then: {action: delete, after: 14d}` or `action: delete` ends that",
                still_billed="one instance per variant, unless a request would wake it from zero",
            ),
            StepName.DELETE: Deletion(
                call="DeleteEndpoint",
                because="it is being deleted{autoscaling}; its configuration {config[name]} stays",
                recreated_by="reaper.aws.kinds.sagemaker_endpoint.recreation",
                has_autoscaling=True,
                permissions=("sagemaker:DescribeModel",),
                label="Delete it now",
                note=delete_note,
                arguments=delete_arguments,
                participle="deleted",
                effect="deletes the endpoint and its autoscaling; the configuration and the models stay; never one with inference components on it, nor "
                "with tags that AWS reserves, such as those of a CloudFormation stack",
                undo="recreates it from the stored manifest: the configuration if it is gone, the endpoint with its tags, and once it "
                "is in service (run it again then) autoscaling and instance counts; the tags of its autoscaling are lost; what is "
                "recreated gets the tag ml-idle-reaper:restored, which tells the next run to continue; one that a person recreated is left alone",
            ),
        },
        id_below="endpoint/(?P<name>.+)",
        page="endpoints",
        keep_line=sagemaker.keep_line,
        price_keys=("Hosting", "AsyncInf", "ServerlessProvisionedConcurrency"),
        spares_known=True,
    )
)
