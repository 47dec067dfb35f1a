"""Seeds one region of one account: straight into memory, with times in the past and any status.

    account = Account(server)
    account.endpoint("churn", created=now - timedelta(days=30))
    account.alive("churn", "AllTraffic", now - timedelta(days=14), now)
    account.invoked("churn", "AllTraffic", now - timedelta(days=9), 12)

What real resources look like: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Operations.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from reaper_sandbox.aws.records import App, Component, Config, Domain, Endpoint, Notebook, Space, Stream, User, Variant, running
from reaper_sandbox.aws.sagemaker import apps
from reaper_sandbox.aws.server import Server
from reaper_sandbox.aws.signals import Signals

MONTH = timedelta(days=30)
OUTPUT = {"OutputConfig": {"S3OutputPath": "s3://results/"}, "ClientConfig": {"MaxConcurrentInvocationsPerInstance": 4}}


class Common(TypedDict, total=False):
    """What can be said of most resources. By default they are 30 days old, haven't changed since, and have no tags."""

    created: datetime | None
    changed: datetime | None
    status: str
    tags: dict[str, str] | None


class Variants(TypedDict, total=False):
    """What an endpoint runs: one production variant by default, no shadows, not asynchronous."""

    variants: Sequence[Variant]
    shadows: Sequence[Variant]
    asynchronous: bool


class EndpointSetup(Common, Variants, total=False):
    """How an endpoint is seeded. `failure` is its failure reason."""

    config_deleted: bool
    failure: str | None


class ConfigSetup(Variants, total=False):
    """How an endpoint configuration is seeded."""

    created: datetime | None


class ComponentSetup(Common, total=False):
    """How an inference component is seeded: with one copy by default. With `base` it is an adapter inside that component."""

    copies: int
    base: str | None


class SpaceSetup(Common, total=False):
    """How a space is seeded: private with an owner, otherwise shared."""

    domain: str
    owner: str | None


class AppSetup(Common, total=False):
    """How an app of a space or of a user is seeded. Without `used`, both its timestamps are `checked`, by default a minute ago."""

    space: str | None
    user: str | None
    type: str
    instance: str
    used: datetime | None
    checked: datetime | None
    domain: str


