"""The SAM template as plain CloudFormation, offline, because cfn-lint overlooks most mistakes in raw SAM.

usage: translate.py TEMPLATE OUT.json
"""

from __future__ import annotations

import json
import os
import sys
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

MANAGED = {"AWSLambdaBasicExecutionRole": "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"}


def translate(path: Path) -> dict[str, Any]:
    """CloudFormation with the SAM transform applied; local code becomes a dummy S3 address."""
    return deepcopy(_translated(path))


@cache
def _translated(path: Path) -> dict[str, Any]:
    from cfnlint.decode.cfn_yaml import load

    template = _plain(load(str(path)))
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = "s3://bucket/key"
    return transformed(template)


def transformed(template: dict[str, Any]) -> dict[str, Any]:
    """A template whose code is in S3 already, with the SAM transform applied."""
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    import boto3
    from samtranslator.parser.parser import Parser
    from samtranslator.translator.translator import Translator

    session = boto3.Session(region_name="us-east-1")
    return dict(Translator(MANAGED, Parser(), boto_session=session).translate(template, parameter_values={}))


def _plain(node: Any) -> Any:
    if isinstance(node, dict):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value) for value in node]
    return str(node) if isinstance(node, str) else node


if __name__ == "__main__":
    out = Path(sys.argv[2])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(translate(Path(sys.argv[1])), indent=1))
