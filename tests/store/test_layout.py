"""The bytes of a store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.store import NewerFormatError, NotAStoreError
from msmq.store.layout import (
    BATCH_HEADER_SIZE,
    RECORD_SIZE,
    ROW,
    TRAILER_SIZE,
    BatchHeader,
    Trailer,
    batch_header_at,
    footprint,
    format_text,
    pack_batch_header,
    pack_trailer,
    parse_format,
    parse_trailer,
    place,
    segment_name,
    segment_number,
    segment_seed,
)
from tests.store.support import STORE_ID

u32 = st.integers(0, 0xFFFFFFFF)
u64 = st.integers(0, 0xFFFFFFFFFFFFFFFF)


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_sizes() -> None:
    assert (RECORD_SIZE, ROW.size, BATCH_HEADER_SIZE) == (52, 56, 48)
    assert [footprint(size) for size in (0, 4, 5, 1024)] == [56, 56, 64, 1080]


@given(st.integers(1, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF))
def test_an_address_is_segment_and_offset(number: int, offset: int) -> None:
    assert place(number << 32 | offset) == (number, offset)
    assert segment_number(segment_name(number)) == number


@pytest.mark.parametrize("name", ["FORMAT", "1.log", "00000001.log.new", "x0000001.log"])
def test_other_files_are_no_segments(name: str) -> None:
    assert segment_number(name) is None


@given(st.integers(0, 20), u64, st.booleans(), st.integers(0, 383))
def test_batch_header(records: int, sequence: int, continued: bool, bit: int) -> None:
    header = BatchHeader(48 + 56 * records, sequence, 7 << 32 | 16, records, continued)
    data = bytes(16) + pack_batch_header(STORE_ID, header)
    assert batch_header_at(data, 16, STORE_ID, 7) == header
    assert batch_header_at(flipped(data, 128 + bit), 16, STORE_ID, 7) is None


def test_a_batch_header_counts_only_in_its_place() -> None:
    data = pack_batch_header(STORE_ID, BatchHeader(48, 1, 7 << 32, 0, False))
    assert batch_header_at(data, 0, STORE_ID, 7)
    assert batch_header_at(data, 0, STORE_ID, 8) is None
    assert batch_header_at(data, 0, bytes(16), 7) is None
    assert batch_header_at(bytes(8) + data, 8, STORE_ID, 7) is None
    assert batch_header_at(data[:-1], 0, STORE_ID, 7) is None


@given(u32, st.integers(0, 1000), u64, st.integers(0, 8 * TRAILER_SIZE - 1))
def test_trailer(number: int, records: int, sequence: int, bit: int) -> None:
    trailer = Trailer(number, records, 4096, sequence, sequence, 99, records, 0x12345678)
    data = pack_trailer(STORE_ID, trailer)
    size = 4096 + trailer.index_size + TRAILER_SIZE
    assert parse_trailer(data, STORE_ID, number, size) == trailer
    assert parse_trailer(data, STORE_ID, number, size + 1) is None
    assert parse_trailer(data, STORE_ID, number ^ 1, size) is None
    assert parse_trailer(flipped(data, bit), STORE_ID, number, size) is None
    assert parse_trailer(data[1:], STORE_ID, number, size) is None


def test_checksums_depend_on_store_and_segment() -> None:
    assert len({segment_seed(STORE_ID, 1), segment_seed(STORE_ID, 2), segment_seed(bytes(16), 1)}) == 3


def test_format_file() -> None:
    text = format_text(STORE_ID)
    assert text.startswith(b"msmq store\nformat 1\nid 000102")
    assert parse_format(text, "here") == STORE_ID


@given(st.integers(0, 8 * len(format_text(STORE_ID)) - 1))
def test_a_damaged_format_file_is_noticed(bit: int) -> None:
    with pytest.raises((NotAStoreError, NewerFormatError)):
        parse_format(flipped(format_text(STORE_ID), bit), "here")


def test_a_newer_format_is_named() -> None:
    with pytest.raises(
        NewerFormatError, match="here has store format 12, but this program knows formats up to 1;"
    ):
        parse_format(b"msmq store\nformat 12\nsomething else\n", "here")
