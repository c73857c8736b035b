"""Torn tails and damage, told apart."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.store import StoreOptions
from msmq.store.layout import (
    BATCH_HEADER_SIZE,
    INDEX_MARKER,
    RECORD_SIZE,
    ROW,
    SECTOR_SIZE,
    batch_header_at,
    place,
    zero_sectors,
)
from msmq.store.scan import UNKNOWN, Scan, scan
from msmq.testing import SimulatedDisk
from tests.store.support import STORE_ID, committed, head, new_store, payload, put

NAME = "00000001.log"


def segment(*batches: list[int], size: int = 300) -> tuple[bytes, dict[int, int], list[int]]:
    """A segment with these numbers as records: its bytes, where each record is, and where each batch starts."""
    disk = SimulatedDisk()
    store = new_store(disk)
    offsets, starts, end = {}, [], 0
    for batch in batches:
        starts.append(end)
        for number in batch:
            offsets[number] = place(put(store, number, size))[1]
        end += committed(store)
    return disk.durable_content(NAME), offsets, [*starts, end]


def found(result: Scan) -> list[int]:
    return [int.from_bytes(head, "little") for _, _, head, _, _ in ROW.iter_unpack(result.rows)]


def changed(data: bytes, offset: int, mask: int = 0x10) -> bytes:
    return data[:offset] + bytes([data[offset] ^ mask]) + data[offset + 1 :]


def zeroed(data: bytes, start: int, stop: int) -> bytes:
    return data[:start] + bytes(stop - start) + data[stop:]


DATA, OFFSETS, STARTS = segment([1, 2, 3], [4], [5, 6, 7, 8, 9])
END = STARTS[-1]


def test_everything_is_found() -> None:
    result = scan(DATA, STORE_ID, 1, None)
    assert found(result) == list(range(1, 10))
    assert [row[3] for row in ROW.iter_unpack(result.rows)] == [1 << 32 | at for at in OFFSETS.values()]
    assert (result.batches, result.first_sequence, result.next_sequence) == (3, 1, 4)
    assert (result.last_batch, result.data_end) == (STARTS[2], END)
    assert (result.torn, result.damaged) == (None, [])


def test_passing_records_do_not_stand() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    put(store, 1, 100)
    store.append(2, head(1), live=False)
    store.commit()
    result = scan(disk.durable_content(NAME), STORE_ID, 1, None)
    assert (result.records, result.standing_records, result.standing_bytes) == (2, 1, 152)


@pytest.mark.parametrize("data", [b"", bytes(4096), DATA[:40]])
def test_nothing_is_no_damage(data: bytes) -> None:
    result = scan(data, STORE_ID, 1, None)
    assert (result.records, result.damaged) == (0, [])


def test_another_stores_bytes_are_not_read() -> None:
    assert scan(DATA, bytes(16), 1, None).records == 0
    assert scan(DATA, STORE_ID, 2, None).records == 0


@settings(max_examples=300)
@given(st.integers(0, 8 * END - 1))
def test_a_flipped_bit_costs_at_most_its_record(bit: int) -> None:
    """Wherever it is: in a size, a checksum, a head, a payload, a padding or the header of any batch."""
    offset = bit // 8
    result = scan(changed(DATA, offset, 1 << bit % 8), STORE_ID, 1, None)
    hit = [number for number, at in OFFSETS.items() if at <= offset < at + RECORD_SIZE + 300]
    in_header = any(start <= offset < start + BATCH_HEADER_SIZE for start in STARTS[:-1])
    assert found(result) == [number for number in OFFSETS if number not in hit]
    assert result.torn is None
    if hit:
        assert [damage.offset for damage in result.damaged] == [OFFSETS[hit[0]]]
    elif in_header:
        assert [damage.file for damage in result.damaged[:1]] == [NAME]
        assert result.damaged[0].offset in STARTS
    else:
        assert result.damaged == []


def test_damage_is_told_in_words() -> None:
    (damage,) = scan(changed(DATA, OFFSETS[4] + 60), STORE_ID, 1, None).damaged
    assert str(damage) == f"{NAME} at offset {OFFSETS[4]}, 352 bytes: a record does not have its checksum"


@settings(max_examples=200)
@given(st.sets(st.integers(STARTS[2] // SECTOR_SIZE, (END - 1) // SECTOR_SIZE), min_size=1))
def test_a_torn_batch_is_dropped_whole(lost: set[int]) -> None:
    """Any sectors of the last batch did not get to the disk."""
    data = DATA
    for sector in lost:
        start, stop = max(STARTS[2], sector * SECTOR_SIZE), min(END, (sector + 1) * SECTOR_SIZE)
        data = zeroed(data, start, stop)
    result = scan(data, STORE_ID, 1, None)
    assert found(result) == [1, 2, 3, 4]
    assert (result.damaged, result.data_end) == ([], STARTS[2])
    if data[STARTS[2] :].strip(b"\0"):
        assert result.torn is not None
        assert result.torn.offset == STARTS[2]
        assert str(result.torn).startswith(f"{NAME} at offset {STARTS[2]}:")


@pytest.mark.parametrize("length", [STARTS[2] + 8, STARTS[2] + 60, END - 60])
def test_a_file_that_is_too_short_tears_the_last_batch(length: int) -> None:
    result = scan(DATA[:length], STORE_ID, 1, None)
    assert found(result) == [1, 2, 3, 4]
    assert result.torn is not None


def test_what_is_followed_is_never_torn() -> None:
    """The same bytes are damage when a later segment proves that the batch was durable."""
    sector = (OFFSETS[7] // SECTOR_SIZE + 1) * SECTOR_SIZE
    data = zeroed(DATA, sector, sector + SECTOR_SIZE)
    assert scan(data, STORE_ID, 1, None).torn is not None
    for following in (4, 9, UNKNOWN):
        result = scan(data, STORE_ID, 1, following)
        assert result.torn is None
        assert result.damaged
        assert set(found(result)) >= {1, 2, 3, 4, 5, 6}
    short = scan(DATA[: END - 60], STORE_ID, 1, 4)
    assert found(short) == list(range(1, 9))
    assert short.damaged


def test_a_torn_batch_whose_number_was_given_again_is_torn() -> None:
    data = zeroed(DATA, OFFSETS[8], END)
    assert scan(data, STORE_ID, 1, 3).torn is not None


def test_a_batch_header_that_is_gone_costs_no_record() -> None:
    for start in STARTS[:2]:
        result = scan(zeroed(DATA, start, start + BATCH_HEADER_SIZE), STORE_ID, 1, None)
        assert found(result) == list(range(1, 10))
        assert [damage.offset for damage in result.damaged] == [start]
    result = scan(zeroed(DATA, STARTS[2], STARTS[2] + BATCH_HEADER_SIZE), STORE_ID, 1, 4)
    assert found(result) == list(range(1, 10))
    assert result.next_sequence == 4


def test_remains_of_an_index_are_no_damage() -> None:
    whole = DATA[:END] + INDEX_MARKER + b"\1" * 600
    torn = zeroed(whole, END, (END // SECTOR_SIZE + 1) * SECTOR_SIZE)
    for data, following in ((whole, None), (whole, 4), (torn, 4)):
        result = scan(data, STORE_ID, 1, following)
        assert (found(result), result.damaged, result.torn) == (list(range(1, 10)), [], None)


def test_a_forged_record_in_a_payload_is_not_found() -> None:
    """A message may hold the bytes of a segment; damage in front of them must not bring them to life."""
    disk = SimulatedDisk()
    store = new_store(disk)
    forged, _, _ = segment([77])
    store.append(1, head(1), forged[:2000])
    put(store, 2)
    store.commit()
    put(store, 3)
    store.commit()
    data = disk.durable_content(NAME)
    for offset in range(BATCH_HEADER_SIZE, BATCH_HEADER_SIZE + 8):
        assert found(scan(changed(data, offset), STORE_ID, 1, None)) == [2, 3]


def test_two_damaged_neighbours() -> None:
    data = changed(changed(DATA, OFFSETS[5] + 1), OFFSETS[6] + 1)
    result = scan(data, STORE_ID, 1, None)
    assert found(result) == [1, 2, 3, 4, 7, 8, 9]
    assert sum(damage.length for damage in result.damaged) == 2 * 352


def test_payloads_of_zeros_are_read() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    for number in range(3):
        store.append(1, head(number), bytes(1000))
    store.commit()
    assert found(scan(disk.durable_content(NAME), STORE_ID, 1, None)) == [0, 1, 2]
    assert payload(1)


def test_a_message_of_zeros_is_no_unwritten_sector() -> None:
    """A bit flips in the last batch, in a record whose payload has whole sectors of zeros: that is damage, and costs
    no other record of the batch."""
    disk = SimulatedDisk()
    store = new_store(disk)
    zeros = b"begin" + bytes(1200) + b"end"
    addresses = [store.append(1, head(number), zeros) for number in range(3)]
    store.commit()
    data = disk.durable_content(NAME)
    offset = place(addresses[1])[1]
    for at in (offset + RECORD_SIZE + 2, offset + RECORD_SIZE + 700, offset + 20):
        result = scan(changed(data, at), STORE_ID, 1, None)
        assert (found(result), result.torn) == ([0, 2], None)
        assert [damage.offset for damage in result.damaged] == [offset]
    # What holds something, and is zero now, was not written.
    for at in (offset, place(addresses[2])[1]):
        sector = at // SECTOR_SIZE * SECTOR_SIZE
        result = scan(zeroed(data, sector, sector + SECTOR_SIZE), STORE_ID, 1, None)
        assert (found(result), result.damaged) == ([], [])
        assert result.torn is not None


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_zero_sectors_are_counted_alike_when_written_and_when_read(drawn: st.DataObject) -> None:
    sizes = st.integers(0, 1300) | st.integers((1 << 16) - 600, (1 << 16) + 600)
    pieces = drawn.draw(st.lists(st.tuples(st.booleans(), sizes), min_size=1, max_size=6))
    disk = SimulatedDisk()
    store = new_store(disk, StoreOptions(smallest_segment_bytes=1 << 19))
    for number, (zero, size) in enumerate(pieces):
        store.append(1, head(number + 1), bytes(size) if zero else b"\1" * size)
        if drawn.draw(st.booleans()):
            store.commit()
    store.commit()
    data = disk.durable_content(NAME)
    offset = 0
    while (header := batch_header_at(data, offset, STORE_ID, 1)) is not None:
        start, end = offset + BATCH_HEADER_SIZE, offset + header.length
        found = zero_sectors((data[start:end],), start)
        assert header.zero_sectors == len(found)
        assert all(not any(data[sector : min(sector + SECTOR_SIZE, end)]) for sector in found)
        offset = end
    assert offset
