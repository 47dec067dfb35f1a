"""Tags in bulk: only of types that the tagging API is known to cover, because for any other it returns nothing, as if there were no tags."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any

import boto3
import pytest

from on_aws.conftest import Sweep
from reaper import registry
from reaper.aws import reader, targets
from reaper.aws.session import CloudSession
from reaper.errors import MAX_PAGES_WITHOUT_NEWS, CloudError, Paging, Reason
from reaper.model import Ceiling, Target
from reaper.policy.tags import read_tags
from reaper_sandbox.aws import reply
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, denied, on
from reaper_sandbox.aws.reply import Reply
from reaper_sandbox.aws.server import Server


@pytest.fixture
def cloud(server: Server) -> CloudSession:
    return CloudSession(boto3.Session(), Target(cloud="aws", account="123456789012", region="us-east-1"))


def test_tags_are_asked_for_by_service_and_type(account: Account, server: Server, cloud: CloudSession):
    endpoint = account.endpoint("e", tags={"reaper:keep": "true"})
    by_arn = reader.tags_by_arn(cloud, "sagemaker:endpoint")
    assert reader.tags_of(by_arn, endpoint.arn) == {"reaper:keep": "true"}
    assert [call.params["ResourceTypeFilters"] for call in server.calls if call.operation == "GetResources"] == [
        ["sagemaker:endpoint"]
    ]


def test_tags_of_a_type_that_may_not_be_covered_are_unreadable(server: Server, cloud: CloudSession):
    by_arn = reader.tags_by_arn(cloud, "bedrock:provisioned-model")
    assert reader.tags_of(by_arn, "arn:aws:bedrock:us-east-1:123456789012:provisioned-model/p") is None
    assert "isn't known to cover bedrock:provisioned-model" in str(cloud.errors[0])
    assert server.calls == []


def test_tags_may_be_read_by_a_call_of_their_own(account: Account, server: Server, cloud: CloudSession):
    kept, other = account.notebook("kept", tags={"reaper:keep": "true"}).arn, account.notebook("other").arn
    lost = account.arn("notebook-instance/lost")
    by_arn = reader.tags_one_by_one(
        cloud, "sagemaker:ListTags", [kept, other, lost], lambda arn: reader.read_tags_now(cloud, arn)
    )
    assert [reader.tags_of(by_arn, arn) for arn in (kept, other, lost)] == [{"reaper:keep": "true"}, {}, None]
    assert [error.operation for error in cloud.errors] == ["sagemaker:ListTags"]


def test_each_failed_call_for_tags_protects_its_resource(account: Account, server: Server, cloud: CloudSession):
    arn = account.notebook("nb").arn
    server.rules.append(on("ListTags", denied()))
    by_arn = reader.tags_one_by_one(cloud, "sagemaker:ListTags", [arn], lambda one: reader.read_tags_now(cloud, one))
    assert (reader.tags_of(by_arn, arn), [e.reason for e in cloud.errors]) == (None, [Reason.DENIED])


def test_the_regions_are_those_of_the_kinds_services():
    services = {kind.permissions[0].partition(":")[0] for kind in registry.kinds("aws")}
    known = {name for service in services for name in boto3.Session().get_available_regions(service)}
    assert services == {"bedrock", "sagemaker"}
    assert known <= {*targets.known_regions()}


def test_a_row_that_cannot_be_parsed_is_noted_and_hides_no_other(cloud: CloudSession):
    rows = [{"Name": "a"}, {}, {"Name": "b"}]
    assert list(cloud.each("sagemaker:ListThings", rows, lambda row: row["Name"])) == ["a", "b"]
    [error] = cloud.errors
    assert (isinstance(error, CloudError), error.reason, error.operation) == (True, Reason.UNREADABLE, "sagemaker:ListThings")


def endless(operation: str, rows: Callable[[int], list[dict[str, Any]]], want: str, token: str) -> Callable[[Call], Fault | None]:
    """A rule by which a list goes on with a fresh token each time. `rows`: those of each page, by its number."""
    numbers = count()

    def page(call: Call) -> Reply:
        number = next(numbers)
        return reply.result(call, {want: rows(number), token: f"page {number}"})

    return on(operation, Fault(answer=page))


@pytest.mark.parametrize(
    "rows", [[], [{"ResourceARN": "arn:aws:sagemaker:us-east-1:123456789012:endpoint/e", "Tags": []}]], ids=["empty", "same"]
)
def test_tags_whose_pages_never_end_protect(account: Account, server: Server, cloud: CloudSession, rows: list[dict[str, Any]]):
    endpoint = account.endpoint("e")
    server.rules.append(endless("GetResources", lambda number: rows, "ResourceTagMappingList", "PaginationToken"))
    by_arn = reader.tags_by_arn(cloud, "sagemaker:endpoint")
    assert reader.tags_of(by_arn, endpoint.arn) is None
    assert "pages in a row had nothing new" in str(cloud.errors[0])
    assert len(server.calls) <= MAX_PAGES_WITHOUT_NEWS + 1


def test_a_list_whose_pages_never_end_is_a_failed_row(account: Account, server: Server, run_sweep: Sweep):
    account.endpoint("e")
    row = {
        "EndpointName": "e",
        "EndpointArn": account.arn("endpoint/e"),
        "EndpointStatus": "InService",
        "CreationTime": 1,
        "LastModifiedTime": 1,
    }
    server.rules.append(endless("ListEndpoints", lambda number: [row], "Endpoints", "NextToken"))
    swept = run_sweep("sagemaker-endpoint")
    assert swept.coverage("sagemaker-endpoint").status == "failed"
    assert "had nothing new" in str(swept.coverage("sagemaker-endpoint").error)


def test_a_long_list_with_something_new_now_and_then_is_read_to_its_end():
    paging = Paging("sagemaker:ListEndpoints")
    for number in range(3 * MAX_PAGES_WITHOUT_NEWS):
        paging.follow(f"page {number}", [{"EndpointName": f"e{number // 400}"}])
    paging.follow("the last that is new", [{"EndpointName": "new"}])
    for number in range(MAX_PAGES_WITHOUT_NEWS - 1):
        paging.follow(f"empty {number}", [{"EndpointName": "e0"}])
    with pytest.raises(CloudError, match="nothing new"):
        paging.follow("one more", [])


@pytest.mark.parametrize("token", [None, 3, "page"])
def test_a_token_that_leads_nowhere_ends_a_list(token: object):
    paging = Paging("s3:ListBucket")
    paging.follow("page", [])
    with pytest.raises(CloudError, match="twice"):
        paging.follow(token, ["b"])


KEEP_LATER, KEEP_OVER = {"reaper:keep-until": "2027-12-31"}, {"reaper:keep-until": "2026-01-01"}


@pytest.mark.parametrize(
    ("outer", "own", "action", "is_kept"),
    [
        pytest.param(KEEP_LATER, KEEP_OVER, Ceiling.DELETE, True, id="its own date is over"),
        pytest.param(KEEP_OVER, KEEP_LATER, Ceiling.DELETE, True, id="the date of its host is over"),
        pytest.param(KEEP_OVER, KEEP_OVER, Ceiling.DELETE, False, id="both dates are over"),
        pytest.param({"reaper:keep": "true"}, {"reaper:keep": "false"}, Ceiling.DELETE, False, id="it isn't kept with its host"),
        pytest.param({"reaper:action": "ignore"}, {"reaper:action": "stop"}, Ceiling.IGNORE, True, id="its host says ignore"),
        pytest.param({"reaper:action": "notify"}, {"reaper:action": "stop"}, Ceiling.NOTIFY, False, id="its host says notify"),
        pytest.param({"reaper:action": "delete"}, {"reaper:action": "stop"}, Ceiling.STOP, False, id="its host allows more"),
    ],
)
@pytest.mark.parametrize("between", [{}, {"reaper:keep": "false", **KEEP_OVER, "reaper:action": "delete"}], ids=["two", "three"])
def test_a_tag_never_hides_what_protects_more_further_out(
    account: Account,
    cloud: CloudSession,
    outer: dict[str, str],
    between: dict[str, str],
    own: dict[str, str],
    action: Ceiling,
    is_kept: bool,
):
    arns = [account.notebook(name, tags=each).arn for name, each in (("own", own), ("between", between), ("outer", outer))]
    merged = reader.tags_of(reader.tags_by_arn(cloud, "sagemaker:notebook-instance"), *arns)
    assert merged == reader.read_tags_now(cloud, *arns)
    requests = read_tags(merged or {}, datetime(2026, 11, 20, tzinfo=UTC))
    assert (requests.action or Ceiling.DELETE, bool(requests.reasons)) == (action, is_kept)


def test_its_own_tags_apply_where_nothing_protects(account: Account, cloud: CloudSession):
    outer = {"reaper:owner": "a@example.com", "reaper:hours": "mon-fri 08:00-18:00 UTC", "team": "a"}
    own = {"reaper:owner": "b@example.com", "reaper:hours": "mon-fri 09:00-18:00 UTC"}
    arns = [account.notebook("own", tags=own).arn, account.notebook("outer", tags=outer).arn]
    assert reader.read_tags_now(cloud, *arns) == {**own, "team": "a"}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param({"reaper:keep-until ": "2026-11-01"}, 1, id="both end with a blank"),
        pytest.param({"reaper:keep-until": "2026-11-01", "reaper:keep-until ": "2026-11-02"}, 1, id="its own has both"),
        pytest.param({"reaper:keep-until ": "2027-11-02"}, 2, id="both protect"),
    ],
)
def test_a_key_that_ends_with_a_blank_hides_no_outer_tag(own: dict[str, str], expected: int):
    for outer in ({"reaper:keep-until ": "2026-12-31"}, {"reaper:keep-until": "2026-12-31"}):
        merged = reader._inside(outer, own)
        assert own.items() <= merged.items()
        assert len(read_tags(merged, datetime(2026, 11, 27, tzinfo=UTC)).reasons) == expected
