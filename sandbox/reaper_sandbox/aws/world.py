"""All that the sandbox holds: one clock, a few knobs, and the contents of every account and region."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from reaper_sandbox.aws.records import App, Component, Config, Domain, Endpoint, Notebook, Scalable, Space, Stream, User
from reaper_sandbox.aws.series import Metrics

if TYPE_CHECKING:
    from reaper_sandbox.aws.assumption import AssumedSession
    from reaper_sandbox.aws.organization import Organization


@dataclass(slots=True, kw_only=True)
class World:
    """`fixed` stops the clock. `settle_after` is how long Creating, Updating, Stopping and Deleting last; zero means not at all.

    `denied_actions`: what IAM's simulation says isn't allowed, with `*`; guards are what refuses calls.
    `organization`: the accounts and roles, if this is one. `principals`: the ARN of whoever has an access key, if it matters; `sessions`: the
    sessions of assumed roles by theirs.
    """

    fixed: datetime | None = None
    settle_after: timedelta = timedelta(0)
    page_points: int = 100_800
    last_token: str | None = None
    lower_tag_arns: bool = False
    denied_actions: set[str] = field(default_factory=set)
    has_mail_production_access: bool = True
    sends_mail: bool = True
    verified_mail: set[str] = field(default_factory=set)
    regions: dict[tuple[str, str], Region] = field(default_factory=dict)
    organization: Organization | None = None
    principals: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, AssumedSession] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def now(self) -> datetime:
        """The time in the sandbox. This is the one place that reads the real clock."""
        return self.fixed or datetime.now(UTC)

    def region(self, account: str, name: str) -> Region:
        """The contents of one region of one account, empty at first."""
        with self.lock:
            if (account, name) not in self.regions:
                self.regions[account, name] = Region(account=account, name=name, world=self)
            return self.regions[account, name]


@dataclass(slots=True, kw_only=True)
class Region:
    """What one account has in one region, by name; apps by (domain, user or space, type, name), spaces and users by (domain, name),
    scalable targets by (resource id, dimension).

    `moving` are the records whose state is about to change; `others` what only one module knows, by the type that its ARNs name.
    """

    account: str
    name: str
    world: World
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    configs: dict[str, Config] = field(default_factory=dict)
    components: dict[str, Component] = field(default_factory=dict)
    notebooks: dict[str, Notebook] = field(default_factory=dict)
    domains: dict[str, Domain] = field(default_factory=dict)
    users: dict[tuple[str, str], User] = field(default_factory=dict)
    spaces: dict[tuple[str, str], Space] = field(default_factory=dict)
    apps: dict[tuple[str, str, str, str], App] = field(default_factory=dict)
    scalable: dict[tuple[str, str], Scalable] = field(default_factory=dict)
    lost_models: set[str] = field(default_factory=set)
    alarms: dict[str, dict[str, Any]] = field(default_factory=dict)
    streams: dict[str, dict[str, Stream]] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    moving: list[Any] = field(default_factory=list)
    others: dict[str, dict[Any, Any]] = field(default_factory=dict)

    @property
    def now(self) -> datetime:
        """The time in the sandbox."""
        return self.world.now

    def arn(self, resource: str, service: str = "sagemaker") -> str:
        """`endpoint/x` as an ARN of this region."""
        partition = "aws-cn" if self.name.startswith("cn-") else "aws-us-gov" if self.name.startswith("us-gov-") else "aws"
        return f"arn:{partition}:{service}:{self.name}:{self.account}:{resource}"

    def shelf(self, kind: str) -> dict[Any, Any]:
        """The records of a kind that only one module knows, empty at first; `kind` is the type that its ARNs name."""
        return self.others.setdefault(kind, {})

    def shelves(self) -> dict[str, dict[Any, Any]]:
        """Everything that can carry tags, by the type that its ARN names."""
        return {
            "endpoint": self.endpoints,
            "endpoint-config": self.configs,
            "inference-component": self.components,
            "notebook-instance": self.notebooks,
            "domain": self.domains,
            "user-profile": self.users,
            "space": self.spaces,
            "app": self.apps,
            **self.others,
        }
