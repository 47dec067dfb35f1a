"""Recreating from a manifest, and whether what has a name today is what had it when the manifest was made, or what was recreated from one.

Names are reused, so a name proves nothing. CreationTime tells one incarnation from the next. What the reaper recreates has a new one, so it
gets a tag with the creation time of the first, and later runs continue that one only. No other sign would do: a template applied again makes
an endpoint with the same configuration, tags and counts as the deleted one, and yet it belongs to the person who applied it. The tag also
allows undoing, after a deletion, a scale-in from before it. It may be removed once everything is restored.

Tags: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Tag.html
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from reaper.acting.contract import Earlier, Manifest, Members, UndoResult, UndoState
from reaper.aws import reader
from reaper.aws.sagemaker import RESTORED_TAG, no_room_for_tag_because, to_plain_json
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreation:
    """How a kind is recreated. `read(cloud, resource, earlier)`: everything that takes, read right before the deletion. `recreate(cloud, manifest)` can be
    run again and again, and then goes on with what is missing. `members`: those of what is saved. Both functions raise CloudError.
    """

    read: Callable[[CloudSession, Resource, Earlier], UndoState]
    recreate: Callable[[CloudSession, Manifest], UndoResult]
    members: Members
    permissions: tuple[str, ...]


def first_created(row: Mapping[str, Any], own_tags: Mapping[str, str]) -> str:
    """When the first incarnation was created, in ISO 8601, from a description and the resource's own tags."""
    return own_tags.get(RESTORED_TAG) or str(to_plain_json(row["CreationTime"]))


def is_same_resource(cloud: CloudSession, row: Mapping[str, Any], arn: str, first_created_at: str | None) -> bool:
    """Whether the description shows the resource created at `first_created_at`, or what was recreated in its place."""
    return bool(first_created_at) and first_created(row, reader.read_tags_now(cloud, arn)) == first_created_at


def with_restored_tag(own_tags: Mapping[str, str], first_created_at: str) -> dict[str, str]:
    """The tags to recreate it with. Raises CloudError if they leave no room for the tag that marks it."""
    if text := no_room_for_tag_because(own_tags):
        raise CloudError(Reason.REFUSED, "sagemaker:AddTags", text)
    return {**own_tags, RESTORED_TAG: first_created_at}


def require_models(cloud: CloudSession, names: Collection[str]) -> None:
    """Raises CloudError if one of these models is gone: nothing could be recreated from it."""
    for name in sorted(names):
        if cloud.find("sagemaker", "DescribeModel", "ModelName", ModelName=name) is None:
            text = f"its model {name} is gone, so it can't be recreated"
            raise CloudError(Reason.REFUSED, "sagemaker:DescribeEndpointConfig", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredCount:
    """One number that a stop made smaller, which never goes back over what was changed since.

    `before` the stop, `stopped_at` as the stop left it, and `now`. `maximum` is what autoscaling allows today. `label` begins a sentence.
    """

    label: str
    before: int
    stopped_at: int
    now: int
    maximum: int | None = None

    @property
    def was_chosen_since(self) -> bool:
        """Whether it is neither what the stop left nor what was there before: a person or autoscaling changed it since."""
        return self.now not in (self.stopped_at, self.before)

    @property
    def count_to_request(self) -> int | None:
        """What to ask for; None if nothing."""
        goal = self.before if self.maximum is None else min(self.before, self.maximum)
        return goal if self.now == self.stopped_at and goal > self.now else None

    @property
    def not_restored(self) -> list[str]:
        """The sentence that says what does not come back, if anything does not."""
        if self.was_chosen_since:
            text = f"not {self.stopped_at} as the stop left it and not {self.before} as before: it was changed since, so the reaper left it alone"
            return [f"{self.label} is {self.now} now, {text}."]
        if self.now != self.before and self.maximum is not None and self.maximum < self.before:
            text = f"its autoscaling allows no more than {self.maximum} today"
            return [f"{self.label} is {max(self.now, self.maximum)} instead of {self.before}: {text}."]
        return []
