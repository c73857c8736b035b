"""Declarations in NDR and NDR64: round trips, impacket's bytes, and what is refused."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from impacket.dcerpc.v5.dtypes import GUID, LPWSTR, ULONG, ULONGLONG, USHORT
from impacket.dcerpc.v5.ndr import (
    NDRCALL,
    NDRENUM,
    NDRPOINTER,
    NDRSTRUCT,
    NDRUniConformantArray,
)

from msmq.errors import DecodeError, EncodeError
from msmq.rpc.ndr import (
    NULL_HANDLE,
    Array,
    Custom,
    FixedOctets,
    Full,
    Octets,
    Parameters,
    Range,
    Ref,
    Silent,
    Struct,
    Text,
    Union,
    Unique,
    context_handle,
    cstring,
    declare,
    enum16,
    guid,
    i32,
    u8,
    u16,
    u32,
    u64,
    wstring,
)
from msmq.wire.queue_format import QueueFormat, QueueFormatType
from msmq.wire.queue_format_ndr import read_queue_format, write_queue_format

NDRS = pytest.mark.parametrize("ndr64", [False, True], ids=["ndr", "ndr64"])


@declare
class Part(Struct):
    kind: enum16
    size_alloc: u32
    size: u32
    data: Annotated[bytes | None, Unique(Octets(size_is="size"))]


@declare
class Parts(Parameters):
    arrive_time: u32
    sequence: u64
    count: u32
    parts: Annotated[list[Part] | None, Unique(Array(Part, size_is="count"))]
    status: u32


@declare
class Vector(Struct):
    count: u16
    values: Annotated[list[int], Array(u64, size_is="count")]


@declare
class Mixed(Parameters):
    handle: context_handle
    flag: u8
    name: Annotated[str | None, Unique(wstring)]
    text: cstring
    identifier: guid
    signed: i32
    bounded: Annotated[int, Range(u32, 1, 2)]
    unit: Annotated[bytes, FixedOctets(16)]
    vector: Annotated[Vector | None, Unique(Vector)]
    length: u32
    part: Annotated[list[int], Array(u16, length_is="length", max_count=100)]
    label: Annotated[bytes, Text(16)]


@declare
class Choice(Struct):
    kind: u16
    arm: Annotated[Any, Union(u16, {0: None, 1: u8, 2: Unique(wstring), 3: u64}, switch_is="kind")]


@declare
class Choices(Parameters):
    first: u8
    choice: Choice
    last: u8


@declare
class Shared(Struct):
    a: Annotated[int | None, Full(u32)]
    b: Annotated[int | None, Full(u32)]
    c: Annotated[bytes, Ref(guid)]


@declare
class Sharing(Parameters):
    shared: Shared


@declare
class Named(Parameters):
    queue: Annotated[QueueFormat, Custom(read_queue_format, write_queue_format)]
    access: u32


u32s = st.integers(0, 2**32 - 1)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@st.composite
def part_lists(draw: st.DrawFn) -> Parts:
    parts = [
        Part(draw(st.integers(0, 0xFFFF)), draw(u32s), len(data or b""), data)
        for data in draw(st.lists(st.binary(max_size=40), max_size=4))
    ]
    return Parts(draw(u32s), draw(st.integers(0, 2**64 - 1)), len(parts), parts, draw(u32s))


@st.composite
def mixtures(draw: st.DrawFn) -> Mixed:
    numbers = draw(st.lists(st.integers(0, 2**64 - 1), max_size=5))
    part = draw(st.lists(st.integers(0, 0xFFFF), max_size=5))
    return Mixed(
        draw(st.binary(min_size=20, max_size=20)),
        draw(st.integers(0, 255)),
        draw(st.none() | texts),
        draw(st.binary(max_size=9).map(lambda b: b.replace(b"\0", b"x"))),
        draw(st.binary(min_size=16, max_size=16)),
        draw(st.integers(-(2**31), 2**31 - 1)),
        draw(st.integers(1, 2)),
        draw(st.binary(min_size=16, max_size=16)),
        draw(st.none() | st.just(Vector(len(numbers), numbers))),
        len(part),
        part,
        draw(st.binary(max_size=15).map(lambda b: b.rstrip(b"\0"))),
    )


@NDRS
@given(value=part_lists())
def test_parts_come_back(ndr64: bool, value: Parts) -> None:
    stub = value.encode(ndr64)
    assert Parts.decode(stub, ndr64) == (value, len(stub))


@NDRS
@given(value=mixtures())
def test_mixtures_come_back(ndr64: bool, value: Mixed) -> None:
    stub = value.encode(ndr64)
    assert Mixed.decode(stub, ndr64) == (value, len(stub))


@NDRS
@pytest.mark.parametrize(
    "choice", [Choice(0, None), Choice(1, 7), Choice(2, "seven"), Choice(3, 1 << 60)], ids=repr
)
def test_unions_come_back(ndr64: bool, choice: Choice) -> None:
    value = Choices(1, choice, 2)
    stub = value.encode(ndr64)
    assert Choices.decode(stub, ndr64) == (value, len(stub))


@NDRS
@given(data=st.binary(max_size=200))
def test_anything_is_a_value_or_a_decode_error(ndr64: bool, data: bytes) -> None:
    for kind in (Parts, Mixed, Choices, Sharing, Named):
        try:
            value, end = kind.decode(data, ndr64)
        except DecodeError:
            continue
        assert end <= len(data)
        assert kind.decode(value.encode(ndr64), ndr64)[0] == value


@NDRS
def test_a_custom_type_stands_among_others(ndr64: bool) -> None:
    queue = QueueFormat(QueueFormatType.DIRECT, "OS:host\\private$\\q")
    stub = Named(queue, 9).encode(ndr64)
    value, end = Named.decode(stub, ndr64)
    assert (value.queue, value.access, end) == (queue, 9, len(stub))


# --- impacket ---------------------------------------------------------------------------------------


class TheirBytes(NDRUniConformantArray):  # type: ignore[misc]
    item = "c"


class TheirBytesPointer(NDRPOINTER):  # type: ignore[misc]
    referent = (("Data", TheirBytes),)


class TheirKind(NDRENUM):  # type: ignore[misc]
    class enumItems:  # noqa: N801 - impacket's name
        pass


class TheirPart(NDRSTRUCT):  # type: ignore[misc]
    structure = (("kind", USHORT), ("size_alloc", ULONG), ("size", ULONG), ("data", TheirBytesPointer))
    structure64 = (("kind", ULONG), ("size_alloc", ULONG), ("size", ULONG), ("data", TheirBytesPointer))


class TheirPartArray(NDRUniConformantArray):  # type: ignore[misc]
    item = TheirPart


class TheirPartsPointer(NDRPOINTER):  # type: ignore[misc]
    referent = (("Data", TheirPartArray),)


class TheirParts(NDRCALL):  # type: ignore[misc]
    structure = (
        ("arrive_time", ULONG),
        ("sequence", ULONGLONG),
        ("count", ULONG),
        ("parts", TheirPartsPointer),
        ("status", ULONG),
    )


class TheirNames(NDRCALL):  # type: ignore[misc]
    structure = (("name", LPWSTR), ("identifier", GUID), ("number", USHORT))


@declare
class Names(Parameters):
    name: Annotated[str | None, Unique(wstring)]
    identifier: guid
    number: u16


def test_a_declaration_reads_what_impacket_writes() -> None:
    theirs = TheirParts()
    theirs["arrive_time"], theirs["sequence"], theirs["count"], theirs["status"] = 7, 1 << 40, 2, 0xC00E0003
    for kind, data in ((1, b"abcde"), (2, b"xyz")):
        part = TheirPart()
        part["kind"], part["size_alloc"], part["size"] = kind, 100, len(data)
        part["data"] = [bytes((byte,)) for byte in data]
        theirs["parts"].append(part)
    stub = theirs.getData()
    ours, _ = Parts.decode(stub)
    expected = Parts(7, 1 << 40, 2, [Part(1, 100, 5, b"abcde"), Part(2, 100, 3, b"xyz")], 0xC00E0003)
    assert ours == expected


def test_impacket_reads_what_a_declaration_writes() -> None:
    value = Parts(7, 1 << 40, 2, [Part(1, 100, 5, b"abcde"), Part(2, 100, 3, b"xyz")], 3)
    theirs = TheirParts(value.encode())
    assert [b"".join(part["data"]) for part in theirs["parts"]] == [b"abcde", b"xyz"]
    assert [part["kind"] for part in theirs["parts"]] == [1, 2]
    assert (theirs["sequence"], theirs["status"]) == (1 << 40, 3)


@pytest.mark.parametrize("name", ["", "a", "ab", "queue"])
def test_strings_and_guids_as_impacket_writes_them(name: str) -> None:
    theirs = TheirNames()
    theirs["name"] = name + "\0"
    theirs["identifier"] = bytes(range(16))
    theirs["number"] = 513
    ours = Names(name, bytes(range(16)), 513)
    assert Names.decode(theirs.getData()) == (ours, len(ours.encode()))
    # Referent identifiers and padding are free; everything else is the same.
    assert theirs.getData()[4 : len(ours.encode())].replace(b"\xab", b"\0") == ours.encode()[4:]


# --- what is refused --------------------------------------------------------------------------------


def test_an_enum_takes_two_bytes_in_ndr_and_four_in_ndr64() -> None:
    value = Parts(0, 0, 1, [Part(0x0102, 3, 0, None)], 0)
    assert value.encode()[28:36] == bytes.fromhex("0201000003000000")
    assert value.encode(True)[40:48] == bytes.fromhex("0201000003000000")


@NDRS
def test_conformance_must_agree(ndr64: bool) -> None:
    stub = bytearray(Parts(0, 0, 1, [Part(1, 9, 3, b"abc")], 0).encode(ndr64))
    where = stub.index(b"abc") - (8 if ndr64 else 4)
    stub[where] = 2
    with pytest.raises(DecodeError):
        Parts.decode(bytes(stub), ndr64)
    with pytest.raises(EncodeError):
        Parts(0, 0, 2, [], 0).encode(ndr64)


@NDRS
def test_ranges_are_kept(ndr64: bool) -> None:
    @declare
    class Ranged(Parameters):
        ack: Annotated[int, Range(u32, 1, 2)]

    assert Ranged.decode(b"\2\0\0\0", ndr64)[0].ack == 2
    for bad in (b"\0\0\0\0", b"\3\0\0\0"):
        with pytest.raises(DecodeError):
            Ranged.decode(bad, ndr64)
    with pytest.raises(EncodeError):
        Ranged(3).encode(ndr64)


@NDRS
def test_full_pointers_share_and_references_are_never_null(ndr64: bool) -> None:
    size = 8 if ndr64 else 4
    same = (5).to_bytes(size, "little")
    body = same + same + (6).to_bytes(size, "little") + b"\7\0\0\0" + bytes(range(16))
    value, _ = Sharing.decode(body, ndr64)
    assert (value.shared.a, value.shared.b, value.shared.c) == (7, 7, bytes(range(16)))
    with pytest.raises(DecodeError):
        Sharing.decode(bytes(3 * size) + bytes(16), ndr64)


def test_full_pointers_of_two_types_share_nothing() -> None:
    @declare
    class Confused(Parameters):
        a: Annotated[int | None, Full(u32)]
        b: Annotated[bytes | None, Full(guid)]

    same = b"\5\0\0\0"
    with pytest.raises(DecodeError):
        Confused.decode(same + b"\7\0\0\0" + same + bytes(16))


@NDRS
def test_a_claimed_count_costs_nothing(ndr64: bool) -> None:
    head = bytes(16) + (0x7FFFFFFF).to_bytes(4, "little")
    stub = head + (bytes(4) if ndr64 else b"") + (1).to_bytes(8 if ndr64 else 4, "little")
    stub += (0x7FFFFFFF).to_bytes(8 if ndr64 else 4, "little")
    with pytest.raises(DecodeError):
        Parts.decode(stub, ndr64)


def test_a_wrong_arm_is_refused() -> None:
    stub = bytearray(Choices(1, Choice(1, 7), 2).encode())
    stub[8] = 3
    with pytest.raises(DecodeError):
        Choices.decode(bytes(stub))
    with pytest.raises(EncodeError):
        Choices(1, Choice(9, 7), 2).encode()


@pytest.mark.parametrize(
    "value",
    [
        Names("a\0b", bytes(16), 0),
        Names("a", bytes(15), 0),
        Names("a", bytes(16), 1 << 16),
        Names(7, bytes(16), 0),  # type: ignore[arg-type]
        Choices("x", Choice(0, None), 0),  # type: ignore[arg-type]
        Choices(0, Part(0, 0, 0, None), 0),  # type: ignore[arg-type]
    ],
    ids=["null in text", "short guid", "too large", "no text", "no number", "another structure"],
)
def test_what_cannot_be_written(value: Parameters) -> None:
    with pytest.raises(EncodeError):
        value.encode()


def test_declarations_are_checked_when_they_are_made() -> None:
    with pytest.raises(TypeError):

        @declare
        class Early(Struct):
            values: Annotated[list[int], Array(u32)]
            after: u32

    with pytest.raises(TypeError):

        @declare
        class Untyped(Struct):
            value: int


def test_silence_has_no_bytes() -> None:
    @declare
    class Quiet(Parameters):
        number: u32
        limit: Annotated[Any, Silent()] = None

    assert Quiet(1, 5).encode() == b"\1\0\0\0"
    assert Quiet.decode(b"\1\0\0\0")[0].limit is None
    assert len(NULL_HANDLE) == 20
