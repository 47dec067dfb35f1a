"""A simulated notebook machine for the Busy script: its /proc, its Jupyter, its nvidia-smi; and the script run on it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import forks

SCRIPT = Path(__file__).parents[2] / "infra" / "busy" / "busy.py"
ARN = "arn:aws:sagemaker:us-east-1:123456789012:notebook-instance/Vision"
LONG_AGO = "2020-01-01T00:00:00Z"  # without a fraction, as Jupyter writes it now and then


@dataclass
class Loopback:
    """A web server on loopback: what it answers by path, what it was asked."""

    answers: dict[str, Any] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    def handler(self) -> type[BaseHTTPRequestHandler]:
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                loopback.requests.append((self.path, dict(self.headers), body))
                answer = loopback.answers.get(urlsplit(self.path).path, 404)
                self.send_response(answer if isinstance(answer, int) else 200)
                self.end_headers()
                self.wfile.write(answer.encode() if isinstance(answer, str) else json.dumps(answer).encode())

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                """Nothing: the requests are in `asked`."""

        return Handler


@contextmanager
def serving() -> Iterator[Loopback]:
    """A server that runs."""
    loopback = Loopback()
    http = ThreadingHTTPServer(("127.0.0.1", 0), loopback.handler())
    loopback.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield loopback
    http.shutdown()
    http.server_close()
    thread.join()


@dataclass
class Machine:
    """A notebook that rests: an idle kernel, an open and silent terminal, a waiting shell, a processor that does next to nothing."""

    folder: Path
    web: Loopback
    env: dict[str, str]
    used: int = 50_000
    boot: int = 1_700_000_000
    output: str = ""

    def __post_init__(self) -> None:
        (self.folder / "metadata.json").write_text(json.dumps({"ResourceArn": ARN, "ResourceName": "Vision"}))
        self.jupyter([kernel("idle", LONG_AGO)], [{"name": "1", "last_activity": LONG_AGO}])
        self.process(1, tty=0, session=1)
        self.process(77, tty=34816, session=77, command="-bash")
        self.works(0)

    def jupyter(self, kernels: Any, terminals: Any) -> None:
        self.web.answers |= {"/api/kernels": kernels, "/api/terminals": terminals}

    def process(self, pid: int, *, tty: int, session: int, command: str = "init", state: str = "S") -> None:
        home = self.folder / "proc" / str(pid)
        home.mkdir(parents=True)
        (home / "stat").write_text(f"{pid} (a ) name) {state} 1 {pid} {session} {tty} -1 4194304 0 0\n")
        (home / "cmdline").write_bytes(command.encode().replace(b" ", b"\0"))

    def works(self, seconds: float) -> None:
        self.used += int(seconds * os.sysconf("SC_CLK_TCK"))
        stat = f"cpu  {self.used} 0 0 999999 0 0 0 0 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\nbtime {self.boot}\n"
        (self.folder / "proc" / "stat").write_text(stat)

    def gpu(self, says: str, status: int = 0) -> None:
        (self.folder / "proc" / "driver/nvidia/gpus/0000:00:1e.0").mkdir(parents=True)
        tool = self.folder / "bin" / "nvidia-smi"
        tool.parent.mkdir()
        tool.write_text(f"#!/bin/sh\nprintf '{says}'\nexit {status}\n")
        tool.chmod(0o755)
        self.env["PATH"] = f"{tool.parent}{os.pathsep}{self.env['PATH']}"

    def five_minutes_pass(self) -> None:
        """As far as the script can tell: its last run was five minutes ago."""
        state = self.folder / "state"
        before = json.loads(state.read_text())
        state.write_text(json.dumps(before | {"at": before["at"] - 300}))

    def run(self, *more: str) -> int:
        options = ["--jupyter", self.web.url, "--metadata", self.folder / "metadata.json", "--proc", self.folder / "proc"]
        command = [str(SCRIPT), *map(str, options), "--state", str(self.folder / "state"), *more]
        completed = forks.run(command, forks.start(os.environ) | self.env, timeout=60)
        assert "Traceback" not in completed.stderr, completed.stderr
        self.output = completed.stdout
        return completed.returncode


def kernel(state: str, last: str) -> dict[str, Any]:
    return {"id": "k", "name": "python3", "last_activity": last, "execution_state": state, "connections": 1}


def iso(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
