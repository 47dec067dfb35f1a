"""What the admins were told last, as one bounded row of the ledger: which topics of a summary they know already. Pure.

What must never be taken for known (holds, gaps, failures) is kept exactly, in marks of 64 bits each. Of what is idle or unknown there may be
a hundred thousand: these are kept in a Bloom filter (https://doi.org/10.1145/362686.362692) of 64 bits for each topic and 1,048,576 bits (171 kB
of text) at most. It never forgets a topic. A new one is taken for known with a probability of less than one in ten million up to 16,000 topics,
of 0.06 % at 65,000 and of 2.5 % at 130,000; the summary then
does not call it new, and counts and sums have it all the same.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256

BITS_PER_TOPIC, MAX_BITS, HASHES_PER_TOPIC = 64, 1 << 20, 8
"""Bits for each topic, bits at most, and how many of them a topic sets."""


def topics_row(exact: Iterable[str], many: Collection[str]) -> dict[str, str]:
    """The row that knows these topics: `exact` ones for certain, of `many` almost for certain."""
    return {"exact": " ".join(sorted(map(_topic_mark, exact))), "many": b64encode(_bloom_filter(many)).decode()}


def known_topics(exact: Iterable[str], many: Iterable[str], row: Mapping[str, str]) -> frozenset[str]:
    """Those of the topics that the row knows; none where it is empty or cannot be read, which costs one summary too many."""
    marks = frozenset(row.get("exact", "").split())
    try:
        bits = b64decode(row.get("many", ""), validate=True)
    except ValueError:
        bits = b""
    found = {topic for topic in exact if _topic_mark(topic) in marks}
    return frozenset(
        found | {topic for topic in many if bits and all(_is_set(bits, n) for n in _bit_positions(topic, 8 * len(bits)))}
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
