"""What AWS resources offer an owner to click or paste: the page in the console, and lines for the AWS CLI. Pure.

Every part that comes from the cloud is escaped or quoted, and what decides on the host must have its exact form.
https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints.html
https://docs.aws.amazon.com/cli/latest/reference/sagemaker/add-tags.html
"""

from __future__ import annotations

import re
from shlex import quote
from urllib.parse import quote as escape

from reaper.model import Resource

REGION = re.compile(r"[a-z]{2}(?:-[a-z]{2,10}){1,3}-[1-9]")
HOST_BY_PARTITION = {
    "aws": "https://{}.console.aws.amazon.com",
    "aws-cn": "https://{}.console.amazonaws.cn",
    "aws-us-gov": "https://console.amazonaws-us-gov.com",
}
"""By the partition that an ARN begins with."""


def sagemaker_line(resource: Resource, operation: str, **options: str) -> str:
    """A call of the AWS CLI in the resource's region: `aws sagemaker stop-notebook-instance --region ... --notebook-instance-name ...`."""
    named = "".join(f" --{name.replace('_', '-')} {quote(value)}" for name, value in options.items())
    return f"aws sagemaker {operation} --region {quote(resource.region)}{named}"


def in_account(resource: Resource, text: str) -> str:
    """The text with the account: SageMaker's calls take names, and the same name in the account of other credentials is another resource."""
    return f"{text}, in account {resource.target.account}"


def keep_line(resource: Resource, key: str, value: str) -> str | None:
    """The line that puts a tag on any SageMaker resource."""
    return f"{sagemaker_line(resource, 'add-tags', resource_arn=resource.id)} --tags Key={key},Value={value}"


def console_url(resource: Resource, page: str, name: str) -> str | None:
    """A page of the SageMaker console; None if the ID or the region is not as AWS writes it."""
    partition = resource.id.split(":")[1] if resource.id.startswith("arn:") else ""
    if not name or not name.isprintable() or partition not in HOST_BY_PARTITION or not REGION.fullmatch(resource.region):
        return None
    host = HOST_BY_PARTITION[partition].format(resource.region)
    return f"{host}/sagemaker/home?region={resource.region}#/{page}/{escape(name, safe='')}"
