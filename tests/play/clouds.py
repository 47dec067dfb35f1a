"""Both simulated clouds under the play's clock, with what a play needs on top: a log of what was changed, kills and lost replies.

An accident is armed before a command and happens once: the process is killed when a call arrives, or right after it was carried out, or the
call is carried out and its reply is lost.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from play.clock import Clock
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault
from reaper_sandbox.aws.reply import Reply as AwsReply
from reaper_sandbox.aws.server import Server as AwsServer
from reaper_sandbox.aws.server import Start, _hang_up
from reaper_sandbox.aws.world import World as AwsWorld
from reaper_sandbox.azure.request import Reply as AzureReply
from reaper_sandbox.azure.request import Request
from reaper_sandbox.azure.route import Route
from reaper_sandbox.azure.server import Server as AzureServer
from reaper_sandbox.azure.world import World as AzureWorld

READING = ("Describe", "List", "Get", "BatchGet", "Query", "Scan", "Head", "Search", "AssumeRole")
"""How the names of calls begin that change nothing."""
SETTLES = timedelta(seconds=2)
"""How long a change of state takes: longer than a call, shorter than a sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A call that changed something in a cloud: when, which, on what, with what, whether it was carried out, in which command."""

    when: datetime
    cloud: str
    action: str
    what: str
    parameters: Any
    refused: str | None
    command: int


@dataclass(slots=True, kw_only=True)
class Accident:
    """What is to happen to the next call whose action matches: `before` and `after` kill the process, `lost` cuts the reply.

    `skip` matching calls pass first.
    """

    action: str
    how: str
    skip: int = 0
    happened: str = ""


Meanwhile = tuple[str, str, Callable[[], None]]
"""Something that people do in the middle of a command: at the first call whose action and subject match the two patterns."""


@dataclass(slots=True, kw_only=True)
class Wire:
    """What both clouds share: the clock, whom to kill, what was changed, and what is to go wrong."""

    clock: Clock
    victim: Callable[[], int | None]
    changes: list[Change] = field(default_factory=list)
    accident: Accident | None = None
    command: int = 0
    calls: int = 0
    meanwhile: list[Meanwhile] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def arrives(self, action: str, subject: str = "") -> None:
        """Called for every call before it is carried out."""
        with self.lock:
            self.calls += 1
            now = [one for one in self.meanwhile if re.fullmatch(one[0], action) and re.search(one[1], subject)]
            for one in now:
                self.meanwhile.remove(one)
        for one in now:  # without the lock: what they do may be calls themselves
            one[2]()
        if self._strikes(action, "before"):
            self._kill()

    def carried(self, change: Change, reading: bool) -> bool:
        """Called for every call after it was carried out; whether its reply is lost."""
        if not reading:
            self.changes.append(change)
        if change.refused:
            return False
        if self._strikes(change.action, "after"):
            self._kill()
        return self._strikes(change.action, "lost")

    def taken(self, action: str) -> bool:
        """Called for what is no call to a cloud, such as a mail, after it was taken; whether the answer is lost."""
        if self._strikes(action, "after"):
            self._kill()
        return self._strikes(action, "lost")

    def _strikes(self, action: str, how: str) -> bool:
        with self.lock:
            one = self.accident
            if one is None or one.happened or one.how != how or not re.fullmatch(one.action, action):
                return False
            one.skip -= 1
            if one.skip >= 0:
                return False
            one.happened = f"{how} {action}"
            return True

    def _kill(self) -> None:
        if pid := self.victim():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class _AwsTime(AwsWorld):
    """A world whose clock is the play's."""

    clock: Clock

    @property
    def now(self) -> datetime:
        return self.clock.now


class _AzureTime(AzureWorld):
    """A world whose clock is the play's."""

    clock: Clock

    @property
    def now(self) -> datetime:
        return self.clock.now


class Aws(AwsServer):
    """The simulated AWS, DynamoDB and S3 included."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self.wire = wire
        self.world = _AwsTime(settle_after=SETTLES)
        self.world.clock = wire.clock
        self._here = threading.local()

    def _answer(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        self._here.environ = environ
        return super()._answer(environ, start)

    def _own(self, call: Call, faults: list[Fault]) -> AwsReply | None:
        self.wire.arrives(call.action, str(call.params))
        reply = super()._own(call, faults)
        self._here.call = call
        if reply and self._note(call, reply):
            _hang_up(self._here.environ)
        return reply

    def _from_moto(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        body = super()._from_moto(environ, start)
        call = getattr(self._here, "call", None)
        if call and self._note(call, None):
            _hang_up(environ)
        return body

    def _note(self, call: Call, reply: AwsReply | None) -> bool:
        refused = f"{reply.status} {reply.body[:300]!r}" if reply and reply.status >= 400 else None
        reading = call.operation.startswith(READING)
        return self.wire.carried(
            Change(
                when=self.wire.clock.now,
                cloud="aws",
                action=call.action,
                what=_name_of(call.params),
                parameters=call.params,
                refused=refused,
                command=self.wire.command,
            ),
            reading,
        )


class Azure(AzureServer):
    """The simulated Azure."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self.wire = wire
        self.world = _AzureTime()
        self.world.clock = wire.clock

    def _checked(self, request: Request, route: Route | None) -> AzureReply | None:  # type: ignore[override]
        self.wire.arrives(request.action, request.path)
        reply: AzureReply | None = None
        try:
            reply = super()._checked(request, route)
        finally:
            lost = self.wire.carried(
                Change(
                    when=self.wire.clock.now,
                    cloud="azure",
                    action=request.action,
                    what=request.path,
                    parameters=request.body,
                    refused=None if reply and reply.status < 400 else "refused",
                    command=self.wire.command,
                ),
                not request.mutation,
            )
        return None if lost else reply


def _name_of(params: Any) -> str:
    names = (
        "EndpointName",
        "NotebookInstanceName",
        "InferenceComponentName",
        "EndpointConfigName",
        "AppName",
        "TableName",
        "ResourceId",
    )
    return next((str(params[name]) for name in names if isinstance(params, dict) and params.get(name)), "")
