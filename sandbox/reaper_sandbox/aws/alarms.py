"""CloudWatch alarms, as far as scaling policies hang on them. They never ring here.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
"""

from __future__ import annotations

from typing import Any

from reaper_sandbox.aws.reply import Refusal
from reaper_sandbox.aws.world import Region

MAX_NAMES = 100
STATE = {"StateValue": "OK", "StateReason": "Threshold was not crossed"}


def put_alarm(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """An alarm of that name is replaced as a whole."""
    alarm = {key: value for key, value in params.items() if key != "Tags"}
    region.alarms[params["AlarmName"]] = {"ActionsEnabled": True, "AlarmActions": []} | alarm
    return {}


def describe_alarms(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Those that are named, all of them otherwise; names that do not exist are left out."""
    names = params.get("AlarmNames")
    if names and len(names) > MAX_NAMES:
        raise Refusal("InvalidParameterValue", f"At most {MAX_NAMES} alarm names can be given.")
    alarms = [alarm for name, alarm in region.alarms.items() if not names or name in names]
    shown = [{"AlarmArn": region.arn(f"alarm:{a['AlarmName']}", "cloudwatch"), **STATE, **a} for a in alarms]
    return {"MetricAlarms": shown, "CompositeAlarms": []}


OPERATIONS = {"PutMetricAlarm": put_alarm, "DescribeAlarms": describe_alarms}
