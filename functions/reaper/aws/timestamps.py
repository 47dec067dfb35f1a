"""Moments in AWS's replies. botocore makes each with a time zone of its own, read from the machine, which is half of a large sweep's CPU time.

How a session is given another parser (the AWS CLI does the same): https://github.com/aws/aws-cli/blob/develop/awscli/customizations/scalarparse.py
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from botocore.utils import parse_timestamp

ISO_PATTERN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", re.ASCII)


def parse_moment(value: Any) -> datetime:
    """The moment that botocore would read from `value` (seconds since 1970, or text), in UTC. Raises what botocore raises."""
    try:
        if type(value) in (int, float):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str) and ISO_PATTERN.fullmatch(value):
            return datetime.fromisoformat(value)
    except (ValueError, OverflowError, OSError):
        pass  # botocore has other ways to read it, and its own errors
    return parse_timestamp(value)
