"""Sealing a segment."""

from __future__ import annotations

from msmq.store.layout import ROW, segment_name
from msmq.store.scan import read_index, read_trailer
from msmq.testing import SimulatedDisk
from tests.store.support import STORE_ID, head, new_store, put


def test_a_sealed_segment_ends_with_an_index_of_its_records() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    addresses = [put(store, number, 10 * number) for number in range(5)]
    store.append(2, head(9), live=False)
    store.commit()
    addresses.append(put(store, 5, 50))
    store.close()
    file = disk.open(segment_name(1))
    trailer = read_trailer(file, STORE_ID, 1)
    assert trailer
    assert (trailer.record_count, trailer.standing_records) == (7, 6)
    assert (trailer.first_sequence, trailer.next_sequence) == (1, 3)
    index = read_index(file, trailer)
    assert index
    rows = list(ROW.iter_unpack(index))
    assert [row[3] for row in rows if row[0] == 1] == addresses
    assert [row[4] for row in rows] == [0, 10, 20, 30, 40, 0, 50]
    assert trailer.data_end + trailer.index_size < file.size()


def test_a_damaged_index_is_not_used() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    put(store, 1)
    store.close()
    file = disk.open(segment_name(1))
    trailer = read_trailer(file, STORE_ID, 1)
    assert trailer
    disk.flip(segment_name(1), trailer.data_end + 20)
    assert read_index(file, trailer) is None
    file.truncate(trailer.data_end)
    assert read_index(file, trailer) is None
    assert read_trailer(file, STORE_ID, 1) is None


def test_records_of_a_batch_are_counted() -> None:
    store = new_store()
    put(store, 1)
    put(store, 2)
    batch = store.take()
    assert batch
    assert (batch.records, batch.lsn) == (2, 2)
