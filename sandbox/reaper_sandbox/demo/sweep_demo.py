"""Sweeps the simulated fleet: a real run with the real SDKs, whose calls all go to servers in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from pathlib import Path

from reaper.finding import Report
from reaper.model import Mode
from reaper.policy.channel_settings import Folder
from reaper.policy.file import PolicySource
from reaper.registry import CLOUDS, kinds
from reaper.run import run
from reaper.settings import Settings

DEMO_POLICY = """\
# The demo's policy.
version: 1
defaults: {action: notify, idle_after: 24h, grace: 3d, remind_every: 7d, lookback: 14d}
owners: {tags: ["reaper:owner", owner, email], domains: [example.com], fallback: ml-admins@example.com}
rules:
  - name: production is left alone
    match: {tags: {env: [prod, production]}}
    action: ignore
  - name: expensive machines stop sooner
    match: {usd_per_hour: ">= 5"}
    idle_after: 12h
    grace: 12h
    action: stop
"""
SERVERS = {cloud: import_module(f"reaper_sandbox.{cloud}.server") for cloud in CLOUDS}
DEMO_SETTINGS = Settings(mode=Mode.NOTIFY, cloud="all", regions=("us-east-1", "eu-west-1"), ledger="memory:")


def run_demo_sweep(source: PolicySource, mails: Path, clock: Callable[[], datetime], progress: Callable[[str], None]) -> Report:
    """The report of one sweep in notify mode over both simulated clouds. Writes the mails to the folder `mails`.

    Leaves the environment unchanged.
    """
    folder = Folder(type="folder", path=str(mails))
    source = replace(source, policy=source.policy.model_copy(update={"channels": [folder]}))
    now = clock()
    with ExitStack() as stack:
        environ: dict[str, str] = {}
        for cloud in CLOUDS:
            if kinds(cloud):
                progress(f"{cloud}: setting up the simulated fleet")
                server = stack.enter_context(SERVERS[cloud].Server(now))
                import_module(f"reaper_sandbox.{cloud}.fleet").settle(server, now)
                environ |= server.env
        stack.enter_context(isolated_environment(environ))
        return run(DEMO_SETTINGS, source, clock, progress)


@contextmanager
def isolated_environment(environ: Mapping[str, str]) -> Iterator[None]:
    """Set these variables and remove all others of clouds and reaper. Restores the environment afterwards."""
    before = dict(os.environ)
    for name in [n for n in os.environ if n.startswith(("AWS_", "AZURE_", "REAPER_"))]:
        del os.environ[name]
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
