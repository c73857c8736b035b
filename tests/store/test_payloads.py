"""Payloads, read back."""

from __future__ import annotations

import errno
from random import Random

import pytest

from msmq.store import DamagedRecordError, Store, StoreOptions
from msmq.store.layout import HEAD_SIZE, LARGE, RECORD_SIZE, footprint, place, segment_name
from msmq.store.segment import Segment
from msmq.testing import SimulatedDisk
from tests.store.support import SMALL, head, new_store, open_store, payload, put

SIZES = [0, 1, 7, 8, 300, 4095, 4096, 4097, 9000, (1 << 16) - 1, 1 << 16, 100_000]


class CountingDisk(SimulatedDisk):
    """Counts reads."""

    reads = 0

    def require_power(self) -> None:
        super().require_power()
        self.reads += 1


def test_a_record_can_be_read_from_the_start() -> None:
    store = new_store()
    addresses = {size: put(store, 1, size) for size in SIZES}

    def check() -> None:
        for size, address in addresses.items():
            assert store.read(address) == store.read(address, size) == payload(1, size)
        for cut in (0, 8, 5_000):
            wanted = [payload(1, size) for size in SIZES]
            beginnings, rests = store.read_many(
                [(addresses[size], size) for size in SIZES], [min(cut, size) for size in SIZES]
            )
            assert beginnings == [each[:cut] for each in wanted]
            assert rests == [each[cut:] for each in wanted]

    check()
    batch = store.take()
    assert batch
    check()
    put(store, 2)
    check()
    store.write(batch)
    check()
    store.completed(batch)
    check()


def test_neighbours_are_read_together() -> None:
    disk = CountingDisk()
    store = new_store(disk)
    wanted = [(put(store, number, 100), 100) for number in range(10)]
    store.commit()
    disk.reads = 0
    assert store.read_many(wanted, bytes(10))[1] == [payload(number, 100) for number in range(10)]
    assert disk.reads == 1
    Random(1).shuffle(wanted)
    expected = [store.read(address) for address, _ in wanted]
    disk.reads = 0
    assert store.read_many(wanted, bytes(10))[1] == expected
    assert disk.reads == 1, "in the order in which they are stored, and not in that of the question"
    assert store.read_many([], b"") == ([], [])


@pytest.mark.parametrize("before_the_commit", [True, False])
def test_a_large_payload_stays_in_memory_until_it_is_released(before_the_commit: bool) -> None:
    disk = CountingDisk()
    store = new_store(disk)
    kept, released = put(store, 1, 1 << 16), put(store, 2, 1 << 16)
    if before_the_commit:
        store.release(released, 1 << 16)
    store.commit()
    if not before_the_commit:
        store.release(released, 1 << 16)
    disk.reads = 0
    assert store.read_many([(kept, 1 << 16)], [8])[1] == [payload(1, 1 << 16)[8:]]
    assert disk.reads == 0
    assert store.read_many([(released, 1 << 16)], [8])[1] == [payload(2, 1 << 16)[8:]]
    assert disk.reads


def test_some_of_the_neighbours_are_not_on_disk_yet() -> None:
    store = new_store()
    wanted = [(put(store, number, 100), 100) for number in range(3)]
    store.commit()
    wanted += [(put(store, number, 100), 100) for number in range(3, 6)]
    assert store.read_many(wanted, bytes(6))[1] == [payload(number, 100) for number in range(6)]


@pytest.mark.parametrize("within", [0, 4, 8, 20, RECORD_SIZE, RECORD_SIZE + 99])
def test_damage_is_noticed_and_placed(within: int) -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    put(store, 1)
    address = put(store, 2, 100)
    store.commit()
    _, offset = place(address)
    disk.flip(segment_name(1), offset + within)
    for read in (
        lambda: store.read(address),
        lambda: store.read(address, 100),
        lambda: store.read_many([(address, 100)], [8]),
    ):
        with pytest.raises(DamagedRecordError) as caught:
            read()
        assert (caught.value.file, caught.value.offset) == (segment_name(1), offset)


def test_a_wrong_size_and_a_short_file_are_damage() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    address = put(store, 1, 100)
    store.commit()
    with pytest.raises(DamagedRecordError):
        store.read(address, 99)
    file = disk.open(segment_name(1))
    file.truncate(120)
    file.close()
    with pytest.raises(DamagedRecordError, match="file ends"):
        store.read(address, 100)


def test_more_segments_than_open_files() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    addresses = []
    for number in range(100):
        addresses.append(put(store, number, 20000))
        store.commit()
    store.close()
    store, _ = open_store(disk)
    for _ in range(2):
        for number, address in enumerate(addresses):
            assert store.read(address) == payload(number, 20000)


