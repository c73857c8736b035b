"""Many records in one block: to the store they are records like all others."""

from __future__ import annotations

from random import Random

import pytest

from msmq.store import StoreOptions
from msmq.store.block import block_rows, build_block, pieces
from msmq.store.errors import DamagedRecordError
from msmq.store.layout import HEAD_SIZE, RECORD_SIZE, ROW, footprint, place, segment_name
from msmq.store.scan import scan
from msmq.testing.disk import SimulatedDisk
from tests.store.support import head, new_store, numbers, open_store, payload

ROOMY = StoreOptions(smallest_segment_bytes=1 << 16, largest_segment_bytes=1 << 16)


def fronts_of(first: int, count: int, in_front: int = 8) -> bytes:
    return b"".join(head(number) + bytes([number % 256]) * in_front for number in range(first, first + count))


@pytest.mark.parametrize("sizes", [[1], [8] * 5, [0, 1, 7, 8, 300], [300, 0, 9]])
def test_a_block_has_its_records_side_by_side(sizes: list[int]) -> None:
    count = len(sizes)
    fronts = fronts_of(0, count)
    tails = [payload(number, size) for number, size in enumerate(sizes)]
    whole = [8 + size for size in sizes]
    offsets = [48 + sum(map(footprint, whole[:number])) for number in range(count)]
    block = build_block(3, 0x1234, offsets, fronts, tails, whole)
    assert len(block) == sum(map(footprint, whole))
    rows = block_rows(3, fronts, whole, [7 << 32 | offset for offset in offsets])
    assert list(ROW.iter_unpack(rows)) == [
        (3, 0, head(number), 7 << 32 | offsets[number], whole[number]) for number in range(count)
    ]
    for number, (offset, size) in enumerate(zip(offsets, whole, strict=True)):
        record = block[offset - 48 : offset - 48 + footprint(size)]
        assert record[RECORD_SIZE : RECORD_SIZE + size] == bytes([number]) * 8 + tails[number]
        assert not any(record[RECORD_SIZE + size :])
    assert list(pieces(b"aabbcc", 2)) == [b"aa", b"bb", b"cc"]


def test_what_a_scan_finds_is_what_the_index_says() -> None:
    """The rows that are made with a block, and those that a start without an index makes from the bytes on disk."""
    disk = SimulatedDisk()
    store = new_store(disk, ROOMY)
    store.append(2, head(1_000), b"before")
    store.append_all(1, fronts_of(0, 30), [payload(number, 400) for number in range(30)])
    store.append(2, head(2_000), b"behind")
    store.append_all(1, fronts_of(30, 9), [payload(number, 16) for number in range(9)])
    store.commit()
    (segment,) = [each for each in store._space.segments.values() if each.end]
    found = scan(disk.durable_content(segment.name)[: segment.end], store._store_id, segment.number, None)
    assert bytes(found.rows) == b"".join(segment.rows)
    assert (found.records, found.damaged) == (41, [])
    assert (found.standing_records, found.standing_bytes) == (
        segment.standing_records,
        segment.standing_bytes,
    )


@pytest.mark.parametrize("seed", range(15))
def test_a_crash_keeps_a_block_whole_or_loses_it_whole(seed: int) -> None:
    """The power goes while it is written, at any operation of the disk; what was durable before stays."""
    rng = Random(seed)
    disk = SimulatedDisk()
    store = new_store(disk, ROOMY)
    store.append_all(1, fronts_of(0, 20), [payload(number, 100) for number in range(20)])
    store.commit()
    store.append_all(1, fronts_of(20, 40), [payload(number, 333) for number in range(40)])
    batch = store.take()
    assert batch is not None
    done = rng.random() < 0.5
    if done:
        store.write(batch)
    else:
        chunk = batch.chunks[0]
        chunk.segment.writable().pwritev(chunk.data, chunk.start)  # and no sync
    disk.crash(rng)
    again, entries = open_store(disk, ROOMY)
    found = numbers(entries)
    assert found in (list(range(20)), list(range(60)))
    if done:
        assert len(found) == 60
    for (_, _, of, address, _), number in zip(entries, found, strict=True):
        size = 100 if number < 20 else 333
        tail = payload(number if number < 20 else number - 20, size)
        assert (of, again.read(address)) == (head(number), bytes([number]) * 8 + tail)


def test_damage_in_a_block_costs_the_record_it_hits() -> None:
    disk = SimulatedDisk()
    store = new_store(disk, ROOMY)
    addresses = store.append_all(1, fronts_of(0, 30), [payload(number, 400) for number in range(30)])
    store.append(2, head(99), b"later")
    store.commit()
    number, offset = place(addresses[11])
    disk.flip(segment_name(number), offset + RECORD_SIZE + 50)
    with pytest.raises(DamagedRecordError):
        store.read(addresses[11])
    assert store.read(addresses[12]) == bytes([12]) * 8 + payload(12, 400)
    disk.crash()
    again, entries = open_store(disk, ROOMY)
    assert numbers(entries) == [*range(11), *range(12, 30), 99]
    assert len(again.report.damaged) == 1


def test_what_waits_for_the_disk_is_read_from_the_block() -> None:
    store = new_store(None, ROOMY)
    store.append(2, head(5), b"single")
    addresses = store.append_all(1, fronts_of(0, 10), [payload(number, 64) for number in range(10)])
    last = store.append(2, head(6), b"another")
    wanted = [bytes([number]) * 8 + payload(number, 64) for number in range(10)]
    assert [store.read(address) for address in addresses] == wanted
    assert store.read_many([(address, 72) for address in addresses], bytes([8]) * 10) == (
        [each[:8] for each in wanted],
        [each[8:] for each in wanted],
    )
    assert store.read(last) == b"another"
    assert not store.is_durable(addresses[4], addresses[4])
    assert store._chunk.payload(addresses[0] - 1 << 20) is None
    assert (store.pending, store.appended) == (12, 12)
    store.commit()
    assert store.is_durable(addresses[0], last)
    assert [store.read(address) for address in addresses] == wanted
    assert len(fronts_of(0, 1)) == HEAD_SIZE + 8
