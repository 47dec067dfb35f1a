"""The values of a named row in Table Storage: strings of any length in properties of limited length. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from reaper.errors import CloudError, Reason

VALUE_PREFIX, MAX_PROPERTY_CHARS = "v_", 15_000
"""The prefix of a named row's properties, and the length of each (the limit is 64 KiB of UTF-16):
https://learn.microsoft.com/en-us/rest/api/storageservices/understanding-the-table-service-data-model
"""


def split_texts(values: Mapping[str, str]) -> dict[str, str]:
    """Strings of any length as properties of at most MAX_PROPERTY_CHARS: `v_name_0`, `v_name_1` and so on."""
    return {
        f"{VALUE_PREFIX}{name}_{n}": value[at : at + MAX_PROPERTY_CHARS]
        for name, value in values.items()
        for n, at in enumerate(range(0, max(len(value), 1), MAX_PROPERTY_CHARS))
    }


def join_texts(texts: Mapping[str, str]) -> dict[str, str]:
    """The inverse of `split_texts`. Raises CloudError for properties that it didn't write."""
    try:
        return _joined_parts(texts)
    except ValueError as error:
        raise CloudError(Reason.UNREADABLE, "ledger:Read", f"a named row can't be read ({error})") from error


def _joined_parts(texts: Mapping[str, str]) -> dict[str, str]:
    parts_by_name: dict[str, dict[int, str]] = defaultdict(dict)
    for key, text in texts.items():
        name, _, number = key.removeprefix(VALUE_PREFIX).rpartition("_")
        if key.startswith(VALUE_PREFIX):
            parts_by_name[name][int(number)] = text
    return {name: "".join(parts[n] for n in sorted(parts)) for name, parts in parts_by_name.items()}
