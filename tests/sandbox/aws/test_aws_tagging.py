"""Tags one by one and in bulk, and log streams."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.server import Server
from sandbox.aws.clients import NOW, Client

DAY = timedelta(days=1)


@pytest.fixture
def tagging(client: Client) -> Any:
    """The tagging API's client."""
    return client("resourcegroupstaggingapi")


def kinds(rows: list[dict[str, Any]]) -> list[str]:
    """The ARNs' last parts."""
    return [row["ResourceARN"].split(":", 5)[-1] for row in rows]


def test_every_taggable_kind_is_listed_by_its_type(tagging: Any, account: Account) -> None:
    tags = {"team": "a"}
    account.endpoint("e", tags=tags)
    account.component("IC", "e", tags=tags)
    account.notebook("nb", tags=tags)
    account.domain("d-1", tags=tags)
    account.user("ana", domain="d-1", tags=tags)
    account.space("lab", domain="d-1", tags=tags)
    account.app(space="lab", domain="d-1", tags=tags)
    expected = {
        "endpoint": "endpoint/e",
        "inference-component": "inference-component/ic",
        "notebook-instance": "notebook-instance/nb",
        "domain": "domain/d-1",
        "user-profile": "user-profile/d-1/ana",
        "space": "space/d-1/lab",
        "app": "app/d-1/lab/JupyterLab/default",
    }
    for kind, name in expected.items():
        reply = tagging.get_resources(ResourceTypeFilters=[f"sagemaker:{kind}"])
        assert kinds(reply["ResourceTagMappingList"]) == [name]
        assert reply["ResourceTagMappingList"][0]["Tags"] == [{"Key": "team", "Value": "a"}]
        assert reply["PaginationToken"] == ""
    assert len(tagging.get_resources(ResourceTypeFilters=["sagemaker"])["ResourceTagMappingList"]) == 7


def test_only_resources_that_ever_had_tags_are_listed(client: Client, tagging: Any, account: Account) -> None:
    account.endpoint("never")
    once = account.endpoint("once", tags={"a": "b"})
    client("sagemaker").delete_tags(ResourceArn=once.arn, TagKeys=["a"])
    rows = tagging.get_resources(ResourceTypeFilters=["sagemaker:endpoint"])["ResourceTagMappingList"]
    assert rows == [{"ResourceARN": once.arn, "Tags": []}]


def test_tags_in_bulk_are_paged_with_an_empty_last_token(tagging: Any, account: Account) -> None:
    for i in range(230):
        account.endpoint(f"e{i}", tags={"i": str(i)})
    pages = list(
        tagging.get_paginator("get_resources").paginate(ResourceTypeFilters=["sagemaker:endpoint"], ResourcesPerPage=100)
    )
    assert [len(p["ResourceTagMappingList"]) for p in pages] == [100, 100, 30]
    assert pages[-1]["PaginationToken"] == ""
    assert len({r["ResourceARN"] for p in pages for r in p["ResourceTagMappingList"]}) == 230


def test_tag_filters_and_arn_lists(tagging: Any, account: Account) -> None:
    one = account.endpoint("one", tags={"team": "a", "env": "dev"})
    account.endpoint("two", tags={"team": "b"})
    filters = [{"Key": "team", "Values": ["a", "c"]}, {"Key": "env"}]
    assert kinds(tagging.get_resources(TagFilters=filters)["ResourceTagMappingList"]) == ["endpoint/one"]
    assert kinds(tagging.get_resources(ResourceARNList=[one.arn, one.arn + "x"])["ResourceTagMappingList"]) == ["endpoint/one"]
    with pytest.raises(ClientError, match="InvalidParameterException"):
        tagging.get_resources(ResourceARNList=[one.arn], ResourceTypeFilters=["sagemaker:endpoint"])
    with pytest.raises(ClientError, match="PaginationTokenExpiredException"):
        tagging.get_resources(PaginationToken="made-up")


def test_tags_in_bulk_include_motos_resources(client: Client, tagging: Any, account: Account) -> None:
    account.endpoint("e", tags={"a": "b"})
    client("sns").create_topic(Name="t", Tags=[{"Key": "a", "Value": "b"}])
    assert kinds(tagging.get_resources(ResourceTypeFilters=["sns"])["ResourceTagMappingList"]) == ["t"]
    assert sorted(kinds(tagging.get_resources()["ResourceTagMappingList"])) == ["endpoint/e", "t"]


def test_tags_in_bulk_may_have_lower_case_arns(server: Server, tagging: Any, account: Account) -> None:
    server.world.lower_tag_arns = True
    account.endpoint("MyEndpoint", tags={"a": "b"})
    assert kinds(tagging.get_resources()["ResourceTagMappingList"]) == ["endpoint/myendpoint"]


def test_adding_a_tag_overwrites_and_a_wrong_arn_is_refused(client: Client, account: Account) -> None:
    sagemaker = client("sagemaker")
    arn = account.notebook("NB", tags={"team": "a"}).arn
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "team", "Value": "b"}, {"Key": "x", "Value": ""}])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "team", "Value": "b"}, {"Key": "x", "Value": ""}]
    for wrong in (arn.lower(), account.arn("endpoint/gone"), account.arn("app/d/s/jupyterlab/default")):
        with pytest.raises(ClientError, match=r"RecordNotFound|Could not find|does not exist"):
            sagemaker.list_tags(ResourceArn=wrong)


def test_log_streams_have_their_seeded_times(client: Client, account: Account) -> None:
    logs = client("logs")
    group = {"logGroupName": "/aws/sagemaker/NotebookInstances"}
    with pytest.raises(logs.exceptions.ResourceNotFoundException):
        logs.describe_log_streams(**group)
    account.log_stream("nb/jupyter.log", last_event=NOW - DAY)
    account.log_stream("nb/LifecycleConfigOnStart", last_event=NOW)
    account.log_stream("other/jupyter.log")
    [row] = logs.describe_log_streams(**group, logStreamNamePrefix="nb/jupyter.log")["logStreams"]
    assert row["lastEventTimestamp"] == row["lastIngestionTime"] == (NOW - DAY).timestamp() * 1000
    newest = logs.describe_log_streams(**group, orderBy="LastEventTime", descending=True)["logStreams"]
    assert [s["logStreamName"] for s in newest] == ["nb/LifecycleConfigOnStart", "nb/jupyter.log", "other/jupyter.log"]
    assert "lastEventTimestamp" not in newest[-1]
    with pytest.raises(ClientError, match="Cannot order by LastEventTime"):
        logs.describe_log_streams(**group, orderBy="LastEventTime", logStreamNamePrefix="nb")
    pages = list(logs.get_paginator("describe_log_streams").paginate(**group, limit=2))
    assert [len(p["logStreams"]) for p in pages] == [2, 1]


def test_tags_in_bulk_are_found_by_the_service_of_their_arns_only(tagging: Any, account: Account) -> None:
    arn = account.contents.arn("provisioned-model/p", service="bedrock")
    account.contents.shelf("provisioned-model")["p"] = SimpleNamespace(arn=arn, tags={"a": "b"})
    for name, found in {"bedrock:provisioned-model": 1, "bedrock": 1, "sagemaker:provisioned-model": 0, "sagemaker": 0}.items():
        assert len(tagging.get_resources(ResourceTypeFilters=[name])["ResourceTagMappingList"]) == found
