"""What the commands in the docs are run against, and which of them cannot be run by a test, with the reason."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import TracebackType

import pytest

from fakes.records import a_record
from reaper.ledger import opening
from reaper.model import AnnouncedAction, Mode
from reaper.policy.file import load_policy
from reaper.registry import CLOUDS, kinds
from reaper.run import run
from reaper.settings import Settings
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.organization import Organization, Unit
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

NOT_RUN = {
    "make": "it would run the tests from within the tests; CI runs it",
    "pip install": "it would install into the environment that the tests run in",
    "uvx": "tests/deploy runs the built wheel in the same way",
    "pipx": "it would install outside of the tests' environment",
    "sam": "tests/deploy builds and validates the template with SAM; deploying needs an account",
    "AWS_MAX_ATTEMPTS=1 aws lambda": "tests/deploy invokes the built function under AWS's own runtime client",
    "aws sagemaker": "needs an account; tests/deploy runs what is installed",
    "cat infra/busy": "tests/deploy builds and runs the same",
    "az ": "needs a subscription; tests/deploy checks the Bicep files",
    "git archive": "part of publishing the function app, which needs a subscription",
    "func ": "needs a subscription",
}

FIRST = {
    "reaper apply company.json": "reaper plan --organization --output company.json",
    "reaper apply": "reaper plan --cloud aws --output plan.json",
}
"""What must have been run in the same folder before a command, by how that begins."""
STOPPED, RUN = "fraud-idle", "3f2a9c41d7be"
"""An endpoint that the reaper stopped before any command is run, and the run that did it: there is something to take back."""
DAY = timedelta(days=1)
POLICY = """
version: 1
limits: {{max_share: 100%}}
owners: {{fallback: admins@example.com}}
channels: [{{type: folder, path: "{home}/mail"}}]
rules: [{{name: it, match: {{name: "{name}"}}, action: stop}}]
"""


def _organization() -> Organization:
    """The fleet's account and two more, one of them in the unit that the docs name."""
    company = Organization(units=[Unit(id="ou-ab12-labslabs", name="labs")])
    company.add("123456789012", "platform", role=None)
    company.add("111111111111", "research", parent="ou-ab12-labslabs")
    company.add("222222222222", "vision")
    return company


class Fleet:
    """The demo's fleet on both clouds, served to the commands, with a ledger and manifests of one stop."""

    def __init__(self) -> None:
        self.env: dict[str, str] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Fleet:
        now = datetime.now(UTC)
        for cloud in CLOUDS:
            if kinds(cloud):
                server = self._stack.enter_context(import_module(f"reaper_sandbox.{cloud}.server").Server(now))
                import_module(f"reaper_sandbox.{cloud}.fleet").settle(server, now)
                self.env |= server.env
                if cloud == "aws":
                    self._stop_one(server, now)
                    server.world.organization = _organization()
        return self

    def _stop_one(self, server: Server, now: datetime) -> None:
        home = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        policy = POLICY.format(home=home, name=STOPPED)
        kept_at = {"REAPER_LEDGER": f"sqlite://{home}/ledger.db", "REAPER_MANIFESTS": str(home / "manifests")}
        self.env |= {"REAPER_POLICY": policy, **kept_at}
        account = Account(server)
        id_ = account.endpoint(STOPPED, variants=(Variant(count=3),)).arn
        account.alive(STOPPED, "AllTraffic", now - 20 * DAY, now + DAY)
        fields = {
            "warned_at": now - 4 * DAY,
            "receipt": "r",
            "announced": AnnouncedAction.STOP,
            "not_before": now - DAY,
        }
        ledger = opening.open_ledger(kept_at["REAPER_LEDGER"], os.environ)
        ledger.write_record(id_, a_record(idle_since=now - 20 * DAY, seen_idle_at=now - DAY / 24, **fields), 0, now)  # type: ignore[arg-type]
        settings = Settings(
            mode=Mode.ENFORCE, cloud="aws", regions=("us-east-1",), kinds=("sagemaker-endpoint",),
            ledger=kept_at["REAPER_LEDGER"], manifests=kept_at["REAPER_MANIFESTS"],
        )  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            for name, value in server.env.items():
                patch.setenv(name, value)
            report = run(settings, load_policy(policy), lambda: now)
        [finding] = [f for f in report.findings if f.case.resource.id == id_]
        assert (finding.step.name, finding.outcome.result) == ("stop", "done"), finding
        [stored] = (home / "manifests").glob(f"*/{report.run.id}")
        shutil.copytree(stored, stored.parent / RUN)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()
