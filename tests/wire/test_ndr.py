"""NDR primitives: alignment, deferral and bounds."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.ndr import NdrReader, NdrWriter

PRIMITIVES = {
    "u8": (0, 2**8 - 1, 1),
    "i8": (-(2**7), 2**7 - 1, 1),
    "u16": (0, 2**16 - 1, 2),
    "i16": (-(2**15), 2**15 - 1, 2),
    "u32": (0, 2**32 - 1, 4),
    "i32": (-(2**31), 2**31 - 1, 4),
    "u64": (0, 2**64 - 1, 8),
    "i64": (-(2**63), 2**63 - 1, 8),
}

both = pytest.mark.parametrize("ndr64", [False, True])


@both
@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitives_align_to_their_size(name: str, ndr64: bool) -> None:
    low, high, size = PRIMITIVES[name]
    for value in (low, high):
        writer = NdrWriter(ndr64)
        writer.u8(7)
        getattr(writer, name)(value)
        assert len(writer.getvalue()) == 2 * size if size > 1 else 2
        reader = NdrReader(writer.getvalue(), ndr64)
        assert reader.u8() == 7
        assert getattr(reader, name)() == value
        reader.end()
    for value in (low - 1, high + 1):
        with pytest.raises(EncodeError):
            getattr(NdrWriter(ndr64), name)(value)


def test_padding_is_written_as_zero_and_read_as_anything() -> None:
    writer = NdrWriter()
    writer.u8(1)
    writer.u32(2)
    assert writer.getvalue() == bytes.fromhex("01 000000 02000000")
    reader = NdrReader(bytes.fromhex("01 AABBCC 02000000"))
    assert (reader.u8(), reader.u32()) == (1, 2)


@both
def test_pointees_are_deferred_depth_first(ndr64: bool) -> None:
    """Two pointers, the first to a string pointer: the inner string comes before the second pointee."""
    writer = NdrWriter(ndr64)
    writer.pointer(partial(writer.pointer, partial(writer.u16, 1)))
    writer.pointer(partial(writer.u16, 2))
    writer.pointer(None)
    writer.resolve()

    reader = NdrReader(writer.getvalue(), ndr64)
    ids = [reader.count() for _ in range(3)]
    assert ids == [0x20000, 0x20004, 0]
    assert reader.count() == 0x20008
    assert reader.u16() == 1
    assert reader.u16() == 2
    reader.end()

    reader = NdrReader(writer.getvalue(), ndr64)
    first = reader.pointer(lambda: reader.pointer(reader.u16))
    second = reader.ref_pointer(reader.u16)
    third = reader.pointer(reader.u16)
    reader.resolve()
    inner = first()
    assert inner is not None
    assert (inner(), second(), third()) == (1, 2, None)


def test_ndr64_widens_pointers_and_counts_and_pads_structures() -> None:
    written = []
    for ndr64 in (False, True):
        writer = NdrWriter(ndr64)
        writer.u8(1)
        writer.end_structure(8)
        writer.pointer(partial(writer.wide_string, "a"))
        writer.resolve()
        written.append(writer.getvalue())
        reader = NdrReader(writer.getvalue(), ndr64)
        assert reader.u8() == 1
        reader.end_structure(8)
        assert reader.offset == (8 if ndr64 else 1)
    counts = ("02000000 00000000 02000000", "0200000000000000 0000000000000000 0200000000000000")
    assert written == [
        bytes.fromhex("01000000 00000200") + bytes.fromhex(counts[0]) + b"a\0\0\0",
        bytes.fromhex("0100000000000000 0000020000000000") + bytes.fromhex(counts[1]) + b"a\0\0\0",
    ]


@both
@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=())))
def test_wide_strings(ndr64: bool, text: str) -> None:
    normal = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    writer = NdrWriter(ndr64)
    writer.wide_string(text)
    reader = NdrReader(writer.getvalue(), ndr64)
    assert reader.wide_string() == normal
    reader.end()


@pytest.mark.parametrize(
    ("maximum", "offset", "actual", "text"),
    [
        (1, 0, 0, ""),
        (1, 0, 2, "a\0"),
        (2, 1, 1, "\0"),
        (2, 0, 2, "ab"),
        (3, 0, 3, "a\0\0"),
        (0xFFFFFFFF, 0, 0xFFFFFFFF, "a\0"),
    ],
)
def test_bad_strings(maximum: int, offset: int, actual: int, text: str) -> None:
    data = b"".join(n.to_bytes(4, "little") for n in (maximum, offset, actual)) + text.encode("utf-16-le")
    with pytest.raises(DecodeError):
        NdrReader(data).wide_string()


def test_a_string_may_be_shorter_than_its_maximum() -> None:
    data = bytes.fromhex("08000000 00000000 02000000 61000000")
    assert NdrReader(data).wide_string() == "a"


def test_a_null_inside_a_string_cannot_be_written() -> None:
    with pytest.raises(EncodeError):
        NdrWriter().wide_string("a\0b")


@both
def test_counts_are_bounded_before_anything_is_read(ndr64: bool) -> None:
    width = 8 if ndr64 else 4
    claim = b"\xff" * width + bytes(64)
    for element_size in (1, 8):
        with pytest.raises(DecodeError, match="exceeds"):
            NdrReader(claim, ndr64).conformant_count(element_size)
    with pytest.raises(DecodeError, match="expected"):
        NdrReader(claim, ndr64).conformant_bytes()
    three = (3).to_bytes(width, "little") + bytes(3)
    assert NdrReader(three, ndr64).conformant_count(1, 3) == 3
    assert NdrReader(three, ndr64).conformant_bytes(3) == bytes(3)
    with pytest.raises(DecodeError, match="declared"):
        NdrReader(three, ndr64).conformant_count(1, 2)
    with pytest.raises(DecodeError, match="declared"):
        NdrReader(three, ndr64).conformant_bytes(2)


def test_elements_are_limited_in_total() -> None:
    reader = NdrReader(bytes.fromhex("03000000 03000000") + bytes(8), max_elements=5)
    assert reader.conformant_count(1) == 3
    with pytest.raises(DecodeError, match="too many"):
        reader.conformant_count(1)


def test_depth_is_limited() -> None:
    data = b"\x00\x00\x02\x00" * 100

    def follow(reader: NdrReader) -> object:
        return reader.pointer(lambda: follow(reader))

    reader = NdrReader(data, max_depth=10)
    follow(reader)
    with pytest.raises(DecodeError, match="too deeply"):
        reader.resolve()
    assert reader.offset < 4 * 13


def test_reference_pointers_are_not_null() -> None:
    reader = NdrReader(bytes(4))
    with pytest.raises(DecodeError, match="null"):
        reader.ref_pointer(reader.u8)


def test_trailing_and_missing_bytes() -> None:
    reader = NdrReader(b"\x01\x02")
    assert reader.u8() == 1
    with pytest.raises(DecodeError, match="1 bytes follow"):
        reader.end()
    with pytest.raises(DecodeError):
        reader.u32()
    with pytest.raises(DecodeError):
        NdrReader(bytes(15)).guid()


def test_guids_are_sixteen_raw_bytes() -> None:
    guid = bytes(range(16))
    writer = NdrWriter()
    writer.u8(0)
    writer.guid(guid)
    assert writer.getvalue() == bytes(4) + guid
    with pytest.raises(EncodeError):
        writer.guid(guid[1:])


def test_unresolved_pointers_are_our_own_fault() -> None:
    writer = NdrWriter()
    writer.pointer(partial(writer.u8, 1))
    with pytest.raises(AssertionError):
        writer.getvalue()
