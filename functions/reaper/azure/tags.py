"""Tags as they came: `null` is none at all, anything that is no mapping could not be read.

Azure's tag names are case-insensitive: https://learn.microsoft.com/azure/azure-resource-manager/management/tag-resources
"""

from __future__ import annotations

Tags = dict[str, str] | None


def read_tags(value: object) -> Tags:
    """The tags of one resource; None when they cannot be read, which protects it."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        return None
    return {str(key): "" if word is None else str(word) for key, word in value.items()}


def inherited_tags(*layers: Tags) -> Tags:
    """A resource's own tags, given first, over those of what it lives in; None as soon as one layer could not be read."""
    merged: dict[str, str] = {}
    for layer in layers:
        if layer is None:
            return None
        known = {key.lower() for key in merged}
        merged |= {key: word for key, word in layer.items() if key.lower() not in known}
    return merged
