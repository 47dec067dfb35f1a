"""The policy and the keys with which the ledgers beside this file were written. Imports nothing of the product, whose modules have moved since."""

from __future__ import annotations

POLICY = """
version: 1
defaults: {action: stop, idle_after: 24h, grace: 3d, remind_every: 7d}
limits: {max_acts: MOST, max_share: 100%, max_usd_per_hour: 1000, max_jump: 50%}
owners: {domains: [example.com], fallback: ml-admins@example.com}
rules:
  - {name: slow, match: {name: "slow-*"}, grace: 3w}
  - {name: may go, match: {name: "*-delete-*"}, action: delete}
  - {name: office, match: {name: "office-*"}, idle_after: 2h, grace: 1h, hours: {on: "mon-fri 06:00-20:00", tz: UTC, start: ours}}
"""
KEYS = {"current": "k1", "ring": {"k1": b"a key of the fixtures, no secret"}}
"""What both versions' `token.Keys` take: this file is read by either."""
