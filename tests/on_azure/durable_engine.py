"""The Durable extension without the .NET host: it keeps a run's history, has the real SDK replay it, and starts what the replay asks for.

Activities run in threads. The clock stands still while any of them can still end, then jumps to the next timer. Every replay must ask for what
the earlier ones asked for, or the run is not deterministic. The client reaches the engine as in Azure, over HTTP on loopback.
https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-orchestrations
"""

from __future__ import annotations

import http.server
import json
import queue
import re
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

STARTED, COMPLETED = 12, 13
EXECUTION_STARTED, TASK_SCHEDULED, TASK_COMPLETED, TASK_FAILED, TIMER_CREATED, TIMER_FIRED = 0, 4, 5, 6, 10, 11
CALL_ACTIVITY, CREATE_TIMER = 0, 5
UNDER_WAY = {"Running", "Pending"}
SYSTEM_KEY = "the-system-key"
Json = dict[str, Any]


class NotDeterministicError(Exception):
    """A replay asked for something else than an earlier one."""


@dataclass
class Instance:
    """One instance of an orchestration. `asked`: what its replays asked for, in order. `largest`: characters of its largest payload."""

    id: str
    name: str
    given: str
    version: str
    created: datetime
    status: str = "Pending"
    output: Any = None
    custom_status: Any = None
    history: list[Json] = field(default_factory=list)
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    left_timers: int = 0
    largest: int = 0
    reason: str = ""


@dataclass
class Engine:
    """Runs instances of orchestrations, one ID at a time.

    `replay(name, context)` is the orchestrator's function, `activities(name, input)` runs one. `faults` are what happens to an activity's next
    tries, by name and item: `hang` (it never ends), `twin` (a second one runs beside it) or `crash` (its worker dies, it is failed).
    `after(name, count)` is called after each activity.
    """

    replay: Callable[[str, str], str]
    activities: Callable[[str, str], str]
    version: str = "2"
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    faults: dict[tuple[str, int | None], list[str]] = field(default_factory=dict)
    after: Callable[[str, int], None] = lambda name, count: None
    instances: dict[str, Instance] = field(default_factory=dict)
    calls: list[tuple[str, Json]] = field(default_factory=list)
    purged: list[Json] = field(default_factory=list)
    most_at_once: int = 0
    threads: list[threading.Thread] = field(default_factory=list)

    def start(self, name: str, instance_id: str, given: str) -> Instance | None:
        """A new instance, which does not run yet. None while one with that ID is under way."""
        known = self.instances.get(instance_id)
        if known and known.status in UNDER_WAY:
            return None
        self.instances[instance_id] = Instance(instance_id, name, given, self.version, self.now)
        return self.instances[instance_id]

    def run(self, instance_id: str) -> Instance:
        """Run the instance to its end."""
        instance = self.instances[instance_id]
        run = _Run(self, instance)
        while instance.status in UNDER_WAY:
            run.step()
        return instance

    def settle(self) -> None:
        """Wait for the activities whose results the run did not wait for."""
        for thread in self.threads:
            thread.join(timeout=60)

    def input_of(self, instance_id: str) -> Any:
        """What the instance was started with."""
        return json.loads(self.instances[instance_id].given)


