"""Keys of Table Storage: any text as letters that are allowed there, and the partition that a resource's memory lies in.

Not allowed are / \\ # ? and control characters; a key has at most 1 KiB, which is 512 letters:
https://learn.microsoft.com/en-us/rest/api/storageservices/understanding-the-table-service-data-model
"""

from __future__ import annotations

from string import ascii_letters, digits

from reaper.ledger.stored_text import comparable_id, shorten_key

MAX_KEY_CHARS = 400
"""Letters of an encoded text; longer ones end in a hash."""
PLAIN_CHARS = frozenset(ascii_letters + digits + "-_.@:+")


def encode_key(text: str) -> str:
    """The text as a key: a slash becomes |, any other letter that is not plain becomes its UTF-8 bytes as =XX. No two texts meet."""
    return shorten_key("".join(_encode_letter(letter) for letter in text), MAX_KEY_CHARS)


def row_key(resource_id: str) -> str:
    """The key of a resource; ids that Azure takes for the same have the same."""
    return encode_key(comparable_id(resource_id))


def partition_key(resource_id: str) -> str:
    """One per subscription, or AWS account and region: what one sweep asks for lies together and can be read in few pages."""
    if resource_id.startswith("/"):
        parts = comparable_id(resource_id).split("/")
        return encode_key("memory " + (parts[2] if parts[1] == "subscriptions" and len(parts) > 2 else "other"))
    parts = resource_id.split(":", 5)
    return encode_key("memory " + (f"{parts[4]} {parts[3]}" if len(parts) == 6 and parts[0] == "arn" else "other"))


def _encode_letter(letter: str) -> str:
    if letter in PLAIN_CHARS:
        return letter
    return "|" if letter == "/" else "".join(f"={byte:02X}" for byte in letter.encode())
