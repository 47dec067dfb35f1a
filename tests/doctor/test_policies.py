"""The policy, the last report and the schedule."""

from __future__ import annotations

