"""Keys of Table Storage: any string in the allowed characters, and the partition of a resource's memory.

Not allowed are / \\ # ? and control characters. A key has at most 1 KiB, which is 512 characters:
https://learn.microsoft.com/en-us/rest/api/storageservices/understanding-the-table-service-data-model
"""

from __future__ import annotations

import re
from string import ascii_letters, digits

from reaper.ledger.stored_text import comparable_id, shorten_key

MAX_KEY_CHARS = 400
"""The length of an encoded string; longer ones end in a hash."""
PLAIN_CHARS = frozenset(ascii_letters + digits + "-_.@:+")


def encode_key(text: str) -> str:
    """The string as a key: a slash becomes |, any other character that isn't plain becomes its UTF-8 bytes as =XX. Different strings have
    different keys."""
    return shorten_key("".join(_encode_char(char) for char in text), MAX_KEY_CHARS)


def decode_key(key: str) -> str:
    """The inverse of `encode_key`, as far as the key wasn't shortened."""
    return re.sub(
        r"(?:=[0-9A-F]{2})+",
        lambda match: bytes.fromhex(match[0].replace("=", "")).decode(errors="replace"),
        key.replace("|", "/"),
    )


def row_key(resource_id: str) -> str:
    """The key of a resource, the same for all spellings of its ID."""
    return encode_key(comparable_id(resource_id))


def partition_key(resource_id: str) -> str:
    """One partition for each subscription, or AWS account and region, so that a sweep reads few pages."""
    if resource_id.startswith("/"):
        parts = comparable_id(resource_id).split("/")
        return encode_key("memory " + (parts[2] if parts[1] == "subscriptions" and len(parts) > 2 else "other"))
    parts = resource_id.split(":", 5)
    return encode_key("memory " + (f"{parts[4]} {parts[3]}" if len(parts) == 6 and parts[0] == "arn" else "other"))


def _encode_char(char: str) -> str:
    if char in PLAIN_CHARS:
        return char
    return "|" if char == "/" else "".join(f"={byte:02X}" for byte in char.encode())
