"""Streams of BinaryFormatter that lie."""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.wire.bodies.nrbf import Graph, Instance

HEAD = b"\0" + struct.pack("<iiii", 1, -1, 1, 0)
END = b"\x0b"


def text(content: str) -> bytes:
    return bytes([len(content)]) + content.encode()


def objects(number: int, length: int) -> bytes:
    return struct.pack("<Bii", 16, number, length)


def test_a_class_of_a_library_is_only_a_name() -> None:
    library = struct.pack("<Bi", 12, 2) + text("Evil, Version=1.0.0.0")
    record = struct.pack("<Bi", 3, 1) + text("Evil.Launcher") + struct.pack("<i", 1) + text("command")
    record += struct.pack("<i", 2) + struct.pack("<Bi", 6, 3) + text("rm -rf /")
    assert Graph(HEAD + library + record + END).root == Instance("Evil.Launcher", {"command": "rm -rf /"})


def test_a_primitive_that_is_text_or_null() -> None:
    record = objects(1, 2) + bytes([8, 18]) + text("in place") + bytes([8, 17])
    assert Graph(HEAD + record + END).root.elements == ["in place", None]


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (b"", "ends"),
        (b"\x06", "header"),
        (HEAD[:-1] + b"\1" + END, "version"),
        (HEAD + END, "no root"),
        (HEAD + b"\x63", "no record of type"),
        (HEAD + b"\0", "may not"),
        (HEAD + objects(1, -1), "negative"),
        (HEAD + objects(1, 0x7FFFFFFF), "more elements"),
        (HEAD + struct.pack("<BiiB", 15, 1, 0x7FFFFFFF, 2), "ends"),
        (HEAD + objects(1, 3) + b"\x0e\xff\xff\xff\x7f", "more elements than it says"),
        (HEAD + objects(1, 3) + b"\x0d\0", "run of nulls"),
        (HEAD + objects(1, 1) + objects(1, 0), "same number"),
        (HEAD + struct.pack("<Bii", 1, 1, 9), "not described"),
        (HEAD + struct.pack("<BiBi", 7, 1, 0, 33), "rank"),
        (HEAD + struct.pack("<BiBiiB", 7, 1, 0, 1, 0, 9), "binary type"),
        (HEAD + struct.pack("<Bi", 4, 1) + text("C") + struct.pack("<i", 1 << 30), "more members"),
        (HEAD + struct.pack("<Bi", 2, 1) + text("C") + struct.pack("<i", 1) + text("m") + b"\x0d\2", "several nulls"),
        (HEAD + b"\x06\1\0\0\0" + b"\xff" * 5, "length of a text"),
        (HEAD + b"\x06\1\0\0\0\1\xff", "UTF-8"),
        (HEAD + objects(1, 1) + bytes([8, 4]), "primitive type"),
        (HEAD + objects(1, 1) + bytes([8, 5]) + text("NaN"), "decimal"),
        (HEAD + objects(1, 1) + bytes([8, 13]) + b"\xff" * 8, "calendar"),
        (HEAD + b"".join(objects(number, 1) for number in range(1, 200)), "deeply"),
    ],
)  # fmt: skip
def test_refusing(stream: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        Graph(stream)


def test_wide_streams_are_no_deep_ones() -> None:
    numbers = count(2)
    strings = b"".join(struct.pack("<Bi", 6, next(numbers)) + text("x") for _ in range(5000))
    assert len(Graph(HEAD + objects(1, 5000) + strings + END).root.elements) == 5000


@given(st.binary(max_size=100))
@example(bytes([4]) + struct.pack("<i", 1))
def test_nothing_but_a_decode_error(tail: bytes) -> None:
    with suppress(DecodeError):
        assert Graph(HEAD + tail).objects