def test_the_size_can_be_looked_up() -> None:
    store = new_store()
    address = put(store, 1, 100)
    store.release(address)
    store.commit()
    assert store.live_bytes == 0
    address = put(store, 1, 100)
    store.commit()
    store.release(address)
    assert store.live_bytes == 0


def test_reading_during_recovery() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    put(store, 5)
    store.close()
    store = Store.open(disk, SMALL)
    assert [store.read(address) for _, _, _, address, _ in store.recover()] == [payload(5)]


def test_a_size_that_is_not_the_record_s_own_is_refused_before_and_after_the_commit() -> None:
    """Whoever takes a payload for something it is not, by its size, is told so wherever the record is."""
    store = new_store()
    address = store.append(1, bytes(HEAD_SIZE), b"ten  bytes")
    for _ in range(2):
        assert store.read_many([(address, 10)], [4]) == ([b"ten "], [b" bytes"])
        for size in (9, 11):
            with pytest.raises(DamagedRecordError):
                store.read_many([(address, size)], [4])
            with pytest.raises(DamagedRecordError):
                store.read(address, size)
        store.commit()


def test_large_payloads_of_late_are_not_read_again() -> None:
    disk = CountingDisk()
    store = new_store(disk, StoreOptions(smallest_segment_bytes=1 << 26))
    large, small = payload(1, 1 << 24), payload(2, 1000)
    addresses = [
        store.append(1, head(number), (b"front", each)) for number, each in enumerate([large, small])
    ]
    store.commit()

    def reads(address: int, size: int) -> int:
        disk.reads = 0
        (beginning,), (rest,) = store.read_many([(address, 5 + size)], [5])
        assert (beginning, rest) == (b"front", large if size == len(large) else small)
        return disk.reads

    assert reads(addresses[0], len(large)) == 0
    assert reads(addresses[1], len(small)) > 0
    for _ in range(2):  # more than is kept
        last = store.append(1, head(3), (b"front", large))
        store.commit()
    assert reads(addresses[0], len(large)) > 0
    assert reads(last, len(large)) == 0
    store.release(last)
    assert reads(last, len(large)) > 0


def test_the_system_keeps_no_large_payloads_that_nobody_needs() -> None:
    disk = SimulatedDisk()
    store = new_store(disk, StoreOptions(smallest_segment_bytes=1 << 20))
    sizes = (1 << 16, 100, 1 << 17)
    addresses = [put(store, number, size) for number, size in enumerate(sizes)]
    store.release(put(store, 3, 1 << 16), 1 << 16)
    assert disk.uncached == [], "it is not even on disk"
    store.commit()
    store.release_all(addresses, sizes)
    assert [offset for offset, _ in disk.uncached] == [place(addresses[0])[1], place(addresses[2])[1]]
    assert [length for _, length in disk.uncached] == [footprint(sizes[0]), footprint(sizes[2])]
    store.commit()
    assert store.read(addresses[2]) == payload(2, 1 << 17), "it is still in the file"


@pytest.mark.parametrize("size", [1_200, 5_000, LARGE])
def test_what_the_disk_cannot_read_is_damaged_and_its_neighbours_are_not(size: int) -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    first, bad, last = (put(store, number, size) for number in range(3))
    store.close()
    store, _ = open_store(disk)
    number, offset = place(bad)
    assert disk.spoil(segment_name(number), offset, offset + RECORD_SIZE + size)
    for address, its_number in ((first, 0), (last, 2)):
        assert store.read(address) == store.read(address, size) == payload(its_number, size)
        assert store.read_many([(address, size)], b"\5")[1] == [payload(its_number, size)[5:]]
        assert store.beginning(address, 20) == payload(its_number, size)[:20]
    wanted = [(first, size), (last, size)]
    assert store.read_many(wanted, b"\0\0")[1] == [payload(0, size), payload(2, size)]
    for read in (
        lambda: store.read(bad),
        lambda: store.read(bad, size),
        lambda: store.read_many([(first, size), (bad, size), (last, size)], bytes(3)),
    ):
        with pytest.raises(DamagedRecordError, match="cannot read"):
            read()
    assert store.glimpse(first, last, size) is None
    assert store.beginning(bad, size) == b""


def test_errors_that_are_not_about_a_place_are_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store()
    address = put(store, 1, 100)
    store.commit()

    def out_of_descriptors(segment: Segment) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(store._space, "reader", out_of_descriptors)
    for read in (lambda: store.read(address), lambda: store.beginning(address, 20)):
        with pytest.raises(OSError, match="too many open files"):
            read()
