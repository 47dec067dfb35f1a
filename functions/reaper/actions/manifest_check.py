"""What a manifest must look like before it is undone, and what a person should see first: undoing creates what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from reaper.actions.contract import ActionFunctions, Manifest, unknown_member
from reaper.errors import CloudError, Reason

NAMED_PARTS = (
    ("role", re.compile(r"arn:[^:]+:iam::\d*:role/.+")),
    ("identity", re.compile(r"/subscriptions/.+/userAssignedIdentities/[^/]+", re.IGNORECASE)),
    ("image", re.compile(r"[^/]+\.ecr\.[^/]+/.+|[^/]+\.azurecr\.[^/]+/.+|.*/environments/.+", re.IGNORECASE)),
    ("bucket", re.compile(r"s3://.+|https://[^/]+\.blob\..+|azureml:.+/datastores/.+", re.IGNORECASE)),
)
"""The parts that a record can name, by how their names look."""
IMAGE_MEMBERS = frozenset({"image", "environmentid"})
"""Members that name an image, however it is written."""


def require_own_form(manifest: Manifest, functions: ActionFunctions[Any]) -> None:
    """Raises CloudError unless its record has the members that its kind stores, and it says of the resource what the ID says."""
    members = functions.undo_members.get(manifest.action)
    if members is None:
        raise _refusal(f"a {manifest.action} of kind {manifest.kind} isn't undone")
    if odd := unknown_member(manifest.undo_state, members):
        raise _refusal(f"the manifest's record has the unknown member {odd}, so it isn't used")
    match = functions.id_pattern.fullmatch(manifest.id)
    if match is None:
        raise _refusal(f"the manifest says that its kind is {manifest.kind}, but {manifest.id} is no ID of that kind")
    for label, said, shown in _said_and_shown(manifest, match.groupdict()):
        if said.casefold() != shown.casefold():
            raise _refusal(f"the manifest says that the {label} of {manifest.id} is {said}, so it isn't used")


def _said_and_shown(manifest: Manifest, shown: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    yield "account", manifest.target.account, shown["account"]
    yield "name", manifest.name, "/".join(text for group, text in shown.items() if group.startswith("name"))
    if "region" in shown:
        yield "region", manifest.region, shown["region"]
        yield "region", manifest.target.region or "", shown["region"]


def named_parts(manifest: Manifest) -> list[str]:
    """The roles, identities, images and buckets that the record names, such as `role arn:aws:iam::123456789012:role/x`, each once."""
    texts = list(_texts_in(manifest.undo_state))
    return list(
        dict.fromkeys(
            f"{label} {text}"
            for label, pattern in NAMED_PARTS
            for member, text in texts
            if pattern.fullmatch(text) or (label == "image" and member.lower() in IMAGE_MEMBERS)
        )
    )


def _texts_in(value: object, member: str = "") -> Iterator[tuple[str, str]]:
    """Every text, with the name of its member. The names are texts, too: Azure names identities so."""
    if isinstance(value, str):
        yield member, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield "", key
            yield from _texts_in(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_in(inner, member)


def _refusal(text: str) -> CloudError:
    return CloudError(Reason.REFUSED, "restore", text)
