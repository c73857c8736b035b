"""The simple types, byte by byte."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.errors import DecodeError, EncodeError
from msmq.rpc.ndr import FixedOctets, NdrType, Text, cstring, enum16, guid, i16, type_of, u8, u32, wstring
from msmq.rpc.ndr_scalars import Decoder
from msmq.wire.ndr import NdrWriter

WIDE_TWO = "0200000000000000" + "00" * 8 + "0200000000000000"
"""The three counts of a string of two characters in NDR64."""


def written(kind: Any, value: object, ndr64: bool) -> bytes:
    writer = NdrWriter(ndr64)
    type_of(kind).write(writer, value, None)
    return writer.getvalue()


def read(kind: Any, data: bytes, ndr64: bool) -> object:
    reader = Decoder(data, ndr64)
    found: list[object] = []
    type_of(kind).read(reader, None, found.append)
    reader.end()
    return found[0]


@pytest.mark.parametrize(
    ("kind", "value", "ndr", "ndr64"),
    [
        (u8, 7, "07", "07"),
        (i16, -2, "feff", "feff"),
        (u32, 1, "01000000", "01000000"),
        (enum16, 3, "0300", "03000000"),
        (guid, bytes(range(16)), "000102030405060708090a0b0c0d0e0f", "000102030405060708090a0b0c0d0e0f"),
        (wstring, "A", "020000000000000002000000" "41000000", WIDE_TWO + "41000000"),
        (cstring, b"A", "020000000000000002000000" "4100", WIDE_TWO + "4100"),
        (Text(8), b"A", "00000000" "02000000" "4100", "00" * 8 + "0200000000000000" "4100"),
        (FixedOctets(3), b"abc", "616263", "616263"),
    ],
    ids=["u8", "i16", "u32", "enum", "guid", "wstring", "cstring", "text", "octets"],
)  # fmt: skip
def test_bytes(kind: Any, value: object, ndr: str, ndr64: str) -> None:
    for wide, text in ((False, ndr), (True, ndr64)):
        data = bytes.fromhex(text)
        assert written(kind, value, wide) == data
        assert read(kind, data, wide) == value
        assert type_of(kind).minimum(wide) <= len(data)
        with pytest.raises(DecodeError):
            read(kind, data[:-1], wide)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (enum16, 1 << 16),
        (cstring, b"a\0b"),
        (cstring, "a"),
        (Text(4), b"abcd"),
        (FixedOctets(3), b"ab"),
        (u8, None),
    ],
    ids=["enum", "null", "text", "long", "short", "nothing"],
)
def test_what_cannot_be_written(kind: Any, value: object) -> None:
    with pytest.raises(EncodeError):
        written(kind, value, False)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (cstring, "020000000100000001000000" "4100"),
        (cstring, "010000000000000002000000" "4100"),
        (cstring, "020000000000000002000000" "4142"),
        (Text(4), "01000000" "00000000"),
        (Text(4), "00000000" "05000000" "4142434400"),
    ],
    ids=["offset", "maximum", "no null", "text offset", "text too long"],
)  # fmt: skip
def test_what_cannot_be_read(kind: NdrType, data: str) -> None:
    with pytest.raises(DecodeError):
        read(kind, bytes.fromhex(data), False)


def test_an_enum_of_ndr64_has_sixteen_bits_too() -> None:
    with pytest.raises(DecodeError):
        read(enum16, b"\0\0\1\0", True)
