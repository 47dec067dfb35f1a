"""Whether what has a name today is what had it when a manifest was made, or what was created again from one.

Names are given anew, so a name proves nothing. CreationTime tells one incarnation from the next. What we ourselves create again has a new
one, so it gets a tag with the birth of the first, and later runs go on with that one only. No other sign would do: whoever applies a
template again makes an endpoint with the same configuration, tags and numbers as the deleted one, later than it, and yet it is theirs.
The tag also lets a scale-in that was made before a deletion be undone after it. It may be taken off once all is back.

Tags: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Tag.html
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from reaper.actions.contract import Manifest
from reaper.aws import tags
from reaper.aws.plain_json import to_plain_json
from reaper.aws.restorable import RESTORED_TAG, no_room_for_tag_because
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason

RECREATED_TEXT = "was made anew by somebody since: it is left as it is"
RECREATED_CODE = "MadeAnew"
"""The code of the error that says so: running it again changes nothing."""


def first_created(row: Mapping[str, Any], own: Mapping[str, str]) -> str:
    """When the first incarnation was created, in ISO 8601, from a description and the resource's own tags."""
    return own.get(RESTORED_TAG) or str(to_plain_json(row["CreationTime"]))


def is_same_resource(cloud: CloudSession, row: Mapping[str, Any], arn: str, first: str | None) -> bool:
    """Whether what is described is the one that was born `first`, or was created again in its place."""
    return bool(first) and first_created(row, tags.read_tags_now(cloud, arn)) == first


def recreated_error(operation: str, name: str) -> CloudError:
    """The error for what is not the same one any more."""
    return CloudError(Reason.REFUSED, operation, f"{name} {RECREATED_TEXT}", code=RECREATED_CODE)


def with_restored_tag(own: Mapping[str, str], first: str) -> dict[str, str]:
    """The tags to create it again with. Raises CloudError where they leave no room for the mark."""
    if text := no_room_for_tag_because(own):
        raise CloudError(Reason.REFUSED, "sagemaker:AddTags", text)
    return {**own, RESTORED_TAG: first}


def earlier_action_hint(manifest: Manifest) -> list[str]:
    """The sentence that says how to undo what had been done to it before it was deleted, if anything had been.

    What the manifest goes on with is undone with it (`earlier`), and needs none.
    """
    address = manifest.undo_state.get("previous")
    if not address:
        return []
    command = shlex.join(["reaper", "restore", manifest.id, "--manifest", address])
    return [f"Something had been done to it before; `{command}` brings back what that changed."]
