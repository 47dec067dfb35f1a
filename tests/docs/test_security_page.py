from __future__ import annotations

import re
from pathlib import Path

import pytest

from reaper.ledger.rows import RETENTION
from reaper.snooze import links

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text()
TARGET, GROUP = (ROOT / "infra/aws/target-role.yaml").read_text(), (ROOT / "infra/management-group.bicep").read_text()
TEMPLATE, BICEP = (ROOT / "template.yaml").read_text(), (ROOT / "infra/main.bicep").read_text()


def test_the_readme_leads_to_the_security_page():
    assert "](SECURITY.md)" in (ROOT / "README.md").read_text()
    assert "](docs/security.md)" in (ROOT / "SECURITY.md").read_text()


def test_every_role_that_the_deployments_make_is_on_the_security_page():
    aws = re.findall(r"^  (\w+):\n(?:    #.*\n)*    Type: AWS::IAM::Role$", TEMPLATE + TARGET, re.M)
    azure = re.findall(r"^param \w*[rR]oleName string = (?:name == '[\w-]+' \? )?'([\w-]+)'", BICEP + GROUP, re.M)
    assert len(aws) >= 7
    assert len(azure) >= 4
    assert [name for name in [*aws, *azure] if f"`{name}`" not in PAGE] == []


@pytest.mark.parametrize("name", ["ReportRetentionDays", "LogRetentionDays", "SnoozeLinks"])
def test_what_the_security_page_says_of_parameters_exists(name: str):
    assert f"`{name}`" in PAGE
    assert re.search(rf"^  {name}:$", TEMPLATE, re.M)


@pytest.mark.parametrize("name", ["reportRetentionDays", "logRetentionDays", "snoozeKeys"])
def test_what_the_security_page_says_of_azures_parameters_exists(name: str):
    assert f"`{name}`" in PAGE
    assert re.search(rf"^param {name} ", BICEP, re.M)


def test_the_times_on_the_security_page_are_the_codes():
    assert f"{RETENTION.days} days after the last write" in PAGE
    assert f"and {links.LINK_VALID_FOR.days} days;" in PAGE
    assert f"stays valid for {links.MAX_AGE.seconds // 60} minutes at most" in PAGE
