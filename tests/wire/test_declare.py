"""How structures are declared, read and written."""

from __future__ import annotations

import importlib
import pkgutil
import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import msmq.wire
from msmq.errors import DecodeError, EncodeError
from msmq.wire.declare import (
    Bits,
    Wire,
    bytes_of,
    guid,
    i64,
    padded,
    rounded_up,
    text_of,
    u8,
    u16,
    u32,
    u64,
    wire,
)

for module in pkgutil.walk_packages(msmq.wire.__path__, "msmq.wire."):
    importlib.import_module(module.name)


def structures(root: type[Wire] = Wire) -> list[type[Wire]]:
    """Every declared class; ``dataclass(slots=True)`` leaves the undeclared twin of each behind."""
    found = [cls for cls in root.__subclasses__() if hasattr(cls, "SIZE")]
    return sorted(found, key=lambda cls: cls.__name__)


every_structure = pytest.mark.parametrize("cls", structures(), ids=lambda cls: cls.__name__)


@wire("MS-TEST 1", size=25, names={"wide_id": "WideID"})
class Sample(Wire):
    small: u8 = 1
    flags: u16 = 0
    wait_ms: u32 = 2
    wide_id: u64 = 3
    signed: i64 = -4
    odd: u16 = 5
    tail: bytes | None = None

    low = Bits("flags", 0, 3, "LO")
    high = Bits("flags", 15, 1, "HI")


@wire("MS-TEST 2", size=18)
class Named(Wire):
    identifier: guid = bytes(16)
    number: u16 = 0


def test_fields_lie_little_endian_and_without_gaps() -> None:
    assert Sample(1, 0x8005, 0x01020304, 0x1122334455667788, -2, 0x0A0B).encode() == bytes.fromhex(
        "01"  # small
        "0580"  # flags
        "04030201"  # wait_ms
        "8877665544332211"  # wide_id
        "feffffffffffffff"  # signed
        "0b0a"  # odd
    )


def test_a_declaration_knows_its_table() -> None:
    assert Sample.SECTION == "MS-TEST 1"
    assert [(f.spec_name, f.offset, f.size) for f in Sample.FIELDS] == [
        ("Small", 0, 1),
        ("Flags", 1, 2),
        ("Wait", 3, 4),
        ("WideID", 7, 8),
        ("Signed", 15, 8),
        ("Odd", 23, 2),
    ]
    assert [(name, bits.spec_name) for name, bits in Sample.BITS] == [("low", "LO"), ("high", "HI")]


def test_a_wrong_size_fails_at_import() -> None:
    with pytest.raises(TypeError, match="declared as 5 bytes but its fields take 4"):

        @wire("MS-TEST 3", size=5)
        class Wrong(Wire):
            number: u32


def test_a_fixed_field_after_the_tail_fails_at_import() -> None:
    with pytest.raises(AssertionError, match="number is fixed"):

        @wire("MS-TEST 4", size=4)
        class Wrong(Wire):
            tail: bytes = b""
            number: u32 = 0


def test_bits_read_and_write_the_integer_that_holds_them() -> None:
    sample = Sample(flags=0x8005)
    assert (sample.low, sample.high) == (5, 1)
    sample.low = 2
    sample.high = 0
    assert sample.flags == 2
    with pytest.raises(EncodeError, match="LO takes 3 bits"):
        sample.low = 8
    with pytest.raises(EncodeError, match="LO takes 3 bits"):
        sample.low = -1
    assert isinstance(Sample.low, Bits)


@given(st.data())
def test_round_trip(data: st.DataObject) -> None:
    small, flags, wait_ms, wide_id, odd = (
        data.draw(st.integers(0, (1 << bits) - 1)) for bits in (8, 16, 32, 64, 16)
    )
    signed = data.draw(st.integers(-(1 << 63), (1 << 63) - 1))
    sample = Sample(small, flags, wait_ms, wide_id, signed, odd)
    encoded = sample.encode()
    assert Sample.decode(encoded) == sample
    assert Sample.decode(b"before" + encoded + b"after", 6) == sample
    assert Sample.read(encoded, 0, 25) == (sample, 25)
    assert sample.write() == encoded


@pytest.mark.parametrize(
    ("sample", "complaint"),
    [
        (Sample(small=256), "Sample.Small takes 0 to 255"),
        (Sample(small=-1), "Sample.Small takes 0 to 255"),
        (Sample(wait_ms=1 << 32), "Sample.Wait takes 0 to 4294967295"),
        (Sample(signed=1 << 63), "Sample.Signed takes -9223372036854775808"),
        (Named(bytes(15)), "Named.Identifier takes 16 bytes"),
        (Named(bytes(17)), "Named.Identifier takes 16 bytes"),
    ],
)
def test_what_does_not_fit_is_named(sample: Wire, complaint: str) -> None:
    with pytest.raises(EncodeError, match=complaint):
        sample.encode()


@every_structure
def test_every_structure_is_a_table_without_gaps(cls: type[Wire]) -> None:
    assert cls.FIELDS[0].offset == 0
    assert all(a.offset + a.size == b.offset for a, b in pairwise(cls.FIELDS))
    assert cls.FIELDS[-1].offset + cls.FIELDS[-1].size == cls.SIZE
    assert cls.SECTION.startswith(("MS-", "C706"))
    assert len({field.spec_name for field in cls.FIELDS}) == len(cls.FIELDS)


@every_structure
def test_named_bits_fit_their_field_and_do_not_overlap(cls: type[Wire]) -> None:
    taken: dict[str, int] = {}
    widths = {field.name: 8 * field.size for field in cls.FIELDS}
    for name, bits in cls.BITS:
        assert bits.low + bits.width <= widths[bits.field], name
        mask = bits.mask << bits.low
        assert not taken.get(bits.field, 0) & mask, name
        taken[bits.field] = taken.get(bits.field, 0) | mask


@every_structure
def test_every_fixed_part_reads_and_writes_any_bytes(cls: type[Wire]) -> None:
    data = bytes(range(251)) * 3
    assert cls.decode(data, 3).encode() == data[3 : 3 + cls.SIZE]


@every_structure
def test_every_truncation_is_a_decode_error(cls: type[Wire]) -> None:
    for size in range(cls.SIZE):
        with pytest.raises(DecodeError):
            cls.decode(bytes(size))
        with pytest.raises(DecodeError):
            cls.decode(bytes(4 + size), 4)
    with pytest.raises(DecodeError):
        cls.decode(bytes(cls.SIZE), 1 << 40)


@given(st.integers(0, 1 << 40))
def test_rounding(size: int) -> None:
    assert rounded_up(size) % 4 == 0
    assert 0 <= rounded_up(size) - size < 4


@given(st.binary(max_size=9))
def test_padding_is_zero(data: bytes) -> None:
    assert padded(data) == data + bytes(rounded_up(len(data)) - len(data))


@given(st.lists(st.integers(0, 0xFFFF), max_size=8))
def test_any_code_units_survive_as_text(units: list[int]) -> None:
    data = struct.pack(f"<{len(units)}H", *units)
    assert bytes_of(text_of(data)) == data
