"""What can go wrong with a request, and when: faults, and the guards that choose them.

server.rules.append(on("GET", r".*/computes", throttled(3), times=2))
server.rules.append(on("POST", r".*/metrics:getBatch", garbage()))
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from reaper_sandbox.azure import refusal
from reaper_sandbox.azure.request import Reply, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`delay` seconds first; then the connection is `closed`, or `answer` replaces the true reply, or the true reply is made and `lost`.

    With both `lost` and `answer` the request is carried out, and `answer` is what the caller gets.
    """

    delay: float = 0.0
    closed: bool = False
    lost: bool = False
    answer: Callable[[Request], Reply] | None = None

    @property
    def final(self) -> bool:
        """Whether the true reply is never made."""
        return self.closed or (self.answer is not None and not self.lost)


Guard = Callable[[Request], Fault | None]
"""Asked before the request is answered; None lets it pass. Guards are asked in order until one gives a final fault."""


def denied(action: str | None = None, scope: str | None = None) -> Fault:
    """403 AuthorizationFailed; left out, action and scope are the request's own. `rights.deny` chooses by them instead of by path."""
    return Fault(answer=lambda r: refusal.unauthorized(action or r.action, scope or r.scope).reply)


def throttled(retry_after: int = 1) -> Fault:
    """429 with Retry-After in seconds."""
    return Fault(answer=lambda r: refusal.throttled(retry_after).reply)


def error(status: int = 500, code: str = "InternalServerError", message: str = "Something went wrong on our side.") -> Fault:
    """An error of any sort."""
    return Fault(answer=lambda r: refusal.refused(status, code, message).reply)


def latency(seconds: float) -> Fault:
    """A slow answer, otherwise the true one."""
    return Fault(delay=seconds)


def garbage() -> Fault:
    """HTTP 200 with a body that is not JSON."""
    return Fault(answer=lambda r: Reply(body=b"<html><body>It works, but not as you think.</body></html>"))


def empty() -> Fault:
    """HTTP 200 with `{}`."""
    return Fault(answer=lambda r: Reply(body={}))


def cut() -> Fault:
    """The connection is closed without a reply."""
    return Fault(closed=True)


def lost() -> Fault:
    """The request is carried out, and the connection is closed without its reply."""
    return Fault(lost=True)


def carried_out(fault: Fault) -> Fault:
    """The request is carried out, although the caller gets the reply of `fault`, such as an error."""
    return replace(fault, lost=True, closed=False)


def on(method: str, path: str, fault: Fault, *, times: int | None = None) -> Guard:
    """A guard that gives `fault` to requests whose method and whole path match the patterns, `times` times at most. Case does not matter."""
    methods, paths = re.compile(method, re.I), re.compile(path, re.I)
    remaining = [times]
    lock = threading.Lock()

    def guard(request: Request) -> Fault | None:
        if not methods.fullmatch(request.method) or not paths.fullmatch(request.path):
            return None
        with lock:
            if remaining[0] == 0:
                return None
            remaining[0] = remaining[0] - 1 if remaining[0] is not None else None
        return fault

    return guard
