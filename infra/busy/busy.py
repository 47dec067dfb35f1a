#!/usr/bin/env python3
"""Publishes `Busy` from inside a notebook, Studio app or compute instance every five minutes. It never stops anything.

1: something is at work. 0: every sign was read and silent since the last run. Else nothing, which the reaper takes for "unknown".
Python 3.8, and boto3 on AWS. https://jupyter-server.readthedocs.io/en/latest/developers/rest-api.html
https://learn.microsoft.com/azure/azure-monitor/metrics/metrics-store-custom-rest-api
"""

from __future__ import annotations

import argparse
import calendar
import json
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException

NAMESPACE, METRIC = "MLIdleReaper", "Busy"
EVERY = 300  # seconds between two runs
CORES = 0.4  # more processor cores than this, over EVERY, are work; the machine's own agents stay below
GPU = 5  # percent
RESTING = {"idle", "starting", "dead"}  # a kernel nobody connected to stays "starting"
PUBLISHED, FAILED, CANNOT_TELL = 0, 1, 3
BROKEN = (OSError, ValueError, HTTPException)
DIRECT = urllib.request.build_opener(  # this machine's own servers: no proxy, and Jupyter's certificate is self-signed
    urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl._create_unverified_context())
)


def main():
    settings, now = options(), time.time()
    cpu = processor(settings.proc)
    before = remembered(settings.state, cpu, now)
    findings = signs(settings, before, cpu, now)
    value = any_of(findings.values())
    if value is None:
        if before is None:
            remember(settings.state, cpu, now)
        print("published nothing, cannot tell:", ", ".join(k for k, v in findings.items() if v is None))
        return CANNOT_TELL
    try:
        (to_azure if settings.workspace else to_aws)(settings, int(value))
    except Unpublished as error:
        print("could not publish:", error)  # nothing is remembered, so the next run sees this one's signs too
        return FAILED
    remember(settings.state, cpu, now)
    print("published", int(value), ", ".join(k for k, v in findings.items() if v))
    return PUBLISHED


def options():
    parser = argparse.ArgumentParser(description="Publishes Busy: 1 when this machine is at work, 0 when it is not.")
    parser.add_argument("--jupyter", action="append", required=True, help="URL of a Jupyter server on this machine")
    parser.add_argument("--metadata", default="/opt/ml/metadata/resource-metadata.json", help="AWS: has the ARN")
    parser.add_argument("--workspace", help="Azure: the workspace's resource id")
    parser.add_argument("--region", help="Azure: the workspace's")
    parser.add_argument("--compute", help="Azure: the compute instance's name")
    parser.add_argument("--ingestion", default="https://{region}.monitoring.azure.com")
    parser.add_argument("--audience", default="https://monitoring.azure.com/")
    parser.add_argument("--environment", default="/etc/environment.sso", help="Azure: has the identity's address")
    parser.add_argument("--state", default=os.path.abspath(__file__) + ".state")
    parser.add_argument("--proc", default="/proc")
    return parser.parse_args()


def signs(settings, before, cpu, now):
    """Every sign: True at work, False seen silent, None cannot tell."""
    since = before and before["at"]
    findings = {"processor": working(before, cpu, now), "GPU": gpu(settings.proc), "terminal job": terminal_job(settings.proc)}
    kernels = [one for url in settings.jupyter for one in listed(url, "kernels")]
    findings["kernels"] = any_of(kernel(one, since) for one in kernels)
    findings["terminals"] = any_of(recent(one, since) for url in settings.jupyter for one in listed(url, "terminals"))
    findings["other kernels"] = None if ipykernels(settings.proc) > len(kernels) else False
    return findings


def any_of(values):
    """True if one is; else None if one is unknown; else False."""
    values = list(values)
    return True if True in values else None if None in values else False


def listed(url, what):
    """What Jupyter lists; one unknown where it does not answer. `kernels`, not `sessions`, which some kernels have none of."""
    try:
        with DIRECT.open(url.rstrip("/") + "/api/" + what, timeout=10) as reply:
            rows = json.load(reply)
    except urllib.error.HTTPError as error:
        return [] if error.code == 404 and what == "terminals" else [None]  # terminals can be switched off
    except BROKEN:
        return [None]
    return rows if isinstance(rows, list) else [None]


def kernel(one, since):
    """At work when it is not at rest, or ran something since."""
    return recent(one, since) if not isinstance(one, dict) or one.get("execution_state") in RESTING else True


def recent(one, since):
    """Whether its last activity is no older than `since`. Jupyter writes UTC, with or without a fraction."""
    text = str(one.get("last_activity")) if isinstance(one, dict) else ""
    if since is None or not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", text):
        return None
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) >= int(since)


