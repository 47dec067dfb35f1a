"""The key policies that the guides show: a service acts for anybody's account, so each statement says for which one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def statements() -> list[Any]:
    """Every statement in the JSON of the guides that lets a service of AWS in."""
    pages = [page.read_text() for page in sorted(DOCS.glob("*.md"))]
    blocks = [json.loads(block) for page in pages for block in re.findall(r"^```json\n(.*?)^```", page, re.M | re.S)]
    rows = [row for block in blocks for row in (block if isinstance(block, list) else [block])]
    return [row for row in rows if isinstance(row, dict) and "Service" in row.get("Principal", {})]


def test_the_guides_show_a_key_policy():
    assert [row["Principal"]["Service"] for row in statements()] == ["cloudwatch.amazonaws.com", "logs.REGION.amazonaws.com"]


@pytest.mark.parametrize("row", statements(), ids=lambda row: row["Principal"]["Service"])
def test_a_service_may_use_the_key_for_the_readers_account_only(row: dict[str, Any]):
    condition = row.get("Condition", {})
    account = condition.get("StringEquals", {}).get("aws:SourceAccount")
    context = condition.get("ArnLike", {}).get("kms:EncryptionContext:aws:logs:arn", "")
    assert account == "ACCOUNT" or context.split(":")[4:5] == ["ACCOUNT"]
