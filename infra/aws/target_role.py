"""Copies the policies of template.yaml into target-role.yaml, so that a sweep has the same permissions in every account.

usage: target_role.py [--check]

Stack sets take no macros, so the role's template can't share a file with the SAM template:
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/stacksets-orgs-associate-stackset-with-org.html
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROLE = Path(__file__).with_name("target-role.yaml")
TEMPLATE = ROLE.parents[2] / "template.yaml"
POLICIES = ("AuditPolicy", "EnforcePolicy", "GuardPolicy")
MARKS = re.compile(r"(?<=  # <<< from template\.yaml\n).*?(?=  # >>>\n)", re.DOTALL)


def with_policies(role: str, template: str) -> str:
    """The role's template with the policies as they are in the other one."""
    blocks = [_block(name, template) for name in POLICIES]
    return MARKS.sub(lambda _: "\n".join(blocks), role, count=1)


def _block(name: str, template: str) -> str:
    """The lines of one resource, without the blank line after them."""
    found = re.search(rf"^  {name}:\n(?:(?:   .*)?\n)+", template, re.MULTILINE)
    if found is None:
        raise ValueError(f"template.yaml has no {name}")
    return found[0].rstrip("\n") + "\n"


def main() -> int:
    """Write the file, or with --check say whether it is up to date."""
    current = ROLE.read_text()
    wanted = with_policies(current, TEMPLATE.read_text())
    if "--check" not in sys.argv[1:]:
        ROLE.write_text(wanted)
    elif wanted != current:
        print("infra/aws/target-role.yaml differs from template.yaml; run `make docs`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
