"""Schema-valid random replies, made from botocore's own service models, around a small fleet whose truth the generator knows.

Identities, and whatever shows use, are true; every other member is there or not and holds anything that its shape allows: newer enum values,
extreme numbers, empty lists, times of any year. Rows come in pages and sometimes twice; some calls are refused.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from botocore.model import ServiceModel, Shape
from botocore.session import get_session

from reaper_sandbox.aws import reply
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault
from reaper_sandbox.aws.moment import read
from reaper_sandbox.aws.reply import Refusal, Reply

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
STEM = "arn:aws:sagemaker:us-east-1:123456789012:"
MODELS = {"tag": "resourcegroupstaggingapi"}
REFUSALS = (
    Refusal("AccessDeniedException", "no identity-based policy allows it"),
    Refusal("ValidationException", "Could not find what was asked for"),
    Refusal("ResourceNotFound", "It does not exist."),
    Refusal("ValidationException", "1 validation error detected"),
)
QUEUE = ("InvocationsProcessed", "InvocationFailures", "ModelLatency", "ApproximateBacklogSize")
ABSENT = object()
"""Leave a member out, however required it is to say something there."""


@cache
def model(service: str) -> ServiceModel:
    """The installed SDK's model of a service."""
    return ServiceModel(get_session().get_service_model(MODELS.get(service, service))._service_description)


@dataclass(slots=True, kw_only=True)
class Thing:
    """One resource as it truly is. `used`: how it was used lately, None where it was not."""

    kind: str
    name: str
    arn: str
    used: str | None = None
    at: datetime | None = None
    variants: tuple[str, ...] = ()
    asynchronous: bool = False
    host: str = ""
    base: str | None = None
    published: str | None = None
    app: Mapping[str, str] = field(default_factory=dict)


