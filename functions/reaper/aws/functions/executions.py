"""Executions of the state machine that sweeps several accounts: their start, their state, and the run that each one is.

https://docs.aws.amazon.com/step-functions/latest/apireference/API_DescribeExecution.html
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from reaper.aws.session import own_client
from reaper.errors import CloudError, SettingsError

RUN_ID = re.compile("[0-9a-f]{12}")
UNFINISHED = {"RUNNING", "PENDING_REDRIVE"}


def run_id_of(execution: str) -> str:
    """The ID of the run that an execution is, by its ARN; the same however often a step is repeated or the execution redriven."""
    name = execution.rpartition(":")[2]
    return name if RUN_ID.fullmatch(name) else hashlib.sha256(execution.encode()).hexdigest()[:12]


def start_execution(workflow: str, run_id: str, options: Mapping[str, Any]) -> str:
    """Start the state machine with these options; returns the execution's ARN. Raises SettingsError if it can't be started."""
    try:
        reply = own_client("stepfunctions", "states:StartExecution").start_execution(
            stateMachineArn=workflow, name=run_id, input=json.dumps(options)
        )
    except (ClientError, BotoCoreError, CloudError) as error:
        raise SettingsError(f"REAPER_WORKFLOW={workflow}: it can't be started: {error}") from error
    return str(reply["executionArn"])


def is_running(execution: str) -> bool:
    """Whether an execution is still under way. One whose state can't be read counts as running; its lease ends by time."""
    try:
        reply = own_client("stepfunctions", "states:DescribeExecution").describe_execution(executionArn=execution)
    except ClientError as error:
        return error.response["Error"].get("Code") != "ExecutionDoesNotExist"
    except (BotoCoreError, CloudError):
        return True
    return reply.get("status") in UNFINISHED


def require_running(execution: str, workflow: str | None) -> None:
    """Raises SettingsError unless this is an execution of that state machine that is known to run: any other one would hold the lease for hours."""
    try:
        reply = own_client("stepfunctions", "states:DescribeExecution").describe_execution(executionArn=execution)
    except (ClientError, BotoCoreError, CloudError) as error:
        raise SettingsError(f"execution {execution} can't be read, so it may not sweep: {error}") from error
    if (reply.get("stateMachineArn"), reply.get("status")) != (workflow, "RUNNING"):
        raise SettingsError(f"{execution} isn't a running execution of REAPER_WORKFLOW={workflow}, so it may not sweep")
