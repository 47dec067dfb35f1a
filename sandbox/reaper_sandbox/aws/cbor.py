"""The part of CBOR that AWS speaks: what CloudWatch and the tagging API send and expect.

RFC 8949 (https://www.rfc-editor.org/rfc/rfc8949) and https://smithy.io/2.0/additional-specs/protocols/smithy-rpc-v2.html; moments are tag 1.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

_BREAK = object()


def encode(value: Any) -> bytes:
    """`value` as CBOR. Dicts, lists, text, bytes, numbers, booleans, None and aware datetimes; an array of floats goes the fast way."""
    out: list[bytes] = []
    _put(value, out)
    return b"".join(out)


def decode(data: bytes) -> Any:
    """What `data` says. Raises ValueError where it is not one CBOR item."""
    try:
        value, end = _take(data, 0)
    except (IndexError, KeyError, TypeError, struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"not CBOR: {error}") from error
    if end != len(data) or value is _BREAK:
        raise ValueError("not CBOR: trailing or missing bytes")
    return value


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes((major << 5 | number,))
    for code, size, form in ((24, 0x100, ">BB"), (25, 0x10000, ">BH"), (26, 0x1_0000_0000, ">BI")):
        if number < size:
            return struct.pack(form, major << 5 | code, number)
    return struct.pack(">BQ", major << 5 | 27, number)


def _put(value: Any, out: list[bytes]) -> None:
    if isinstance(value, str):
        text = value.encode()
        out += (_head(3, len(text)), text)
    elif isinstance(value, dict):
        out.append(_head(5, len(value)))
        for key, one in value.items():
            _put(key, out)
            _put(one, out)
    elif isinstance(value, array):
        out += (_head(4, len(value)), _floats(value))
    elif isinstance(value, list) and value and isinstance(value[0], datetime):
        out += (_head(4, len(value)), b"".join(map(_moment, value)))
    elif isinstance(value, (list, tuple)):
        out.append(_head(4, len(value)))
        for one in value:
            _put(one, out)
    else:
        out.append(_atom(value))


def _floats(values: Sequence[float]) -> bytes:
    return b"".join(map(struct.Struct(">cd").pack, [b"\xfb"] * len(values), values))


@lru_cache(maxsize=4096)
def _moment(value: datetime) -> bytes:
    return struct.pack(">BBd", 0xC1, 0xFB, value.timestamp())


def _atom(value: Any) -> bytes:
    if value is None or isinstance(value, bool):
        return {None: b"\xf6", False: b"\xf4", True: b"\xf5"}[value]
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, float):
        return struct.pack(">Bd", 0xFB, value)
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    raise TypeError(f"{type(value).__name__} has no place in CBOR")


def _take(data: bytes, at: int) -> tuple[Any, int]:
    major, info = data[at] >> 5, data[at] & 31
    if major == 7:
        return _simple(data, at, info)
    if info == 31:
        return _endless(data, at + 1, major)
    number, at = _number(data, at + 1, info)
    if major in (0, 1):
        return (number if major == 0 else -1 - number), at
    if major in (2, 3):
        raw = data[at : at + number]
        if len(raw) != number:
            raise ValueError("not CBOR: text is cut short")
        return (raw if major == 2 else raw.decode()), at + number
    if major == 6:
        value, at = _take(data, at)
        return (datetime.fromtimestamp(value, UTC) if number == 1 else value), at
    return _items(data, at, number, major)


def _items(data: bytes, at: int, number: int, major: int) -> tuple[Any, int]:
    found: list[Any] = []
    for _ in range(number * (2 if major == 5 else 1)):
        value, at = _take(data, at)
        found.append(value)
    return (dict(zip(found[::2], found[1::2], strict=True)) if major == 5 else found), at


def _endless(data: bytes, at: int, major: int) -> tuple[Any, int]:
    found: list[Any] = []
    while True:
        value, at = _take(data, at)
        if value is _BREAK:
            break
        found.append(value)
    if major == 5:
        return dict(zip(found[::2], found[1::2], strict=True)), at
    if major in (2, 3):
        return (b"" if major == 2 else "").join(found), at
    return found, at


def _number(data: bytes, at: int, info: int) -> tuple[int, int]:
    if info < 24:
        return info, at
    size = 1 << (info - 24)
    return int.from_bytes(data[at : at + size], "big"), at + size


def _simple(data: bytes, at: int, info: int) -> tuple[Any, int]:
    if info in (20, 21, 22, 23, 31):
        return {20: False, 21: True, 22: None, 23: None, 31: _BREAK}[info], at + 1
    form, size = {25: (">e", 2), 26: (">f", 4), 27: (">d", 8)}[info]
    return struct.unpack_from(form, data, at + 1)[0], at + 1 + size