class Account(Signals):
    """One region of one account."""

    def __init__(self, server: Server, account_id: str = "123456789012", region: str = "us-east-1") -> None:
        super().__init__(server.world.region(account_id, region))
        self.server = server
        self.account_id = account_id
        self.region = region

    def arn(self, resource: str) -> str:
        """`endpoint/x` as the ARN of a SageMaker resource of this region."""
        return self.contents.arn(resource)

    def endpoint(self, name: str, **setup: Unpack[EndpointSetup]) -> Endpoint:
        """An endpoint with a configuration of its own, `<name>-config`. With empty `variants` it has none yet, or never got any."""
        born = self._created(setup)
        variants, shadows = setup.get("variants", (Variant(),)), setup.get("shadows", ())
        endpoint = Endpoint(
            name=name, arn=self.arn(f"endpoint/{name}"), config=f"{name}-config", created=born,
            changed=setup.get("changed") or born, status=setup.get("status", "InService"), failure=setup.get("failure"),
            tags=setup.get("tags"), asynchronous=OUTPUT if setup.get("asynchronous") else None,
            variants=[running(v.spec(), v.pools) for v in variants], shadows=[running(v.spec(), v.pools) for v in shadows],
        )  # fmt: skip
        self.contents.endpoints[name] = endpoint
        if not setup.get("config_deleted"):
            asynchronous = setup.get("asynchronous", False)
            self.config(
                endpoint.config, variants=variants or (Variant(),), shadows=shadows, asynchronous=asynchronous, created=born
            )
        return endpoint

    def config(self, name: str, **setup: Unpack[ConfigSetup]) -> Config:
        """An endpoint configuration."""
        variants, shadows = setup.get("variants", (Variant(),)), setup.get("shadows", ())
        spec: dict[str, Any] = {"ProductionVariants": [v.spec() for v in variants]}
        if shadows:
            spec["ShadowProductionVariants"] = [v.spec() for v in shadows]
        if setup.get("asynchronous"):
            spec["AsyncInferenceConfig"] = OUTPUT
        if any(v.model is None for v in variants):
            spec["ExecutionRoleArn"] = f"arn:aws:iam::{self.account_id}:role/endpoint"
        config = Config(name=name, arn=self.arn(f"endpoint-config/{name}"), created=self._created(setup), spec=spec)
        self.contents.configs[name] = config
        return config

    def component(self, name: str, endpoint: str, **setup: Unpack[ComponentSetup]) -> Component:
        """An inference component on the endpoint's first variant."""
        born, base = self._created(setup), setup.get("base")
        host = self.contents.endpoints.get(endpoint)
        needs = {"NumberOfCpuCoresRequired": 1.0, "MinMemoryRequiredInMb": 1024}
        spec: dict[str, Any] = {"ModelName": "model", "ComputeResourceRequirements": needs}
        component = Component(
            name=name, arn=self.arn(f"inference-component/{name.lower()}"), endpoint=endpoint, created=born,
            changed=setup.get("changed") or born, copies=setup.get("copies", 1), status=setup.get("status", "InService"),
            tags=setup.get("tags"), variant=host.variants[0].name if host and host.variants else "AllTraffic",
            spec={"BaseInferenceComponentName": base} if base else spec,
        )  # fmt: skip
        self.contents.components[name] = component
        return component

    def notebook(
        self,
        name: str,
        *,
        instance: str = "ml.t3.medium",
        created: datetime | None = None,
        changed: datetime | None = None,
        status: str = "InService",
        **extra: Any,
    ) -> Notebook:
        """A notebook instance; `changed` is when it was last started or stopped. `extra` are `tags` and members of its description."""
        tags = extra.pop("tags", None)
        born = created or self.server.now - MONTH
        notebook = Notebook(
            name=name, arn=self.arn(f"notebook-instance/{name}"), instance=instance, created=born, changed=changed or born,
            status=status, extra=extra, tags=tags,
        )  # fmt: skip
        self.contents.notebooks[name] = notebook
        return notebook

    def domain(self, name: str = "d-sandbox", *, tags: dict[str, str] | None = None, **extra: Any) -> Domain:
        """A Studio domain with that id."""
        born = self.server.now - 12 * MONTH
        domain = Domain(name=name, arn=self.arn(f"domain/{name}"), title=name, created=born, changed=born, extra=extra, tags=tags)
        self.contents.domains[name] = domain
        return domain

    def user(
        self, name: str, *, domain: str = "d-sandbox", created: datetime | None = None, tags: dict[str, str] | None = None
    ) -> User:
        """A user profile."""
        born = created or self.server.now - MONTH
        user = User(
            name=name, arn=self.arn(f"user-profile/{domain}/{name}"), domain=domain, created=born, changed=born, tags=tags
        )
        self.contents.users[domain, name] = user
        return user

    def space(self, name: str, **setup: Unpack[SpaceSetup]) -> Space:
        """A space of a domain."""
        born, domain = self._created(setup), setup.get("domain", "d-sandbox")
        space = Space(
            name=name, arn=self.arn(f"space/{domain}/{name}"), domain=domain, owner=setup.get("owner"), created=born,
            changed=setup.get("changed") or born, tags=setup.get("tags"),
        )  # fmt: skip
        self.contents.spaces[domain, name] = space
        return space

    def app(self, name: str = "default", **setup: Unpack[AppSetup]) -> App:
        """An app of a space or of a user."""
        checked = setup.get("checked") or self.server.now - timedelta(minutes=1)
        domain, space, user = setup.get("domain", "d-sandbox"), setup.get("space"), setup.get("user")
        key = (domain, str(space or user), setup.get("type", "JupyterLab"), name)
        app = App(
            domain=domain, space=space, user=user, type=key[2], name=name, arn=apps.arn(self.contents, key),
            created=self._created(setup), resources={"InstanceType": setup.get("instance", "ml.t3.medium")},
            used=setup.get("used") or checked, checked=checked, status=setup.get("status", "InService"), tags=setup.get("tags"),
        )  # fmt: skip
        self.contents.apps[key] = app
        return app

    def log_stream(
        self,
        name: str,
        *,
        last_event: datetime | None = None,
        last_ingestion: datetime | None = None,
        group: str = "/aws/sagemaker/NotebookInstances",
        created: datetime | None = None,
    ) -> Stream:
        """A log stream such as `my-notebook/jupyter.log`. The group then is the sandbox's own, and moto's no longer."""
        stream = Stream(
            name=name, arn=self.contents.arn(f"log-group:{group}:log-stream:{name}", "logs"), last_event=last_event,
            created=created or self.server.now - MONTH, last_ingestion=last_ingestion or last_event,
        )  # fmt: skip
        self.contents.streams.setdefault(group, {})[name] = stream
        return stream

    def _created(self, setup: Mapping[str, Any]) -> datetime:
        return setup.get("created") or self.server.now - MONTH