class _Run:
    def __init__(self, engine: Engine, instance: Instance) -> None:
        self.engine, self.instance = engine, instance
        self.ended: queue.Queue[tuple[int, bool, str]] = queue.Queue()
        self.running: dict[int, bool] = {}
        self.timers: dict[int, datetime] = {}
        self.actions: list[Json] = []
        self.count = 0
        self._event(STARTED)
        instance.status = "Running"
        self._event(EXECUTION_STARTED, Name=instance.name, Version=instance.version, Input=instance.given, Tags=None)

    def step(self) -> None:
        """One replay, and then the wait for the next event."""
        try:
            state = json.loads(self.engine.replay(self.instance.name, json.dumps(self._context())))
        except NotDeterministicError:
            raise
        except Exception as error:  # noqa: BLE001 (whatever an orchestrator raises fails its instance)
            text, _, data = str(error).partition("\n\n$OutOfProcData$:")
            self._schedule(
                [each for group in json.loads(data or '{"actions": []}')["actions"] for one in group for each in _atoms(one)]
            )
            return self._end("Failed", text)
        self.instance.custom_status = state.get("customStatus")
        self._schedule([action for group in state["actions"] for each in group for action in _atoms(each)])
        if self.instance.status != "Running":
            return None
        if state["isDone"]:
            return self._end("Completed", state.get("output"))
        self._event(COMPLETED)
        self._wait()
        return None

    def _end(self, status: str, output: Any) -> None:
        open_timers = [i for i, action in enumerate(self.actions) if i in self.timers and not action.get("isCanceled")]
        self.instance.left_timers = len(open_timers)
        self.instance.status, self.instance.output = status, output

    def _context(self) -> Json:
        return {
            "instanceId": self.instance.id,
            "isReplaying": False,
            "parentInstanceId": None,
            "input": self.instance.given,
            "history": self.instance.history,
            "upperSchemaVersion": 1,
            "upperSchemaVersionNew": 2,
            "maximumShortTimerDuration": "6.00:00:00",
            "longRunningTimerIntervalDuration": "3.00:00:00",
        }

    def _schedule(self, actions: list[Json]) -> None:
        wanted = [_identity(action) for action in actions]
        if wanted[: len(self.instance.asked)] != self.instance.asked:
            raise NotDeterministicError(f"asked for {wanted}, and before for {self.instance.asked}")
        for number in range(len(self.instance.asked), len(actions)):
            self._begin(number, actions[number])
        self.actions, self.instance.asked = actions, wanted

    def _begin(self, number: int, action: Json) -> None:
        if action["actionType"] == CREATE_TIMER:
            self.timers[number] = datetime.fromisoformat(action["fireAt"])
            return self._event(TIMER_CREATED, number, FireAt=action["fireAt"])
        name, given = action["functionName"], action["input"]
        self.instance.largest = max(self.instance.largest, len(given))
        self._event(TASK_SCHEDULED, number, Name=name, Version="", Input=given)
        item = json.loads(given).get("item")
        faults = self.engine.faults.get((name, item)) or []
        fault = faults.pop(0) if faults else ""
        self.engine.calls.append((name, json.loads(given)))
        self.running[number] = fault == "hang"
        self.engine.most_at_once = max(self.engine.most_at_once, len(self.running))
        for twin in range({"hang": 0, "twin": 2}.get(fault, 1)):
            target = self._crash if fault == "crash" else self._work
            thread = threading.Thread(target=target, args=(number, name, given, twin), daemon=True)
            self.engine.threads.append(thread)
            thread.start()
        return None

    def _work(self, number: int, name: str, given: str, twin: int) -> None:
        try:
            result = (number, True, self.engine.activities(name, given))
        except BaseException as error:  # noqa: BLE001 (whatever an activity raises fails its task)
            result = (number, False, f"{type(error).__name__}: {error}")
        self.ended.put(result)

    def _crash(self, number: int, name: str, given: str, twin: int) -> None:
        self.ended.put((number, False, "the worker process exited"))

    def _wait(self) -> None:
        while any(not hangs for hangs in self.running.values()):
            number, succeeded, text = self.ended.get(timeout=120)
            if number not in self.running:
                continue  # a twin's second result
            del self.running[number]
            self.engine.now += timedelta(seconds=1)
            self._event(STARTED)
            kind = {"Result": text} if succeeded else {"Reason": text, "Details": ""}
            self._event(TASK_COMPLETED if succeeded else TASK_FAILED, TaskScheduledId=number, **kind)
            self.instance.largest = max(self.instance.largest, len(text))
            self.count += 1
            return self.engine.after(self.actions[number]["functionName"], self.count)
        pending = {i: at for i, at in self.timers.items() if not self.actions[i].get("isCanceled")}
        if not pending:
            raise AssertionError("the run waits for nothing")
        number = min(pending, key=lambda each: (pending[each], each))
        self.engine.now = max(self.engine.now, self.timers.pop(number))
        self._event(STARTED)
        self._event(TIMER_FIRED, TimerId=number, FireAt=self.actions[number]["fireAt"])
        return None

    def _event(self, kind: int, number: int = -1, **facts: Any) -> None:
        at = f"{self.engine.now.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        self.instance.history.append({"EventType": kind, "EventId": number, "IsPlayed": False, "Timestamp": at, **facts})


def _atoms(action: Json) -> Iterator[Json]:
    if "compoundActions" in action:
        for each in action["compoundActions"]:
            yield from _atoms(each)
    else:
        yield action


def _identity(action: Json) -> tuple[Any, ...]:
    return action["actionType"], action.get("functionName"), action.get("input"), action.get("fireAt")


def client_binding(url: str) -> str:
    """What the host passes to a function that has a durable client: addresses with the system key, and the local one without."""
    address = f"https://reaper.azurewebsites.net/runtime/webhooks/durabletask/instances/INSTANCE?taskHub=hub&code={SYSTEM_KEY}"
    names = ("statusQueryGetUri", "sendEventPostUri", "terminatePostUri", "purgeHistoryDeleteUri", "restartPostUri")
    urls = {"id": "INSTANCE", **dict.fromkeys(names, address)}
    return json.dumps({"taskHubName": "hub", "creationUrls": {}, "managementUrls": urls, "rpcBaseUrl": f"{url}/durabletask/"})


def serve(engine: Engine) -> http.server.ThreadingHTTPServer:
    """The extension's local endpoint, on a free port of loopback."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Nothing."""

        def answer(self) -> None:
            url = urllib.parse.urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            query = dict(urllib.parse.parse_qsl(url.query))
            status, reply = _answer(engine, self.command, url.path.removeprefix("/durabletask/"), query, body)
            text = json.dumps(reply).encode() if reply is not None else b""
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_DELETE = answer

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    return server


def _answer(engine: Engine, method: str, path: str, query: Json, body: str) -> tuple[int, Any]:
    if match := re.fullmatch(r"orchestrators/(\w+)/(\w+)", path):
        # The SDK sends its JSON as a JSON text; the host takes one of the two layers off.
        if engine.start(match[1], match[2], json.loads(body)) is None:
            return 500, f"An Orchestration instance with the status Running already exists: {match[2]}"
        return 202, {"id": match[2]}
    if match := re.fullmatch(r"instances/(\w+)/terminate", path):
        instance = engine.instances[match[1]]
        instance.status, instance.output, instance.reason = "Terminated", query["reason"], query["reason"]
        return 202, None
    if method == "DELETE" and path == "instances/":
        engine.purged.append(query)
        return 200, {"instancesDeleted": 0}
    if match := re.fullmatch(r"instances/(\w+)", path):
        instance = engine.instances.get(match[1])
        return (404, {}) if instance is None else (202 if instance.status in UNDER_WAY else 200, _shown(instance, query))
    return 404, None


def _shown(instance: Instance, query: Json) -> Json:
    at = f"{instance.created.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    shown = {
        "name": instance.name,
        "instanceId": instance.id,
        "createdTime": at,
        "lastUpdatedTime": at,
        "output": instance.output,
        "runtimeStatus": instance.status,
        "customStatus": instance.custom_status,
        "historyEvents": None,
    }
    return shown | ({"input": instance.given} if query.get("showInput") else {})
