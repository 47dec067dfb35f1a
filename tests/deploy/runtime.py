"""A Lambda Runtime API on loopback that drives AWS's real runtime client (`awslambdaric`) over a built bundle.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

from __future__ import annotations

import http.server
import json
import os
import queue
import subprocess
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ARN = "arn:aws:lambda:us-east-1:123456789012:function:ml-idle-reaper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What came of one event: the answer or the error, seconds, the log so far, and the peak memory in megabytes."""

    answer: Any = None
    error: dict[str, Any] | None = None
    seconds: float = 0.0
    init_seconds: float = 0.0
    log: str = ""
    peak_mb: float = 0.0


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Nothing: the runtime polls all the time."""

    def do_GET(self) -> None:
        runtime: Runtime = self.server.runtime  # type: ignore[attr-defined]
        runtime.ready.set()
        job = runtime.jobs.get()
        if job is None:
            self._answer(410, b"{}")
            return
        identity, event, deadline = job
        headers = {"Request-Id": identity, "Deadline-Ms": str(deadline), "Invoked-Function-Arn": ARN}
        self._answer(
            200, event, {("Lambda-Runtime-Aws-" if k == "Request-Id" else "Lambda-Runtime-") + k: v for k, v in headers.items()}
        )

    def do_POST(self) -> None:
        body = (
            self._chunks()
            if self.headers.get("Transfer-Encoding") == "chunked"
            else self.rfile.read(int(self.headers["Content-Length"] or 0))
        )
        self.server.runtime.answers.put((self.path, body))  # type: ignore[attr-defined]
        self._answer(202, b"{}")

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": "application/json", "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class Runtime:
    """One sandbox: the runtime client in a process of its own, ours only the API that it polls."""

    def __init__(self, python: Path, libraries: Path, bundle: Path, handler: str, environ: dict[str, str]) -> None:
        self.jobs: queue.Queue[tuple[str, bytes, int] | None] = queue.Queue()
        self.answers: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.ready = threading.Event()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.runtime = self  # type: ignore[attr-defined]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self._log = tempfile.TemporaryFile("w+b")  # noqa: SIM115  (lives as long as the process that writes it)
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            [python, "-m", "awslambdaric", handler],
            cwd=bundle,
            env=self._environ(libraries, bundle, handler) | environ,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def _environ(self, libraries: Path, bundle: Path, handler: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "TZ": ":UTC",
            "LANG": "en_US.UTF-8",
            "PYTHONPATH": f"{bundle}{os.pathsep}{libraries}",
            "LAMBDA_TASK_ROOT": str(bundle),
            "_HANDLER": handler,
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._server.server_port}",
            "AWS_LAMBDA_FUNCTION_NAME": "ml-idle-reaper",
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
            "AWS_LAMBDA_LOG_FORMAT": "JSON",
        }

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *args: object) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._server.shutdown()
        self._server.server_close()

    def invoke(self, event: Any, seconds: float = 120) -> Invocation:
        """Hand one event to the function and wait for what comes of it."""
        while not self.ready.wait(0.02):
            if self._process.poll() is not None or not self.answers.empty():
                break
        init = time.monotonic() - self._started
        began = time.monotonic()
        self.jobs.put((str(uuid.uuid4()), json.dumps(event).encode(), int((time.time() + seconds) * 1000)))
        path, body = self.answers.get(timeout=seconds)
        answer = json.loads(body or b"null")
        succeeded = path.endswith("/response")
        return Invocation(
            answer=answer if succeeded else None,
            error=None if succeeded else answer,
            seconds=time.monotonic() - began,
            init_seconds=init,
            log=self._read_log(),
            peak_mb=self._peak_mb(),
        )

    def kill(self) -> None:
        """End the process in the middle of what it does, as Lambda reports it."""
        self._process.kill()
        error = {"errorType": "Runtime.ExitError", "errorMessage": "Error: Runtime exited with error: signal: killed"}
        self.answers.put(("/killed", json.dumps(error).encode()))

    def _read_log(self) -> str:
        self._log.seek(0)
        text = self._log.read().decode(errors="replace")
        self._log.seek(0, os.SEEK_END)
        return text

    def _peak_mb(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status")
        lines = status.read_text().splitlines() if status.exists() else []
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)
