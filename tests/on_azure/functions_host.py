"""A Functions host on loopback that drives Microsoft's own worker library, `azure-functions-runtime`, which needs Python 3.13 or newer.

    python3.13 functions_host.py APP_FOLDER      prints its address, then serves until its standard input ends

`/api/<route>` calls an HTTP function; `/admin/functions` lists what was indexed; `POST /admin/functions/<name>` runs a timer now, with
`{"past_due": true}` as a late one, and `POST /admin/run` runs the instance of the orchestration to its end. The messages that the worker
expects as protobuf are stand-ins with the same attributes. What only the real host does is not here: schedules, leases, `%SETTING%`, scaling.
"""

from __future__ import annotations

import asyncio
import http.server
import json
import logging
import os
import re
import sys
import threading
import types
import urllib.parse
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from on_azure import durable_engine

KEY = "host-key"
LIMIT = 120
"""Seconds for one call of a function."""


class Message:
    """A protobuf message as the worker sees one: a field that was not set reads as None."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "TypedData":
            raise AttributeError(name)
        return None

    def WhichOneof(self, group: str) -> str | None:
        """The one field of a union that is set."""
        if group == "rpc_data":
            return "data" if "data" in self.__dict__ else None
        return next((name for name, value in self.__dict__.items() if value is not None), None)


def _sort(name: str, **constants: Any) -> type[Message]:
    return type(name, (Message,), constants)


PLAIN = [
    "FunctionEnvironmentReloadResponse",
    "FunctionLoadResponse",
    "FunctionMetadataResponse",
    "InvocationResponse",
    "NullableBool",
    "NullableDouble",
    "NullableString",
    "NullableTimestamp",
    "ParameterBinding",
    "RpcException",
    "RpcFunctionMetadata",
    "RpcHttp",
    "RpcRetryOptions",
    "TypedData",
    "WorkerInitResponse",
    "WorkerMetadata",
]
DIRECTIONS = {"in": 0, "out": 1, "inout": 2, "undefined": 0, "string": 1, "binary": 2, "stream": 3}
SAME_SITE = type("SameSite", (), {"None": 0, "Lax": 1, "Strict": 2, "ExplicitNone": 3})
protos = types.SimpleNamespace(
    BindingInfo=_sort("BindingInfo", **DIRECTIONS),
    RpcHttpCookie=_sort("RpcHttpCookie", SameSite=SAME_SITE),
    StatusResult=_sort("StatusResult", Failure=0, Success=1, Cancelled=2),
    **{name: _sort(name) for name in PLAIN},
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one call: the HTTP message or the text it returned, if any, or the error."""

    http: Any = None
    error: str | None = None
    text: str = ""


