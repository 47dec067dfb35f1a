"""Seed one region of one account fast: straight into memory, with times in the past and any status.

    here = Account(server)
    here.endpoint("churn", created=now - timedelta(days=30))
    here.alive("churn", "AllTraffic", now - timedelta(days=14), now)
    here.invoked("churn", "AllTraffic", now - timedelta(days=9), 12)

What real resources look like: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Operations.html
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from reaper_sandbox.aws.records import App, Component, Config, Domain, Endpoint, Notebook, Space, Stream, User, Variant, running
from reaper_sandbox.aws.sagemaker import apps
from reaper_sandbox.aws.server import Server
from reaper_sandbox.aws.signals import Signals

MONTH = timedelta(days=30)
OUTPUT = {"OutputConfig": {"S3OutputPath": "s3://results/"}, "ClientConfig": {"MaxConcurrentInvocationsPerInstance": 4}}


class Account(Signals):
    """One region of one account. Without times, things are 30 days old; without `changed`, they were not changed since."""

    def __init__(self, server: Server, account_id: str = "123456789012", region: str = "us-east-1") -> None:
        super().__init__(server.world.region(account_id, region))
        self.server = server
        self.account_id = account_id
        self.region = region

    def arn(self, resource: str) -> str:
        """`endpoint/x` as the ARN of a SageMaker resource of this region."""
        return self.contents.arn(resource)

    def endpoint(
        self,
        name: str,
        *,
        variants: Sequence[Variant] = (Variant(),),
        shadows: Sequence[Variant] = (),
        asynchronous: bool = False,
        created: datetime | None = None,
        changed: datetime | None = None,
        status: str = "InService",
        tags: dict[str, str] | None = None,
        config_deleted: bool = False,
        failure: str | None = None,
    ) -> Endpoint:
        """An endpoint with a configuration of its own, `<name>-config`. No variants: it has none yet, or never got any."""
        born = created or self.server.now - MONTH
        endpoint = Endpoint(
            name=name, arn=self.arn(f"endpoint/{name}"), config=f"{name}-config", created=born, changed=changed or born,
            status=status, failure=failure, tags=tags, asynchronous=OUTPUT if asynchronous else None,
            variants=[running(v.spec(), v.pools) for v in variants], shadows=[running(v.spec(), v.pools) for v in shadows],
        )  # fmt: skip
        self.contents.endpoints[name] = endpoint
        if not config_deleted:
            self.config(
                f"{name}-config", variants=variants or (Variant(),), shadows=shadows, asynchronous=asynchronous, created=born
            )
        return endpoint

    def config(
        self,
        name: str,
        *,
        variants: Sequence[Variant] = (Variant(),),
        shadows: Sequence[Variant] = (),
        asynchronous: bool = False,
        created: datetime | None = None,
    ) -> Config:
        """An endpoint configuration."""
        spec: dict[str, Any] = {"ProductionVariants": [v.spec() for v in variants]}
        if shadows:
            spec["ShadowProductionVariants"] = [v.spec() for v in shadows]
        if asynchronous:
            spec["AsyncInferenceConfig"] = OUTPUT
        if any(v.model is None for v in variants):
            spec["ExecutionRoleArn"] = f"arn:aws:iam::{self.account_id}:role/endpoint"
        config = Config(name=name, arn=self.arn(f"endpoint-config/{name}"), created=created or self.server.now - MONTH, spec=spec)
        self.contents.configs[name] = config
        return config

    def component(
        self,
        name: str,
        endpoint: str,
        *,
        copies: int = 1,
        base: str | None = None,
        created: datetime | None = None,
        changed: datetime | None = None,
        status: str = "InService",
        tags: dict[str, str] | None = None,
    ) -> Component:
        """An inference component on the endpoint's first variant; with `base` it is an adapter inside that component."""
        born = created or self.server.now - MONTH
        host = self.contents.endpoints.get(endpoint)
        needs = {"NumberOfCpuCoresRequired": 1.0, "MinMemoryRequiredInMb": 1024}
        spec: dict[str, Any] = {"ModelName": "model", "ComputeResourceRequirements": needs}
        component = Component(
            name=name, arn=self.arn(f"inference-component/{name.lower()}"), endpoint=endpoint, created=born,
            changed=changed or born, copies=copies, status=status, tags=tags,
            variant=host.variants[0].name if host and host.variants else "AllTraffic",
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
        tags: dict[str, str] | None = None,
        **extra: Any,
    ) -> Notebook:
        """A notebook instance; `changed` is when it was last started or stopped. `extra` are members of its description."""
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

    def space(
        self,
        name: str,
        *,
        domain: str = "d-sandbox",
        owner: str | None = None,
        created: datetime | None = None,
        changed: datetime | None = None,
        tags: dict[str, str] | None = None,
    ) -> Space:
        """A space: private with an owner, else shared."""
        born = created or self.server.now - MONTH
        space = Space(
            name=name, arn=self.arn(f"space/{domain}/{name}"), domain=domain, owner=owner, created=born,
            changed=changed or born, tags=tags,
        )  # fmt: skip
        self.contents.spaces[domain, name] = space
        return space

    def app(
        self,
        name: str = "default",
        *,
        space: str | None = None,
        user: str | None = None,
        type: str = "JupyterLab",
        instance: str = "ml.t3.medium",
        created: datetime | None = None,
        used: datetime | None = None,
        checked: datetime | None = None,
        status: str = "InService",
        domain: str = "d-sandbox",
        tags: dict[str, str] | None = None,
    ) -> App:
        """An app of a space or of a user. Without `used`, only health checks touch it: both its timestamps are `checked`, a minute ago."""
        born, seen = created or self.server.now - MONTH, checked or self.server.now - timedelta(minutes=1)
        key = (domain, str(space or user), type, name)
        app = App(
            domain=domain, space=space, user=user, type=type, name=name, arn=apps.arn(self.contents, key), created=born,
            resources={"InstanceType": instance}, used=used or seen, checked=seen, status=status, tags=tags,
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
