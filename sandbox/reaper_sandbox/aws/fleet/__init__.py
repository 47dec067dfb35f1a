"""The demo's story: a fleet in two regions of account 123456789012 in which each name tells its verdict, and every trap is set once.

The verdicts hold for a policy with `idle_after: 24h` that leaves `env: prod` alone and judges expensive machines after 12 hours.

Endpoints in us-east-1
    fraud-scoring-busy                   active          office-hours traffic up to now
    churn-idle-9-days                    idle proven     four GPUs, silent since nine days
    two-variants-second-busy             active          only the second variant gets traffic
    shadow-variant-busy                  active          only the shadow variant gets traffic
    async-backlog-busy                   active          asynchronous: a backlog, and no Invocations at all
    async-idle                           idle proven     asynchronous: an empty backlog
    async-scaled-to-zero                 exempt          asynchronous with no instances: costs nothing
    serverless-free                      exempt          serverless: costs nothing while idle
    serverless-provisioned-quiet         idle likely     provisioned concurrency is paid for, and has no heartbeat
    deployed-an-hour-ago                 young           created an hour ago
    updated-this-morning                 young           changed four hours ago
    creating-now                         young           has no variants yet
    update-in-progress                   young           its status is Updating
    failed-without-variants              exempt          never got an instance
    heartbeat-missing                    unknown         silent, and so is its heartbeat
    heartbeat-stopped-3-days-ago         unknown         the metrics pipeline went down
    heartbeat-began-late                 unknown         its heartbeat covers five hours only
    zero-valued-points-idle              idle proven     Invocations are there, and all of them are 0
    config-deleted-idle                  idle proven     its configuration is gone, and its price with it
    components-host-idle                 idle proven     hosts one component, which is idle
    components-host-busy                 active          hosts two components, one of them busy
    instance-pools-idle                  idle proven     two instance types in pools
    kept-by-tag                          exempt          reaper:keep=true
    keep-until-next-month                exempt          reaper:keep-until, still ahead
    keep-until-last-month                idle proven     reaper:keep-until, over
    keep-tag-misspelt                    exempt          reaper:kepp protects too
    keep-until-unreadable                exempt          reaper:keep-until=next tuesday protects too
    search-ranking-prod                  exempt          env=prod, which the policy leaves alone
Endpoints in eu-west-1
    reco-eu-busy                         active          traffic up to now
    sentiment-eu-idle-4-days             idle proven     silent since four days
    Demo-Case                            active          differs from the next one by case only
    demo-case                            idle proven     differs from the one before by case only
    exotic-instance-idle                 idle proven     its instance type has no price
Inference components in us-east-1
    embedder-idle                        idle proven     on components-host-idle
    summarizer-busy                      active          on components-host-busy
    translator-idle                      idle proven     on components-host-busy
Notebook instances in us-east-1, but for the last two, which are in eu-west-1
    nb-kernel-busy                       active          Busy is 1
    nb-busy-series-silent                idle proven     Busy has been 0 for three days
    nb-busy-series-stopped               unknown         Busy was published once, and no more
    nb-no-series-quiet-5-days            idle likely     no Busy, a log that is silent since five days
    nb-log-fresh                         active          no Busy, a log that has just grown
    nb-stopped                           exempt          stopped
    nb-started-an-hour-ago               young           started an hour ago
Studio apps in us-east-1
    lab-idle/JupyterLab/default          idle proven     Busy has been 0 for six days
    editor-busy/CodeEditor/default       active          Busy is 1
    health-checks-only/JupyterLab/default idle likely    its activity is its health check: tells nothing
    left-11-days-ago/JupyterLab/default  idle likely     its last user activity is long ago
    used-an-hour-ago/JupyterLab/default  active          its last user activity is recent
    ana/JupyterServer/default            exempt          a system instance is free
    ana/KernelGateway/forgotten-gpu      idle likely     a kernel on a GPU, health checks only
    (deleted-yesterday/JupyterLab/default is still listed as Deleted, and is not in the report.)
"""

from __future__ import annotations

from datetime import datetime

from reaper_sandbox.aws import handlers
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fleet import components, endpoints, evidence, notebooks, protection, studio
from reaper_sandbox.aws.fleet.verdicts import STORY, Expected, expected
from reaper_sandbox.aws.server import Server

__all__ = ["EXPECTED", "STORY", "Expected", "settle"]
SEEDING = tuple(module for some in handlers.modules().values() for module in some if hasattr(module, "seed_fleet"))
"""Modules of any service with resources of their own in the fleet: `seed_fleet(region, now)`, their `KIND_NAME`, their
`FLEET_VERDICTS` by name, their `ARN_TYPE`, and `NAMED_BY`, the parameter of a call that names one."""
EXPECTED: dict[str, Expected] = STORY | {
    name: expected(module.KIND_NAME, verdict) for module in SEEDING for name, verdict in module.FLEET_VERDICTS.items()
}
"""By the name that the report shows: the story above, and what these modules add in us-east-1."""


def settle(server: Server, now: datetime) -> None:
    """Seed the story into the server's default account, as it looks at `now`. The server's own clock should show the same."""
    virginia, ireland = Account(server), Account(server, region="eu-west-1")
    endpoints.seed(virginia, ireland, now)
    evidence.seed(virginia, now)
    protection.seed(virginia, now)
    components.seed(virginia, now)
    notebooks.seed(virginia, ireland, now)
    studio.seed(virginia, now)
    for module in SEEDING:
        module.seed_fleet(virginia.contents, now)
