"""The embedded AWS account over real HTTP: faults first, then the sandbox's own services, then moto for all the others.

    with Server() as server:
        os.environ.update(server.env)
        boto3.client("sagemaker").list_endpoints()
        server.calls[-1].action == "sagemaker:ListEndpoints"

moto: https://docs.getmoto.org/en/latest/docs/server_mode.html
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import cache
from types import TracebackType
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from reaper_sandbox.aws import (
    alarms,
    assumption,
    autoscaling,
    cloudwatch,
    handlers,
    iam,
    logs,
    mail_account,
    organization,
    reply,
    tagging,
)  # fmt: skip
from reaper_sandbox.aws.call import Call, Request, read
from reaper_sandbox.aws.fault import Fault, Guard
from reaper_sandbox.aws.reply import Refusal, Reply
from reaper_sandbox.aws.world import Region, World

OPERATIONS: dict[str, dict[str, Any]] = {
    **{service: handlers.operations(some) for service, some in handlers.modules().items()},
    "cloudwatch": {**cloudwatch.OPERATIONS, **alarms.OPERATIONS},
    "application-autoscaling": dict(autoscaling.OPERATIONS),
    "tag": dict(tagging.OPERATIONS),
    "logs": dict(logs.OPERATIONS),
    "iam": dict(iam.OPERATIONS),
    "ses": dict(mail_account.OPERATIONS),
    "organizations": dict(organization.OPERATIONS),
    "ec2": dict(organization.EC2_OPERATIONS),
}
"""What the sandbox answers itself, by service and operation."""

Start = Callable[..., Any]
MOTO_LOCK = threading.Lock()
"""moto's state belongs to the process, and its answers are not atomic: DynamoDB's conditional writes, for one, and the making of a backend."""


class Server:
    """One AWS on 127.0.0.1. `world` is its clock, knobs and contents; `calls` all that was asked; `rules` what goes wrong."""

    def __init__(
        self,
        now: datetime | None = None,
        *,
        settle_after: timedelta = timedelta(0),
        page_points: int = 100_800,
    ) -> None:
        self.world = World(fixed=now, settle_after=settle_after, page_points=page_points)
        self.calls: list[Call] = []
        self.rules: list[Guard] = []
        self.url = ""
        self._listener: Any = None
        self._moto: Any = None

    @property
    def now(self) -> datetime:
        """The time in the sandbox: the real one, until it is set."""
        return self.world.now

    @now.setter
    def now(self, moment: datetime | None) -> None:
        self.world.fixed = moment

    @property
    def env(self) -> dict[str, str]:
        """Environment variables that lead every AWS SDK here, and nowhere else."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "sandbox",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def __enter__(self) -> Server:
        self._moto = _moto()
        _reset()
        from reaper_sandbox.aws.wire import Listener

        self._listener = Listener(self._answer)
        self.url = self._listener.url
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._listener.stop()
        _reset()

    def _answer(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith("/moto-api"):  # moto's own dashboard and switches
            return self._from_moto(environ, start)
        request = _request(environ)
        call = read(request, _account_of)
        self.calls.append(call)
        faults = list(_faults(self.rules, call))
        for fault in faults:
            time.sleep(fault.delay)
            if fault.closed:
                _hang_up(environ)
            if fault.answer and not fault.lost:
                return _send(fault.answer(call), environ, start)
        if refused := assumption.denial(self.world, call):
            return _send(refused, environ, start)
        answer = self._answered(call, faults, environ, start)
        for fault in faults:
            if fault.lost and fault.answer:
                return _send(fault.answer(call), environ, start)
            if fault.lost:
                _hang_up(environ)
        return answer

    def _answered(self, call: Call, faults: list[Fault], environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        """The sandbox's own answer, else moto's."""
        own = self._own(call, faults)
        if own:
            return _send(own, environ, start)
        try:
            with MOTO_LOCK:
                return list(self._from_moto(environ, start))
        except NotImplementedError:  # what moto raises for an operation that it lacks
            unknown = Refusal("UnknownOperationException", f"The sandbox doesn't know {call.action}.")
            return _send(reply.refusal(call, unknown), environ, start)

    def _own(self, call: Call, faults: list[Fault]) -> Reply | None:
        """The sandbox's own answer; None for what is moto's."""
        try:
            with self.world.lock:
                data = _data(self.world, call)
        except Refusal as refused:
            return reply.refusal(call, refused)
        if data is None:
            return None
        for fault in faults:
            data = fault.rewrite(call, data) if fault.rewrite else data
        return reply.result(call, data)

    def _from_moto(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        body: Iterable[bytes] = self._moto(environ, start)
        return body


def _data(world: World, call: Call) -> dict[str, Any] | None:
    """What the sandbox answers; None for what is moto's."""
    if call.action == "sts:AssumeRole":
        return assumption.assume_role(world, call)
    handler: Callable[[Region, dict[str, Any]], dict[str, Any] | None] | None
    handler = OPERATIONS.get(call.service, {}).get(call.operation)
    return handler(world.region(call.account, call.region), call.params) if handler else None


def _moto() -> Any:
    """moto's application."""
    os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")  # hundreds of images in each region, which are never asked for
    return _application(DomainDispatcherApplication, create_backend_app)


@cache
def _application(dispatcher: Any, create: Any) -> Any:
    """One for the process, which moto's state belongs to as well."""
    return dispatcher(create)


def _reset() -> None:
    from moto.core.base_backend import BackendDict
    from moto.core.model_instances import reset_model_data

    BackendDict.reset()
    reset_model_data()


def _account_of(access_key: str) -> str:
    from moto.iam.models import get_account_id_from

    return str(get_account_id_from(access_key))


def _request(environ: dict[str, Any]) -> Request:
    """The request; its body is left for moto, too."""
    stream = environ["wsgi.input"]
    body = stream.read()
    stream.seek(0)
    headers = {key[5:].replace("_", "-").lower(): value for key, value in environ.items() if key.startswith("HTTP_")}
    return Request(
        method=environ["REQUEST_METHOD"],
        path=environ["PATH_INFO"],
        query=environ.get("QUERY_STRING", ""),
        headers=headers | {"content-type": environ.get("CONTENT_TYPE", "")},
        body=body,
    )


def _faults(rules: list[Guard], call: Call) -> Iterable[Fault]:
    for guard in tuple(rules):
        fault = guard(call)
        if fault:
            yield fault
            if fault.final:
                return


def _hang_up(environ: dict[str, Any]) -> None:
    """Close the connection without a word."""
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionAbortedError("cut by a fault")


def _send(answer: Reply, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    headers = [*answer.headers.items(), ("Content-Length", str(len(answer.body)))]
    start(f"{answer.status} {'OK' if answer.status < 400 else 'Refused'}", headers)
    return [answer.body] if environ["REQUEST_METHOD"] != "HEAD" else []
