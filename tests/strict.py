"""JSON as RFC 8259 has it: Python's own parser takes NaN and Infinity, which dashboards and other languages refuse."""

from __future__ import annotations

import json
from typing import Any


def loads(text: str | bytes) -> Any:
    """The value. Raises ValueError where the text is not strict JSON."""
    return json.loads(text, parse_constant=_refused)


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
