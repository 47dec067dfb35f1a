"""The canary of a policy: the only resources that anything but notices may happen to. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from reaper.model import Resource
from reaper.policy.match import matches_any, tags_match
from reaper.policy.values import Accounts, Section, Tags
from reaper.text import first_few, short_repr

EXPECTED = "name accounts, tags or both, or remove the key: empty, it would cover everything"
ACCOUNT_ID = re.compile(r"\d{12}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class EnforceOnly(Section):
    """Where actions may happen: every key that is there must fit. Everything else is treated as in mode notify."""

    accounts: Accounts | None = Field(None, description="AWS account IDs or Azure subscription IDs")
    tags: Tags | None = Field(
        None,
        description="as in a match: key: value, list of values, glob, `*` for present, null for absent",
        examples=[{"reaper-canary": "yes"}],
    )

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        empty = [key for key in sorted(self.model_fields_set) if not getattr(self, key)]
        if empty or not self.model_fields_set:
            raise ValueError(f"{'.'.join(['enforce_only', *empty[:1]])} is empty; {EXPECTED}")
        return self

    def covers(self, resource: Resource) -> bool:
        """Whether actions may happen to it. A resource whose tags can't be read is never covered by tags."""
        if self.tags and resource.tags is None:
            return False
        ids = [account.lower() for account in self.accounts or ()]
        return (not ids or matches_any(ids, resource.target.account.lower())) and tags_match(self.tags or {}, resource)

    def unlikely_accounts(self) -> Iterator[str]:
        """The accounts that aren't IDs, and so probably match nothing."""
        yield from (a for a in self.accounts or () if not re.search(r"[*?\[]", a) and not ACCOUNT_ID.fullmatch(a))

    @property
    def description(self) -> str:
        """What it covers, for people."""
        parts = [f"accounts {first_few(self.accounts)}"] if self.accounts else []
        parts += [f"tags {first_few([short_repr(key) for key in self.tags])}"] if self.tags else []
        return " with ".join(parts)


def _require_keys(value: object) -> object:
    if value is None:
        raise ValueError(EXPECTED)
    return value


OptionalEnforceOnly = Annotated[EnforceOnly | None, BeforeValidator(_require_keys)]
"""A canary, or none if the key is absent. The key alone is an error: with its lines commented out, it must not allow actions everywhere."""
