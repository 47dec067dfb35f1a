"""What the commands in the docs are run against, and which of them cannot be run by a test, with the reason."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import import_module
from types import TracebackType

from reaper.registry import CLOUDS, kinds

NOT_RUN = {
    "make": "it would run the tests from within the tests; CI runs it",
    "pip install": "the package is not on an index yet",
    "sam": "tests/deploy builds and validates the template with SAM; deploying needs an account",
    "aws lambda": "tests/deploy invokes the built function under AWS's own runtime client",
    "aws sagemaker": "needs an account; tests/deploy runs what is installed",
    "cat infra/busy": "tests/deploy builds and runs the same",
    "az ": "needs a subscription; tests/deploy checks the Bicep files",
    "git archive": "part of publishing the function app, which needs a subscription",
    "func ": "needs a subscription",
}


class Fleet:
    """The demo's fleet on both clouds, served to the commands."""

    def __init__(self) -> None:
        self.env: dict[str, str] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Fleet:
        now = datetime.now(UTC)
        for cloud in CLOUDS:
            if kinds(cloud):
                server = self._stack.enter_context(import_module(f"reaper.sandbox.{cloud}.server").Server(now))
                import_module(f"reaper.sandbox.{cloud}.fleet").settle(server, now)
                self.env |= server.env
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()
