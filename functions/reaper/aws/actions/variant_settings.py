"""What to ask for so that a recreated variant is again as it was: its weight, its number of instances, its concurrency. Pure.

Creating an endpoint makes its variants as the configuration says. A setting that is no longer so was chosen since, and stays.
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DesiredWeightAndCapacity.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
"""A variant, as described or as its configuration has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """One setting of a variant: what to ask for, its name for people, and its value before the deletion, now, and as created."""

    request: Mapping[str, Any]
    label: str
    before: Any
    now: Any
    as_created: Any

    @property
    def differs(self) -> bool:
        return bool(self.before != self.now)

    @property
    def was_chosen_since(self) -> bool:
        return bool(self.now != self.as_created)


def settings_to_restore(before: Row, now: Row, configured: Row) -> dict[str, Any]:
    """What to ask for by one call, with the variant's name. Nothing that was chosen since."""
    request: dict[str, Any] = {"VariantName": before["VariantName"]}
    for setting in _settings(before, now, configured):
        if setting.differs and not setting.was_chosen_since:
            request |= setting.request
    return request


def chosen_since_sentences(before: Row, now: Row, configured: Row) -> list[str]:
    """One sentence for each setting that stays as it was chosen since."""
    return [
        _chosen_since_sentence(setting, before["VariantName"])
        for setting in _settings(before, now, configured)
        if setting.differs and setting.was_chosen_since
    ]


def autoscaled_sentence(before: Row, now: Row) -> str | None:
    """The sentence about a variant whose number is left to its autoscaling, if it has fewer instances than before."""
    count, wanted = now.get("DesiredInstanceCount", 0), before.get("DesiredInstanceCount", 0)
    text = f"The number of instances of {before['VariantName']} is {count} now and not {wanted}: its autoscaling sets it now."
    return text if count < wanted else None


def _settings(before: Row, now: Row, configured: Row) -> Iterator[_Setting]:
    if "DesiredWeight" in before:
        yield _plain_setting("DesiredWeight", "weight", before, now, configured.get("InitialVariantWeight", 1.0))
    if "DesiredInstanceCount" in before and not before.get("ManagedInstanceScaling") and not before.get("InstancePools"):
        yield _plain_setting("DesiredInstanceCount", "number of instances", before, now, configured.get("InitialInstanceCount"))
    if before.get("CurrentServerlessConfig"):
        yield _concurrency_setting(before, now, configured)


def _plain_setting(key: str, label: str, before: Row, now: Row, as_created: Any) -> _Setting:
    return _Setting(request={key: before[key]}, label=label, before=before[key], now=now.get(key), as_created=as_created)


def _concurrency_setting(before: Row, now: Row, configured: Row) -> _Setting:
    """Its memory size can't be changed by this call."""
    serverless = before["CurrentServerlessConfig"]
    return _Setting(
        request={"ServerlessUpdateConfig": {key: value for key, value in serverless.items() if key != "MemorySizeInMB"}},
        label="concurrency",
        before=serverless,
        now=now.get("CurrentServerlessConfig"),
        as_created=configured.get("ServerlessConfig"),
    )


def _chosen_since_sentence(setting: _Setting, variant: str) -> str:
    now, before = ("another", "as before") if setting.label == "concurrency" else (setting.now, setting.before)
    return f"The {setting.label} of {variant} is {now} now and not {before}: it was changed since, so the reaper left it alone."
