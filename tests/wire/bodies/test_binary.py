"""Objects of .NET as Python values, and values that are hostile or cannot be written."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from msmq.errors import DecodeError, EncodeError
from msmq.wire.bodies.binary import read, write
from tests.wire.bodies.test_nrbf import END, HEAD, objects, text


def instance(number: int, name: str, **members: bytes) -> bytes:
    """An object whose members are records."""
    record = struct.pack("<Bi", 2, number) + text(name) + struct.pack("<i", len(members))
    return record + b"".join(map(text, members)) + b"".join(members.values())


def integer(value: int) -> bytes:
    return b"\x08\x08" + struct.pack("<i", value)


def string(number: int, content: str) -> bytes:
    return struct.pack("<Bi", 6, number) + text(content)


def reference(number: int) -> bytes:
    return struct.pack("<Bi", 9, number)


def test_members_lose_what_the_compiler_added() -> None:
    members = {"<Name>k__BackingField": string(2, "x"), "Base+inherited": integer(1)}
    assert read(HEAD + instance(1, "N.C", **members) + END) == {"$type": "N.C", "Name": "x", "inherited": 1}


def test_sorted_lists_and_builders() -> None:
    keys, values = objects(2, 2) + string(3, "k") + b"\x0a", objects(4, 2) + integer(5) + b"\x0a"
    members = {"keys": reference(2), "values": reference(4), "_size": integer(1)}
    stream = HEAD + instance(1, "System.Collections.SortedList", **members) + keys + values + END
    assert read(stream) == {"k": 5}
    builder = instance(1, "System.Text.StringBuilder", m_StringValue=string(2, "built"))
    assert read(HEAD + builder + END) == "built"


def test_keys_that_python_cannot_have_make_pairs() -> None:
    pair = instance(
        3, "System.Collections.Generic.KeyValuePair`2[[...]]", key=objects(4, 0), value=integer(1)
    )
    table = instance(1, "System.Collections.Generic.Dictionary`2[[...]]", KeyValuePairs=reference(2))
    assert read(HEAD + table + objects(2, 1) + pair + END) == [[[], 1]]


def doubling(levels: int) -> bytes:
    """Arrays of which each has the next one twice."""
    arrays = b"".join(objects(n, 2) + reference(n + 1) + reference(n + 1) for n in range(1, levels))
    return HEAD + arrays + objects(levels, 0) + END


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (HEAD + objects(1, 1) + reference(1) + END, "circles"),
        (HEAD + objects(1, 1) + reference(7) + END, "does not have"),
        (doubling(90), "too large"),
        (HEAD + instance(1, "System.Guid", _a=integer(1)) + END, "members"),
        (
            HEAD + instance(1, "System.Collections.ArrayList", _items=integer(1), _size=integer(1)) + END,
            "members",
        ),
    ],
)
def test_refusing(stream: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        read(stream)


def test_what_is_shared_is_read_once() -> None:
    value = read(doubling(10))
    assert value[0] is value[1]


@pytest.mark.parametrize("value", [None, 1 << 64, [1 << 64]])
def test_what_net_cannot_hold_is_not_written(value: Any) -> None:
    with pytest.raises(EncodeError):
        write(value)


def test_strangers_and_circles_are_not_written() -> None:
    with pytest.raises(TypeError, match="set"):
        write({1})
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(EncodeError, match="deeply"):
        write(circle)