class Host:
    """One indexed app. Raises RuntimeError where the worker refuses it."""

    def __init__(self, folder: Path) -> None:
        settings = json.loads((folder / "host.json").read_text())
        self.prefix = settings.get("extensions", {}).get("http", {}).get("routePrefix", "api")
        self.functions: dict[str, Any] = {}
        self.bindings: dict[str, list[dict[str, Any]]] = {}
        self.engine = durable_engine.Engine(self._replay, self._activity)
        server = durable_engine.serve(self.engine)
        self.binding = durable_engine.client_binding(f"http://127.0.0.1:{server.server_port}")
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._start(folder)

    def trigger(self, name: str) -> dict[str, Any]:
        """The binding that starts a function."""
        return next(b for b in self.bindings[name] if b["type"].lower().endswith("trigger"))

    def call(self, name: str, data: Any) -> Outcome:
        """Run a function once with `data` as its trigger's message, and the durable client if it has one."""
        function = self.functions[name]
        clients = [b["name"] for b in self.bindings[name] if b["type"] == "durableClient"]
        inputs = [protos.ParameterBinding(name=self.trigger(name)["name"], data=data)]
        inputs += [protos.ParameterBinding(name=client, data=protos.TypedData(string=self.binding)) for client in clients]
        trace = Message(trace_parent=f"00-{uuid.uuid4().hex}-{uuid.uuid4().hex[:16]}-01", trace_state="", attributes={})
        request = Message(
            invocation_id=str(uuid.uuid4()),
            function_id=function.function_id,
            input_data=inputs,
            trigger_metadata={},
            trace_context=trace,
            retry_context=Message(retry_count=0, max_retry_count=0, exception=None),
        )
        reply = self._ask("invocation_request", invocation_request=request)
        if reply.result.status != protos.StatusResult.Success:
            return Outcome(error=reply.result.exception.message)
        value = reply.return_value
        kind = value.WhichOneof("data") if value is not None else None
        return Outcome(
            http=value.http if kind == "http" else None, text=str(getattr(value, kind)) if kind in {"json", "string"} else ""
        )

    def route(self, method: str, path: str) -> tuple[str, dict[str, str]] | None:
        """The HTTP function that answers there, and the named parts of the path."""
        for name in self.functions:
            trigger = self.trigger(name)
            wanted = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(f"/{self.prefix}/{trigger.get('route') or name}"))
            methods = [m.lower() for m in trigger.get("methods") or ("get", "post")]
            match = re.fullmatch(wanted, path.rstrip("/"), re.IGNORECASE)
            if trigger["type"] == "httpTrigger" and method.lower() in methods and match:
                return name, match.groupdict()
        return None

    def _replay(self, orchestration: str, context: str) -> str:
        [name] = [name for name in self.functions if self.trigger(name).get("orchestration") == orchestration]
        return self._text(name, protos.TypedData(string=context))

    def _activity(self, activity: str, given: str) -> str:
        [name] = [name for name in self.functions if self.trigger(name).get("activity") == activity]
        return self._text(name, protos.TypedData(json=given))

    def _text(self, name: str, data: Any) -> str:
        outcome = self.call(name, data)
        if outcome.error is not None:
            raise RuntimeError(outcome.error)
        return outcome.text

    def _start(self, folder: Path) -> None:
        sys.path.insert(0, str(folder))
        os.chdir(folder)
        import azure_functions_runtime

        self._worker = azure_functions_runtime
        self._worker.start_threadpool_executor()
        self._ask("worker_init_request", worker_init_request=Message(capabilities={}, function_app_directory=str(folder)))
        indexed = self._ask("functions_metadata_request")
        for function in indexed.function_metadata_results or ():
            self.bindings[function.name] = [json.loads(binding) for binding in function.raw_bindings]
            loading = Message(function_id=function.function_id, metadata=function)
            self._ask("function_load_request", function_load_request=loading)
            self.functions[function.name] = function
        if not self.functions:
            raise RuntimeError(f"nothing was indexed in {folder}")

    def _ask(self, what: str, **request: Any) -> Any:
        message = Message(request=Message(**request), properties={"host": "127.0.0.1", "protos": protos})
        reply = asyncio.run_coroutine_threadsafe(getattr(self._worker, what)(message), self._loop).result(LIMIT)
        result = getattr(reply, "result", None)
        if what != "invocation_request" and result is not None and result.status != protos.StatusResult.Success:
            raise RuntimeError(f"{what}: {result.exception.message}\n{result.exception.stack_trace}")
        return reply


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def host(self) -> Host:
        host: Host = self.server.host  # type: ignore[attr-defined]
        return host

    def log_message(self, *args: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        key = self.headers.get("x-functions-key") or dict(urllib.parse.parse_qsl(url.query)).get("code")
        if url.path == "/admin/functions":
            return self._reply(200, json.dumps(self.host.bindings).encode())
        if url.path == "/admin/run":
            instance = self.host.engine.run("sweep")
            return self._reply(200, json.dumps({"status": instance.status, "output": instance.output}).encode())
        if timer := re.fullmatch(r"/admin/functions/(\w+)", url.path):
            return self._run(timer[1], bool(json.loads(body or b"{}").get("past_due")))
        found = self.host.route(self.command, url.path)
        if found is None:
            return self._reply(404)
        name, params = found
        if self.host.trigger(name).get("authLevel", "function").lower() != "anonymous" and key != KEY:
            return self._reply(401)
        return self._answer(name, params, url, body)

    def _run(self, name: str, past_due: bool) -> None:
        now = datetime.now(UTC).isoformat()
        state = {
            "Schedule": {"AdjustForDST": True},
            "ScheduleStatus": {"Last": now, "Next": now, "LastUpdated": now},
            "IsPastDue": past_due,
        }
        result = self.host.call(name, protos.TypedData(json=json.dumps(state)))
        self._reply(500 if result.error else 202, (result.error or "").encode())

    def _answer(self, name: str, params: dict[str, str], url: urllib.parse.SplitResult, body: bytes) -> None:
        request = protos.RpcHttp(
            method=self.command,
            url=f"http://{self.headers.get('Host')}{self.path}",
            headers={key.lower(): value for key, value in self.headers.items()},
            params=params,
            query=dict(urllib.parse.parse_qsl(url.query)),
            body=protos.TypedData(bytes=body),
        )
        result = self.host.call(name, protos.TypedData(http=request))
        if result.error or result.http is None:
            return self._reply(500 if result.error else 204, (result.error or "").encode())
        content = result.http.body
        text = content.bytes if content.bytes is not None else (content.string or "").encode()
        return self._reply(int(result.http.status_code), text, dict(result.http.headers or {}))

    def _reply(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def main(folder: str) -> None:
    """Serve the app in `folder` until standard input ends."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.host = Host(Path(folder).resolve())  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
