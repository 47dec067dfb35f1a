"""Reads owners' mails: the resources, what each costs, and what happens next. The texts are those of `notices/owner_notice.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator

NUMBERED_ITEM = re.compile(r"^\d+\. (.+)$", re.MULTILINE)
COST = re.compile(r"^ +(?:Cost|Saving): (.+)$", re.MULTILINE)
TABLE_ROW = re.compile(
    r"^- (.+) \([^()]+\): (.+?)\. ((?:It will|It may be|It won't|It can't|The evidence|From|Its office hours) .+)$", re.MULTILINE
)
NEXT = re.compile(r"^ +Next: (.+)$|^ +Done: .*(It will be .+)$", re.MULTILINE)
"""What comes next, also for what was acted on and isn't finished."""


def mail_items(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, cost and next step of every resource in a notice. What was acted on and has no next step has no snooze link, and is left out."""
    parts = NUMBERED_ITEM.split(text)[1:]
    for name, about in zip(parts[::2], parts[1::2], strict=True):
        cost, following = COST.search(about), NEXT.search(about)
        if cost and following and "Keep it: " in about:
            yield name, cost[1], following[1] or following[2]
    yield from TABLE_ROW.findall(text)