class Fleet:
    """A random fleet, and a guard that answers for it."""

    def __init__(self, seed: int, now: datetime) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.now = now
        self.things: list[Thing] = []
        self.failed: set[str] = set()
        self.risk = self.dice.choice([0.0, 0.0, 0.03, 0.15])
        self.listed = self.dice.choice([0.0, 0.5, 1.0])
        self._build()

    def of(self, kind: str) -> list[Thing]:
        """The things of a kind."""
        return [thing for thing in self.things if thing.kind == kind]

    def guard(self, call: Call) -> Fault | None:
        """Answers every call but those that learn who asks."""
        return None if call.service == "sts" else Fault(answer=self.answer)

    def answer(self, call: Call) -> Reply:
        """A refusal now and then, else what the operation's output shape allows; the same for the same call, in whatever order they come."""
        parameters = json.dumps(call.params, sort_keys=True, default=str) if call.operation != "GetMetricData" else ""
        return copy(self)._answered(call, random.Random(f"{self.seed} {call.operation} {parameters}"))

    def _answered(self, call: Call, dice: random.Random) -> Reply:
        self.dice = dice
        if self.dice.random() < self.risk:
            self.failed.add(call.operation)
            # Logs that are not found are no logs, and that would be a lie.
            return reply.refusal(call, self.dice.choice(REFUSALS[:1] if call.service == "logs" else REFUSALS))
        known = getattr(self, f"_{call.operation}", None)
        if call.operation == "GetMetricData":
            return reply.result(call, self._metrics(call.params))
        shape = model(call.service).operation_model(call.operation).output_shape
        values = known(call.params) if known else {"NextToken": ABSENT, "nextToken": ABSENT, "PaginationToken": ABSENT}
        return reply.result(call, self.fill(shape, values))

    def _build(self) -> None:
        for n in range(self.dice.randint(0, 4)):
            variants = tuple(f"v{i}" for i in range(self.dice.randint(1, 3)))
            queue = self.dice.random() < 0.3
            self._add(
                "endpoint",
                f"E-{n}",
                "endpoint/",
                self.dice.choice(QUEUE) if queue else "Invocations",
                variants=variants,
                asynchronous=queue,
            )
        hosts = [thing.name for thing in self.of("endpoint")] or ["gone"]
        for n in range(self.dice.randint(0, 4)):
            how = self.dice.choice(["Invocations", "NoCapacityInvocationFailures"])
            self._add("inference-component", f"C-{n}", "inference-component/", how, host=self.dice.choice(hosts))
        for n in range(self.dice.randint(0, 4)):
            self._add("notebook", f"N-{n}", "notebook-instance/", self.dice.choice(["Busy", "log"]))
        for n in range(self.dice.randint(0, 4)):
            self._add_app(n)
        self._settle_families()

    def _add(self, kind: str, name: str, path: str, how: str, **fields: Any) -> None:
        used = how if self.dice.random() < 0.4 else None
        thing = Thing(kind=f"sagemaker-{kind}", name=name, arn=f"{STEM}{path}{name}", used=used, **fields)
        thing.at = self.now - timedelta(minutes=self.dice.randint(15, 20 * 60)) if used else None
        if used == "Busy" or (kind in {"notebook", "studio-app"} and self.dice.random() < 0.6):
            thing.published = self.dice.choice([thing.arn, thing.arn.lower()])
        self.things.append(thing)

    def _add_app(self, n: int) -> None:
        types = [one for one in model("sagemaker").shape_for("AppType").enum if one != "Novel"]
        home = {self.dice.choice(["SpaceName", "UserProfileName"]): f"Home{n}"}
        names = {"DomainId": "d-1", "AppType": self.dice.choice(types), "AppName": "default", **home}
        where = f"app/d-1/Home{n}/{names['AppType']}/"
        self._add("studio-app", f"Home{n}/{names['AppType']}/default", where, self.dice.choice(["Busy", "person"]), app=names)
        self.things[-1].arn = f"{STEM}{where}default"
        if self.things[-1].published:
            self.things[-1].published = self.dice.choice([self.things[-1].arn, self.things[-1].arn.lower()])

    def _settle_families(self) -> None:
        """Adapters get a base on the same endpoint."""
        for thing in self.of("sagemaker-inference-component"):
            others = [
                o for o in self.of("sagemaker-inference-component") if o.host == thing.host and o is not thing and not o.base
            ]
            if others and self.dice.random() < 0.3 and not any(o.base == thing.name for o in others):
                thing.base = self.dice.choice(others).name

    def truly_used(self) -> set[str]:
        """The names of what was used lately; a base by its adapters, a host by its components."""
        names = {thing.name for thing in self.things if thing.used}
        parts = [thing for thing in self.of("sagemaker-inference-component") if thing.used]
        return names | {thing.base for thing in parts if thing.base} | {thing.host for thing in parts}

    # What any shape allows

    def fill(self, shape: Shape, value: Any = None, depth: int = 0) -> Any:
        """Anything that the shape allows, with what is `given` in its place."""
        return getattr(self, f"_a_{shape.type_name}", self._a_string)(shape, value, depth)

    def _a_structure(self, shape: Shape, value: Any, depth: int) -> dict[str, Any]:
        value = value or {}
        members = {}
        for name, member in shape.members.items():
            if name in value:
                if value[name] is not ABSENT:
                    members[name] = value[name]
            elif name in shape.required_members or (depth < 5 and self.dice.random() < 0.5):
                members[name] = self.fill(member, None, depth + 1)
        return members

    def _a_list(self, shape: Shape, value: Any, depth: int) -> list[Any]:
        least = int(shape.metadata.get("min", 0))
        count = max(least, self.dice.randint(0, 2)) if depth < 5 else least
        return [self.fill(shape.member, None, depth + 1) for _ in range(count)]

    def _a_map(self, shape: Shape, value: Any, depth: int) -> dict[str, Any]:
        return {
            self.fill(shape.key, None, depth + 1): self.fill(shape.value, None, depth + 1) for _ in range(self.dice.randint(0, 2))
        }

    def _a_string(self, shape: Shape, value: Any, depth: int) -> str:
        enum = getattr(shape, "enum", None)
        if enum:
            return "OfANewerService" if self.dice.random() < 0.05 else self.dice.choice(enum)
        least = int(shape.metadata.get("min", 0))
        text = self.dice.choice(["", "x", "model", "ml.m5.large", "arn:aws:x:y:1:z/a", "Ünï-cödé ☃", "0", "-", "a" * 63])
        return text.ljust(least, "x")

    def _a_integer(self, shape: Shape, value: Any, depth: int) -> int:
        least, most = (int(shape.metadata.get(key, other)) for key, other in (("min", 0), ("max", 2**31 - 1)))
        return min(most, max(least, self.dice.choice([0, 1, 1, 2, 7, least, most])))

    _a_long = _a_integer

    def _a_float(self, shape: Shape, value: Any, depth: int) -> float:
        return self.dice.choice([0.0, 0.5, 1.0, 1e-9, 1e12])

    _a_double = _a_float

    def _a_boolean(self, shape: Shape, value: Any, depth: int) -> bool:
        return self.dice.random() < 0.5

    def _a_timestamp(self, shape: Shape, value: Any, depth: int) -> datetime:
        days = self.dice.choice([0.01, 0.5, 2, 30, 30, 30, 200, 8000, -1])
        return (self.now - days * DAY).replace(microsecond=0)

    # Lists

    def _page(
        self, member: str, rows: list[dict[str, Any]], params: Mapping[str, Any], token: str = "NextToken"
    ) -> dict[str, Any]:
        """One page out of a few, of all but the first the rest, sometimes with a row again that the first had."""
        cut = self.dice.randint(0, len(rows)) if token not in params and self.dice.random() < 0.4 else len(rows)
        if token in params:
            first = int(params[token])
            again = rows[first - 1 : first] if first and self.dice.random() < 0.3 else []
            return {member: [*again, *rows[first:]], token: ABSENT}
        return {member: rows[:cut], token: str(cut) if cut < len(rows) else ABSENT}

    def _row(self, shape: str, **values: Any) -> dict[str, Any]:
        row: dict[str, Any] = self.fill(model("sagemaker").shape_for(shape), values)
        return row

    def _status(self, enum: str, usual: str) -> str:
        return usual if self.dice.random() < 0.8 else self.dice.choice(model("sagemaker").shape_for(enum).enum)

    def _old(self) -> dict[str, Any]:
        """Mostly old enough to be judged."""
        if self.dice.random() < 0.15:
            return {}
        return {"CreationTime": self.now - 60 * DAY, "LastModifiedTime": self.now - 30 * DAY}

    def _ListEndpoints(self, params: Mapping[str, Any]) -> dict[str, Any]:
        rows = [
            self._row(
                "EndpointSummary",
                EndpointName=t.name,
                EndpointArn=t.arn,
                EndpointStatus=self._status("EndpointStatus", "InService"),
                **self._old(),
            )
            for t in self.of("sagemaker-endpoint")
        ]
        return self._page("Endpoints", rows, params)

    def _DescribeEndpoint(self, params: Mapping[str, Any]) -> dict[str, Any]:
        [thing] = [t for t in self.of("sagemaker-endpoint") if t.name == params["EndpointName"]]
        rows = [self._row("ProductionVariantSummary", VariantName=name, **self._usual_variant()) for name in thing.variants]
        cut = self.dice.randint(0, len(rows)) if self.dice.random() < 0.2 else len(rows)
        queue = {"AsyncInferenceConfig": self._row("AsyncInferenceConfig") if thing.asynchronous else ABSENT}
        status = self._status("EndpointStatus", "InService")
        description = {"EndpointName": thing.name, "EndpointArn": thing.arn, "EndpointStatus": status, **self._old(), **queue}
        if self.dice.random() < 0.05:
            return {**description, "ProductionVariants": ABSENT, "ShadowProductionVariants": ABSENT}
        return {**description, "ProductionVariants": rows[:cut], "ShadowProductionVariants": rows[cut:]}

    def _usual_variant(self) -> dict[str, Any]:
        """Mostly instances that run, and a model of its own."""
        if self.dice.random() < 0.15:
            return {}
        none = dict.fromkeys(("CurrentServerlessConfig", "InstancePools", "ManagedInstanceScaling"), ABSENT)
        return {"CurrentInstanceCount": self.dice.randint(1, 3), **none}

    def _DescribeEndpointConfig(self, params: Mapping[str, Any]) -> dict[str, Any]:
        usual = self.dice.random() < 0.8
        names = ["v0", "v1", "v2"] if usual else self.dice.sample(["v0", "v1", "v2"], self.dice.randint(0, 3))
        fields = {"ModelName": "model", "ServerlessConfig": ABSENT} if usual else {}
        return {
            "ProductionVariants": [self._row("ProductionVariant", VariantName=name, **fields) for name in names],
            "ShadowProductionVariants": ABSENT,
            "AsyncInferenceConfig": ABSENT,
        }

    def _ListInferenceComponents(self, params: Mapping[str, Any]) -> dict[str, Any]:
        rows = [
            self._row(
                "InferenceComponentSummary", InferenceComponentName=t.name, InferenceComponentArn=t.arn.lower(), EndpointName=t.host,
                InferenceComponentStatus=self._status("InferenceComponentStatus", "InService"), **self._old(),
            )
            for t in self.of("sagemaker-inference-component")
        ]  # fmt: skip
        return self._page("InferenceComponents", rows, params)

    def _DescribeInferenceComponent(self, params: Mapping[str, Any]) -> dict[str, Any]:
        [thing] = [t for t in self.of("sagemaker-inference-component") if t.name == params["InferenceComponentName"]]
        of = self._row("InferenceComponentSpecificationSummary", BaseInferenceComponentName=thing.base or ABSENT)
        one = self.dice.random() < 0.7
        return {
            "InferenceComponentName": thing.name, "InferenceComponentArn": thing.arn.lower(), "EndpointName": thing.host, **self._old(),
            "Specification": of if one else ABSENT, "Specifications": ABSENT if one else [of],
        }  # fmt: skip

    def _ListNotebookInstances(self, params: Mapping[str, Any]) -> dict[str, Any]:
        rows = [
            self._row(
                "NotebookInstanceSummary", NotebookInstanceName=t.name, NotebookInstanceArn=t.arn,
                NotebookInstanceStatus=self._status("NotebookInstanceStatus", "InService"), **self._old(),
            )
            for t in self.of("sagemaker-notebook")
        ]  # fmt: skip
        return self._page("NotebookInstances", rows, params)

    def _DescribeLogStreams(self, params: Mapping[str, Any]) -> dict[str, Any]:
        name = params["logStreamNamePrefix"].partition("/")[0]
        [thing] = [t for t in self.of("sagemaker-notebook") if t.name == name]
        stamps = (
            {} if self.dice.random() < 0.3 else {"lastEventTimestamp": _millis(self.now - 40 * DAY), "lastIngestionTime": ABSENT}
        )
        if thing.used == "log" and thing.at:
            stamps = {self.dice.choice(["lastEventTimestamp", "lastIngestionTime"]): _millis(thing.at)}
        row = self.fill(model("logs").shape_for("LogStream"), {"logStreamName": f"{name}/jupyter.log", **stamps})
        return {"logStreams": [row] if stamps or self.dice.random() < 0.5 else [], "nextToken": ABSENT}

    def _ListApps(self, params: Mapping[str, Any]) -> dict[str, Any]:
        rows = []
        for thing in self.of("sagemaker-studio-app"):
            none = {key: ABSENT for key in ("SpaceName", "UserProfileName") if key not in thing.app}
            status = self.dice.choice(["InService", "InService", "Pending", "Failed", "Deleting", "OfANewerService"])
            rows.append(self._row("AppDetails", **thing.app, **none, Status=status, **self._old()))
        return self._page("Apps", rows, params)

    def _DescribeApp(self, params: Mapping[str, Any]) -> dict[str, Any]:
        [thing] = [t for t in self.of("sagemaker-studio-app") if params.items() <= t.app.items()]
        checked = self.now - timedelta(minutes=3)
        times = {"LastUserActivityTimestamp": checked, "LastHealthCheckTimestamp": checked}
        if thing.used == "person":
            times["LastUserActivityTimestamp"] = thing.at or checked
        elif self.dice.random() < 0.4:
            times = {}
        return {**thing.app, "AppArn": thing.arn, "Status": self._status("AppStatus", "InService"), **times}

    def _GetResources(self, params: Mapping[str, Any]) -> dict[str, Any]:
        some = [t for t in self.things if self.dice.random() < 0.5]
        rows = [{"ResourceARN": self.dice.choice([t.arn, t.arn.lower()]), "Tags": self._tags()} for t in some]
        return self._page("ResourceTagMappingList", rows, params, "PaginationToken")

    def _tags(self) -> list[dict[str, str]]:
        keys = self.dice.sample(["team", "reaper:owner", "reaper:idle-after", "aws:x", "reaper:kep"], self.dice.randint(0, 2))
        return [{"Key": key, "Value": self.dice.choice(["21h", "jo@example.com", "", "☃"])} for key in keys]

    # Metrics

    def _ListMetrics(self, params: Mapping[str, Any]) -> dict[str, Any]:
        rows: list[list[tuple[str, str]]] = [[("InstanceType", "ml.m5.large")], []]
        if params.get("MetricName") == "Busy":
            rows += [[("Resource", t.published)] for t in self.things if t.published]
        elif params.get("Namespace") == "/aws/sagemaker/InferenceComponents":
            rows += [[("InferenceComponentName", t.name)] for t in self.of("sagemaker-inference-component")]
        else:
            pairs = [(t.name, v) for t in self.of("sagemaker-endpoint") for v in t.variants if self.dice.random() < self.listed]
            rows += [[("EndpointName", name), ("VariantName", v)] for name, v in pairs]
        if params.get("Namespace") == "/aws/sagemaker/InferenceComponents" and not self.of("sagemaker-inference-component"):
            rows = []
        metrics = [{"Dimensions": [{"Name": k, "Value": v} for k, v in pairs], **_same(params)} for pairs in rows]
        return self._page("Metrics", metrics, params)

    def _metrics(self, params: Mapping[str, Any]) -> dict[str, Any]:
        start, end = read(params["StartTime"]), read(params["EndTime"])
        paged = "NextToken" not in params and self.dice.random() < 0.3
        rows = [self._series(query, start, end) for query in params["MetricDataQueries"]]
        if paged:
            cut = [row | {"Timestamps": [], "Values": [], "StatusCode": "PartialData"} for row in rows]
            return {"MetricDataResults": cut, "Messages": [], "NextToken": "more"}
        return {"MetricDataResults": rows, "Messages": []}

    def _series(self, query: Mapping[str, Any], start: datetime, end: datetime) -> dict[str, Any]:
        metric = query["MetricStat"]["Metric"]
        self.dice = random.Random(f"{self.seed} {metric} {start}")
        dimensions = {d["Name"]: d["Value"] for d in metric["Dimensions"]}
        hours = [start + n * HOUR for n in range(-(-(end - start) // HOUR))]
        values = dict.fromkeys(
            hours if self._beats(metric, dimensions) else [], 60.0 if "Utilization" in metric["MetricName"] else 0.0
        )
        if (at := self._use(metric, dimensions)) and start <= at < end:
            values[start + (at - start) // HOUR * HOUR] = self.dice.choice([1.0, 0.5, 1e9])
        status = (
            "Complete"
            if self.risk == 0 or self.dice.random() < 0.95
            else self.dice.choice(["InternalError", "PartialData", "Forbidden"])
        )
        ordered = sorted(values)
        return {
            "Id": query["Id"],
            "Label": "x",
            "Timestamps": ordered,
            "Values": [values[t] for t in ordered],
            "StatusCode": status,
        }

    def _beats(self, metric: Mapping[str, Any], dimensions: Mapping[str, str]) -> bool:
        if metric["MetricName"] == "Busy":
            return dimensions["Resource"] in {t.published for t in self.things}
        return self.dice.random() < (0.95 if "Utilization" in metric["MetricName"] else 0.5)

    def _use(self, metric: Mapping[str, Any], dimensions: Mapping[str, str]) -> datetime | None:
        """When use shows in that very series; of an endpoint, in its last variant's only."""
        for thing in self.things:
            mine = {
                "sagemaker-endpoint": {"EndpointName": thing.name}
                | ({"VariantName": thing.variants[-1]} if thing.variants and thing.used != "ApproximateBacklogSize" else {}),
                "sagemaker-inference-component": {"InferenceComponentName": thing.name},
            }.get(thing.kind, {"Resource": thing.published or ""})
            if dimensions == mine and metric["MetricName"] == thing.used:
                return thing.at
        return None


def _same(params: Mapping[str, Any]) -> dict[str, Any]:
    return {key: params[key] for key in ("Namespace", "MetricName") if key in params}


def _millis(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def names(things: Iterable[Thing]) -> list[str]:
    """Their names, sorted."""
    return sorted(thing.name for thing in things)
