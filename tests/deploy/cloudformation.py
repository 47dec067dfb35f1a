"""An AWS account on loopback, as far as deploying needs one: moto's services, and its CloudFormation taught the SAM transform.

The commands in the docs run against it as they stand: SAM's own command line, and AWS's, which is version 1 on PyPI.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import boto3
import pytest
import yaml
from moto.cloudformation import models, parsing
from moto.cloudformation.utils import yaml_tag_constructor
from moto.core.common_models import CloudFormationModel
from moto.core.config import default_user_config
from moto.iam.models import iam_backends
from yaml import CLoader

import forks
import quick_moto
from deploy import sam
from deploy.translate import transformed

AWS = sam.ROOT / ".venv-aws"
STACK = "ml-idle-reaper"
SAM = (
    *("samcli.cli.main", "samcli.commands.deploy.command", "samcli.commands.deploy.deploy_context"),
    *(
        "samcli.commands.deploy.guided_context",
        "samcli.commands.package.package_context",
        "samcli.commands.delete.delete_context",
    ),
)
"""What its commands import sooner or later."""
MANAGED = json.dumps(
    {
        "Resources": {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "aws-sam-cli-managed-default"}}},
        "Outputs": {"SourceBucket": {"Value": {"Ref": "Bucket"}}},
    }
)
"""What SAM keeps in every account that it has deployed to; moto forgets the tags of a change set, so SAM cannot make it there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The account, and a folder in which its admin works: the template, samconfig.toml, and a function of one line.

    `setup` is what the admin runs first in each new shell; the region comes from there and from nowhere else.
    """

    url: str
    home: Path
    setup: str

    @property
    def environ(self) -> dict[str, str]:
        """The admin's shell."""
        own = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "REAPER_"))}
        tools = [forks.stand_in(sam.HOME / "bin/sam", SAM), forks.stand_in(AWS / "bin/aws", ("awscli.clidriver",))]
        paths = os.pathsep.join([*map(str, tools), str(sam.ROOT / ".venv/bin"), own["PATH"]])
        return own | {
            "PATH": paths,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_PAGER": "",
            "SAM_CLI_TELEMETRY": "0",
            "SAM_CLI_POLL_DELAY": "0.2",
        }

    def shell(self, command: str, answers: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command as the admin would; `answers` is what is typed."""
        return subprocess.run(
            ["sh", "-c", self.setup + command], cwd=self.home, env=self.environ, input=answers, capture_output=True, text=True, timeout=240, check=False
        )  # fmt: skip

    def client(self, service: str) -> Any:
        """A client of the account."""
        keys = {"aws_access_key_id": "AKIAIOSFODNN7EXAMPLE", "aws_secret_access_key": "x"}
        return boto3.client(service, endpoint_url=self.url, region_name="us-east-1", **keys)  # type: ignore[call-overload]

    def resources(self, stack: str = STACK) -> dict[str, str]:
        """The stack's resources, by logical name."""
        rows = self.client("cloudformation").describe_stack_resources(StackName=stack)["StackResources"]
        return {r["LogicalResourceId"]: r["PhysicalResourceId"] for r in rows if "PhysicalResourceId" in r}

    def variables(self, stack: str = STACK) -> dict[str, str]:
        """The settings of the deployed sweep."""
        name = self.resources(stack)["SweepFunction"]
        variables = self.client("lambda").get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        return dict(variables)


@contextmanager
def account(home: Path, patch: pytest.MonkeyPatch, setup: str) -> Iterator[Account]:
    """An account that SAM has deployed to before, and nothing of ours in it."""
    patch.setattr(models.Stack, "parse_template", staticmethod(_parsed))
    patch.setattr(models.ChangeSet, "_parse_template", _parse_change_set)
    patch.setattr(parsing, "clean_json", _without_nothing(parsing.clean_json))
    patch.setattr(parsing, "parse_and_update_resource", _if_present(parsing.parse_and_update_resource))
    patch.setattr(parsing, "parse_and_delete_resource", _detached_first(parsing.parse_and_delete_resource))
    patch.setattr(
        models.CloudFormationBackend, "execute_change_set", _with_outputs(models.CloudFormationBackend.execute_change_set)
    )
    patch.setattr(models.CloudFormationBackend, "create_change_set", _in_texts(models.CloudFormationBackend.create_change_set))
    patch.setitem(default_user_config["lambda"], "use_docker", False)
    patch.setattr(parsing, "resource_class_from_type", _known_or_stand_in(parsing.resource_class_from_type))
    with quick_moto.serving() as port:
        # By that name, because moto finds a template by its address only under this one.
        new_account = Account(url=f"http://localhost:{port}", home=home, setup=setup)
        urlopen(Request(f"{new_account.url}/moto-api/reset", method="POST")).close()  # its accounts are those of the process
        cloudformation = new_account.client("cloudformation")
        tags = [{"Key": "ManagedStackSource", "Value": "AwsSamCli"}]
        cloudformation.create_stack(StackName="aws-sam-cli-managed-default", TemplateBody=MANAGED, Tags=tags)
        yield new_account


@cache
def ready() -> None:
    """Both command lines. Raises sam.Missing where one cannot be installed."""
    sam.sam("--version")
    if not (AWS / "bin/aws").exists():
        sam.BUILD.mkdir(parents=True, exist_ok=True)
        with (sam.ROOT / "build" / "aws.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            sam.install(AWS, "awscli>=1.40", "bin/aws")


class _Yaml(CLoader):
    """moto's own way with CloudFormation's tags, and the quick parser."""


_Yaml.add_multi_constructor("", yaml_tag_constructor)


def _parsed(text: str) -> dict[str, Any]:
    return deepcopy(_transformed(text))


@cache
def _transformed(text: str) -> dict[str, Any]:
    template: dict[str, Any] = yaml.load(text, Loader=_Yaml)
    return transformed(template) if "Transform" in template else template


def _parse_change_set(change_set: models.ChangeSet) -> None:
    change_set.template_dict = _parsed(change_set.template)


class StandIn(CloudFormationModel):
    """A resource of a type that moto's CloudFormation does not know: it has a name and nothing behind it."""

    def __init__(self, name: str) -> None:
        self.physical_resource_id = name

    @classmethod
    def create_from_cloudformation_json(cls, resource_name: str, *_: Any, **about: Any) -> StandIn:
        of_secret = about["ResourceType"] == "AWS::SecretsManager::Secret"
        return cls(f"arn:aws:secretsmanager:us-east-1:123456789012:secret:{resource_name}" if of_secret else resource_name)

    @classmethod
    def update_from_cloudformation_json(cls, original_resource: StandIn, *_: Any, **__: Any) -> StandIn:
        return original_resource

    @classmethod
    def delete_from_cloudformation_json(cls, *_: Any, **__: Any) -> None:
        """There is nothing behind it."""

    def get_cfn_attribute(self, name: str) -> str:
        return (
            f"https://{self.physical_resource_id}.example.com/"
            if name == "FunctionUrl"
            else f"{self.physical_resource_id}.{name}"
        )


def _known_or_stand_in(known: Callable[[str], type[CloudFormationModel] | None]) -> Callable[[str], type[CloudFormationModel]]:
    return lambda type_: known(type_) or StandIn


def _in_texts(create: Callable[..., Any]) -> Callable[..., Any]:
    """moto takes the previous value of a list for a text, and fails at it."""

    def created(backend: models.CloudFormationBackend, *args: Any, parameters: dict[str, Any], **named: Any) -> Any:
        texts = {name: ",".join(value) if isinstance(value, list) else str(value) for name, value in parameters.items()}
        return create(backend, *args, parameters=texts, **named)

    return created


def _with_outputs(execute: Callable[..., None]) -> Callable[..., None]:
    """moto leaves a stack that a change set made without its outputs."""

    def executed(backend: models.CloudFormationBackend, *args: Any, **named: Any) -> None:
        execute(backend, *args, **named)
        for stack in backend.stacks.values():
            stack._parse_template()
            stack.output_map = stack._create_output_map()

    return executed


def _detached_first(delete: Callable[..., None]) -> Callable[..., None]:
    """moto refuses to delete a role that has policies, where CloudFormation detaches them."""

    def deleted(name: str, node: dict[str, Any], account_id: str, region: str) -> None:
        if node["Type"] == "AWS::IAM::Role":
            iam = iam_backends[account_id]["aws"]
            for arn in list(iam.get_role(name).managed_policies):
                iam.detach_role_policy(arn, name)
        delete(name, node, account_id, region)

    return deleted


def _if_present(update: Callable[..., Any]) -> Callable[..., Any]:
    """moto also updates a resource whose condition doesn't hold, and fails because there is none; and it forgets one that it can't update."""

    def updated(logical_id: str, resource_json: Any, resources_map: Any, **named: Any) -> Any:
        before = resources_map[logical_id]
        return before and (update(logical_id, resource_json, resources_map, **named) or before)

    return updated


def _without_nothing(clean: Callable[..., Any]) -> Callable[..., Any]:
    """moto leaves AWS::NoValue in lists as null, where CloudFormation takes it out."""

    def cleaned(node: Any, resources: Any) -> Any:
        cleaned_node = clean(node, resources)
        return [item for item in cleaned_node if item is not None] if isinstance(cleaned_node, list) else cleaned_node

    return cleaned
