"""The topics of the admins' last summary, as one bounded row of the ledger. Pure.

Topics that must never be mistaken for known ones (holds, gaps, failures) are stored exactly, in 64 bits each. There may be a hundred thousand
idle or unknown resources: these are stored in a Bloom filter (https://doi.org/10.1145/362686.362692) of 64 bits for each topic and at most
1,048,576 bits (171 kB of text). It never forgets a topic. The probability that it mistakes a new topic for a known one is less than one in
ten million up to 16,000 topics, 0.06% at 65,000 and 2.5% at 130,000. The summary then doesn't call that resource new, but still counts it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256

BITS_PER_TOPIC, MAX_BITS, HASHES_PER_TOPIC = 64, 1 << 20, 8
"""Bits for each topic, the most bits, and how many of them a topic sets."""


def topics_row(exact: Iterable[str], many: Collection[str]) -> dict[str, str]:
    """The row for these topics: `exact` ones without error, `many` of them almost without."""
    return {"exact": " ".join(sorted(map(_topic_mark, exact))), "many": b64encode(_bloom_filter(many)).decode()}


def known_topics(exact: Iterable[str], many: Iterable[str], row: Mapping[str, str]) -> frozenset[str]:
    """The topics that are in the row; none if it is empty or unreadable, which costs one extra summary."""
    marks = frozenset(row.get("exact", "").split())
    try:
        bits = b64decode(row.get("many", ""), validate=True)
    except ValueError:
        bits = b""
    known = {topic for topic in exact if _topic_mark(topic) in marks}
    return frozenset(
        known | {topic for topic in many if bits and all(_is_set(bits, n) for n in _bit_positions(topic, 8 * len(bits)))}
    )


def _bloom_filter(topics: Collection[str]) -> bytes:
    size = min(MAX_BITS, BITS_PER_TOPIC * max(1, len(topics)))
    bits = bytearray(size // 8)
    for topic in topics:
        for n in _bit_positions(topic, size):
            bits[n // 8] |= 1 << n % 8
    return bytes(bits)


def _is_set(bits: bytes, n: int) -> bool:
    return bool(bits[n // 8] >> n % 8 & 1)


def _bit_positions(topic: str, size: int) -> Iterator[int]:
    digest = sha256(topic.encode("utf-8", "replace")).digest()
    return (int.from_bytes(digest[4 * i : 4 * i + 4], "big") % size for i in range(HASHES_PER_TOPIC))


def _topic_mark(topic: str) -> str:
    """A topic in sixteen characters."""
    return sha256(topic.encode("utf-8", "replace")).hexdigest()[:16]
