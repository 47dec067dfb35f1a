"""Random JSON that the Azure SDK's own models would accept: required keys are there, optional ones are there, null or missing."""

from __future__ import annotations

import random
import re
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from azure.mgmt.machinelearningservices import models

WORDS = ("", "x", "alpha", "Grüße 😀", "a/b?c#d", "0", "null", "west europe", "z" * 300)
ENUM = re.compile(r":vartype (\w+):\s+str\s+or\s+~azure\.mgmt\.machinelearningservices\.models\.(\w+)")
DEEPEST = 6
NEW = "SomethingNobodyKnowsYet"
"""Every enumeration of Azure's may grow."""


class Schema:
    """A generator of replies around the moment `now`, the same ones for the same seed. `full`: how likely an optional key has a value."""

    def __init__(self, chance: random.Random, now: datetime, full: float = 0.7) -> None:
        self.chance, self.now, self.full = chance, now, full

    def make(self, name: str, depth: int = 0) -> dict[str, Any]:
        """A value of the model, or of one of its subtypes where it has any."""
        model, body = getattr(models, name), {}
        for attribute, subtypes in vars(model).get("_subtype_map", {}).items():
            value, subtype = self.chance.choice(sorted(subtypes.items()))
            return self.make(subtype, depth) | {model._attribute_map[attribute]["key"]: value}
        enums = dict(ENUM.findall(model.__doc__ or ""))
        for attribute, description in model._attribute_map.items():
            rules = model._validation.get(attribute, {})
            if not rules.get("required") and (depth > DEEPEST or self.chance.random() > self.full):
                if self.chance.random() < 0.5:
                    self._put(body, description["key"], None)
                continue
            self._put(body, description["key"], self._value(description["type"], enums.get(attribute), depth))
        return body

    def time(self) -> str:
        """A moment of the last 200 days, in one of the spellings that Azure uses."""
        when = self.now - timedelta(seconds=self.chance.randint(0, 200 * 86400))
        return self.chance.choice((f"{when:%Y-%m-%dT%H:%M:%S}.1234567Z", f"{when:%Y-%m-%dT%H:%M:%SZ}", when.isoformat()))

    def one_of(self, enum: type[Enum]) -> str:
        """One of its values, or one that it does not have yet."""
        return self.chance.choice([*(str(one.value) for one in enum), NEW])

    def _value(self, kind: str, enum: str | None, depth: int) -> Any:
        if kind.startswith("["):
            return [self._value(kind[1:-1], None, depth + 1) for _ in range(self.chance.randint(0, 2))]
        if kind.startswith("{"):
            return {word: self._value(kind[1:-1], None, depth + 1) for word in self.chance.sample(WORDS, 2)}
        if enum:
            return self.one_of(getattr(models, enum))
        plain = {
            "str": lambda: self.chance.choice(WORDS),
            "int": lambda: self.chance.randint(0, 9),
            "long": lambda: self.chance.randint(0, 2**40),
            "float": lambda: self.chance.random(),
            "bool": lambda: self.chance.random() < 0.5,
            "iso-8601": self.time,
            "duration": lambda: self.chance.choice(("PT2M", "PT120S", "P1DT2H", "PT0S")),
            "object": lambda: {word: self.chance.choice((None, 1, "y", [], {})) for word in self.chance.sample(WORDS, 2)},
        }
        return plain[kind]() if kind in plain else self.make(kind, depth + 1)

    def _put(self, body: dict[str, Any], key: str, value: Any) -> None:
        *above, last = re.split(r"(?<!\\)\.", key)
        for step in above:
            body = body.setdefault(step, {})
        body[last.replace("\\.", ".")] = value
