"""The filter of a metric query: `ClusterName eq '*' and Scenario eq 'Training'`. Splits by every dimension it names. Pure.

https://learn.microsoft.com/azure/azure-monitor/metrics/metrics-dimensions-filter
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from reaper_sandbox.azure.refusal import bad

CLAUSE = re.compile(r"\s*\(*\s*([\w ]+?)\s+eq\s+'((?:[^']|'')*)'\s*\)*\s*", re.I)
JOINT = re.compile(r"\s*(and|or)\s+", re.I)


@dataclass(slots=True, kw_only=True)
class Selection:
    """The values asked for by lower-cased dimension name, themselves lower-cased; an empty set stands for `'*'`, any value."""

    values: dict[str, set[str]] = field(default_factory=dict)

    def takes(self, dimensions: Mapping[str, str]) -> bool:
        """Whether a series with these dimensions is asked for."""
        return all(name in dimensions and (not some or dimensions[name].lower() in some) for name, some in self.values.items())

    def split(self, dimensions: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """The part of the dimensions that the reply is split by."""
        return tuple((name, dimensions[name]) for name in self.values)


def parse(text: str | None) -> Selection:
    """The filter as a Selection. Raises Refused (400) for what Monitor would not take."""
    selection = Selection()
    rest, open_ended = (text or "").strip(), False
    while rest or open_ended:
        clause = CLAUSE.match(rest)
        if not clause:
            raise bad(f"Invalid filter expression: {text}")
        name, value = clause[1].strip().lower(), clause[2].replace("''", "'").lower()
        values = selection.values.setdefault(name, set())
        if value != "*":
            values.add(value)
        rest = rest[clause.end() :]
        joint = JOINT.match(rest)
        open_ended = joint is not None
        rest = rest[joint.end() :] if joint else rest
        if rest and not joint:
            raise bad(f"Invalid filter expression: {text}")
    return selection
