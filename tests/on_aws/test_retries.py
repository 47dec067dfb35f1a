"""Whether the SDK sent a request more than once is known of every failure: then an earlier copy may have been carried out."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import Target
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import cut, denied, error, lost, on, throttled
from reaper_sandbox.aws.server import Server


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, server: Server) -> CloudSession:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    return CloudSession(boto3.Session(), Target(cloud="aws", account="123456789012", region="us-east-1"))


def failed(cloud: CloudSession) -> CloudError:
    with pytest.raises(CloudError) as raised:
        cloud.call("sagemaker", "DeleteEndpoint", "ResponseMetadata", EndpointName="e")
    return raised.value


@pytest.mark.parametrize(
    ("faults", "trouble", "retried"),
    [
        pytest.param([(denied(), 1)], Reason.DENIED, False, id="denied at once"),
        pytest.param([(error(400), 1)], Reason.REFUSED, False, id="refused at once"),
        pytest.param([(throttled(), 2)], Reason.THROTTLED, True, id="throttled to the end"),
        pytest.param([(cut(), 2)], Reason.UNREACHABLE, True, id="cut to the end"),
        pytest.param([(cut(), 1), (denied(), 1)], Reason.DENIED, True, id="cut, then denied"),
        pytest.param([(error(503), 1), (error(400), 1)], Reason.REFUSED, True, id="a server error, then refused"),
        pytest.param([(lost(), 1)], Reason.GONE, True, id="carried out, its reply lost"),
    ],
)
def test_a_failure_says_whether_the_request_was_sent_again(
    account: Account, server: Server, cloud: CloudSession, faults: list[tuple[Any, int]], trouble: Reason, retried: bool
):
    account.endpoint("e")
    server.rules += [on("DeleteEndpoint", fault, times=times) for fault, times in faults]
    error = failed(cloud)
    assert (error.reason, error.retried) == (trouble, retried)


def test_the_retries_of_one_call_are_not_held_against_the_next(account: Account, server: Server, cloud: CloudSession):
    account.endpoint("e")
    server.rules.append(on("ListEndpoints", cut(), times=1))
    cloud.call("sagemaker", "ListEndpoints", "Endpoints")
    server.rules.append(on("DeleteEndpoint", denied()))
    assert not failed(cloud).retried