def processor(proc):
    """Seconds all cores worked or waited for a disk since the machine started, and when that was."""
    try:
        with open(os.path.join(proc, "stat")) as file:
            lines = {line.split()[0]: line.split()[1:] for line in file if line.strip()}
        user, nice, system, _, iowait, irq, softirq = (int(n) for n in lines["cpu"][:7])
        used = (user + nice + system + iowait + irq + softirq) / os.sysconf("SC_CLK_TCK")
        return {"boot": int(lines["btime"][0]), "used": used}
    except (OSError, ValueError, KeyError, IndexError):
        return None


def working(before, cpu, now):
    if before is None or cpu is None:
        return None
    return cpu["used"] - before["used"] > CORES * min(now - before["at"], EVERY)


def gpu(proc):
    """Whether a GPU computes right now. No driver: none can."""
    try:
        devices = os.listdir(os.path.join(proc, "driver/nvidia/gpus"))
    except OSError:
        devices = os.path.exists("/dev/nvidia0")
    if not devices:
        return False
    ask = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    try:
        lines = subprocess.run(ask, stdout=subprocess.PIPE, timeout=30, check=True).stdout.decode().split("\n")
        loads = [float(line) for line in lines if line.strip()]
    except (*BROKEN, subprocess.SubprocessError):
        return None
    return any(load > GPU for load in loads) if loads else None


def terminal_job(proc):
    """Whether a program runs in any terminal (Jupyter's, ssh, tmux), also a silent one. A waiting shell leads its session."""
    return any(in_terminal(path) for path in processes(proc))


def ipykernels(proc):
    """How many there are. One that no Jupyter lists, such as VS Code's, cannot be asked whether it is busy."""
    return sum(b"ipykernel" in read(path + "/cmdline") for path in processes(proc))


def processes(proc):
    return [os.path.join(proc, pid) for pid in os.listdir(proc) if pid.isdigit() and int(pid) != os.getpid()]


def in_terminal(path):
    fields = read(path + "/stat").rpartition(b")")[2].split()  # pid (name) state parent group session terminal
    return len(fields) > 4 and fields[4] != b"0" and fields[3].decode() != os.path.basename(path) and fields[0] not in b"ZX"


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""  # it has just ended


def remembered(path, cpu, now):
    """The last run that published since the machine started; None without one."""
    try:
        with open(path) as file:
            before = json.load(file)
        same = cpu is not None and abs(before["boot"] - cpu["boot"]) < 60 and before["used"] <= cpu["used"] and before["at"] < now
        return before if same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(path, cpu, now):
    if cpu is not None:
        with open(path + ".new", "w") as file:
            json.dump(dict(cpu, at=now), file)
        os.replace(path + ".new", path)


class Unpublished(Exception):
    """The point did not arrive. Says why."""


def to_aws(settings, value):
    """One point, timed by CloudWatch: this machine's clock does not matter."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError as error:
        raise Unpublished(error) from error
    point = {"MetricName": METRIC, "Value": value}
    try:
        with open(settings.metadata) as file:
            arn = json.load(file)["ResourceArn"]
        point["Dimensions"] = [{"Name": "Resource", "Value": arn}]
        limits = Config(connect_timeout=5, read_timeout=10, retries={"max_attempts": 2})
        client = boto3.client("cloudwatch", region_name=arn.split(":")[3], config=limits)
        client.put_metric_data(Namespace=NAMESPACE, MetricData=[point])
    except (*BROKEN, LookupError, BotoCoreError, ClientError) as error:
        raise Unpublished(error) from error


def to_azure(settings, value):
    """One point of the workspace's custom metrics."""
    series = {"dimValues": [settings.compute], "min": value, "max": value, "sum": value, "count": 1}
    data = {"metric": METRIC, "namespace": NAMESPACE, "dimNames": ["ComputeName"], "series": [series]}
    body = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "data": {"baseData": data}}
    url = settings.ingestion.replace("{region}", settings.region) + settings.workspace + "/metrics"
    try:
        head = {"Authorization": "Bearer " + token(settings), "Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), head), timeout=20).close()
    except urllib.error.HTTPError as error:
        raise Unpublished(f"{error} {error.read(500).decode(errors='replace')}") from error
    except (*BROKEN, LookupError) as error:
        raise Unpublished(repr(error)) from error


def token(settings):
    """The compute instance's own identity's. cron does not know its address: it is read from where the machine keeps it."""
    known = dict(os.environ)
    if os.path.exists(settings.environment):
        with open(settings.environment) as file:
            known.update(line.strip().split("=", 1) for line in file if "=" in line)
    want = {"api-version": "2017-09-01", "resource": settings.audience}
    if known.get("DEFAULT_IDENTITY_CLIENT_ID"):
        want["clientid"] = known["DEFAULT_IDENTITY_CLIENT_ID"]
    url = known["MSI_ENDPOINT"] + "?" + urllib.parse.urlencode(want)
    with DIRECT.open(urllib.request.Request(url, headers={"secret": known["MSI_SECRET"]}), timeout=20) as reply:
        return json.load(reply)["access_token"]


if __name__ == "__main__":
    sys.exit(main())
# end of busy.py
