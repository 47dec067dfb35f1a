"""What can go wrong with a call, and when: faults, and the guards that choose them.

    server.rules.append(on("ListEndpoints", denied()))
    server.rules.append(on("GetMetricData", throttled(), times=2, region="eu-west-1"))
    server.rules.append(rate_limit(5, burst=5))

Texts and codes: https://docs.aws.amazon.com/sagemaker/latest/APIReference/CommonErrors.html
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from reaper_sandbox.aws import reply
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.reply import Refusal, Reply

Rewrite = Callable[[Call, dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`delay` seconds first; then the connection is `closed`, or `answer` replaces the reply, or `rewrite` edits the sandbox's own.

    `lost`: the call is carried out, and then `answer` replaces the reply, or the connection is closed.
    """

    delay: float = 0.0
    closed: bool = False
    lost: bool = False
    answer: Callable[[Call], Reply] | None = None
    rewrite: Rewrite | None = None

    @property
    def final(self) -> bool:
        """Whether the real reply is never made."""
        return self.closed or (self.answer is not None and not self.lost)


Guard = Callable[[Call], Fault | None]
"""Asked before the call is answered; None lets it pass. Guards are asked in order until one gives a final fault."""


def denied(action: str | None = None, resource: str | None = None, policy: str = "identity-based") -> Fault:
    """Access denied. `action` and `resource` go into the message; left out, they are the call's own action, and none. `policy`: the sort that
    doesn't allow it.
    """

    def answer(call: Call) -> Reply:
        name = action or call.action
        who = f"arn:aws:sts::{call.account}:assumed-role/reaper/x"
        where = f" on resource: {resource}" if resource else ""
        text = f"User: {who} is not authorized to perform: {name}{where} because no {policy} policy allows the {name} action"
        return reply.refusal(call, Refusal(*_denial(call, text)))

    return Fault(answer=answer)


def without(action: str) -> Guard:
    """A guard that takes one IAM action away, such as `sagemaker:ListEndpoints`."""

    def guard(call: Call) -> Fault | None:
        return denied() if call.action == action else None

    return guard


def throttled() -> Fault:
    """Too many requests, in the service's own words. SDKs try again."""

    def answer(call: Call) -> Reply:
        code, status = {
            "query": ("Throttling", 400),
            "ec2": ("RequestLimitExceeded", 503),
            "rest-xml": ("SlowDown", 503),
            "rest-json": ("TooManyRequestsException", 429),
        }.get(call.protocol, ("Throttling" if call.service == "cloudwatch" else "ThrottlingException", 400))
        return reply.refusal(call, Refusal(code, "Rate exceeded", status))

    return Fault(answer=answer)


def error(status: int = 500, code: str | None = None, message: str = "Something went wrong on our side.") -> Fault:
    """An error of any sort. SDKs try again from status 500 on."""
    name = code or {500: "InternalFailure", 503: "ServiceUnavailable"}.get(status, "ValidationException")
    return Fault(answer=lambda call: reply.refusal(call, Refusal(name, message, status)))


def latency(seconds: float) -> Fault:
    """A slow answer, otherwise the true one."""
    return Fault(delay=seconds)


def cut() -> Fault:
    """The connection is closed without a reply. SDKs try again."""
    return Fault(closed=True)


def lost() -> Fault:
    """The call is carried out and its reply lost. SDKs try again, and get the service's answer to a call that was made before."""
    return Fault(lost=True)


def carried_out(fault: Fault) -> Fault:
    """The call is carried out all the same, and then its reply is that of `fault`."""
    return replace(fault, lost=True, closed=False)


def garbage() -> Fault:
    """HTTP 200 with a body that does not parse."""
    return Fault(answer=reply.garbage)


def empty() -> Fault:
    """HTTP 200 with `{}`."""
    return Fault(answer=reply.nothing)


def partial(metric: str = ".*") -> Fault:
    """For GetMetricData: results of metrics that match become PartialData, with half of their values and a message."""

    def cut_short(row: dict[str, Any]) -> dict[str, Any]:
        half = len(row["Values"]) // 2
        messages = [{"Code": "InternalError", "Value": "Not all data points could be read."}]
        short = {"Timestamps": row["Timestamps"][:half], "Values": row["Values"][:half]}
        return row | short | {"StatusCode": "PartialData", "Messages": messages}

    return Fault(rewrite=_results(metric, cut_short))


def forbidden(metric: str = ".*") -> Fault:
    """For GetMetricData: results of metrics that match come back without values and with the status Forbidden."""

    def hidden(row: dict[str, Any]) -> dict[str, Any]:
        messages = [{"Code": "Forbidden", "Value": "Access to the metric is not allowed."}]
        return row | {"Timestamps": [], "Values": [], "StatusCode": "Forbidden", "Messages": messages}

    return Fault(rewrite=_results(metric, hidden))


def on(operation: str, fault: Fault, *, times: int | None = None, region: str | None = None, service: str | None = None) -> Guard:
    """A guard that gives `fault` to operations whose whole name matches the pattern, `times` times at most."""
    pattern = re.compile(operation)
    remaining = [times]
    lock = threading.Lock()

    def guard(call: Call) -> Fault | None:
        if not pattern.fullmatch(call.operation) or region not in (None, call.region) or service not in (None, call.service):
            return None
        with lock:
            if remaining[0] == 0:
                return None
            remaining[0] = remaining[0] - 1 if remaining[0] is not None else None
        return fault

    return guard


def rate_limit(per_second: float, burst: int = 1, operation: str = ".*", clock: Callable[[], float] = time.monotonic) -> Guard:
    """A token bucket: what matches beyond `burst` at once and `per_second` over time is throttled. `clock` gives seconds."""
    pattern = re.compile(operation)
    tokens, last_call = float(burst), clock()
    lock = threading.Lock()

    def guard(call: Call) -> Fault | None:
        nonlocal tokens, last_call
        if not pattern.fullmatch(call.operation):
            return None
        with lock:
            at = clock()
            tokens, last_call = min(float(burst), tokens + (at - last_call) * per_second), at
            if tokens < 1:
                return throttled()
            tokens -= 1
        return None

    return guard


def _denial(call: Call, text: str) -> tuple[str, str, int]:
    if call.service == "sns":
        return "AuthorizationError", text, 403
    if call.protocol == "ec2":
        return "UnauthorizedOperation", text, 403
    if call.protocol in ("query", "rest-xml") or call.service == "cloudwatch":
        return "AccessDenied", text, 403
    return "AccessDeniedException", text, 403 if call.protocol == "rest-json" else 400


def _results(metric: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Rewrite:
    pattern = re.compile(metric)

    def rewrite(call: Call, data: dict[str, Any]) -> dict[str, Any]:
        queries = call.params.get("MetricDataQueries", ())
        names = {q["Id"]: q["MetricStat"]["Metric"]["MetricName"] for q in queries if "MetricStat" in q}
        rows = data.get("MetricDataResults", ())
        return data | {"MetricDataResults": [change(r) if pattern.fullmatch(names.get(r["Id"], "")) else r for r in rows]}

    return rewrite
