"""The template's state machine under moto's interpreter, on the sandbox's server, with our own handlers as its functions.

What the interpreter asks of Lambda and S3 comes over the wire with a key of its own, as the machine's role would. It knows no tolerated
failures, and writes no results of a map but an empty manifest.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto.core.config import default_user_config
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl

from deploy import policies
from deploy.test_template import NAMES
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault
from reaper_sandbox.aws.reply import Reply
from reaper_sandbox.aws.server import Server

MACHINE_KEY = "ak"
"""The access key that moto's interpreter signs with."""
Function = Callable[[dict[str, Any]], Any]


class FunctionFailed(Exception):
    """The function ended without an answer, as Lambda reports it: `Sandbox.Timedout`, `Runtime.ExitError`."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


@dataclass(slots=True, kw_only=True)
class Workflow:
    """One state machine. `functions`: the handler of each function's ARN; `events` is what they were called with."""

    arn: str
    functions: dict[str, Function]
    outputs: dict[tuple[str, str], dict[int, dict[str, Any]]] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)

    def start(self, options: Mapping[str, Any] | None = None, name: str | None = None) -> str:
        """Start an execution; gives its ARN."""
        reply = boto3.client("stepfunctions").start_execution(
            stateMachineArn=self.arn, input=json.dumps(options or {}), name=name or str(uuid.uuid4())
        )
        return str(reply["executionArn"])

    def wait(self, execution: str, seconds: float = 120) -> dict[str, Any]:
        """What has become of an execution; its output is parsed."""
        until = time.monotonic() + seconds
        client = boto3.client("stepfunctions")
        while (found := client.describe_execution(executionArn=execution))["status"] == "RUNNING":
            assert time.monotonic() < until, f"{execution} is still running"
            time.sleep(0.1)
        return {**found, "output": json.loads(found.get("output") or "null")}

    def run(self, options: Mapping[str, Any] | None = None, name: str | None = None) -> dict[str, Any]:
        """Start an execution and wait for its end."""
        return self.wait(self.start(options, name))

    def replace(self, name: str, function: Function) -> None:
        """Another handler for the function of that logical name."""
        self.functions[NAMES[f"{name}.Arn"]] = function

    def phases(self) -> list[str]:
        """The phases that were called, in order."""
        return [event["phase"] for event in self.events]

    def __call__(self, call: Call) -> Fault | None:
        """A rule of the sandbox's server: it answers the calls of functions."""
        if (call.service, call.operation) != ("lambda", "Invoke"):
            return None
        return Fault(answer=self._invoke)

    def _invoke(self, call: Call) -> Reply:
        event = {key: value for key, value in call.params.items() if key != "FunctionName"}
        self.events.append(event)
        if event.get("results"):
            self._write_results(event)
        error, output = None, {}
        try:
            output = self.functions[call.params["FunctionName"]](event)
        except FunctionFailed as failed:
            error = {"errorType": failed.error, "errorMessage": str(failed)}
        except Exception as raised:  # noqa: BLE001  (whatever it is, Lambda reports it so)
            error = {"errorType": type(raised).__name__, "errorMessage": str(raised)}
        if "item" in event:
            caught = {"item": event["item"], "Error": error["errorType"], "Cause": json.dumps(error)} if error else output
            self.outputs.setdefault((event["run"], event["phase"]), {})[event["item"]] = caught
        headers = {"Content-Type": "application/json"} | ({"x-amz-function-error": "Unhandled"} if error else {})
        return Reply(headers=headers, body=json.dumps(error or output).encode())

    def _write_results(self, event: Mapping[str, Any]) -> None:
        """What AWS writes beside the manifest, where the interpreter leaves empty lists: input and output are JSON texts."""
        details = event["results"]["ResultWriterDetails"]
        outputs = self.outputs.get((event["run"], {"decide": "observe", "conclude": "act"}[event["phase"]]), {})
        key = details["Key"].replace("manifest.json", "SUCCEEDED_0.json")
        records = [{"Status": "SUCCEEDED", "Input": "{}", "Output": json.dumps(output)} for output in outputs.values()]
        files = {"SUCCEEDED": [{"Key": key, "Size": 1}], "FAILED": [], "PENDING": []}
        for name, content in ((key, records), (details["Key"], {"DestinationBucket": details["Bucket"], "ResultFiles": files})):
            boto3.client("s3").put_object(Bucket=details["Bucket"], Key=name, Body=json.dumps(content).encode())


def item_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """What the map read for the item whose number a phase gets: its account, and its region or regions."""
    key = f"runs/{event['run']}/{'items' if event['phase'] == 'observe' else 'act-items'}.json"
    items = json.loads(boto3.client("s3").get_object(Bucket="reports-bucket", Key=key)["Body"].read())
    return dict(items[event["item"]])


def definition(cloudformation: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """The state machine's definition as CloudFormation resolves it."""
    properties = cloudformation["Resources"]["Workflow"]["Properties"]
    known = {**NAMES, "MaxConcurrency": "10", **names}
    text, values = (policies.resolve(properties[name], known) for name in ("DefinitionString", "DefinitionSubstitutions"))
    resolved: dict[str, Any] = json.loads(re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], text))
    return resolved


@contextmanager
def deployed(
    server: Server, cloudformation: Mapping[str, Any], functions: Mapping[str, Function], width: int = 10
) -> Iterator[Workflow]:
    """The state machine in the sandbox. `functions`: the handlers by logical name. `width`: most items at the same time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTO_PORT", server.url.rpartition(":")[2])
        patch.setitem(default_user_config["stepfunctions"], "execute_state_machine", True)
        # As long between two attempts as the SDKs wait in these tests.
        patch.setattr(retrier_decl, "time", SimpleNamespace(sleep=lambda seconds: time.sleep(seconds / 50)))
        role = "arn:aws:iam::123456789012:role/workflow"
        reply = boto3.client("stepfunctions").create_state_machine(
            name="ml-idle-reaper-sweep",
            definition=json.dumps(definition(cloudformation, MaxConcurrency=str(width))),
            roleArn=role,
        )
        workflow = Workflow(arn=reply["stateMachineArn"], functions={NAMES[f"{name}.Arn"]: f for name, f in functions.items()})
        server.rules.append(workflow)
        yield workflow
