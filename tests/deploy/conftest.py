"""The templates, as CloudFormation gets them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cfnlint.decode.cfn_yaml import load

from deploy import sam
from deploy.test_target_role import FILE
from deploy.translate import translate


@pytest.fixture(scope="module")
def cloudformation() -> dict[str, Any]:
    """The deployment's template, translated."""
    return translate(sam.ROOT / "template.yaml")


@pytest.fixture(scope="module")
def target_template() -> dict[str, Any]:
    """The template of the roles in the other accounts."""
    return dict(json.loads(json.dumps(load(str(FILE)), default=str)))
